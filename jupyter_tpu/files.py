"""Files that only their owner can read, and that are replaced whole. Valid for Python 3.10."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

_users = -1


def close_new_files() -> None:
    """Close every file that this process makes from now on. Called first in a program, which may run it twice."""
    global _users
    if _users < 0:
        _users = os.umask(0o077)


def users_umask() -> int:
    """For `subprocess.Popen`: what it was before; -1, which leaves it, where it was not changed."""
    return _users


def write_whole(path: Path, content: bytes, *, mode: int = 0o600, is_durable: bool = False) -> None:
    """Replace the file at `path`, in a folder that is there.

    Args:
        mode: permissions of the new file; it is closed to others until they are set.
        is_durable: wait until the content is on the disk, so that not even a power cut leaves less than it.

    Raises:
        OSError: it cannot be written; the old file stays.
    """
    descriptor, draft = tempfile.mkstemp(prefix=".new-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), mode)
            if is_durable:
                os.fsync(file.fileno())
        Path(draft).replace(path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
