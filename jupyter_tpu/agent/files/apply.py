"""Perform the actions of a sync, each only if what it replaces is still what the client expects.

A file is exchanged with its new version in one step, and then what came out is compared with what was expected. If
somebody changed it in the last moment, it is exchanged back. What was replaced or deleted is kept for a week.
"""

from __future__ import annotations

import errno
import os
import stat
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from jupyter_tpu.agent.files.contents import Changed, Contents, executable_mode, unit_name
from jupyter_tpu.agent.files.exchange import Place, exchange, rename_new
from jupyter_tpu.agent.files.index import UNVERIFIED, Index, Row, file_row, verified
from jupyter_tpu.agent.files.root import Root
from jupyter_tpu.agent.files.scan import digest_of
from jupyter_tpu.wire.file_messages import checked_digest, checked_entry, checked_path, stays_inside
from jupyter_tpu.wire.frames import ProtocolError

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Apply:
    """Performs actions.

    Attributes:
        touched: paths of files that were written since the disk was synced.
        has_units: whether whole folders were written as well.
    """

    def __init__(self, root: Root, index: Index, contents: Contents) -> None:
        self._root = root
        self._index = index
        self._contents = contents
        self.touched: set[str] = set()
        self.has_units = False

    def perform(self, action: object) -> str:
        """Perform an action; return "" if it was done, otherwise the reason why nothing was changed.

        Reasons: ``changed`` (something else is there), ``disk_full``, or the system's words.

        Raises:
            ProtocolError: it is no action.
        """
        try:
            self._operation(action)()
        except (Changed, FileExistsError, FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return "changed"
        except OSError as error:
            if error.errno in DISK_FULL:
                return "disk_full"
            return "changed" if error.errno == errno.ELOOP else error.strerror or "error"
        return ""

    def _operation(self, action: object) -> Callable[[], None]:
        match action:
            case ["folder", path]:
                return partial(self._make_folder, checked_path(path))
            case ["unit", path, unit]:
                return partial(self._publish, checked_path(path), unit_name(unit))
            case ["put", str(path), entry, old, source]:
                return self._put(checked_path(path), _leaf(path, entry), checked_entry(path, old), source)
            case ["move", path, new_path]:
                return partial(self._move, checked_path(path), checked_path(new_path))
            case ["delete", str(path), old]:
                return partial(self._delete, checked_path(path), _leaf(path, old))
            case ["delete_folder", path]:
                return partial(self._delete_folder, checked_path(path))
        raise ProtocolError(f"not an action: {str(action)[:80]!r}")

    def _make_folder(self, path: str) -> None:
        place = self._root.place(path)
        try:
            os.mkdir(place.name, 0o777, dir_fd=place.folder)
        except FileExistsError:  # one with nothing but ignored files does not exist for the client
            if not _is_folder(place):
                raise
        self._index.put(path, Row("d"))

    def _publish(self, path: str, name: str) -> None:
        rows = self._contents.units.get(name)
        if rows is None:
            raise Changed(path)
        self.has_units = True
        if not all(stays_inside(f"{path}/{inner}", row.text) for inner, row in rows.items() if row.kind == "l"):
            raise ProtocolError("a link leads out of the folder")
        place, staged = self._root.place(path), Place(self._root.staging, name)
        try:
            rename_new(staged, place)
        except FileExistsError:
            if not _is_folder(place):
                raise
            self._merge(path, name, rows)
            return
        verified_ns = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False).st_ctime_ns
        self._index.put(path, Row("d"))
        for inner, row in rows.items():
            # the facts were taken when the file was written, and renaming its folder does not change them
            self._index.put(f"{path}/{inner}", verified(row, verified_ns))
        del self._contents.units[name]

    def _merge(self, path: str, name: str, rows: dict[str, Row]) -> None:
        """Move what was built into a folder that is there already."""
        self._index.put(path, Row("d"))
        failed = False
        for inner, row in rows.items():
            if row.kind == "d":
                self._make_folder(f"{path}/{inner}")
                continue
            source, _, last = f"{name}/{inner}".rpartition("/")
            folder = os.open(source, os.O_RDONLY | os.O_DIRECTORY, dir_fd=self._root.staging)
            try:
                place = self._root.place(f"{path}/{inner}")
                rename_new(Place(folder, last), place)
                self._index.put(f"{path}/{inner}", row._replace(ctime_ns=UNVERIFIED))
            except FileExistsError:
                failed = True
            finally:
                os.close(folder)
        del self._contents.units[name]
        if failed:
            raise Changed(path)

    def _put(self, path: str, entry: list[Any], old: list[Any] | None, source: object) -> Callable[[], None]:
        match source:
            case None:
                copied = None
            case str():
                copied = checked_path(source)
            case _:
                raise ProtocolError("not a source")
        if entry[0] == "f" and old is not None and old[:2] == entry[:2]:
            return partial(self._change_mode, path, old, entry[3])
        return partial(self._put_new, path, entry, old, copied)

    def _change_mode(self, path: str, old: list[Any], is_executable: bool) -> None:
        row = self._expect(path, old)
        descriptor = self._contents.open(path, row.text)
        try:
            os.fchmod(descriptor, executable_mode(os.fstat(descriptor).st_mode, is_executable=is_executable))
            mode = os.fstat(descriptor).st_mode & 0o777
        finally:
            os.close(descriptor)
        self._index.put(path, row._replace(mode=mode, ctime_ns=UNVERIFIED))

    def _put_new(self, path: str, entry: list[Any], old: list[Any] | None, copied: str | None) -> None:
        expected = self._expect(path, old)
        staged = self._staged(entry, copied)
        place = self._root.place(path)
        if old is None:
            rename_new(staged, place)
        else:
            self._replace(path, staged, place, expected)
        if entry[0] == "l":
            self._index.put(path, Row("l", entry[1]))
        else:
            found = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
            self._index.put(path, verified(file_row(entry[1], found), found.st_ctime_ns))
            self.touched.add(path)

    def _staged(self, entry: list[Any], copied: str | None) -> Place:
        if entry[0] == "l":
            place = Place(self._root.staging, "link")
            with suppress(FileNotFoundError):
                os.unlink(place.name, dir_fd=place.folder)
            os.symlink(entry[1], place.name, dir_fd=place.folder)
            return place
        if copied is not None:
            self._contents.copy_whole(copied, entry[1])
        place = self._contents.place(entry[1])
        found = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
        if entry[3]:
            os.chmod(place.name, executable_mode(found.st_mode, is_executable=True), dir_fd=place.folder)
        return place

    def _replace(self, path: str, staged: Place, place: Place, expected: Row) -> None:
        found = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
        if stat.S_ISREG(found.st_mode):  # keep the permissions that the user gave it
            new = os.stat(staged.name, dir_fd=staged.folder, follow_symlinks=False)
            if stat.S_ISREG(new.st_mode):
                mode = executable_mode(found.st_mode, is_executable=bool(new.st_mode & stat.S_IXUSR))
                os.chmod(staged.name, mode, dir_fd=staged.folder)
        # From its first moment on, the old version is where it is kept. Here, a crash can't mistake it for the new one.
        aside = self._root.aside(place.name)
        os.rename(staged.name, aside.name, src_dir_fd=staged.folder, dst_dir_fd=aside.folder)
        if exchange(aside, place):
            if not _is_still(aside, expected):
                exchange(aside, place)
                raise Changed(path)
            return
        # in two steps, with a moment without the file
        os.rename(aside.name, staged.name, src_dir_fd=aside.folder, dst_dir_fd=staged.folder)
        os.rename(place.name, aside.name, src_dir_fd=place.folder, dst_dir_fd=aside.folder)
        if not _is_still(aside, expected):
            rename_new(aside, place)
            raise Changed(path)
        rename_new(staged, place)

    def _move(self, path: str, new_path: str) -> None:
        if path not in self._index.rows:
            raise Changed(path)
        # the place of a path is only valid until the next one is asked for
        source = self._root.place(path)
        folder = os.dup(source.folder)
        try:
            target = self._root.place(new_path)
            if _is_one_name(Place(folder, source.name), target):  # of a system that ignores the case of letters
                os.rename(source.name, target.name, src_dir_fd=folder, dst_dir_fd=target.folder)
            else:
                rename_new(Place(folder, source.name), target)
        finally:
            os.close(folder)
        self._root.forget_parent()
        self._index.move(path, new_path)

    def _delete(self, path: str, old: list[Any]) -> None:
        expected = self._expect(path, old)
        place = self._root.place(path)
        aside = self._root.aside(place.name)
        os.rename(place.name, aside.name, src_dir_fd=place.folder, dst_dir_fd=aside.folder)
        if not _is_still(aside, expected):
            rename_new(aside, place)
            raise Changed(path)
        self._index.remove(path)

    def _delete_folder(self, path: str) -> None:
        place = self._root.place(path)
        try:
            os.rmdir(place.name, dir_fd=place.folder)
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            inside = f"{path}/"
            if any(each.startswith(inside) for each in self._index.rows):
                raise Changed(path) from error
            # what is in it is ignored: from now on, the folder does not exist for the client
        self._root.forget_parent()
        self._index.remove(path)

    def _expect(self, path: str, old: list[Any] | None) -> Row:
        """Check what is at a path; raise `Changed` if it is something else."""
        row = self._index.rows.get(path)
        found = self._root.stat(path)
        if old is None:
            if found is not None:
                raise Changed(path)
            return Row("")
        if row is None or found is None or row.entry != old:
            raise Changed(path)
        place = self._root.place(path)
        if row.kind == "f" and row.ctime_ns != found.st_ctime_ns:  # a change may have kept the size and the time
            row = row._replace(ctime_ns=UNVERIFIED)
        if not _is_still(place, row):
            raise Changed(path)
        return row


