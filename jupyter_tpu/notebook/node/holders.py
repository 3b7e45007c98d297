"""Find the processes that use the chips by reading Linux's /proc.

Other users' processes are only partly visible there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from jupyter_tpu.metrics import Holder
from jupyter_tpu.tpu_files import PROC, device_files, open_by

_FOREIGN_KERNEL = "ipykernel_launcher"
"""A word in the command line of kernels that another Jupyter on this machine started."""


def find_holder(pid: int, proc: Path = PROC, kernels: Path | None = None) -> Holder:
    """Return the data about a process from /proc and the agent's folder; fields that can't be read are empty.

    Command and notebook are untrusted text. Jupyter sets ``JPY_SESSION_NAME`` to the notebook of a kernel, and
    processes started by the kernel inherit it. /proc shows the initial environment of a process, in which a pre-warmed
    kernel lacks the variable. The agent's folder `kernels` shows which processes are kernels and also contains the
    notebook of a pre-warmed kernel.
    """
    command = _fields(proc / str(pid) / "cmdline")
    noted = _noted_notebook(pid, kernels or Path.home() / ".jupyter-tpu" / "kernels")
    return Holder(
        pid=pid,
        # 120 characters are enough to identify a program; a kernel's command line has several hundred
        command=" ".join(command)[:120],
        notebook=_variables(proc / str(pid) / "environ").get("JPY_SESSION_NAME", "") or noted or "",
        is_kernel=noted is not None or _FOREIGN_KERNEL in command,
    )


def who_holds(devices: Path, lock_file: Path, proc: Path = PROC) -> list[int]:
    """Return the pids of processes that have a chip's device file open or hold libtpu's lock, in ascending order.

    Linux hides other users' open files, but not their locks.
    """
    return sorted({*open_by(device_files(devices), proc), *who_locks(lock_file, proc)})


def who_locks(lock_file: Path, proc: Path = PROC) -> Iterator[int]:
    """Yield the pids of all users' processes that have a POSIX lock on a file; nothing if the file is missing."""
    try:
        wanted = _lock_id(lock_file.stat())
        lines = (proc / "locks").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        words = line.split()  # 3: POSIX ADVISORY WRITE 25729 fe:00:2147799 0 EOF
        # Waiting processes have "->" as their second field. A process outside this container has PID 0.
        is_lock = len(words) >= 6 and words[1] == "POSIX" and words[4] != "0"
        if is_lock and words[5] == wanted and words[4].isdecimal():
            yield int(words[4])


def _lock_id(file: os.stat_result) -> str:
    """Return a file's id in the format of /proc/locks: the device in hexadecimal, the inode in decimal."""
    return f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}:{file.st_ino}"


def _noted_notebook(pid: int, kernels: Path) -> str | None:
    """Return the notebook of a kernel that the agent started, or None for any other process."""
    # On other workers of a slice, a kernel's process is noted in another folder.
    files = [*kernels.glob("*/kernel.json"), *kernels.parent.glob("slices/*/process.json")]
    # The agent may rewrite or remove a file during the read: skip such a kernel.
    for path in files:
        with suppress(OSError, ValueError, RecursionError):
            state = json.loads(path.read_text())
            if isinstance(state, dict) and state.get("pid") == pid:
                return str(state.get("notebook", ""))
    return None


def _variables(path: Path) -> dict[str, str]:
    pairs = (field.partition("=") for field in _fields(path))
    return {name: value for name, _, value in pairs}


def _fields(path: Path) -> list[str]:
    try:
        content = path.read_bytes()
    except OSError:  # the process has exited or belongs to another user
        return []
    return [field.decode(errors="replace") for field in content.split(b"\0") if field]
