"""The REST address of an emulated cloud, which differs from its gRPC endpoint, and the token for its APIs."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from jupyter_tpu.cloud.settings import CloudSettings
from jupyter_tpu.errors import CredentialsMissing, Text

ADDRESS_VARIABLE = "JUPYTER_TPU_EMULATOR"
TOKEN_FILE_VARIABLE = "JUPYTER_TPU_EMULATOR_TOKEN_FILE"


def emulator_address(settings: CloudSettings, environment: Mapping[str, str]) -> str:
    """Return the emulator's REST address, or an empty string for a real cloud or if no address is set.

    Only plain HTTP to this machine is accepted, so that a variable set for another purpose can't turn this server into
    a proxy.
    """
    address = environment.get(ADDRESS_VARIABLE, "").strip().rstrip("/")
    return address if settings.is_emulated and _is_on_this_machine(address) else ""


def emulator_authorization(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an emulator's authorization header, with a lower-case name, or an empty dict if no token file is set.

    An emulator needs the header if the system can't identify the user of a connection (macOS). Never send it to a real
    cloud.

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
            Text("The emulated cloud's token can't be read from {path}: {error}.", path=path, error=error),
            exists="No request was sent to the cloud.",
            hint=Text(
                "Set {variable} to the path that the emulator printed when it started, or unset the variable.",
                variable=TOKEN_FILE_VARIABLE,
            ),
        ) from error


def _is_on_this_machine(address: str) -> bool:
    try:
        parts = urlsplit(address)
        is_loopback = ipaddress.ip_address(parts.hostname or "").is_loopback
        is_bare = not (parts.path or parts.query or parts.fragment or parts.username)
        return parts.scheme == "http" and is_loopback and parts.port is not None and is_bare
    except ValueError:  # a host name, which could resolve to another machine, or not an address at all
        return False
