"""The files of a worker over SFTP, in a session of an existing SSH connection.

OpenSSH's server says only "Failure" for most problems (SFTP version 3 has no words for them), so after a failure we
look at the file and the disk to find the reason.
"""

from __future__ import annotations

import errno
import os
import posixpath
import stat
from collections.abc import AsyncIterator, Awaitable
from typing import TypeVar

import asyncssh

from jupyter_tpu.ssh.stream import connection_lost
from jupyter_tpu.transfer.files import FileInfo

T = TypeVar("T")

_ERRNO: dict[type[asyncssh.SFTPError], int] = {
    asyncssh.SFTPNoSuchFile: errno.ENOENT,
    asyncssh.SFTPNoSuchPath: errno.ENOENT,
    asyncssh.SFTPPermissionDenied: errno.EACCES,
    asyncssh.SFTPWriteProtect: errno.EROFS,
    asyncssh.SFTPFileAlreadyExists: errno.EEXIST,
    asyncssh.SFTPNoSpaceOnFilesystem: errno.ENOSPC,
    asyncssh.SFTPQuotaExceeded: errno.EDQUOT,
    asyncssh.SFTPDirNotEmpty: errno.ENOTEMPTY,
    asyncssh.SFTPNotADirectory: errno.ENOTDIR,
    asyncssh.SFTPFileIsADirectory: errno.EISDIR,
    asyncssh.SFTPInvalidFilename: errno.EINVAL,
    asyncssh.SFTPLinkLoop: errno.ELOOP,
    asyncssh.SFTPOpUnsupported: errno.ENOSYS,
    asyncssh.SFTPBadMessage: errno.EINVAL,  # OpenSSH's answer to a name that is too long
}
_LOST = (asyncssh.SFTPConnectionLost, asyncssh.SFTPNoConnection)
# A disk with less free space counts as full after a failed write: a request has up to 256 KiB.
_FULL_BYTES = 1 << 20
_ST_RDONLY = 1
_LONGEST_NAME = 255  # bytes, on all file systems of Linux
_TO_WRITE = asyncssh.FXF_READ | asyncssh.FXF_WRITE | asyncssh.FXF_CREAT


