"""Where our state lies on this machine."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from jupyter_core.paths import jupyter_data_dir

from jupyter_tpu.errors import JournalUnwritable

DATA_DIR_VARIABLE = "JUPYTER_TPU_DATA_DIR"


def data_path() -> Path:
    """Where that folder is, whether or not it exists."""
    return Path(os.environ.get(DATA_DIR_VARIABLE) or Path(jupyter_data_dir()) / "tpu")


def data_dir() -> Path:
    """The folder of journal, key and known hosts, made on demand and closed to other users.

    ``$JUPYTER_TPU_DATA_DIR``, or ``tpu`` in Jupyter's data directory.

    Raises:
        JournalUnwritable: it cannot be made, or is somebody else's.
    """
    path = data_path()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.chmod(0o700)
    except OSError as error:
        if error.errno == errno.EROFS and path.is_dir():  # nobody writes there any more; what is there can be read
            return path
        raise JournalUnwritable(
            f"The folder {path} cannot be made or closed to other users ({error.strerror}).",
            hint=f"Free disk space or fix its permissions, or name another folder in {DATA_DIR_VARIABLE}.",
            raw=str(error),
        ) from error
    return path
