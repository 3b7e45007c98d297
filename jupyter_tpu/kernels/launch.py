"""What to start on a worker."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_tpu.errors import BadInput

FORWARD_VARIABLE = "JUPYTER_TPU_FORWARD_ENV"
"""Names the variables that the user wants kernels to get as well, separated by commas or blanks."""

_ALWAYS = ("JPY_SESSION_NAME",)
# a whole name only: a pattern could take a token along that nobody thought of
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def forwarded(env: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """The part of this machine's environment that a kernel on a worker gets.

    Raises:
        BadInput: one of `names` is not a variable's name.
    """
    names = (*_ALWAYS, *names)
    for name in names:
        if not _NAME.fullmatch(name):
            raise BadInput(
                f"{name[:100]!r} can't be forwarded to kernels: it isn't a variable's name.",
                hint=f"Write whole names, without values or wildcards, in {FORWARD_VARIABLE} or forward_env.",
            )
    return {name: env[name] for name in names if name in env}


def forwarded_names(env: Mapping[str, str]) -> list[str]:
    """What the environment itself says is to be forwarded."""
    return env.get(FORWARD_VARIABLE, "").replace(",", " ").split()


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What to start. Nothing of this machine's environment but `env` travels.

    Attributes:
        python: on the worker; empty for the worker's own.
        folder: of the notebook, on this machine; None where nobody knows it.
        replaces: whether a kernel of the same id, left by a process that was killed, is ended and forgotten first.
        ends_alone_after_s: how long it may be idle while nobody follows it; None for as long as it likes.
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
    ends_alone_after_s: float | None = None

    def to_params(self) -> dict[str, Any]:
        """The parameters of the agent's `start_kernel` and `restart_kernel`."""
        return {
            "kernel_id": self.kernel_id,
            "key": self.key,
            "signature_scheme": self.signature_scheme,
            "env": dict(self.env),
            "cwd": self.cwd,
            "extra_arguments": list(self.extra_arguments),
            **({"ends_alone_after_s": self.ends_alone_after_s} if self.ends_alone_after_s else {}),
            **({"python": self.python} if self.python else {}),
        }
