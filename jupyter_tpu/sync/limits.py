"""What is only done after the user agreed: sending very much, and deleting most of a folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from jupyter_tpu.sync.actions import Action, Delete, Put
from jupyter_tpu.sync.entries import Entry, File, Folder

MOST_BYTES = 10**9
MOST_FILES = 20_000
_MOST_DELETED = 20  # files; more of them are deleted without a question only if they are at most half of the folder


@dataclass(frozen=True, slots=True)
class Question:
    """Something to confirm before a sync.

    Args:
        about: ``size`` for much to send, ``deletions`` for many files to delete on one side.
        files: their number.
        total_bytes: their size.
        by_folder: their size by folder in bytes, the largest first; "" stands for files beside the folders.
    """

    about: Literal["size", "deletions"]
    files: int
    total_bytes: int
    by_folder: Mapping[str, int]


def question(actions: Iterable[Action], current: Folder) -> Question | None:
    """Return what the user has to confirm before one side performs these actions.

    Args:
        current: what that side contains now.
    """
    actions = list(actions)
    sent = [(each.path, each.entry) for each in actions if isinstance(each, Put)]
    deleted = [(each.path, each.entry) for each in actions if isinstance(each, Delete)]
    if len(deleted) > _MOST_DELETED and len(deleted) * 2 > _count(current):
        return _question("deletions", deleted)
    asked = _question("size", sent)
    return asked if asked.files > MOST_FILES or asked.total_bytes > MOST_BYTES else None


def _question(about: Literal["size", "deletions"], found: Sequence[tuple[str, Entry]]) -> Question:
    sizes: Counter[str] = Counter()
    for path, entry in found:
        folder, slash, _ = path.partition("/")
        sizes[folder if slash else ""] += entry.size if isinstance(entry, File) else 0
    by_folder = dict(sizes.most_common())
    return Question(about, len(found), sum(by_folder.values()), by_folder)


def _count(folder: Folder) -> int:
    return sum(_count(entry) if isinstance(entry, dict) else 1 for entry in folder.values())
