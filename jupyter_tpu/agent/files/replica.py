"""The replica: a program that serves one folder to one client over its standard input and output.

    python -m jupyter_tpu.agent.files.replica FOLDER

It answers these requests, each an object with the key ``op`` (see `jupyter_tpu.wire.file_messages`):

- ``hello`` → who it is, and how its file system compares names
- ``scan`` {rules, most_bytes} → the revision after it
- ``rows`` {since, from} → what changed since a revision, as compressed JSON, page by page
- ``read``, ``read_many``, ``blocks``: contents of files that did not change since the scan
- ``staged``, ``write``, ``write_many``, ``copy``, ``build``: contents for new files
- ``apply`` {actions} → for each action "" or why it was not done
- ``save``: write everything to the disk

A request that fails gets {error, message}; what follows it is still served.
"""

from __future__ import annotations

import json
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from jupyter_tpu.agent.files.apply import DISK_FULL, Apply
from jupyter_tpu.agent.files.contents import Changed, Contents, remove_tree
from jupyter_tpu.agent.files.exchange import Place, sync_file_system
from jupyter_tpu.agent.files.facts import is_case_insensitive, normalizes
from jupyter_tpu.agent.files.index import Index
from jupyter_tpu.agent.files.root import Root, RootBusy, RootGone
from jupyter_tpu.agent.files.rules import compile_rules
from jupyter_tpu.agent.files.scan import Scan
from jupyter_tpu.wire.file_messages import (
    MessageDecoder,
    checked_digest,
    checked_number,
    checked_path,
    encode_message,
)
from jupyter_tpu.wire.frames import ProtocolError

Reply = tuple[dict[str, Any], bytes]
PAGE_ROWS = 2_000
_MOST_ITEMS = 10_000  # of a list in a request
_FEW_FILES = 200  # up to this number, files are written to the disk one by one
_KEEP_NS = 7 * 86400 * 10**9
_KEEP_BYTES = 1 << 30
_READ_BYTES = 1 << 18