def _is_still(place: Place, row: Row) -> bool:
    """Whether a file has the facts of its row, or the content if the facts could hide a change."""
    found = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
    if row.kind == "l":
        return stat.S_ISLNK(found.st_mode) and os.readlink(place.name, dir_fd=place.folder) == row.text
    if not row.is_content_of(found):
        return False
    if bool(found.st_mode & stat.S_IXUSR) != bool(row.mode & stat.S_IXUSR):
        return False
    if row.ctime_ns != UNVERIFIED:
        return True
    descriptor = os.open(place.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place.folder)
    try:
        return digest_of(descriptor) == row.text
    finally:
        os.close(descriptor)


def _is_one_name(place: Place, other: Place) -> bool:
    if unicodedata.normalize("NFC", place.name).casefold() != unicodedata.normalize("NFC", other.name).casefold():
        return False
    with suppress(FileNotFoundError):
        one = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
        return os.path.samestat(one, os.stat(other.name, dir_fd=other.folder, follow_symlinks=False))
    return False


def _is_folder(place: Place) -> bool:
    return stat.S_ISDIR(os.stat(place.name, dir_fd=place.folder, follow_symlinks=False).st_mode)


def _leaf(path: str, entry: object) -> list[Any]:
    found = checked_entry(path, entry)
    if found is None or found[0] not in ("f", "l"):
        raise ProtocolError("neither a file nor a link")
    if found[0] == "f":
        checked_digest(found[1])
    return found
