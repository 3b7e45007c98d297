"""Walk through the folder and bring the index up to date; only files whose facts changed are read."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from dataclasses import dataclass, field

from jupyter_tpu.agent.files.exchange import Place
from jupyter_tpu.agent.files.index import Index, Row, file_row, verified
from jupyter_tpu.agent.files.root import Root
from jupyter_tpu.agent.files.rules import IsIgnored
from jupyter_tpu.wire.file_messages import OWN_FOLDER, stays_inside

_PIECE_BYTES = 1024 * 1024
_ATTEMPTS = 3  # to read a file that changes in the meantime
_DEEPEST = 200  # folders in each other; bounds the recursion here and on the client


class Changing(Exception):
    """A file changed while it was read."""


@dataclass(frozen=True, slots=True)
class Scan:
    """One walk.

    Args:
        most_bytes: larger files are not synced; 0 for no limit.
        started_ns: the time of the file system at the start.
    """

    root: Root
    index: Index
    is_ignored: IsIgnored
    most_bytes: int
    started_ns: int
    seen: set[str] = field(default_factory=set)

    def run(self) -> None:
        """Bring the index up to date."""
        # opened again, because a copy of the descriptor would share its position
        descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.root.descriptor)
        self._walk(descriptor, "", 1)
        for path in [path for path in self.index.rows if path not in self.seen]:
            self.index.remove(path)

    def _walk(self, descriptor: int, path: str, depth: int) -> bool:
        """Add what is in an open folder, and close it; return whether the folder exists for the client.

        A folder with nothing but ignored files does not. Otherwise, a deleted package would stay on the other side
        because of its ``__pycache__``, and would then come back.
        """
        has_ignored = has_others = False
        try:
            with os.scandir(descriptor) as found:
                names = sorted((each.name, each.is_dir(follow_symlinks=False)) for each in found)
            for name, is_folder in names:
                each = path + name
                if name == OWN_FOLDER or self.is_ignored(f"{each}/" if is_folder else each):
                    has_ignored = True
                else:
                    is_there = self._add(Place(descriptor, name), each, depth)
                    has_others, has_ignored = has_others or is_there, has_ignored or not is_there
        finally:
            os.close(descriptor)
        return has_others or not has_ignored

    def _add(self, place: Place, path: str, depth: int) -> bool:
        try:
            found = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode) and found.st_dev == self.root.device and depth < _DEEPEST:
                return self._add_folder(place, path, depth)
            row = self._row(place, path, found)
        except FileNotFoundError:  # deleted since the folder was read
            return True
        except OSError as error:
            row = Row("b", "unreadable" if error.errno in (errno.EACCES, errno.EPERM) else "error")
        except Changing:
            row = Row("b", "changing")
        self._put(path, row)
        return True

    def _add_folder(self, place: Place, path: str, depth: int) -> bool:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(place.name, flags, dir_fd=place.folder)
        exists = self._walk(descriptor, f"{path}/", depth + 1)
        if exists:
            self._put(path, Row("d"))
        return exists

    def _put(self, path: str, row: Row) -> None:
        self.seen.add(path)
        self.index.put(path, row)

    def _row(self, place: Place, path: str, found: os.stat_result) -> Row:
        if stat.S_ISREG(found.st_mode):
            if self.most_bytes and found.st_size > self.most_bytes:
                return Row("b", "large", found.st_size)
            known = self.index.rows.get(path)
            if known is not None and known.kind == "f" and known.is_of(found):
                return known._replace(mode=found.st_mode & 0o777)
            return self._read(place)
        if stat.S_ISLNK(found.st_mode):
            target = os.readlink(place.name, dir_fd=place.folder)
            return Row("l", target) if stays_inside(path, target) else Row("b", "link_out")
        return Row("b", "mount" if stat.S_ISDIR(found.st_mode) else "special")

    def _read(self, place: Place) -> Row:
        for _ in range(_ATTEMPTS):
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
            descriptor = os.open(place.name, flags, dir_fd=place.folder)
            try:
                before = os.fstat(descriptor)
                digest = digest_of(descriptor)
                after = os.fstat(descriptor)
            finally:
                os.close(descriptor)
            if facts(before) == facts(after):
                return verified(file_row(digest, after), self.started_ns)
        raise Changing


def facts(found: os.stat_result) -> tuple[int, ...]:
    """Return what changes when a file is written."""
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


def digest_of(descriptor: int) -> str:
    """Return the SHA-256 of an open file, in hexadecimal."""
    digest = hashlib.sha256()
    while data := os.read(descriptor, _PIECE_BYTES):
        digest.update(data)
    return digest.hexdigest()