class FileAccess:
    """The files of a worker; see `transfer.files.Files`. Relative paths start in the user's home folder there.

    Args:
        machine: the name before paths in errors, as in ``my-node:data``; may be empty.

    Attributes:
        is_lost: whether a request has failed because the session or the connection is closed.
    """

    def __init__(self, client: asyncssh.SFTPClient, machine: str = "") -> None:
        self.is_lost = False
        self._client = client
        self._prefix = f"{machine}:".encode() if machine else b""

    async def info(self, path: bytes, *, follow: bool = True) -> FileInfo | None:
        """See `Files.info`."""
        request = self._client.stat if follow else self._client.lstat
        try:
            return _info(await self._done(request(path or b"."), path))
        except (FileNotFoundError, NotADirectoryError):
            return None

    async def entries(self, path: bytes) -> AsyncIterator[tuple[bytes, FileInfo]]:
        """See `Files.entries`."""
        # not an `async for`, because only the errors of the next request are translated
        names = self._client.scandir(path or b".")
        try:
            while True:
                entry = await self._done(anext(names, None), path)
                if entry is None:
                    return
                name = entry.filename
                assert isinstance(name, bytes)
                if name not in (b".", b".."):
                    yield name, _info(entry.attrs)
        finally:
            await self._done(names.aclose(), path)  # type: ignore[attr-defined]

    async def open_to_read(self, path: bytes) -> RemoteFile:
        """See `Files.open_to_read`."""
        file = await self._done(self._client.open(path, asyncssh.FXF_READ, encoding=None), path)
        return RemoteFile(self, file, path)

    async def open_to_write(self, path: bytes) -> RemoteFile:
        """See `Files.open_to_write`."""
        owner_only = asyncssh.SFTPAttrs(permissions=0o600)
        file = await self._done(self._client.open(path, _TO_WRITE, owner_only, encoding=None), path)
        return RemoteFile(self, file, path)

    async def make_folder(self, path: bytes) -> None:
        """See `Files.make_folder`."""
        await self._done(self._client.mkdir(path), path, if_there=errno.EEXIST)

    async def remove(self, path: bytes) -> None:
        """See `Files.remove`."""
        await self._done(self._client.remove(path), path)

    async def remove_folder(self, path: bytes) -> None:
        """See `Files.remove_folder`."""
        await self._done(self._client.rmdir(path), path, if_there=errno.ENOTEMPTY)

    async def replace(self, old: bytes, new: bytes) -> None:
        """See `Files.replace`."""
        await self._done(self._client.posix_rename(old, new), new)

    async def move(self, old: bytes, new: bytes) -> None:
        """See `Files.move`."""
        await self._done(self._client.rename(old, new), new, if_there=errno.EEXIST)

    async def make_link(self, target: bytes, path: bytes) -> None:
        """See `Files.make_link`."""
        await self._done(self._client.symlink(target, path), path, if_there=errno.EEXIST)

    async def read_link(self, path: bytes) -> bytes:
        """See `Files.read_link`."""
        text = await self._done(self._client.readlink(path), path)
        assert isinstance(text, bytes)
        return text

    async def set_info(self, path: bytes, *, mode: int, modified_at: int | None = None) -> None:
        """See `Files.set_info`."""
        times = {} if modified_at is None else {"atime": modified_at, "mtime": modified_at}
        await self._done(self._client.setstat(path, asyncssh.SFTPAttrs(permissions=mode, **times)), path)

    async def real_path(self, path: bytes) -> bytes:
        """See `Files.real_path`."""
        found = await self._done(self._client.realpath(path or b"."), path)
        assert isinstance(found, bytes)
        return found

    def error(self, number: int, path: bytes, reason: str = "") -> OSError:
        """See `Files.error`."""
        return OSError(number, reason or os.strerror(number), self._prefix + path)

    async def close(self) -> None:
        """Close the SFTP session; the SSH connection stays open."""
        self._client.exit()
        await self._client.wait_closed()

    async def _done(self, request: Awaitable[T], path: bytes, *, if_there: int = 0) -> T:
        """Await a request and translate its error.

        Args:
            if_there: the errno for an unexplained failure if `path` exists.
        """
        try:
            return await request
        except _LOST as error:
            self.is_lost = True
            raise connection_lost(error) from error
        except asyncssh.SFTPError as error:
            number = _ERRNO.get(type(error)) or await self._reason(path, if_there)
            raise self.error(number, path, error.reason if number == errno.EIO else "") from error
        except (OSError, asyncssh.Error) as error:
            self.is_lost = True
            raise connection_lost(error) from error

    async def _reason(self, path: bytes, if_there: int) -> int:
        """Return the errno of an unexplained failure."""
        if len(posixpath.basename(path)) > _LONGEST_NAME:
            return errno.ENAMETOOLONG
        try:
            itself = await self._info_or_none(path)
            if if_there and itself:
                return if_there
            if itself and itself.kind == "folder":
                return errno.EISDIR
            disk = await self._client.statvfs(posixpath.dirname(path) or b".")
        except _LOST as error:
            raise connection_lost(error) from error
        except asyncssh.SFTPError:
            return errno.EIO
        if disk.flags & _ST_RDONLY:
            return errno.EROFS
        is_full = disk.bavail * disk.frsize < _FULL_BYTES or (disk.files and not disk.favail)
        return errno.ENOSPC if is_full else errno.EIO

    async def _info_or_none(self, path: bytes) -> FileInfo | None:
        try:
            return _info(await self._client.stat(path or b"."))
        except (asyncssh.SFTPNoSuchFile, asyncssh.SFTPNoSuchPath):
            return None


class RemoteFile:
    """An open file of a worker; see `transfer.files.OpenFile`."""

    def __init__(self, files: FileAccess, file: asyncssh.SFTPClientFile, path: bytes) -> None:
        self._files = files
        self._file = file
        self._path = path

    async def read(self, offset: int, size: int) -> bytes:
        """See `OpenFile.read`."""
        return await self._files._done(self._file.read(size, offset), self._path)

    async def write(self, offset: int, data: bytes) -> None:
        """See `OpenFile.write`."""
        await self._files._done(self._file.write(data, offset), self._path)

    async def truncate(self, size: int) -> None:
        """See `OpenFile.truncate`."""
        await self._files._done(self._file.truncate(size), self._path)

    async def info(self) -> FileInfo:
        """See `OpenFile.info`."""
        return _info(await self._files._done(self._file.stat(), self._path))

    async def close(self) -> None:
        """See `OpenFile.close`."""
        await self._files._done(self._file.close(), self._path)


def _info(attrs: asyncssh.SFTPAttrs) -> FileInfo:
    mode = attrs.permissions or stat.S_IFREG
    return FileInfo.of(mode, attrs.size or 0, attrs.mtime or 0)
