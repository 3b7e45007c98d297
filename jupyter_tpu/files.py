"""Write files that only their owner can read and replace them atomically. Runs on Python 3.10."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

# The process's umask before `close_new_files`; -1 until then. Kernels and shells must use the user's own umask.
_users_umask = -1


def close_new_files() -> None:
    """Set the umask, so that only the user can read the files that this process creates from now on.

    Call this first in a program; a second call has no effect.
    """
    global _users_umask
    if _users_umask < 0:
        _users_umask = os.umask(0o077)


def users_umask() -> int:
    """Return the umask that `close_new_files` replaced, for `subprocess.Popen`; -1 (no change) if it was not called."""
    return _users_umask


def write_whole(path: Path, content: bytes, *, mode: int = 0o600, is_durable: bool = False) -> None:
    """Replace the file at `path` atomically; its folder must exist.

    Args:
        mode: permissions of the new file, which is private until they are set.
        is_durable: whether to wait until the content is on the disk, so that even a power failure leaves no partial
            file.

    Raises:
        OSError: the file can't be written; the old file is unchanged.
    """
    # Use the same folder, because a rename is atomic only within one file system.
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