class Replica:
    """Serves a folder.

    Raises:
        OSError: the folder doesn't exist, or can't be written.
    """

    def __init__(self, path: Path) -> None:
        self._root = Root(path)
        self._index = Index.load(self._root)
        self._contents = Contents(self._root, self._index)
        self._contents.discard()
        self._apply = Apply(self._root, self._index, self._contents)
        self._rows: Iterator[tuple[str, list[Any] | None]] = iter(())
        self._operations: dict[str, Callable[[dict[str, Any], bytes], Reply]] = {
            "hello": self._hello,
            "scan": self._scan,
            "rows": self._next_rows,
            "read": self._read,
            "read_many": self._read_many,
            "blocks": self._blocks,
            "staged": self._staged,
            "write": self._write,
            "write_many": self._write_many,
            "copy": self._copy,
            "build": self._build,
            "apply": self._perform,
            "save": self._save,
        }

    def answer(self, request: dict[str, Any], data: bytes) -> Reply:
        """Perform a request and return its reply."""
        operation = self._operations.get(str(request.get("op")))
        if operation is None:
            return _error("unknown", str(request.get("op"))[:60])
        try:
            self._root.check()
            return operation(request, data)
        except RootGone as error:
            return _error("root_gone", str(error))
        except Changed as error:
            return _error("changed", str(error))
        except ProtocolError as error:
            return _error("refused", str(error))
        except OSError as error:
            code = "disk_full" if error.errno in DISK_FULL else "system"
            return _error(code, error.strerror or str(error))

    def close(self) -> None:
        """Save the index, so that the next process does not have to read all files again."""
        with suppress(OSError, RootGone):
            self._root.check()
            self._index.save(self._root)

    def _hello(self, _request: dict[str, Any], _data: bytes) -> Reply:
        system = os.fstatvfs(self._root.descriptor)
        self._prune_replaced()
        facts = {
            "replica_id": self._index.replica_id,
            "identity": self._root.identity,
            "is_case_insensitive": is_case_insensitive(self._root),
            "normalizes": normalizes(self._root),
            "free_bytes": system.f_bavail * system.f_frsize,
        }
        return facts, b""

    def _scan(self, request: dict[str, Any], _data: bytes) -> Reply:
        is_ignored = compile_rules(request.get("rules"))
        most_bytes = checked_number(request.get("most_bytes"))
        Scan(self._root, self._index, is_ignored, most_bytes, self._root.now()).run()
        return {"revision": self._index.revision, "count": len(self._index.rows)}, b""

    def _next_rows(self, request: dict[str, Any], _data: bytes) -> Reply:
        if request.get("since") is not None:
            since = checked_number(request["since"])
            self._index.forget_deleted(since)
            self._rows = iter(list(self._index.changes_since(since)))
        page = list(islice(self._rows, PAGE_ROWS))
        return {"count": len(page)}, zlib.compress(json.dumps(page, separators=(",", ":")).encode(), 1)

    def _read(self, request: dict[str, Any], _data: bytes) -> Reply:
        path, digest = checked_path(request.get("path")), checked_digest(request.get("digest"))
        hole, data = self._contents.read(path, digest, checked_number(request.get("offset")))
        return {"hole": hole}, data

    def _read_many(self, request: dict[str, Any], _data: bytes) -> Reply:
        files = [(checked_path(path), checked_digest(digest)) for path, digest in _pairs(request.get("files"))]
        sizes, data = self._contents.read_many(files)
        return {"sizes": sizes}, data

    def _blocks(self, request: dict[str, Any], _data: bytes) -> Reply:
        path, digest = checked_path(request.get("path")), checked_digest(request.get("digest"))
        block, head, tail = self._contents.blocks(path, digest)
        return {"block": block, "head": head, "tail": tail}, b""

    def _staged(self, request: dict[str, Any], _data: bytes) -> Reply:
        is_complete, size = self._contents.staged(checked_digest(request.get("digest")))
        return {"is_complete": is_complete, "size": size}, b""

    def _write(self, request: dict[str, Any], data: bytes) -> Reply:
        digest, size, offset = _content(request)
        hole = checked_number(request.get("hole", 0))
        if hole:
            self._contents.write_hole(digest, size, offset, hole)
        else:
            self._contents.write(digest, size, offset, data)
        return {}, b""

    def _write_many(self, request: dict[str, Any], data: bytes) -> Reply:
        files = [(checked_digest(digest), checked_number(size)) for digest, size in _pairs(request.get("files"))]
        self._contents.write_many(files, data)
        return {}, b""

    def _copy(self, request: dict[str, Any], _data: bytes) -> Reply:
        digest, size, offset = _content(request)
        source = checked_path(request.get("path")), checked_digest(request.get("from_digest"))
        start, length = checked_number(request.get("start")), checked_number(request.get("length"))
        self._contents.copy(digest, size, offset, source, start, length)
        return {}, b""

    def _build(self, request: dict[str, Any], data: bytes) -> Reply:
        self._contents.build(str(request.get("unit")), request.get("entries"), data)
        return {}, b""

    def _perform(self, request: dict[str, Any], _data: bytes) -> Reply:
        actions = request.get("actions")
        if not isinstance(actions, list) or len(actions) > _MOST_ITEMS:
            raise ProtocolError("not a list of actions")
        reasons = []
        for action in actions:
            reasons.append(self._apply.perform(action))
            if reasons[-1] == "disk_full":
                break
        return {"reasons": reasons, "revision": self._index.revision}, b""

    def _save(self, _request: dict[str, Any], _data: bytes) -> Reply:
        touched = self._apply.touched
        if len(touched) > _FEW_FILES or self._apply.has_units:
            sync_file_system(self._root.descriptor)
        else:
            for path in touched:
                with suppress(OSError):  # deleted or replaced in the meantime
                    _sync(self._root.open_file(path))
                    _sync(os.dup(self._root.place(path).folder))
        touched.clear()
        self._apply.has_units = False
        self._index.save(self._root)
        return {"revision": self._index.revision}, b""

    def _prune_replaced(self) -> None:
        """Delete what was replaced more than a week ago, and the oldest of more than 1 GiB."""
        found = []
        with os.scandir(self._root.replaced) as entries:
            for each in entries:
                facts = each.stat(follow_symlinks=False)
                found.append((facts.st_ctime_ns, facts.st_size, each.name))
        now_ns, kept_bytes = self._root.now(), 0
        for replaced_ns, size, name in sorted(found, reverse=True):
            kept_bytes += size
            if kept_bytes > _KEEP_BYTES or now_ns - replaced_ns > _KEEP_NS:
                remove_tree(Place(self._root.replaced, name))


def _content(request: dict[str, Any]) -> tuple[str, int, int]:
    """Return the digest and the size of a content, and the offset of a piece of it."""
    size = checked_number(request.get("size"))
    return checked_digest(request.get("digest")), size, checked_number(request.get("offset"), size)


def _pairs(value: object) -> list[tuple[Any, Any]]:
    if not isinstance(value, list) or len(value) > _MOST_ITEMS:
        raise ProtocolError("not a list")
    if not all(isinstance(each, list) and len(each) == 2 for each in value):
        raise ProtocolError("not a list of pairs")
    return [(first, second) for first, second in value]


def _error(code: str, message: str) -> Reply:
    return {"error": code, "message": message[:1000]}, b""


def _sync(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def serve_folder(path: Path, read: Callable[[int], bytes], write: Callable[[bytes], None]) -> None:
    """Answer requests about a folder until the client closes its end or does not use the protocol.

    Args:
        read: returns up to so many bytes of the client, or ``b""`` at the end.
        write: sends bytes to the client.
    """
    try:
        replica = Replica(path)
    except RootBusy:
        write(encode_message({"error": "busy", "message": str(path)}))
        return
    except OSError as error:
        code = "root_gone" if isinstance(error, (FileNotFoundError, NotADirectoryError)) else "system"
        write(encode_message({"error": code, "message": error.strerror or str(error)}))
        return
    decoder = MessageDecoder()
    try:
        with suppress(ProtocolError, ConnectionError):
            while data := read(_READ_BYTES):
                for request, content in decoder.feed(data):
                    write(encode_message(*replica.answer(request, content)))
    finally:
        replica.close()


def _write_all(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(sys.stdout.fileno(), view) :]


def main(arguments: list[str]) -> None:
    """Serve the folder that the argument names."""
    serve_folder(Path(arguments[0]), partial(os.read, sys.stdin.fileno()), _write_all)


if __name__ == "__main__":
    main(sys.argv[1:])
