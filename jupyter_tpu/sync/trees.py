"""Folders as trees, and as lists of paths with what is there in JSON (see `jupyter_tpu.wire.file_messages`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from jupyter_tpu.sync.entries import Blocked, Entry, File, Folder, Link

Row = tuple[str, "list[Any] | None"]
"""A path, and what is there; a folder's row says nothing about what is in it."""


def to_json(entry: Entry | None) -> list[Any] | None:
    """Return an entry as JSON, a folder without what is in it."""
    match entry:
        case File():
            return ["f", entry.digest, entry.size, entry.is_executable]
        case Link():
            return ["l", entry.target]
        case Blocked():
            return ["b", entry.reason]
    return None if entry is None else ["d"]


def from_json(row: list[Any]) -> Entry:
    """Return the entry of a row; a folder is empty."""
    kind, *rest = row
    return {} if kind == "d" else {"f": File, "l": Link, "b": Blocked}[kind](*rest)


def get(tree: Folder, path: str) -> Entry | None:
    """Return what is at a path."""
    entry: Entry | None = tree
    for name in path.split("/"):
        if not isinstance(entry, dict):
            return None
        entry = entry.get(name)
    return entry


def put(tree: Folder, path: str, entry: Entry | None) -> None:
    """Set what is at a path; ignore a path whose parent is no folder."""
    parent, _, name = path.rpartition("/")
    folder = get(tree, parent) if parent else tree
    if not isinstance(folder, dict):
        return
    if entry is None:
        folder.pop(name, None)
    else:
        folder[name] = entry


def overlay(tree: Folder, rows: Iterable[Row]) -> None:
    """Change a tree to what rows say; folders must come before what is in them, if they come at all."""
    for path, row in sorted(rows, key=lambda row: row[0].split("/")):
        known = get(tree, path)
        if row != ["d"]:
            put(tree, path, None if row is None else from_json(row))
        elif not isinstance(known, dict):
            put(tree, path, {})


def rows(tree: Folder, path: str = "") -> Iterator[tuple[str, list[Any]]]:
    """Yield the rows of a tree, folders before what is in them."""
    for name, entry in tree.items():
        row = to_json(entry)
        assert row is not None
        yield path + name, row
        if isinstance(entry, dict):
            yield from rows(entry, f"{path}{name}/")


def differences(old: Folder, new: Folder) -> dict[str, list[Any] | None]:
    """Return the rows that make the tree `new` of the tree `old`."""
    before, after = dict(rows(old)), dict(rows(new))
    changed = {path: row for path, row in after.items() if before.get(path) != row}
    return {**changed, **{path: None for path in before if path not in after}}


def copied(tree: Folder) -> Folder:
    """Return a copy of a tree, which can be changed without changing the original."""
    return {name: copied(entry) if isinstance(entry, dict) else entry for name, entry in tree.items()}


def common(base: Folder, local: Folder, remote: Folder) -> Folder:
    """Return the base after a sync: what both sides have alike, and else what the base had."""
    result: Folder = {}
    for name in {*base, *local, *remote}:
        before, here, there = base.get(name), local.get(name), remote.get(name)
        known: Entry | None
        if isinstance(here, dict) and isinstance(there, dict):
            known = common(before if isinstance(before, dict) else {}, here, there)
        else:
            known = here if here == there and not isinstance(here, Blocked) else before
        if known is not None:
            result[name] = known
    return result


def holders(tree: Folder) -> Mapping[str, str]:
    """Return a path for each digest of a file."""
    return {row[1]: path for path, row in rows(tree) if row[0] == "f"}
