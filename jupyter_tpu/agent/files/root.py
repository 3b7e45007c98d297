"""The served folder: opens what is in it one name after the other, so that no symbolic link leads out of it."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
from contextlib import suppress
from pathlib import Path

from jupyter_tpu.agent.files.exchange import Place
from jupyter_tpu.wire.file_messages import OWN_FOLDER

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class RootGone(Exception):
    """The served folder was deleted, moved or replaced since the replica was started."""


class RootBusy(Exception):
    """Another program serves the folder."""


class Root:
    """The served folder, open.

    Attributes:
        descriptor: of the folder.
        device: the file system; what is mounted in the folder is not served.
        staging: descriptor of the folder in which new files are written, on the same file system.
        replaced: descriptor of the folder with what was replaced or deleted.
        own: descriptor of the replica's own folder, which contains these two.

    Raises:
        OSError: the folder doesn't exist, or can't be written.
        RootBusy: another program serves it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.device = os.fstat(self.descriptor).st_dev
        self.own = self._own_folder(self.descriptor, OWN_FOLDER)
        try:  # until this process exits
            fcntl.flock(self.own, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RootBusy(str(path)) from error
        self.staging = self._own_folder(self.own, "staging")
        self.replaced = self._own_folder(self.own, "replaced")
        self._parent = ""
        self._parent_descriptor = self.descriptor

    @property
    def identity(self) -> tuple[int, int]:
        """The device and inode of the folder."""
        found = os.fstat(self.descriptor)
        return found.st_dev, found.st_ino

    def check(self) -> None:
        """Raise `RootGone` if the path no longer leads to the folder that was opened."""
        try:
            found = self._path.stat()
        except OSError as error:
            raise RootGone(str(self._path)) from error
        if (found.st_dev, found.st_ino) != self.identity:
            raise RootGone(str(self._path))

    def place(self, path: str) -> Place:
        """Return the place of a path; its folder stays open until the next call.

        Raises:
            OSError: the folder that should contain it doesn't exist, or is a symbolic link.
        """
        parent, _, name = path.rpartition("/")
        if parent != self._parent or not self._is_current():
            self.forget_parent()
            descriptor = self.open_folder(parent) if parent else self.descriptor
            self._parent, self._parent_descriptor = parent, descriptor
        return Place(self._parent_descriptor, name)

    def _is_current(self) -> bool:
        """Whether the folder of the last path is still there: a program may have moved it out of the served folder."""
        if not self._parent:
            return True
        with suppress(OSError):
            found = os.stat(self._parent, dir_fd=self.descriptor, follow_symlinks=False)
            held = os.fstat(self._parent_descriptor)
            return (found.st_dev, found.st_ino) == (held.st_dev, held.st_ino)
        return False

    def forget_parent(self) -> None:
        """Close the folder of the last path."""
        if self._parent:
            os.close(self._parent_descriptor)
        self._parent, self._parent_descriptor = "", self.descriptor

    def open_folder(self, path: str) -> int:
        """Open a folder; the caller closes it.

        Raises:
            OSError: it doesn't exist, or a part of its path is not a folder.
        """
        descriptor = os.dup(self.descriptor)
        for name in path.split("/"):
            try:
                inner = os.open(name, _FOLDER, dir_fd=descriptor)
            finally:
                os.close(descriptor)
            descriptor = inner
            if os.fstat(descriptor).st_dev != self.device:
                os.close(descriptor)
                raise OSError(errno.EXDEV, "something else is mounted there", name)
        return descriptor

    def open_file(self, path: str) -> int:
        """Open a regular file for reading; the caller closes it."""
        place = self.place(path)
        # a pipe with no writer must not stop the program
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        return os.open(place.name, flags, dir_fd=place.folder)

    def stat(self, path: str) -> os.stat_result | None:
        """Return the facts of a path, or None if there is nothing."""
        try:
            place = self.place(path)
            return os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if error.errno == errno.ELOOP:  # a folder was replaced by a link
                return None
            raise

    def now(self) -> int:
        """Return the time of the file system in nanoseconds, which may be another machine's, as for NFS."""
        name = f"time-{secrets.token_hex(4)}"
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=self.own)
        try:
            return os.fstat(descriptor).st_mtime_ns
        finally:
            os.close(descriptor)
            os.unlink(name, dir_fd=self.own)

    def aside(self, name: str) -> Place:
        """Return a free place in the folder `replaced`."""
        return Place(self.replaced, f"{secrets.token_hex(4)}-{name[:60]}")

    @staticmethod
    def _own_folder(parent: int, name: str) -> int:
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=parent)
        return os.open(name, _FOLDER, dir_fd=parent)
