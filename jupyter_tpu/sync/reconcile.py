"""Decide what both sides of a synced folder should contain after a sync.

`reconcile` compares both sides with the base, which is what they had in common after the last sync:

- What only one side changed is copied to the other side. This includes deletions.
- What both sides changed in the same way is left as it is.
- What both sides changed differently stays on both sides in both versions: this machine's version keeps the name, and
  the node's version gets the name of a conflict copy.
- What one side deleted and the other side changed is kept. In a deleted folder, only what was changed is kept.

Without a base, as in the first sync, nothing is deleted. What is blocked on one side is left alone on both sides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from jupyter_tpu.sync.conflict_names import ConflictNames
from jupyter_tpu.sync.entries import Blocked, Entry, File, Fold, Folder, exactly, has_blocked, syncable


@dataclass(frozen=True, slots=True)
class Conflict:
    """A path that both sides changed: the path has this machine's version, and `copy` has the node's version."""

    path: str
    copy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What each side should contain, and what both then have in common.

    `local` and `remote` differ only in what is blocked.
    """

    base: Folder
    local: Folder
    remote: Folder
    conflicts: tuple[Conflict, ...]


def reconcile(*, base: Folder, local: Folder, remote: Folder, names: ConflictNames, fold: Fold = exactly) -> Outcome:
    """Return what both sides should contain.

    Args:
        base: what both sides contained after the last sync; empty before the first one.
        local, remote: what this machine and the node contain now.
        fold: how names are compared, if one side does not distinguish all names. Of several names on the other side
            that are one name here, only one is synced.
    """
    merger = _Merger(names, fold)
    merged = merger.merge_folders("", _Folders(base, local, remote))
    return Outcome(base=merged.base, local=merged.local, remote=merged.remote, conflicts=tuple(merger.conflicts))


class _Versions(NamedTuple):
    """The versions of one path: in the base, on this machine and on the node."""

    base: Entry | None
    local: Entry | None
    remote: Entry | None


class _Merged(NamedTuple):
    """What each side should contain at one path; the conflict copy beside it gets `displaced`."""

    versions: _Versions
    displaced: Entry | None = None


class _Folders(NamedTuple):
    base: Folder
    local: Folder
    remote: Folder


class _Names(NamedTuple):
    """How one name is spelled in each version; empty where there is no such name."""

    base: str
    local: str
    remote: str


def _on_both(entry: Entry | None, displaced: Entry | None = None) -> _Merged:
    return _Merged(_Versions(entry, entry, entry), displaced)


