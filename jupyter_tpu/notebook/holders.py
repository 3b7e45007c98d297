"""Who is the process that holds the accelerator? Read from Linux's /proc, as far as this user may."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A process that holds the accelerator; what could not be read is empty."""

    pid: int
    command: str = ""
    notebook: str = ""

    def __str__(self) -> str:
        name = f"process {self.pid}"
        if self.notebook:
            return f"{name}, the kernel of the notebook {self.notebook}"
        return f"{name} ({self.command})" if self.command else name


def find_holder(pid: int, proc: Path = PROC, kernels: Path | None = None) -> Holder:
    """Describe a process.

    Jupyter puts the notebook of a kernel into its environment as ``JPY_SESSION_NAME``. A kernel that was started in
    reserve has it only since it is used, which the system does not show, but the agent's folder `kernels` does.
    """
    return Holder(
        pid=pid,
        command=" ".join(_fields(proc / str(pid) / "cmdline"))[:120],
        notebook=_variables(proc / str(pid) / "environ").get("JPY_SESSION_NAME", "")
        or _noted_notebook(pid, kernels or Path.home() / ".jupyter-tpu" / "kernels"),
    )


def _noted_notebook(pid: int, kernels: Path) -> str:
    for path in kernels.glob("*/kernel.json"):
        with suppress(OSError, ValueError):
            state = json.loads(path.read_text())
            if isinstance(state, dict) and state.get("pid") == pid:
                return str(state.get("notebook", ""))
    return ""


def _variables(path: Path) -> dict[str, str]:
    pairs = (field.partition("=") for field in _fields(path))
    return {name: value for name, _, value in pairs}


def _fields(path: Path) -> list[str]:
    try:
        content = path.read_bytes()
    except OSError:  # the process is gone, or belongs to another user
        return []
    return [field.decode(errors="replace") for field in content.split(b"\0") if field]
