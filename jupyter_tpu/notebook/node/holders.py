"""Who is the process that holds the accelerator? Read from Linux's /proc, as far as this user may."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from jupyter_tpu.notebook.display import plain

PROC = Path("/proc")
_FOREIGN_KERNEL = "ipykernel_launcher"
"""In the command of a kernel that some Jupyter on the machine has started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A process that holds the accelerator; what could not be read is empty.

    Its words are its own: a notebook may have any name, which as text is made harmless.

    Attributes:
        notebook: the one whose kernel it is, or whose kernel has started it.
        is_kernel: it is a kernel itself.
    """

    pid: int
    command: str = ""
    notebook: str = ""
    is_kernel: bool = False

    def __str__(self) -> str:
        name = f"process {self.pid}"
        if self.is_kernel and self.notebook:
            return f"{name}, the kernel of the notebook {plain(self.notebook)}"
        known = f"{name} ({plain(self.command)})" if self.command else name
        return f"{known}, started by the kernel of the notebook {plain(self.notebook)}" if self.notebook else known


def find_holder(pid: int, proc: Path = PROC, kernels: Path | None = None) -> Holder:
    """Describe a process.

    Jupyter puts the notebook of a kernel into its environment as ``JPY_SESSION_NAME``, and all that it starts inherits
    it; which processes are kernels shows the agent's folder `kernels`. A kernel that was started in reserve has the
    variable only since it is used, which the system does not show, but that folder does.
    """
    command = _fields(proc / str(pid) / "cmdline")
    noted = _noted_notebook(pid, kernels or Path.home() / ".jupyter-tpu" / "kernels")
    return Holder(
        pid=pid,
        command=" ".join(command)[:120],
        notebook=_variables(proc / str(pid) / "environ").get("JPY_SESSION_NAME", "") or noted or "",
        is_kernel=noted is not None or _FOREIGN_KERNEL in command,
    )


def who_holds(devices: Path, lock_file: Path, proc: Path = PROC) -> list[int]:
    """Processes that have a chip's device file open or libtpu's lock, oldest number first.

    Another user's device files are not seen, but a lock is.
    """
    files = {os.path.realpath(path) for pattern in ("accel[0-9]*", "vfio/[0-9]*") for path in devices.glob(pattern)}
    opened = {pid for pid in _processes(proc) if files and files & set(_open_files(proc / str(pid) / "fd"))}
    return sorted(opened | set(who_locks(lock_file, proc)))


def who_locks(lock_file: Path, proc: Path = PROC) -> Iterator[int]:
    """Processes that have a lock on a file, of any user; none where the file is not there."""
    try:
        wanted = _lock_id(lock_file.stat())
        lines = (proc / "locks").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        words = line.split()  # 3: POSIX ADVISORY WRITE 25729 fe:00:2147799 0 EOF
        is_lock = len(words) >= 6 and words[1] == "POSIX" and words[4] != "0"  # 0: a process outside of this container
        if is_lock and words[5] == wanted and words[4].isdecimal():
            yield int(words[4])


def _lock_id(file: os.stat_result) -> str:
    """As in /proc/locks: the device in hexadecimal, the inode in decimal."""
    return f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}:{file.st_ino}"


def _processes(proc: Path) -> Iterator[int]:
    yield from (int(path.name) for path in proc.iterdir() if path.name.isdecimal())


def _open_files(folder: Path) -> Iterator[str]:
    with suppress(OSError):  # the process is gone, or belongs to another user
        for link in folder.iterdir():
            with suppress(OSError):
                yield str(link.readlink())


def _noted_notebook(pid: int, kernels: Path) -> str | None:
    """The notebook of a kernel of our agent; None for another process."""
    for path in kernels.glob("*/kernel.json"):
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
    except OSError:  # the process is gone, or belongs to another user
        return []
    return [field.decode(errors="replace") for field in content.split(b"\0") if field]
