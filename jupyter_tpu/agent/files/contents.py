"""Read the contents of files, and write new contents to the staging folder, from where they are renamed to their place.

A large file arrives in pieces in ``staging/DIGEST.part``: its length says where to go on after a disconnect. Only a
file that has the expected digest is ever renamed.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from jupyter_tpu.agent.files.exchange import Place
from jupyter_tpu.agent.files.index import Index, Row, file_row
from jupyter_tpu.agent.files.root import Root
from jupyter_tpu.agent.files.scan import digest_of
from jupyter_tpu.wire.file_messages import DATA_BYTES, checked_digest, checked_entry, checked_number, checked_path
from jupyter_tpu.wire.frames import ProtocolError

BLOCK_BYTES = 128 * 1024
_NEW = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_BLOCKS = 7_000  # a file with more has so large blocks that the digests fit into a message


class Changed(Exception):
    """Something else is at a path than the client expects: a program changed it since the scan."""


class Contents:
    """The contents of files in the folder and in the staging folder."""

    def __init__(self, root: Root, index: Index) -> None:
        self._root = root
        self._index = index
        self._digest = ""  # of the file that is being written
        self._hashed = hashlib.sha256()
        self._hashed_bytes = 0
        # rows of the files in each folder that is built in the staging folder
        self.units: dict[str, dict[str, Row]] = {}

    def place(self, digest: str) -> Place:
        """Return the place of a complete content."""
        return Place(self._root.staging, digest)

    # --- reading

    def open(self, path: str, digest: str) -> int:
        """Open a file that still has a digest; raise `Changed` if it doesn't."""
        row = self._index.rows.get(path)
        try:
            descriptor = self._root.open_file(path)
        except OSError as error:
            raise Changed(path) from error
        if row is None or row.text != digest or not row.is_content_of(os.fstat(descriptor)):
            os.close(descriptor)
            raise Changed(path)
        return descriptor

    def read(self, path: str, digest: str, offset: int) -> tuple[int, bytes]:
        """Return the length of the hole at an offset of a file and no data, or 0 and a piece of the file."""
        descriptor = self.open(path, digest)
        try:
            hole = _hole(descriptor, offset)
            return (hole, b"") if hole else (0, os.pread(descriptor, DATA_BYTES, offset))
        finally:
            os.close(descriptor)

    def read_many(self, files: Sequence[tuple[str, str]]) -> tuple[list[int], bytes]:
        """Return the sizes of small files, -1 for those that changed or don't fit any more, and their contents."""
        sizes, pieces, room = [], [], DATA_BYTES
        for path, digest in files:
            try:
                descriptor = self.open(path, digest)
            except Changed:
                sizes.append(-1)
                continue
            try:
                data = os.read(descriptor, room + 1)
            finally:
                os.close(descriptor)
            if len(data) > room:
                sizes.append(-1)
                continue
            room -= len(data)
            sizes.append(len(data))
            pieces.append(data)
        return sizes, b"".join(pieces)

    def blocks(self, path: str, digest: str) -> tuple[int, list[str], list[str]]:
        """Return the block size and the digests of a file's blocks, counted from its start and from its end."""
        descriptor = self.open(path, digest)
        try:
            size = os.fstat(descriptor).st_size
            block = BLOCK_BYTES * max(1, -(-size // (BLOCK_BYTES * _MOST_BLOCKS)))
            starts = range(0, size - block + 1, block)
            head = [_block(descriptor, start, block) for start in starts]
            tail = (
                head[::-1]
                if size % block == 0
                else [_block(descriptor, size - start - block, block) for start in starts]
            )
            return block, head, tail
        finally:
            os.close(descriptor)

    # --- writing

    def staged(self, digest: str) -> tuple[bool, int]:
        """Return whether a content is complete, and how many bytes of it are there."""
        for name in (digest, f"{digest}.part"):
            with suppress(FileNotFoundError):
                found = os.stat(name, dir_fd=self._root.staging, follow_symlinks=False)
                return name == digest, found.st_size
        return False, 0

    def write(self, digest: str, size: int, offset: int, data: bytes) -> None:
        """Write a piece of a content; the last piece completes it.

        Raises:
            ProtocolError: the content doesn't have the digest, or a piece is missing.
            OSError: the disk is full.
        """
        self._extend(digest, size, offset, (data,))

    def write_hole(self, digest: str, size: int, offset: int, length: int) -> None:
        """Leave a hole in a content."""
        self._extend(digest, size, offset, _zeros(length), is_hole=True)

    def copy(self, digest: str, size: int, offset: int, source: tuple[str, str], start: int, length: int) -> None:
        """Copy a piece of a content from a file in the folder, given by its path and digest."""
        descriptor = self.open(*source)
        try:
            self._extend(digest, size, offset, _pieces(descriptor, start, length))
        finally:
            os.close(descriptor)

    def _extend(self, digest: str, size: int, offset: int, pieces: Any, *, is_hole: bool = False) -> None:
        name = f"{digest}.part"
        descriptor = os.open(name, _NEW, 0o666, dir_fd=self._root.staging)
        try:
            if os.fstat(descriptor).st_size < offset:
                raise ProtocolError(f"{offset} bytes of a content are missing")
            os.ftruncate(descriptor, offset)
            if self._digest != digest or self._hashed_bytes != offset:
                self._digest, self._hashed, self._hashed_bytes = digest, hashlib.sha256(), -1 if offset else 0
            position = offset
            for piece in pieces:
                if position + len(piece) > size:
                    raise ProtocolError("a content is longer than announced")
                if is_hole:
                    position += len(piece)
                else:
                    position += _write(descriptor, piece, position)
                if self._hashed_bytes >= 0:
                    self._hashed.update(piece)
            if is_hole:
                os.ftruncate(descriptor, position)
            self._hashed_bytes = position if self._hashed_bytes >= 0 else -1
            if position == size:
                self._complete(descriptor, name, digest)
        finally:
            os.close(descriptor)

    def _complete(self, descriptor: int, name: str, digest: str) -> None:
        if self._hashed_bytes < 0:  # only its end was written by this process
            os.lseek(descriptor, 0, os.SEEK_SET)
            found = digest_of(descriptor)
        else:
            found = self._hashed.hexdigest()
        self._digest = ""
        if found != digest:
            os.unlink(name, dir_fd=self._root.staging)
            raise ProtocolError("a content does not have its digest")
        os.rename(name, digest, src_dir_fd=self._root.staging, dst_dir_fd=self._root.staging)

    def write_many(self, files: Sequence[tuple[str, int]], data: bytes) -> None:
        """Write several small contents, given by digest and size, whose data is joined."""
        for digest, content in _parts(files, data):
            self._write_new(Place(self._root.staging, digest), digest, content)

    def build(self, unit: str, entries: object, data: bytes) -> None:
        """Write files to a new folder in the staging folder, which is then renamed to its place as a whole.

        If a part of it can't be written, none of it stays.

        Args:
            entries: paths in the new folder with their entries, in the order of their data. A file without data in
                this message is complete in the staging folder already; its entry is followed by False.
        """
        name = unit_name(unit)
        rows = self.units.get(name)
        if rows is None:
            os.mkdir(name, 0o777, dir_fd=self._root.staging)
            rows = self.units[name] = {}
        folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._root.staging)
        try:
            position = 0
            for path, entry, has_data in _checked_entries(entries):
                parent = path.rpartition("/")[0]
                if path in rows or (parent and (parent not in rows or rows[parent].kind != "d")):
                    raise ProtocolError("an entry of a new folder is in no folder")
                size = entry[2] if entry[0] == "f" and has_data else 0
                content = data[position : position + size] if has_data else None
                rows[path] = self._build_entry(folder, path, entry, content)
                position += size
            if position != len(data):
                raise ProtocolError("a new folder has other data than announced")
        except BaseException:
            del self.units[name]
            remove_tree(Place(self._root.staging, name))
            raise
        finally:
            os.close(folder)

    def _build_entry(self, folder: int, path: str, entry: list[Any], data: bytes | None) -> Row:
        # the staging folder is the replica's own, so that there are no links that could lead out of it
        if entry[0] == "d":
            os.mkdir(path, 0o777, dir_fd=folder)
            return Row("d")
        if entry[0] == "l":
            os.symlink(entry[1], path, dir_fd=folder)
            return Row("l", entry[1])
        _, digest, size, is_executable = entry
        if data is None:
            os.rename(digest, path, src_dir_fd=self._root.staging, dst_dir_fd=folder)
        elif len(data) != size:
            raise ProtocolError("a file of a new folder has less data than announced")
        else:
            self._write_new(Place(folder, path), digest, data)
        if is_executable:
            found = os.stat(path, dir_fd=folder, follow_symlinks=False)
            os.chmod(path, executable_mode(found.st_mode, is_executable=True), dir_fd=folder)
        return file_row(digest, os.stat(path, dir_fd=folder, follow_symlinks=False))

    @staticmethod
    def _write_new(place: Place, digest: str, content: bytes) -> None:
        if hashlib.sha256(content).hexdigest() != digest:
            raise ProtocolError("a content does not have its digest")
        descriptor = os.open(place.name, _NEW | os.O_TRUNC, 0o666, dir_fd=place.folder)
        try:
            _write(descriptor, content, 0)
        except OSError:  # the disk is full
            os.unlink(place.name, dir_fd=place.folder)
            raise
        finally:
            os.close(descriptor)

    def copy_whole(self, path: str, digest: str) -> None:
        """Copy a file of the folder to the staging folder."""
        descriptor = self.open(path, digest)
        try:
            size = os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)
        if size:
            self.copy(digest, size, 0, (path, digest), 0, size)
        else:
            self.write(digest, 0, 0, b"")

    def discard(self) -> None:
        """Delete the folders that were being built by an earlier process. Contents stay for a resumed transfer."""
        self.units.clear()
        for name in names_in(self._root.staging):
            if len(name) == len(hashlib.sha256().hexdigest()):
                # a power failure may have left a complete file without its content, so its digest is checked again
                os.rename(name, f"{name}.part", src_dir_fd=self._root.staging, dst_dir_fd=self._root.staging)
            elif not name.endswith(".part"):
                remove_tree(Place(self._root.staging, name))


