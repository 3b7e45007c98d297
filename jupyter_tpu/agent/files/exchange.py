"""Rename files without ever overwriting one, with the system calls of Linux and macOS that Python doesn't offer."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

# the function in the C library, and its flags for "exchange" and "fail if the new name exists"
_SYSTEMS = {"linux": ("renameat2", 2, 1), "darwin": ("renameatx_np", 2, 4)}
# the file system or the system call filter of a container does not know the call
_UNSUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EPERM)


class Place(NamedTuple):
    """A name in an open folder."""

    folder: int
    name: str


def rename_new(source: Place, target: Place) -> None:
    """Rename a file, link or folder to a name that is free.

    Raises:
        FileExistsError: something has that name; nothing has changed.
        OSError: it can't be renamed; nothing has changed.
    """
    if _rename(source, target, is_exchange=False):
        return
    try:  # atomic too, but not for folders, nor on every file system
        os.link(source.name, target.name, src_dir_fd=source.folder, dst_dir_fd=target.folder, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:
        if _exists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target.name) from None
        os.rename(source.name, target.name, src_dir_fd=source.folder, dst_dir_fd=target.folder)
    else:
        os.unlink(source.name, dir_fd=source.folder)


def _exists(place: Place) -> bool:
    try:
        os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def exchange(new: Place, old: Place) -> bool:
    """Exchange two files in one step; return False where that isn't possible, and nothing has changed.

    Raises:
        OSError: one of them doesn't exist, or the disk is read-only.
    """
    return _rename(new, old, is_exchange=True)


def _rename(source: Place, target: Place, *, is_exchange: bool) -> bool:
    call, exchange_flag, new_flag = _call()
    if call is None:
        return False
    flag = exchange_flag if is_exchange else new_flag
    if call(source.folder, os.fsencode(source.name), target.folder, os.fsencode(target.name), flag) == 0:
        return True
    code = ctypes.get_errno()
    if code in _UNSUPPORTED:
        return False
    raise OSError(code, os.strerror(code), target.name)


@cache
def _call() -> tuple[Callable[..., int] | None, int, int]:
    name, exchange_flag, new_flag = _SYSTEMS.get(sys.platform, ("", 0, 0))
    try:
        function = getattr(ctypes.CDLL(None, use_errno=True), name)
    except (AttributeError, OSError, TypeError):
        return None, 0, 0
    function.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    return function, exchange_flag, new_flag


def sync_file_system(folder: int) -> None:
    """Write what was changed on the file system of an open folder to the disk."""
    try:
        call = ctypes.CDLL(None, use_errno=True).syncfs
    except (AttributeError, OSError, TypeError):
        os.sync()
        return
    if call(folder):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
