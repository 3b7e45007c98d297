"""Parse and validate a client's request to start a kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jupyter_tpu.errors import BadInput


@dataclass(frozen=True)
class Launch:
    """The parameters for starting a kernel.

    Attributes:
        key: the client's key for signing the kernel's messages; it stays the same across restarts.
        python: path of a Python on the worker; empty for the agent's default.
        cwd: working folder on the worker; the home folder is used if it doesn't exist.
        env: variables to add to the agent's own environment.
        extra_arguments: arguments passed to ipykernel.
        owner: name of the client that starts the kernel; late calls from another owner don't shut down the kernel.
        ends_alone_after_s: maximum seconds that the kernel may be idle without a client; None for no limit.
        workers: the number of workers that the kernel runs on; this worker is worker 0.
    """

    key: str
    signature_scheme: str = "hmac-sha256"
    python: str = ""
    cwd: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    extra_arguments: Sequence[str] = ()
    owner: str = ""
    ends_alone_after_s: float | None = None
    workers: int = 1

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> Launch:
        """Parse the parameters of a call.

        Raises:
            BadInput: a parameter is missing or invalid.
        """
        env, arguments = params.get("env", {}), params.get("extra_arguments", [])
        if not isinstance(env, dict) or not isinstance(arguments, list):
            raise BadInput("The field 'env' must be an object, and 'extra_arguments' a list.")
        return cls(
            key=_text(params, "key"),
            signature_scheme=_text(params, "signature_scheme", "hmac-sha256"),
            python=_text(params, "python", ""),
            cwd=_text(params, "cwd", ""),
            env={_variable_name(name): _text(env, name) for name in env},
            extra_arguments=[_text({"extra_arguments": argument}, "extra_arguments") for argument in arguments],
            owner=_text(params, "owner", ""),
            ends_alone_after_s=_seconds(params, "ends_alone_after_s"),
            workers=_workers(params.get("workers", 1)),
        )


def _workers(value: Any) -> int:
    if type(value) is not int or value < 1:
        raise BadInput("The field 'workers' must be a whole number above 0.")
    return value


def _text(params: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = params.get(name, default)
    if not isinstance(value, str) or "\0" in value:  # the operating system doesn't accept null characters
        raise BadInput(f"The field '{name}' must be a string.")
    return value


def _seconds(params: Mapping[str, Any], name: str) -> float | None:
    value = params.get(name)
    if value is None:
        return None
    # Reject a bool, which is an int in Python, and Infinity, which Python's JSON parser accepts.
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise BadInput(f"The field '{name}' must be a number of seconds above 0.")
    return float(value)


def _variable_name(name: str) -> str:
    if not name or "=" in name or "\0" in name:
        raise BadInput(f"{name[:70]!r} is not a valid name for an environment variable.")
    return name
