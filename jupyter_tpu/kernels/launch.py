"""What to start on a worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TRAVELS = ("JPY_SESSION_NAME",)
"""The only variables of this machine's environment that a kernel on a worker gets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What to start. Nothing of this machine's environment but `env` travels.

    Attributes:
        python: on the worker; empty for the worker's own.
        folder: of the notebook, on this machine; None where nobody knows it.
        replaces: whether a kernel of the same id, left by a process that was killed, is ended and forgotten first.
    """

    kernel_id: str
    key: str
    signature_scheme: str = "hmac-sha256"
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    python: str = ""
    folder: Path | None = None
    extra_arguments: tuple[str, ...] = ()
    replaces: bool = False

    def to_params(self) -> dict[str, Any]:
        """The parameters of the agent's `start_kernel` and `restart_kernel`."""
        return {
            "kernel_id": self.kernel_id,
            "key": self.key,
            "signature_scheme": self.signature_scheme,
            "env": dict(self.env),
            "cwd": self.cwd,
            "extra_arguments": list(self.extra_arguments),
            **({"python": self.python} if self.python else {}),
        }
