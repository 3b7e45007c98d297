"""Where the REST services of an emulated cloud are, which the gRPC endpoint does not tell, and its token."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from jupyter_tpu.cloud.settings import CloudSettings
from jupyter_tpu.errors import CredentialsMissing

ADDRESS_VARIABLE = "JUPYTER_TPU_EMULATOR"
TOKEN_FILE_VARIABLE = "JUPYTER_TPU_EMULATOR_TOKEN_FILE"


def emulator_address(settings: CloudSettings, environment: Mapping[str, str]) -> str:
    """REST address of the emulator that the nodes are of; empty when they are real, or nobody said where it is.

    Only plain HTTP to this machine: a variable that was set for something else must not make this server a proxy.
    """
    address = environment.get(ADDRESS_VARIABLE, "").strip().rstrip("/")
    return address if settings.is_emulated and _is_on_this_machine(address) else ""


def emulator_authorization(environment: Mapping[str, str]) -> dict[str, str]:
    """The header, in lower case, that an emulator asks for where the system doesn't tell whose a connection is (macOS).

    Send it to an emulator only. Empty where no file is named.

    Raises:
        CredentialsMissing: the file can't be read.
    """
    path = environment.get(TOKEN_FILE_VARIABLE, "").strip()
    if not path:
        return {}
    try:
        return {"authorization": f"Bearer {Path(path).read_text(encoding='ascii').strip()}"}
    except (OSError, ValueError) as error:
        raise CredentialsMissing(
            f"The emulated cloud's token can't be read from {path}: {error}.",
            exists="The cloud was not asked.",
            hint=f"Set {TOKEN_FILE_VARIABLE} to the file that the emulator printed when it started, or unset it.",
        ) from error


def _is_on_this_machine(address: str) -> bool:
    try:
        parts = urlsplit(address)
        is_loopback = ipaddress.ip_address(parts.hostname or "").is_loopback
        is_bare = not (parts.path or parts.query or parts.fragment or parts.username)
        return parts.scheme == "http" and is_loopback and parts.port is not None and is_bare
    except ValueError:  # a name, or no address at all
        return False