@dataclass(frozen=True, slots=True)
class _Merger:
    names: ConflictNames
    fold: Fold
    conflicts: list[Conflict] = field(default_factory=list)

    def merge_folders(self, path: str, found: _Folders) -> _Folders:
        """Merge folders that exist on both sides; `path` ends with a slash unless it is empty."""
        merged = _Folders({}, {}, {})
        displaced: list[tuple[str, Entry]] = []
        spelled = self._spelled(found)
        for names in spelled:
            name = _merged_name(names)
            versions = _Versions(*(folder.get(each) for folder, each in zip(found, names, strict=True)))
            result = self._merge(f"{path}{name}", versions)
            if result is None:  # what can't be synced also keeps its spelling
                _put(merged, names, versions)
                continue
            _put(merged, _Names(name, name, name), result.versions)
            if result.displaced is not None:
                displaced.append((name, result.displaced))
        # of several names that are one name on the other side, the others are left alone
        chosen = {names.local for names in spelled}, {names.remote for names in spelled}
        for folder, side, known in zip((merged.local, merged.remote), (found.local, found.remote), chosen, strict=True):
            folder.update({name: entry for name, entry in side.items() if name not in known})
        self._add_copies(path, merged, displaced, {name for folder in found for name in folder})
        return merged

    def _add_copies(self, path: str, merged: _Folders, displaced: list[tuple[str, Entry]], names: set[str]) -> None:
        taken = _Taken({self.fold(name) for name in names}, self.fold)
        for name, entry in displaced:
            copy = self.names.name(name, taken)
            taken.keys.add(self.fold(copy))
            received = syncable(entry, self.fold)
            _put(merged, _Names(copy, copy, copy), _Versions(received, received, entry))
            self.conflicts.append(Conflict(f"{path}{name}", f"{path}{copy}"))

    def _spelled(self, found: _Folders) -> list[_Names]:
        base, local, remote = (self._by_key(folder) for folder in found)
        result = []
        for key in sorted({*base, *local, *remote}):
            spellings = (base.get(key, []), local.get(key, []), remote.get(key, []))
            # where a side has several spellings, the one that the other side has is the same file
            shared = [name for name in spellings[1] if name in spellings[2]]
            preferred = [*shared, *spellings[0], *spellings[1], *spellings[2]]
            result.append(_Names(*(next((each for each in preferred if each in names), "") for names in spellings)))
        return result

    def _by_key(self, folder: Folder) -> Mapping[str, list[str]]:
        result: dict[str, list[str]] = {}
        for name in sorted(folder):
            result.setdefault(self.fold(name), []).append(name)
        return result

    def _merge(self, path: str, found: _Versions) -> _Merged | None:
        """Merge the versions of one path; None if it has to be left as it is on both sides."""
        base, local, remote = found
        if isinstance(local, Blocked) or isinstance(remote, Blocked):
            return None
        if isinstance(local, dict) and isinstance(remote, dict):
            return _Merged(_Versions(*self.merge_folders(f"{path}/", _Folders(_folder(base), local, remote))))
        if local == remote:
            return _on_both(local)
        if local == base:
            received = syncable(remote, self.fold)
            return _Merged(_Versions(received, received, remote))
        if remote == base:
            sent = syncable(local, self.fold)
            return _Merged(_Versions(sent, local, sent))
        if local is None or remote is None:
            return self._merge_deletion(path, found)
        if has_blocked(local) or has_blocked(remote):  # a folder that can't make room for the other side's file
            return None
        if isinstance(local, dict):
            kept = self._changed(local, base)
            return _on_both(remote) if kept is None else _on_both(kept, displaced=remote)
        if isinstance(remote, dict):
            return _on_both(local, displaced=self._changed(remote, base))
        if isinstance(local, File) and isinstance(remote, File):
            return _merge_files(base if isinstance(base, File) else None, local, remote)
        return _on_both(local, displaced=remote)

    def _merge_deletion(self, path: str, found: _Versions) -> _Merged:
        """Merge what one side deleted and the other side changed."""
        changed = found.remote if found.local is None else found.local
        if not isinstance(changed, dict):
            return _on_both(changed)
        folders = _Folders(_folder(found.base), _folder(found.local), _folder(found.remote))
        base, local, remote = self.merge_folders(f"{path}/", folders)
        if not isinstance(found.base, dict):  # a new folder, even if it is empty
            return _Merged(_Versions(base, local, remote))
        # a folder that is left on one side, because something blocked is in it, stays deleted on the other side
        return _Merged(_Versions(base if local or remote else None, local or None, remote or None))

    def _changed(self, folder: Folder, base: Entry | None) -> Folder | None:
        """Return what was changed in a folder since the base; None if it was only deletions."""
        if not isinstance(base, dict):
            return folder
        return self.merge_folders("", _Folders(base, {}, folder)).remote or None


@dataclass(frozen=True, slots=True)
class _Taken:
    keys: set[str]
    fold: Fold

    def __contains__(self, name: object) -> bool:
        return self.fold(str(name)) in self.keys


def _merge_files(base: File | None, local: File, remote: File) -> _Merged:
    # content and permission are separate changes: `chmod +x` here and an edit there are no conflict
    was_executable = base.is_executable if base else False
    is_executable = local.is_executable if local.is_executable != was_executable else remote.is_executable
    if local.digest == remote.digest or (base and remote.digest == base.digest):
        return _on_both(File(local.digest, local.size, is_executable))
    if base and local.digest == base.digest:
        return _on_both(File(remote.digest, remote.size, is_executable))
    return _on_both(local, displaced=remote)


def _merged_name(names: _Names) -> str:
    """Return the name after a sync: one side may have changed the case of its letters."""
    if not names.local or not names.remote:
        return names.local or names.remote or names.base
    return names.remote if names.local == names.base else names.local


def _put(folders: _Folders, names: _Names, versions: _Versions) -> None:
    for folder, name, version in zip(folders, names, versions, strict=True):
        if version is not None:
            folder[name] = version


def _folder(entry: Entry | None) -> Folder:
    return entry if isinstance(entry, dict) else {}