def unit_name(unit: object) -> str:
    """Return the name in the staging folder of a folder that is being built."""
    return f"new-{checked_digest(unit)[:32]}"


def executable_mode(mode: int, *, is_executable: bool) -> int:
    """Return the permissions with the right to execute for all who may read, or for nobody."""
    mode = stat.S_IMODE(mode) & 0o777
    return mode | (mode & 0o444) >> 2 if is_executable else mode & ~0o111


def remove_tree(place: Place) -> None:
    """Delete a file or a folder with all that is in it, as far as possible."""
    with suppress(OSError):
        found = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
        if not stat.S_ISDIR(found.st_mode):
            os.unlink(place.name, dir_fd=place.folder)
            return
        descriptor = os.open(place.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=place.folder)
        try:
            for name in names_in(descriptor):
                remove_tree(Place(descriptor, name))
        finally:
            os.close(descriptor)
        os.rmdir(place.name, dir_fd=place.folder)


def names_in(folder: int) -> list[str]:
    """Return the names in an open folder."""
    with os.scandir(folder) as entries:
        return [each.name for each in entries]


def _checked_entries(entries: object) -> Iterator[tuple[str, list[Any], bool]]:
    for each in entries if isinstance(entries, list) else ():
        match each:
            case [path, list(entry), bool(has_data)] if entry and entry[0] != "b":
                # links are checked again when the folder is renamed, because its place is not known here
                found = checked_entry(f"{'x/' * 100}{checked_path(path)}", entry)
                assert found is not None
                yield path, found, has_data
            case _:
                raise ProtocolError("not an entry of a new folder")


