"""Which process performs an intent, and whether it still lives."""

from __future__ import annotations

import itertools
import os

import psutil

# start times are computed from the clock, which may be set while a process runs
_TOLERANCE_S = 5.0

_numbers = itertools.count()


def new_owner() -> str:
    """A new owner in this process as ``pid:start time:number``.

    The start time tells the process from a later one with the same pid.
    """
    pid = os.getpid()
    return f"{pid}:{psutil.Process(pid).create_time():.0f}:{next(_numbers)}"


def is_gone(owner: str) -> bool:
    """Whether an owner's process has ended; nobody (an empty owner) counts as ended."""
    pid, _, rest = owner.partition(":")
    started = rest.partition(":")[0]
    if not (pid.isdecimal() and started.isdecimal()):
        return True
    try:
        process = psutil.Process(int(pid))
        if process.status() == psutil.STATUS_ZOMBIE:  # it has ended, and nobody has asked how
            return True
        return abs(process.create_time() - int(started)) > _TOLERANCE_S
    except psutil.NoSuchProcess:
        return True
    except psutil.AccessDenied:  # it lives, as somebody else
        return False
