"""Identify the process that performs an intent, and check whether it is still running."""

from __future__ import annotations

import itertools
import os

# maximum difference between two start times of the same process: they are computed from the clock, which may be set
# while the process is running; the value is our guess
_TOLERANCE_S = 5.0

_numbers = itertools.count()


def new_owner() -> str:
    """Return a new owner id for this process, in the format ``pid:start time:number``.

    The start time distinguishes the process from a later one with the same pid.
    """
    import psutil  # slow to import, and not needed at a server's start

    pid = os.getpid()
    return f"{pid}:{psutil.Process(pid).create_time():.0f}:{next(_numbers)}"


def is_gone(owner: str) -> bool:
    """Return whether the owner's process has exited. An empty owner id counts as exited."""
    import psutil

    pid, _, rest = owner.partition(":")
    started = rest.partition(":")[0]
    if not (pid.isdecimal() and started.isdecimal()):
        return True
    try:
        process = psutil.Process(int(pid))
        if process.status() == psutil.STATUS_ZOMBIE:  # it has exited, but its parent has not read the exit status
            return True
        return abs(process.create_time() - int(started)) > _TOLERANCE_S
    except psutil.NoSuchProcess:
        return True
    except psutil.AccessDenied:  # the process is running and belongs to another user
        return False
