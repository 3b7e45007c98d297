"""Find the folder for jupyter_tpu's state on this machine."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

from jupyter_core.paths import jupyter_data_dir

from jupyter_tpu.errors import JournalUnwritable, Text

DATA_DIR_VARIABLE = "JUPYTER_TPU_DATA_DIR"


def data_path() -> Path:
    """Return the path of the data folder, which may not exist yet."""
    return Path(os.environ.get(DATA_DIR_VARIABLE) or Path(jupyter_data_dir()) / "tpu")


def data_dir() -> Path:
    """Return the folder for the journal, SSH key and known hosts. Create it if needed, private to the user.

    The folder is ``$JUPYTER_TPU_DATA_DIR``, or ``tpu`` in Jupyter's data directory.

    Raises:
        JournalUnwritable: the folder cannot be created, or belongs to another user.
    """
    return _private(data_path())


def _private(path: Path) -> Path:
    """Create a folder if needed, and make it private to the user; raises the same errors as `data_dir`."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.chmod(0o700)
    except OSError as error:
        if error.errno == errno.EROFS and path.is_dir():  # on a read-only file system, the state is still readable
            return path
        raise JournalUnwritable(
            Text("The folder {path} cannot be created or made private ({error}).", path=path, error=error.strerror),
            hint=Text(
                "Free disk space, fix the folder's permissions, or set {variable} to another folder.",
                variable=DATA_DIR_VARIABLE,
            ),
            raw=str(error),
        ) from error
    return path


_TRIAL, _TRIAL_CLOUD = "emulated-cloud", "cloud.json"


def trial_dir() -> Path:
    """Return the folder for the emulated cloud that the setup can start. It contains the cloud's state and a journal.

    Raises:
        JournalUnwritable: see `data_dir`.
    """
    return _private(data_dir() / _TRIAL)


def trial_file() -> Path:
    """Return the path of the file with the emulated cloud's last endpoint and the process that started it."""
    return data_path() / _TRIAL / _TRIAL_CLOUD


def trial_endpoint() -> str:
    """Return the emulated cloud's last endpoint, or "" if the emulated cloud was never started."""
    try:
        return str(json.loads(trial_file().read_bytes())["endpoint"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def journal_dir(endpoint: str) -> Path:
    """Return the journal folder for the cloud at `endpoint`.

    Each cloud has a separate folder, so that trials don't mix with real costs.

    Raises:
        JournalUnwritable: see `data_dir`.
    """
    return trial_dir() if endpoint and endpoint == trial_endpoint() else data_dir()
