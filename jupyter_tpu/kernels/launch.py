"""The parameters and environment variables for starting a kernel on a worker."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_tpu.errors import BadInput, Text
from jupyter_tpu.i18n import LANGUAGE_VARIABLE, chosen_languages

LANGUAGE_SETTING = "jupyter_tpu_language"
"""The setting of a Jupyter server's web application with a function that returns the front end's language or ""."""

FORWARD_VARIABLE = "JUPYTER_TPU_FORWARD_ENV"
"""The environment variable with the names of variables to forward to kernels, separated by commas or spaces."""

NODE_VARIABLE = "JPY_TPU_NODE"
"""The environment variable with the name of the kernel's node; a TPU VM has a different host name.

The name must not begin with JUPYTER, because a pre-warmed kernel could not adopt the variable
(`jupyter_tpu.agent.kernels.prewarm`).
"""

_ALWAYS = ("JPY_SESSION_NAME",)
# The name of a variable. Patterns aren't allowed, because a pattern could forward a token that the user did not think
# of.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def forwarded(env: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Return the variables to forward from `env` to a kernel: the variables in `names`, and JPY_SESSION_NAME.

    Raises:
        BadInput: one of `names` is not a valid variable name.
    """
    names = (*_ALWAYS, *names)
    for name in names:
        if not _NAME.fullmatch(name):
            raise BadInput(
                Text(
                    "{name} can't be forwarded to kernels, because it isn't a valid variable name.",
                    name=repr(name[:100]),
                ),
                hint=Text(
                    "Use full names, without values or wildcards, in {variable} or forward_env.",
                    variable=FORWARD_VARIABLE,
                ),
            )
    return {name: env[name] for name in names if name in env}


def kernel_env(node_id: str, env: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Return the kernel's additional environment variables: forwarded variables, the node's name and the language.

    Raises:
        BadInput: one of `names` is not a valid variable name.
    """
    languages = chosen_languages(env)
    language = {LANGUAGE_VARIABLE: languages} if languages else {}
    return {**forwarded(env, names), NODE_VARIABLE: node_id, **language}


def forwarded_names(env: Mapping[str, str]) -> list[str]:
    """Return the variable names listed in the environment variable `FORWARD_VARIABLE`."""
    return env.get(FORWARD_VARIABLE, "").replace(",", " ").split()


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """The parameters of a kernel start. Of this machine's environment variables, only `env` is sent.

    Attributes:
        key, signature_scheme: how the kernel signs its messages.
        env: environment variables for the kernel.
        cwd: folder on the worker; empty for the home folder.
        python: path of the Python interpreter on the worker; empty for the worker's system Python.
        folder: the notebook's folder on this machine; None if unknown.
        replaces: whether to first remove a kernel with the same id, which a killed process may have left running.
        workers: how many of the node's workers run the kernel together.
        ends_alone_after_s: seconds for which the kernel may be idle without a client before it exits; None for no
            limit.
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
    workers: int = 1
    ends_alone_after_s: float | None = None

    def to_params(self) -> dict[str, Any]:
        """Return the parameters of the agent's ``start_kernel`` and ``restart_kernel``."""
        return {
            "kernel_id": self.kernel_id,
            "key": self.key,
            "signature_scheme": self.signature_scheme,
            "env": dict(self.env),
            "cwd": self.cwd,
            "extra_arguments": list(self.extra_arguments),
            **({"workers": self.workers} if self.workers > 1 else {}),
            **({"ends_alone_after_s": self.ends_alone_after_s} if self.ends_alone_after_s else {}),
            **({"python": self.python} if self.python else {}),
        }
