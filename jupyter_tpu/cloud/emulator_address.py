"""The address of an emulated cloud's REST services, which its gRPC endpoint does not give, and its token."""

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
    """Return the REST address of the emulator; empty if the cloud is real or no address is set.

    Only plain HTTP to this machine is accepted: a variable that was set for something else must not turn this server
    into a proxy.
    """
    address = environment.get(ADDRESS_VARIABLE, "").strip().rstrip("/")
    return address if settings.is_emulated and _is_on_this_machine(address) else ""


def emulator_authorization(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the authorization header for an emulator, its name in lower case; empty if no token file is set.

    An emulator needs it where the system can't tell which user a connection belongs to (macOS). Never send it to a
    real cloud.

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
                "Set {variable} to the file that the emulator printed when it started, or unset it.",
                variable=TOKEN_FILE_VARIABLE,
            ),
        ) from error


def _is_on_this_machine(address: str) -> bool:
    try:
        parts = urlsplit(address)
        is_loopback = ipaddress.ip_address(parts.hostname or "").is_loopback
        is_bare = not (parts.path or parts.query or parts.fragment or parts.username)
        return parts.scheme == "http" and is_loopback and parts.port is not None and is_bare
    except ValueError:  # a host name could resolve to another machine; or no address at all
        return False
