"""Which project, and which cloud: Google's, or an emulator on this machine."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass

from jupyter_tpu.errors import BadInput

PROJECT_VARIABLE = "JUPYTER_TPU_PROJECT"
ENDPOINT_VARIABLE = "JUPYTER_TPU_ENDPOINT"


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudSettings:
    """Where requests go.

    Attributes:
        project: project id; empty = the one of the Application Default Credentials.
        endpoint: ``HOST:PORT`` of the gRPC API; empty = tpu.googleapis.com. A loopback host is an emulator and is
            spoken to in clear text; every other endpoint gets TLS and Application Default Credentials.

    Raises:
        BadInput: the endpoint is not ``HOST:PORT``.
    """

    project: str = ""
    endpoint: str = ""

    def __post_init__(self) -> None:
        host, colon, port = self.endpoint.rpartition(":")
        if self.endpoint and not (colon and host and port.isdecimal() and "/" not in host):
            raise BadInput(
                f"{self.endpoint[:200]!r} is not an endpoint.",
                hint=f"Use HOST:PORT in {ENDPOINT_VARIABLE} or --endpoint; leave it empty for Google Cloud.",
            )

    @property
    def is_emulated(self) -> bool:
        """Whether the endpoint is on this machine, so an emulator."""
        host = self.endpoint.rpartition(":")[0].strip("[]")
        return host == "localhost" or _is_loopback(host)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name: never trusted to stay on this machine
        return False


def settings_from_environment(environment: Mapping[str, str] | None = None) -> CloudSettings:
    """Settings from the environment variables ``JUPYTER_TPU_PROJECT`` and ``JUPYTER_TPU_ENDPOINT``."""
    variables = os.environ if environment is None else environment
    return CloudSettings(
        project=variables.get(PROJECT_VARIABLE, "").strip(), endpoint=variables.get(ENDPOINT_VARIABLE, "").strip()
    )
