"""The interface to the files of one machine, implemented by `LocalFiles` and, for a node, by `ssh.FileAccess`.

Paths are bytes, because names on Linux needn't be valid UTF-8. Methods raise `OSError` with an errno for a problem with
a file, and `WorkerUnreachable` if the connection to the machine is lost.
"""

from __future__ import annotations

import posixpath
import stat
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Literal, Protocol

Kind = Literal["file", "folder", "link", "other"]

PIECE_BYTES = 4 << 20
"""Size of the pieces in which files are read and written: one per round trip, so 80 MB/s at 50 ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileInfo:
    """What a machine says about a file.

    Attributes:
        mode: the permission bits.
        modified_at: time of the last change, in whole Unix seconds, because SFTP has no fractions.
    """

    kind: Kind
    size: int
    mode: int
    modified_at: int

    @classmethod
    def of(cls, mode: int, size: int, modified_at: float) -> FileInfo:
        """Return the info for the values that ``stat`` returned."""
        return cls(kind=_kind(mode), size=size, mode=mode & 0o777, modified_at=int(modified_at))


def _kind(mode: int) -> Kind:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "other"


class OpenFile(Protocol):
    """An open file."""

    async def read(self, offset: int, size: int) -> bytes:
        """Return `size` bytes, or fewer at the end of the file."""

    async def write(self, offset: int, data: bytes) -> None:
        """Write all of `data`."""

    async def truncate(self, size: int) -> None:
        """Cut the file at `size` bytes."""

    async def info(self) -> FileInfo:
        """Return the file's current size, mode and time."""

    async def close(self) -> None:
        """Close the file."""


class Files(Protocol):
    """The files of one machine. Relative paths start in a folder that the machine defines."""

    async def info(self, path: bytes, *, follow: bool = True) -> FileInfo | None:
        """Return what `path` is, or None if it doesn't exist; of a symbolic link itself if `follow` is false."""

    def entries(self, path: bytes) -> AsyncIterator[tuple[bytes, FileInfo]]:
        """Yield the names in a folder, without ``.`` and ``..``, with what they are; links are not followed."""

    async def open_to_read(self, path: bytes) -> OpenFile:
        """Open an existing file."""

    async def open_to_write(self, path: bytes) -> OpenFile:
        """Open a file and keep its content; create it for its owner only if it doesn't exist."""

    async def make_folder(self, path: bytes) -> None:
        """Create a folder."""

    async def remove(self, path: bytes) -> None:
        """Remove a file or a link."""

    async def remove_folder(self, path: bytes) -> None:
        """Remove an empty folder."""

    async def replace(self, old: bytes, new: bytes) -> None:
        """Rename `old` to `new` in one step; a file called `new` is replaced."""

    async def move(self, old: bytes, new: bytes) -> None:
        """Rename `old` to `new`, which must not exist."""

    async def make_link(self, target: bytes, path: bytes) -> None:
        """Create a symbolic link with this text."""

    async def read_link(self, path: bytes) -> bytes:
        """Return the text of a symbolic link."""

    async def set_info(self, path: bytes, *, mode: int, modified_at: int | None = None) -> None:
        """Set the permission bits and, unless None, the time of the last change."""

    async def real_path(self, path: bytes) -> bytes:
        """Return the absolute path without symbolic links."""

    def error(self, number: int, path: bytes) -> OSError:
        """Return an error about a file of this machine."""


def joined(folder: bytes, name: bytes) -> bytes:
    """Return the path of a name in a folder; an empty folder stands for the folder where relative paths start."""
    return posixpath.join(folder, name) if folder else name


def shown_path(path: bytes) -> str:
    """Return a path as text; bytes that aren't UTF-8 are escaped."""
    return path.decode("utf-8", "backslashreplace")
