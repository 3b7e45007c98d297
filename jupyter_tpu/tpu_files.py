"""Find the files that identify TPU processes: the chips' device files and libtpu's lock. Linux, Python 3.10.

The agent and the kernels share this module, because they must agree on which process uses the chips. Linux shows the
open files of a process only to its own user and root.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

DEVICES_VARIABLE = "JUPYTER_TPU_DEVICES"
"""The variable with the folder of the chips' device files, if it is not /dev."""
LOCK_VARIABLE = "JUPYTER_TPU_LOCK_FILE"
"""The variable with the path of libtpu's lock file, if it is not the default path."""

PROC = Path("/proc")
# The path is fixed in libtpu, which locks the file with lockf (openxla tpu_initializer_helper.cc).
_LOCK_FILE = "/tmp/libtpu_lockfile"


def devices_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder with the chips' device files."""
    return Path(environ.get(DEVICES_VARIABLE) or "/dev")


def lock_file(environ: Mapping[str, str]) -> Path:
    """Return the file that libtpu locks while a process uses the chips."""
    return Path(environ.get(LOCK_VARIABLE) or _LOCK_FILE)


def device_files(folder: Path) -> set[str]:
    """Return the resolved paths of the chips' device files in a folder.

    They are ``accelN`` up to v4, and VFIO groups on newer generations.
    """
    return {os.path.realpath(path) for path in (*folder.glob("accel[0-9]*"), *folder.glob("vfio/[0-9]*"))}


def open_by(files: set[str], proc: Path = PROC) -> list[int]:
    """Return the pids of processes that have one of these files open and whose open files the current user may see."""
    if not files:
        return []
    pids = (int(path.name) for path in proc.iterdir() if path.name.isdecimal())
    return sorted(pid for pid in pids if open_files(pid, proc) & files)


def open_files(pid: int, proc: Path = PROC) -> set[str]:
    """Return the files that a process has open, or an empty set if it has exited or belongs to another user."""
    found = set[str]()
    with suppress(OSError), os.scandir(f"{proc}/{pid}/fd") as links:
        for link in links:
            with suppress(OSError):
                found.add(os.readlink(link.path))  # noqa: PTH115 - faster, and there are thousands
    return found