def _parts(files: Sequence[tuple[str, int]], data: bytes) -> Iterator[tuple[str, bytes]]:
    position = 0
    for digest, size in files:
        yield checked_digest(digest), data[position : position + checked_number(size, DATA_BYTES)]
        position += size
    if position != len(data):
        raise ProtocolError("several contents have other data than announced")


def _write(descriptor: int, data: bytes, position: int) -> int:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, position)
        view, position = view[written:], position + written
    return len(data)


def _pieces(descriptor: int, start: int, length: int) -> Iterator[bytes]:
    while length:
        data = os.pread(descriptor, min(length, DATA_BYTES), start)
        if not data:
            raise Changed
        yield data
        start, length = start + len(data), length - len(data)


def _zeros(length: int) -> Iterator[bytes]:
    zeros = bytes(min(length, DATA_BYTES))
    while length:
        yield zeros[:length]
        length -= min(length, DATA_BYTES)


def _hole(descriptor: int, offset: int) -> int:
    """Return how many bytes from an offset on are a hole; 0 where the file system doesn't know."""
    size = os.fstat(descriptor).st_size
    try:
        data = os.lseek(descriptor, offset, os.SEEK_DATA) if offset < size else size
    except OSError:
        data = size  # ENXIO: no data until the end
        with suppress(OSError):
            if os.lseek(descriptor, 0, os.SEEK_HOLE) > offset:
                data = offset
    return max(0, data - offset)


def _block(descriptor: int, start: int, length: int) -> str:
    return hashlib.sha256(os.pread(descriptor, length, start)).hexdigest()
