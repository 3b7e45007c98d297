"""The settings for a cloud: the project, and the endpoint of Google Cloud or a local emulator."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from jupyter_tpu.errors import BadInput, Text

PROJECT_VARIABLE = "JUPYTER_TPU_PROJECT"
ENDPOINT_VARIABLE = "JUPYTER_TPU_ENDPOINT"
CREDENTIALS_VARIABLE = "JUPYTER_TPU_CREDENTIALS"
"""The variable with the credentials file that the user chose for jupyter_tpu; empty for Google's defaults."""
TRUST_VARIABLE = "JUPYTER_TPU_TRUST_ENDPOINT"
"""The variable with the only host outside Google's domains that may receive the user's credentials."""

_GOOGLE = "tpu.googleapis.com:443"
_GOOGLE_DOMAIN = "googleapis.com"
# Allow only plain host names: gRPC gives other forms, such as unix:NAME, a special meaning.
_HOST_NAME = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")
_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudSettings:
    """The project and endpoint for requests.

    Attributes:
        project: project id; if empty, the project of the Application Default Credentials.
        endpoint: ``HOST:PORT`` of the gRPC API; if empty, tpu.googleapis.com. A loopback host is treated as an
            emulator, without encryption; all other endpoints use TLS and Application Default Credentials. The endpoint
            is stored in a normalised form, because budgets and journal entries belong to a project at an endpoint.

    Raises:
        BadInput: the endpoint is not ``HOST:PORT``.
    """

    project: str = ""
    endpoint: str = ""

    def __post_init__(self) -> None:
        host, colon, port = self.endpoint.rpartition(":")
        if self.endpoint and not (colon and host and _is_port(port) and "/" not in host):
            raise BadInput(
                Text("{endpoint} is not a valid endpoint.", endpoint=repr(self.endpoint[:200])),
                hint=Text(
                    "Use HOST:PORT in {variable} or --endpoint; leave it empty for Google Cloud.",
                    variable=ENDPOINT_VARIABLE,
                ),
            )
        object.__setattr__(self, "endpoint", _one_spelling(host, port))

    @property
    def is_emulated(self) -> bool:
        """Whether the endpoint is on this machine, and therefore an emulator."""
        return _is_loopback(self._host.strip("[]"))

    @property
    def _host(self) -> str:
        return self.endpoint.rpartition(":")[0]

    def check_host_may_get_credentials(self, universe: str, environment: Mapping[str, str]) -> None:
        """Refuse to send credentials to a host that is neither Google's nor allowed by the user.

        Credentials give access to the whole account, and an endpoint may come from a file, such as a copied kernelspec.
        So the user's consent is read only from this process's environment.

        Args:
            universe: the Google Cloud domain of the credentials; empty for the default domain.

        Raises:
            BadInput: the host is neither Google's nor allowed.
        """
        host = self._host
        trusted = _one_host(environment.get(TRUST_VARIABLE, "").strip())
        if host and host != trusted and not any(_is_in(host, domain) for domain in (_GOOGLE_DOMAIN, universe)):
            raise BadInput(
                Text(
                    "Your Google Cloud credentials would be sent to {host}, which is not one of Google's hosts.",
                    host=host[:200],
                ),
                exists="Nothing was sent.",
                hint=Text(
                    "Check the endpoint ({variable}, --endpoint, the kernelspec). If you trust this host "
                    "with your whole account, set `{trust_variable}={host}`.",
                    variable=ENDPOINT_VARIABLE,
                    trust_variable=TRUST_VARIABLE,
                    host=host[:200],
                ),
            )


def _is_in(host: str, domain: str) -> bool:
    return bool(domain and _HOST_NAME.fullmatch(host)) and host.endswith(f".{domain.lower()}")


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 9


def _one_spelling(host: str, port: str) -> str:
    """Normalise an endpoint: lower case, a numeric address for loopback, and an empty string for Google's own host."""
    if not host:
        return ""
    spelled = f"{_one_host(host)}:{int(port)}"
    return "" if spelled == _GOOGLE else spelled


def _one_host(host: str) -> str:
    host = host.lower().removesuffix(".")
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return _LOOPBACK if host == "localhost" else host
    return str(address) if address.version == 4 else f"[{address}]"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a host name, which may resolve to another machine
        return False


def settings_from_environment(environment: Mapping[str, str] | None = None) -> CloudSettings:
    """Read the settings from the environment variables ``JUPYTER_TPU_PROJECT`` and ``JUPYTER_TPU_ENDPOINT``."""
    variables = os.environ if environment is None else environment
    return CloudSettings(
        project=variables.get(PROJECT_VARIABLE, "").strip(), endpoint=variables.get(ENDPOINT_VARIABLE, "").strip()
    )
