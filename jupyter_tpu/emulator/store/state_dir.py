"""The folder with an emulator's state, locked for use by one emulator, and its files with keys and tokens."""

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
    """Lock and yield the given folder, or else a temporary folder that is deleted when the process exits.

    Raises:
        StateDirInUse: another emulator uses the folder.
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
    """Lock the folder. The operating system releases the lock when this process exits, even after a crash."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise StateDirInUse(f"{_holder(file)} runs on {folder}; stop it, or name another --state-dir.") from error
    file.truncate(0)
    file.write(str(os.getpid()))  # another emulator's error message shows this PID
    file.flush()


def _holder(lock: TextIO) -> str:
    lock.seek(0)
    pid = lock.read()
    return f"another emulator (process {pid})" if pid else "another emulator"


def read_or_create(path: Path, make: Callable[[], bytes]) -> bytes:
    """Return the file's content; create a missing file with the result of `make`, readable by its owner only.

    The file is written atomically: a crash or a full disk leaves at most a temporary file. An empty file counts as
    missing.

    Raises:
        OSError: the file can be neither read nor written; no partial file is left.
    """
    # older emulators, which did not write files atomically, may leave an empty file after a crash
    if not path.exists() or not path.stat().st_size:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, make())
    return path.read_bytes()
