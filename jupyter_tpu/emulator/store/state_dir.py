"""The folder that an emulator keeps its state in, held by one emulator at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO


class StateDirInUse(Exception):
    """Another emulator runs on the folder."""


@contextlib.contextmanager
def held_state_dir(asked: Path | None) -> Iterator[Path]:
    """The folder that was asked for, kept; else one that goes with the process.

    Raises:
        StateDirInUse: two emulators would undo each other's nodes.
    """
    if asked is None:
        with tempfile.TemporaryDirectory(prefix="jupyter-tpu-emulator-") as folder:
            yield Path(folder)
    else:
        asked.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (asked / "lock").open("a+") as lock:
            _hold(lock, asked)
            yield asked.resolve()


def _hold(lock: TextIO, folder: Path) -> None:
    """The system lets go of it when this process ends, however it ends."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise StateDirInUse(f"{_holder(lock)} runs on {folder}; stop it, or name another --state-dir.") from error
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()


def _holder(lock: TextIO) -> str:
    lock.seek(0)
    pid = lock.read()
    return f"another emulator (process {pid})" if pid else "another emulator"
