"""Read the exit status of a kernel's process from the agent's ``exited`` event."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any

_LONGEST = 4000  # in characters; about 50 lines of a traceback


def exit_code_of(event: Mapping[str, Any]) -> int:
    """Return the exit code as in `subprocess.Popen.returncode`. An unknown signal counts as SIGKILL."""
    if event.get("exit_code") is not None:
        return int(event["exit_code"])
    number = signal.Signals.__members__.get(str(event.get("signal")), signal.SIGKILL)
    return -number


def stderr_of(event: Mapping[str, Any]) -> str:
    """Return the end of the process's standard error."""
    stderr = event.get("stderr") or ""
    return ("\n".join(map(str, stderr)) if isinstance(stderr, list) else str(stderr)).strip()[-_LONGEST:]


def exit_text(exit_code: int) -> str:
    """Return how a process exited, for display, such as ``exit code 1`` or ``SIGKILL``."""
    if exit_code >= 0:
        return f"exit code {exit_code}"
    try:
        return signal.Signals(-exit_code).name
    except ValueError:
        return f"signal {-exit_code}"
