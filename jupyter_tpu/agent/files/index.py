"""What a replica knows about its folder: the facts and the digest of each file, and the revision of its last change.

A revision is a number that grows with each change, so that a client which knows the folder as of a revision gets only
what changed since. If the file with the index is lost, all is read again, under a new replica id.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from jupyter_tpu.agent.files.root import Root

_FILE = "index"
_LAYOUT = 1
_LARGEST_BYTES = 1 << 30
UNVERIFIED = -1
"""The change time of a file that has to be read again."""


class Row(NamedTuple):
    """One path. `kind` is that of an entry: d, f, l or b; `text` is the digest, the target or the reason."""

    kind: str
    text: str = ""
    size: int = 0
    mode: int = 0
    mtime_ns: int = 0
    ctime_ns: int = 0
    inode: int = 0
    revision: int = 0

    @property
    def entry(self) -> list[Any]:
        """The entry, as it is sent."""
        if self.kind == "f":
            return ["f", self.text, self.size, bool(self.mode & stat.S_IXUSR)]
        return [self.kind] if self.kind == "d" else [self.kind, self.text]

    def is_of(self, found: os.stat_result) -> bool:
        """Whether a file has the facts that it had when its digest was computed."""
        known = (self.size, self.mtime_ns, self.ctime_ns, self.inode)
        return known == (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)

    def is_content_of(self, found: os.stat_result) -> bool:
        """Whether a file has the content with the digest, although it may have been renamed since."""
        known = (self.size, self.mtime_ns, self.inode)
        return stat.S_ISREG(found.st_mode) and known == (found.st_size, found.st_mtime_ns, found.st_ino)


def file_row(digest: str, found: os.stat_result) -> Row:
    """Return the row of a file, not yet verified."""
    return Row("f", digest, found.st_size, found.st_mode & 0o777, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


def verified(row: Row, verified_ns: int) -> Row:
    """Return the row, marked to be read again if a later change could have left the same facts.

    Args:
        verified_ns: the time of the file system at which the file had the digest.
    """
    # two changes within one tick of the file system's clock leave the same time
    tick_ns = 2_000_000_000 if row.mtime_ns % 1_000_000_000 == 0 else 20_000_000
    return row if verified_ns - row.mtime_ns >= tick_ns else row._replace(ctime_ns=UNVERIFIED)


class Index:
    """The rows of a folder.

    Attributes:
        replica_id: changes when the index was lost or the folder replaced.
        revision: of the last change.
        rows: by path.
        deleted: the revisions at which paths were deleted.
    """

    def __init__(self) -> None:
        self.replica_id = secrets.token_hex(16)
        self.revision = 0
        self.rows: dict[str, Row] = {}
        self.deleted: dict[str, int] = {}
        self._saved_revision = -1

    @classmethod
    def load(cls, root: Root) -> Index:
        """Return the saved index; an empty one if it is missing or damaged."""
        index = cls()
        try:
            descriptor = os.open(_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=root.own)
            with os.fdopen(descriptor, "rb") as file:
                decoder = zlib.decompressobj()
                content = json.loads(decoder.decompress(file.read(), _LARGEST_BYTES))
            if content["layout"] != _LAYOUT or not decoder.eof:
                return index
            rows = {path: Row(*row) for path, *row in content["rows"]}
            index.replica_id, index.revision = str(content["replica_id"]), int(content["revision"])
            index.rows, index.deleted = rows, {str(path): int(at) for path, at in content["deleted"].items()}
            index._saved_revision = index.revision
        except (OSError, ValueError, TypeError, LookupError, AttributeError, zlib.error, RecursionError):
            return cls()
        return index

    def save(self, root: Root) -> None:
        """Write the index, if it changed since it was written."""
        if self._saved_revision == self.revision:
            return
        content = {
            "layout": _LAYOUT,
            "replica_id": self.replica_id,
            "revision": self.revision,
            "rows": [[path, *row] for path, row in self.rows.items()],
            "deleted": self.deleted,
        }
        packed = zlib.compress(json.dumps(content, separators=(",", ":")).encode(), 1)
        draft = f"{_FILE}.new"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(draft, flags, 0o600, dir_fd=root.own), "wb") as file:
            file.write(packed)
            file.flush()
            os.fsync(file.fileno())
        os.rename(draft, _FILE, src_dir_fd=root.own, dst_dir_fd=root.own)
        self._saved_revision = self.revision

    def put(self, path: str, row: Row) -> None:
        """Set a row. It gets a new revision if its entry changed."""
        known = self.rows.get(path)
        if known is not None and known.entry == row.entry:
            revision = known.revision
            if known[:-1] != row[:-1]:
                self._saved_revision = -1
        else:
            self.revision += 1
            revision = self.revision
            self.deleted.pop(path, None)
        self.rows[path] = row._replace(revision=revision)

    def remove(self, path: str) -> None:
        """Remove a row."""
        if self.rows.pop(path, None) is not None:
            self.revision += 1
            self.deleted[path] = self.revision

    def move(self, path: str, new_path: str) -> None:
        """Follow a renamed file or folder."""
        inside = f"{path}/"
        for each in [each for each in self.rows if each == path or each.startswith(inside)]:
            row = self.rows[each]
            self.remove(each)
            # the facts of a renamed file change in a way that depends on the system
            self.put(new_path + each[len(path) :], row._replace(ctime_ns=UNVERIFIED))

    def changes_since(self, revision: int) -> Iterator[tuple[str, list[Any] | None]]:
        """Yield the paths that changed after a revision with what is there now; all paths for revision 0."""
        for path, row in self.rows.items():
            if row.revision > revision:
                yield path, row.entry
        if revision:
            for path, at in self.deleted.items():
                if at > revision:
                    yield path, None

    def forget_deleted(self, revision: int) -> None:
        """Forget deleted paths that the client knows, because it saved the state of a revision."""
        if any(at <= revision for at in self.deleted.values()):
            self.deleted = {path: at for path, at in self.deleted.items() if at > revision}
            self._saved_revision = -1
