"""The folder of an emulator's state, locked so that only one emulator uses it, and its files of keys and tokens."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

from jupyter_tpu.files import write_whole

TOKEN_FILE_VARIABLE = "JUPYTER_TPU_EMULATOR_TOKEN_FILE"


class StateDirInUse(Exception):
    """Another emulator uses the folder."""


@contextlib.contextmanager
def locked_state_dir(named: Path | None) -> Iterator[Path]:
    """Yield the named folder, locked and kept; without a name, a folder that is deleted with the process.

    Raises:
        StateDirInUse: two emulators would undo each other's nodes.
    """
    if named is None:
        with tempfile.TemporaryDirectory(prefix="jupyter-tpu-emulator-") as folder:
            yield Path(folder)
    else:
        named.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (named / "lock").open("a+") as lock:
            _lock(lock, named)
            yield named.resolve()


def _lock(file: TextIO, folder: Path) -> None:
    """Lock the folder; the system releases the lock when this process ends, however it ends."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise StateDirInUse(f"{_holder(file)} runs on {folder}; stop it, or name another --state-dir.") from error
    file.truncate(0)
    file.write(str(os.getpid()))  # the next emulator's error shows this pid
    file.flush()


def _holder(lock: TextIO) -> str:
    lock.seek(0)
    pid = lock.read()
    return f"another emulator (process {pid})" if pid else "another emulator"


def read_or_create(path: Path, make: Callable[[], bytes]) -> bytes:
    """Return the file's content; if there is no file, create it with the result of `make`, readable by its owner only.

    It is written whole or not at all: a crash or a full disk leaves at most a draft, and an empty file counts as none.

    Raises:
        OSError: it can be neither read nor written; nothing is left of the attempt.
    """
    # an empty file is left by a crash of an older emulator, which did not write whole files
    if not path.exists() or not path.stat().st_size:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, make())
    return path.read_bytes()
