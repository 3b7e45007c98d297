"""Find the folder of our state on this machine."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from jupyter_core.paths import jupyter_data_dir

from jupyter_tpu.errors import JournalUnwritable, Text

DATA_DIR_VARIABLE = "JUPYTER_TPU_DATA_DIR"


def data_path() -> Path:
    """Return the path of our data folder, whether or not it exists."""
    return Path(os.environ.get(DATA_DIR_VARIABLE) or Path(jupyter_data_dir()) / "tpu")


def data_dir() -> Path:
    """Return the folder of journal, key and known hosts, created on demand and closed to other users.

    ``$JUPYTER_TPU_DATA_DIR``, or ``tpu`` in Jupyter's data directory.

    Raises:
        JournalUnwritable: it cannot be created, or belongs to another user.
    """
    path = data_path()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.chmod(0o700)
    except OSError as error:
        if error.errno == errno.EROFS and path.is_dir():  # a read-only file system: the state can still be read
            return path
        raise JournalUnwritable(
            Text("The folder {path} cannot be created or made private ({error}).", path=path, error=error.strerror),
            hint=Text(
                "Free disk space, fix its permissions, or set {variable} to another folder.", variable=DATA_DIR_VARIABLE
            ),
            raw=str(error),
        ) from error
    return path
