"""Where the REST services of an emulated cloud are: the gRPC endpoint does not tell."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from jupyter_tpu.cloud.settings import CloudSettings

ADDRESS_VARIABLE = "JUPYTER_TPU_EMULATOR"


def emulator_address(settings: CloudSettings, environment: Mapping[str, str]) -> str:
    """REST address of the emulator that the nodes are of; empty when they are real, or nobody said where it is.

    Only plain HTTP to this machine: a variable that was set for something else must not make this server a proxy.
    """
    address = environment.get(ADDRESS_VARIABLE, "").strip().rstrip("/")
    return address if settings.is_emulated and _is_on_this_machine(address) else ""


def _is_on_this_machine(address: str) -> bool:
    try:
        parts = urlsplit(address)
        is_loopback = ipaddress.ip_address(parts.hostname or "").is_loopback
        is_bare = not (parts.path or parts.query or parts.fragment or parts.username)
        return parts.scheme == "http" and is_loopback and parts.port is not None and is_bare
    except ValueError:  # a name, or no address at all
        return False
