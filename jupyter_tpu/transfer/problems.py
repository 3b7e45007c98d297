"""Errors of files as `TpuError`, with what to do."""

from __future__ import annotations

import errno

from jupyter_tpu.errors import FileFailed, Text
from jupyter_tpu.transfer.files import shown_path


def file_failed(error: OSError) -> FileFailed:
    """Return the error for a file that can't be read or written."""
    path = error.filename
    file = shown_path(path) if isinstance(path, bytes) else str(path or "")
    message, hint = _TEXTS.get(error.errno or 0, (_UNEXPECTED, ""))
    message = message.with_arguments(file=file, reason=error.strerror or str(error))
    return FileFailed(message, hint=hint, raw=repr(error))


_UNEXPECTED = Text("{file} can't be read or written: {reason}.")
_DENIED = (Text("Permission denied: {file}"), "Check the permissions of the file and its folder.")
_BAD_NAME = (Text("The name {file} is not possible there."), "Choose another name.")
_FULL_HINT = "Free disk space, then run the same command again."
_TEXTS = {
    errno.ENOENT: (Text("{file} does not exist."), "Check the path."),
    errno.ENOTDIR: (Text("{file} is not a folder."), "Check the path."),
    errno.EISDIR: (Text("{file} is a folder."), "Choose a file."),
    errno.ENXIO: (Text("{file} is a device, pipe or socket."), "Choose a file."),
    errno.EEXIST: (Text("{file} already exists."), "Choose another name."),
    errno.EACCES: _DENIED,
    errno.EPERM: _DENIED,
    errno.EROFS: (Text("{file} is on a read-only file system."), "Choose another folder."),
    errno.ENOSPC: (Text("The disk is full: {file} was not written."), _FULL_HINT),
    errno.EDQUOT: (Text("The disk quota is used up: {file} was not written."), _FULL_HINT),
    errno.EFBIG: (Text("{file} is larger than a file can be there."), "Choose another folder."),
    errno.EBUSY: (Text("{file} changed while it was copied."), "Run the same command again when it is complete."),
    errno.ENAMETOOLONG: _BAD_NAME,
    errno.EINVAL: _BAD_NAME,
    errno.ELOOP: (Text("{file} is a symbolic link that leads to itself."), ""),
}
