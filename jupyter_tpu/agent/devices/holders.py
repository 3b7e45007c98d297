"""Find this worker's TPU processes. Everything here blocks, so call it in a thread.

A TPU process is found by its open device file, which only its own user and root can see, or by libtpu's lock, whose
owner Linux shows to every user. Its parent processes identify the kernel that started it.
"""

from __future__ import annotations

import fcntl
import os
import stat
import struct
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

import psutil

from jupyter_tpu.agent.kernels.process import start_ticks
from jupyter_tpu.metrics import Holder
from jupyter_tpu.tpu_files import device_files, devices_folder, lock_file, open_by, open_files
from jupyter_tpu.worker_clock import boot_clock, booted_at

# Format of `struct flock` of fcntl(2) on 64-bit Linux: type, whence, start, length, pid.
_FLOCK = "hhqqi"
# Maximum length of a command line in a sample, in characters. A command line can be megabytes long.
_LONGEST_COMMAND = 300
# Search all processes every 5 s. With very many processes, search less often, so that searching takes at most 1/500 of
# the time.
_SEARCH_EVERY_S = 5.0
_SEARCH_SHARE = 500
# The wall clock was set if its distance from the boot clock changed by more than this. Smaller changes come from the
# time between the two readings.
_CLOCK_SET_S = 1.0

Kernels = Mapping[int, "tuple[str, str]"]
"""A kernel's id and notebook, by the pid of the kernel's process."""


@dataclass(frozen=True)
class LockFile:
    """The state of libtpu's lock file.

    Attributes:
        is_there: whether the file exists.
        is_held: whether a process holds the lock.
        pid: pid of that process; None if there is none, or if Linux can't identify it, for example in a container.
    """

    path: str
    is_there: bool
    is_held: bool = False
    pid: int | None = None


class Holders:
    """The TPU processes found by repeated searches, with the time when each process began to use the chips.

    Args:
        environ: can specify another device folder and lock file.
        kernels: returns the agent's kernels; called at each search.
    """

    def __init__(self, environ: Mapping[str, str], kernels: Callable[[], Kernels]) -> None:
        self._devices = devices_folder(environ)
        self._lock_file = lock_file(environ)
        self._kernels = kernels
        self._searching = threading.Lock()
        self._since: dict[tuple[int, float], float] | None = None
        self._booted_at = booted_at()
        self._found: list[Holder] = []
        self._found_by: tuple[set[str], int | None] = (set(), None)
        self._search_at = 0.0

    def scan(self) -> list[Holder]:
        """Search for all TPU processes that this user may see."""
        with self._searching:
            began = time.monotonic()
            files, lock = device_files(self._devices), self.lock_file()
            pids = {*open_by(files), *([] if lock.pid is None else [lock.pid])}
            kernels = self._kernels()
            self._found = self._dated([known for pid in sorted(pids) if (known := describe(pid, kernels))])
            self._found_by = files, lock.pid
            now = time.monotonic()
            self._search_at = now + max(_SEARCH_EVERY_S, _SEARCH_SHARE * (now - began))
            return self._found

    def scan_if_changed(self) -> list[Holder]:
        """Return the TPU processes; to save CPU time, search all processes only occasionally and after a change."""
        files, lock_pid = self._found_by
        is_old = time.monotonic() >= self._search_at or self.lock_file().pid != lock_pid
        if is_old or not all(holder.pid == lock_pid or open_files(holder.pid) & files for holder in self._found):
            return self.scan()
        return self._found

    def _dated(self, found: list[tuple[Holder, float]]) -> list[Holder]:
        """Add the time when each process began to use the chips; for the first search, use the process's start time.

        Clients send this time back to identify the process, so it changes only if the wall clock is set.
        """
        now, before = boot_clock(), self._since
        if abs((booted := booted_at()) - self._booted_at) > _CLOCK_SET_S:
            self._booted_at = booted
        since = {(holder.pid, began): began if before is None else now for holder, began in found}
        self._since = {key: (before or {}).get(key, at) for key, at in since.items()}
        return [replace(holder, since=self._booted_at + self._since[holder.pid, began]) for holder, began in found]

    def lock_file(self) -> LockFile:
        """Return the state of libtpu's lock, without taking it."""
        try:
            # O_NONBLOCK: any user may create a pipe of that name in /tmp, and opening it would wait forever.
            descriptor = os.open(self._lock_file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return LockFile(str(self._lock_file), is_there=False)
        except OSError:
            return LockFile(str(self._lock_file), is_there=True)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return LockFile(str(self._lock_file), is_there=True)
            query = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, query))
            is_held = kind != fcntl.F_UNLCK
            return LockFile(
                str(self._lock_file), is_there=True, is_held=is_held, pid=pid if is_held and pid > 0 else None
            )
        finally:
            os.close(descriptor)


def describe(pid: int, kernels: Kernels) -> tuple[Holder, float] | None:
    """Return a TPU process and its start time (seconds of the boot clock), or None if it has exited."""
    ticks = start_ticks(pid)
    if ticks is None:
        return None
    try:
        process = psutil.Process(pid)
        user = process.username()
        command = " ".join(process.cmdline())[:_LONGEST_COMMAND] or process.name()
        is_own = process.uids().real == os.getuid()
    except psutil.Error:
        return None
    kernel_id, notebook = _kernel_of(process, kernels)
    holder = Holder(
        pid=pid,
        user=user,
        command=command,
        kernel_id=kernel_id,
        notebook=notebook,
        is_own_user=is_own,
        is_kernel=pid in kernels,
    )
    return holder, ticks / os.sysconf("SC_CLK_TCK")


def _kernel_of(process: psutil.Process, kernels: Kernels) -> tuple[str, str]:
    """Return the id and the notebook of the kernel that the process is or descends from, or empty strings."""
    with suppress(psutil.Error):
        for one in (process, *process.parents()):
            if one.pid in kernels:
                return kernels[one.pid]
    # Even if the process's parent has exited, the session ID identifies the kernel, because each kernel starts in its
    # own session.
    with suppress(OSError):
        return kernels.get(os.getsid(process.pid), ("", ""))
    return "", ""
