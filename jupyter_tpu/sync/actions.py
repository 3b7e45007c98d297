"""List what one side of a synced folder has to do, so that it contains what it should contain.

The order loses nothing, whichever action is the last one that was done: conflict copies are made before their originals
are replaced, and everything is deleted last. Each action names what it expects to find; if something else is there, a
program has changed it in the meantime, and the next sync decides again.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from jupyter_tpu.sync.entries import Blocked, Entry, File, Fold, Folder, Link, exactly


@dataclass(frozen=True, slots=True)
class MakeFolder:
    """Create a folder."""

    path: str


@dataclass(frozen=True, slots=True)
class Put:
    """Create a file or a link, or replace the one that is there.

    Args:
        replaces: what is at the path now; None if nothing.
    """

    path: str
    entry: File | Link
    replaces: File | Link | None = None


@dataclass(frozen=True, slots=True)
class Move:
    """Rename something, so that no content has to be sent again. Nothing is at the new path."""

    path: str
    new_path: str
    entry: Entry


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a file or a link."""

    path: str
    entry: File | Link


@dataclass(frozen=True, slots=True)
class DeleteFolder:
    """Delete an empty folder."""

    path: str


Action: TypeAlias = MakeFolder | Put | Move | Delete | DeleteFolder


def actions(current: Folder, wanted: Folder, fold: Fold = exactly) -> tuple[Action, ...]:
    """Return the actions that make `wanted` of `current`, in the order in which to do them.

    Args:
        fold: the one that `reconcile` used.
    """
    plan = _Plan(fold)
    plan.compare("", current, wanted)
    moves = _Moves(plan.deleted)
    created = [action for path, entry in plan.created.items() for action in moves.create(path, entry)]
    deleted = [action for path, entry in plan.deleted.items() for action in moves.delete(path, entry)]
    return (*plan.respelled, *created, *plan.replaced, *deleted)


@dataclass(frozen=True, slots=True)
class _Plan:
    """The differences between what a side contains and what it should contain, by path."""

    fold: Fold
    respelled: list[Action] = field(default_factory=list)
    created: dict[str, Entry] = field(default_factory=dict)
    replaced: list[Action] = field(default_factory=list)
    deleted: dict[str, Entry] = field(default_factory=dict)

    def compare(self, path: str, current: Folder, wanted: Folder) -> None:
        """Find the differences; `path` ends with a slash unless it is empty."""
        current = self._respell(path, current, wanted)
        for name in sorted({*current, *wanted}):
            now, then = current.get(name), wanted.get(name)
            if now == then:
                continue
            if now is None:
                self.created[path + name] = _present(then)
            elif then is None:
                self.deleted[path + name] = now
            elif isinstance(now, dict) and isinstance(then, dict):
                self.compare(f"{path}{name}/", now, then)
            elif isinstance(now, File | Link) and isinstance(then, File | Link):
                self.replaced.append(Put(path + name, then, now))
            else:
                self.replaced.extend((*_delete(path + name, now), *_create(path + name, _present(then))))

    def _respell(self, path: str, current: Folder, wanted: Folder) -> Folder:
        """Rename what differs only in a way that this side does not distinguish; return the folder after that."""
        free = {self.fold(name): name for name in current if name not in wanted}
        renamed = {free[key]: name for name in wanted if name not in current and (key := self.fold(name)) in free}
        self.respelled.extend(Move(path + old, path + new, current[old]) for old, new in sorted(renamed.items()))
        return {renamed.get(name, name): entry for name, entry in current.items()}


class _Moves:
    """Finds what can be renamed instead of being created at one path and deleted at another.

    Args:
        deleted: what is to be deleted, by path.
    """

    def __init__(self, deleted: Mapping[str, Entry]) -> None:
        self._gone: set[str] = set()
        self._no_longer_whole: set[str] = set()
        self._sources: dict[Hashable, list[str]] = {}
        for path, entry in deleted.items():
            for each_path, each in _walk(path, entry):
                if _is_worth_a_move(each):
                    self._sources.setdefault(_content(each), []).append(each_path)

    def create(self, path: str, entry: Entry) -> Iterator[Action]:
        """List how to create an entry: by moves where possible."""
        source = next((each for each in self._sources.get(_content(entry), ()) if self._is_there(each)), None)
        if source is not None:
            self._gone.add(source)
            self._no_longer_whole.update(_parents(source))
            yield Move(source, path, entry)
        elif isinstance(entry, dict):
            yield MakeFolder(path)
            for name, each in sorted(entry.items()):
                yield from self.create(f"{path}/{name}", each)
        else:
            yield from _create(path, entry)

    def delete(self, path: str, entry: Entry) -> Iterator[Action]:
        """List how to delete what is left of an entry."""
        if path in self._gone:
            return
        if isinstance(entry, dict):
            for name, each in sorted(entry.items()):
                yield from self.delete(f"{path}/{name}", each)
            yield DeleteFolder(path)
        else:
            yield from _delete(path, entry)

    def _is_there(self, path: str) -> bool:
        return self._gone.isdisjoint([path, *_parents(path)]) and path not in self._no_longer_whole


def _create(path: str, entry: Entry) -> Iterator[Action]:
    if isinstance(entry, dict):
        yield MakeFolder(path)
        for name, each in sorted(entry.items()):
            yield from _create(f"{path}/{name}", each)
    elif not isinstance(entry, Blocked):
        yield Put(path, entry)


def _delete(path: str, entry: Entry) -> Iterator[Action]:
    if isinstance(entry, dict):
        for name, each in sorted(entry.items()):
            yield from _delete(f"{path}/{name}", each)
        yield DeleteFolder(path)
    elif not isinstance(entry, Blocked):
        yield Delete(path, entry)


def _walk(path: str, entry: Entry) -> Iterator[tuple[str, Entry]]:
    """Yield an entry and everything in it, folders before what they contain."""
    yield path, entry
    if isinstance(entry, dict):
        for name, each in entry.items():
            yield from _walk(f"{path}/{name}", each)


def _parents(path: str) -> list[str]:
    return [path[:end] for end, letter in enumerate(path) if letter == "/"]


def _content(entry: Entry) -> Hashable:
    """Return a value that is equal for equal entries."""
    if isinstance(entry, dict):
        return frozenset((name, _content(each)) for name, each in entry.items())
    return entry


def _is_worth_a_move(entry: Entry) -> bool:
    # all empty files and folders are equal, so that a move would join things that have nothing to do with each other
    return bool(entry) if isinstance(entry, dict) else isinstance(entry, File) and entry.size > 0


def _present(entry: Entry | None) -> Entry:
    assert entry is not None
    return entry
