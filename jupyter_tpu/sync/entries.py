"""What a synced folder contains: files, symbolic links, folders, and what can't be synced.

A name is text as `os.fsdecode` returns it, so that a name which is not valid UTF-8 is still one name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class File:
    """A regular file.

    Its modification time isn't synced: the clocks of two machines differ, and `%autoreload` skips a module whose time
    is not newer than before.

    Args:
        digest: SHA-256 of the content, in hexadecimal.
        size: in bytes.
        is_executable: whether its owner may execute the file. Other permissions aren't synced.
    """

    digest: str
    size: int
    is_executable: bool = False


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link to a path inside the synced folder."""

    target: str


@dataclass(frozen=True, slots=True)
class Blocked:
    """Something that exists but can't be synced, such as a socket, an unreadable file, or a link out of the folder.

    It is never treated as absent: otherwise the other side's file of that name would be deleted.
    """

    reason: str


Folder: TypeAlias = "dict[str, Entry]"
Entry: TypeAlias = "File | Link | Blocked | Folder"
Fold: TypeAlias = Callable[[str], str]
"""Returns the same key for names that are one name on a side, such as `str.casefold`."""


def exactly(name: str) -> str:
    """Return the key of a name where different names are different files, as on Linux."""
    return name


def syncable(entry: Entry | None, fold: Fold = exactly) -> Entry | None:
    """Return the part of an entry that the other side can receive; None if there is none.

    Args:
        fold: how the other side compares names.
    """
    if isinstance(entry, Blocked):
        return None
    if not isinstance(entry, dict):
        return entry
    result: Folder = {}
    keys = set()
    for name in sorted(entry):
        part = syncable(entry[name], fold)
        if part is not None and fold(name) not in keys:
            keys.add(fold(name))
            result[name] = part
    return result


def has_blocked(entry: Entry | None) -> bool:
    """Return whether an entry is blocked, or is a folder with something blocked in it."""
    if isinstance(entry, dict):
        return any(map(has_blocked, entry.values()))
    return isinstance(entry, Blocked)
