"""How a kernel's process ended, from what the agent says of it."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any

_LONGEST = 4000


def exit_code_of(event: Mapping[str, Any]) -> int:
    """As `subprocess.Popen.returncode`; a signal that is not known here counts as SIGKILL."""
    if event.get("exit_code") is not None:
        return int(event["exit_code"])
    number = signal.Signals.__members__.get(str(event.get("signal")), signal.SIGKILL)
    return -number


def last_words_of(event: Mapping[str, Any]) -> str:
    """What the process said last, on standard error; the end of it, where it is very long."""
    words = event.get("stderr") or ""
    return ("\n".join(map(str, words)) if isinstance(words, list) else str(words)).strip()[-_LONGEST:]


def ending(exit_code: int) -> str:
    """How a process ended, in words."""
    if exit_code >= 0:
        return f"exit code {exit_code}"
    try:
        return signal.Signals(-exit_code).name
    except ValueError:
        return f"signal {-exit_code}"
