"""The clocks of a TPU worker: the wall clock, which NTP and users may set, and the boot clock, which only counts up.

Use the boot clock for every duration. The emulator can make a worker's wall clock wrong: it names a file with the error
in `VARIABLE`.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from functools import cache
from pathlib import Path

VARIABLE = "JUPYTER_TPU_EMULATED_CLOCK"
"""The variable with the path of a file on an emulated worker.

The file has the seconds by which the worker's wall clock is ahead (see `set_error`).
"""
_SECONDS = struct.Struct("<d")


def wall_clock() -> float:
    """Return the time in Unix seconds by this machine's wall clock, which may be wrong and may be set."""
    error = _emulated_error()
    return time.time() if error is None else time.time() + float(_SECONDS.unpack_from(error)[0])


def boot_clock() -> float:
    """Return the seconds since this machine booted, including those in which it slept. No one can set this clock."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def booted_at() -> float:
    """Return when this machine booted, in Unix seconds by the wall clock's current setting.

    Add it to a time of the boot clock to show the time: its age is then right even if the wall clock was set since.
    """
    return wall_clock() - boot_clock()


def set_error(path: Path, ahead_s: float) -> None:
    """Set by how many seconds an emulated worker's wall clock is ahead; running processes notice it at once."""
    # Write in place, because running processes have mapped the file.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.pwrite(descriptor, _SECONDS.pack(ahead_s), 0)
    finally:
        os.close(descriptor)


@cache
def _emulated_error() -> mmap.mmap | None:
    path = os.environ.get(VARIABLE)
    if not path:
        return None
    with Path(path).open("rb") as file:
        return mmap.mmap(file.fileno(), _SECONDS.size, access=mmap.ACCESS_READ)
