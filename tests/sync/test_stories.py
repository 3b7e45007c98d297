"""Random edits on both sides, and syncs that stop after any action: nothing is lost, and both sides become equal."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from tiers import mostly_nightly

from jupyter_tpu.sync.actions import Action, Delete, DeleteFolder, MakeFolder, Move, Put, actions
from jupyter_tpu.sync.conflict_names import ConflictNames
from jupyter_tpu.sync.entries import Blocked, Entry, File, Folder, Link, exactly, has_blocked
from jupyter_tpu.sync.reconcile import Outcome, reconcile

NAMES = ConflictNames("my-node", "14:02")


def copied(folder: Folder) -> Folder:
    return {name: copied(entry) if isinstance(entry, dict) else entry for name, entry in folder.items()}


def versions(entry: Entry) -> Counter[str]:
    """How often each content is in a folder."""
    if isinstance(entry, dict):
        return sum(map(versions, entry.values()), Counter())
    text = entry.digest if isinstance(entry, File) else entry.target if isinstance(entry, Link) else ""
    return Counter([text] if text else [])


class Changed(Exception):
    """Something else is at a path than the action expects."""


@dataclass
class Side:
    """A folder in memory that performs actions as a file system would, and refuses what one would refuse."""

    folder: Folder
    fold: Callable[[str], str] = exactly

    def perform(self, action: Action) -> None:
        if isinstance(action, Move):
            self.take(action.path, action.entry)
            self.add(action.new_path, action.entry)
        elif isinstance(action, Put):
            if action.replaces is not None:
                self.take(action.path, action.replaces)
            self.add(action.path, action.entry)
        elif isinstance(action, MakeFolder):
            self.add(action.path, {})
        elif isinstance(action, Delete):
            self.take(action.path, action.entry)
        elif isinstance(action, DeleteFolder):
            self.take(action.path, {})

    def take(self, path: str, expected: Entry) -> None:
        folder, name = self.parent(path), self.name(path)
        if folder.get(name) != expected:
            raise Changed(path)
        del folder[name]

    def add(self, path: str, entry: Entry) -> None:
        folder, name = self.parent(path), self.name(path)
        if self.fold(name) in map(self.fold, folder):
            raise Changed(path)
        folder[name] = copied(entry) if isinstance(entry, dict) else entry

    def parent(self, path: str) -> Folder:
        folder = self.folder
        for name in path.split("/")[:-1]:
            inner = folder.get(name)
            if not isinstance(inner, dict):
                raise Changed(path)
            folder = inner
        return folder

    @staticmethod
    def name(path: str) -> str:
        return path.rpartition("/")[2]


@dataclass
class Story:
    """Two sides, what they had in common, and a source of random edits."""

    seed: int
    fold: Callable[[str], str] = exactly
    serial: int = 0
    base: Folder = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.letters = "abB" if self.fold is not exactly else "abc"
        self.local, self.remote = Side({}, self.fold), Side({})

    def run(self, rounds: int) -> None:
        for _ in range(rounds):
            self.edit(self.local)
            self.edit(self.remote)
            while not self.sync(may_stop=True):
                if self.chance(0.3):
                    self.edit(self.local)
                    self.edit(self.remote)
                if self.chance(0.1):
                    self.base = {}  # as after the loss of the file with it
            self.check_end()

    def sync(self, *, may_stop: bool = False) -> bool:
        """Sync, or stop after any of the actions; return whether everything was done."""
        outcome = self.outcome()
        left = {
            "local": list(actions(self.local.folder, outcome.local, self.fold)),
            "remote": list(actions(self.remote.folder, outcome.remote, self.fold)),
        }
        new = set(self.versions()) - set(versions(self.base))
        is_undisturbed = not may_stop or self.chance(0.5)
        while any(left.values()):
            if not is_undisturbed and self.chance(0.2):
                return self.stop()
            if not is_undisturbed and self.chance(0.1):  # the user goes on working
                before = self.versions()
                self.edit(self.local)
                self.edit(self.remote)
                new -= set(before - self.versions())  # the user may delete a copy that this sync has just made
            side = self.random.choice([name for name, actions_left in left.items() if actions_left])
            action = left[side].pop(0)
            try:
                (self.local if side == "local" else self.remote).perform(action)
            except Changed:
                assert not is_undisturbed, action
                return self.stop()
            lost = new - set(self.versions())
            assert not lost, (lost, action)
        if is_undisturbed:
            assert (self.local.folder, self.remote.folder) == (outcome.local, outcome.remote)
        self.base = merged_base(copied(outcome.base), self.local.folder, self.remote.folder)
        return is_undisturbed

    def versions(self) -> Counter[str]:
        return versions(self.local.folder) + versions(self.remote.folder)

    def stop(self) -> bool:
        """A sync that stops may have saved what both sides then had in common."""
        if self.chance(0.7):
            self.base = merged_base(self.base, self.local.folder, self.remote.folder)
        return False

    def outcome(self) -> Outcome:
        # copies, because a side that performs actions changes its folder
        base, local, remote = map(copied, (self.base, self.local.folder, self.remote.folder))
        return reconcile(base=base, local=local, remote=remote, names=NAMES, fold=self.fold)

    def check_end(self) -> None:
        if self.fold is not exactly:  # a name that was one of two of its kind may be the only one now
            while not self.sync():
                pass
        assert not has_blocked(self.base)
        again = self.outcome()
        assert (again.local, again.remote, again.base) == (self.local.folder, self.remote.folder, self.base)
        if not has_blocked(self.local.folder) and not has_blocked(self.remote.folder) and self.fold is exactly:
            assert self.local.folder == self.remote.folder == self.base

    def edit(self, side: Side) -> None:
        for _ in range(self.random.randint(0, 4)):
            folder = side.folder
            while (inner := [each for each in folder.values() if isinstance(each, dict)]) and self.chance(0.6):
                folder = self.random.choice(inner)
            self.change(folder, side.fold)

    def change(self, folder: Folder, fold: Callable[[str], str]) -> None:
        name = self.random.choice(self.letters)
        name = next((each for each in folder if fold(each) == fold(name)), name)
        old = folder.get(name)
        if self.chance(0.3):
            folder.pop(name, None)
        elif self.chance(0.15):
            folder[name] = self.tree(1, fold)
        elif self.chance(0.1) and isinstance(old, File):
            folder[name] = File(old.digest, old.size, not old.is_executable)
        elif self.chance(0.2) and folder:
            moved = self.random.choice(sorted(folder))
            entry = folder.pop(moved)
            folder[moved.swapcase() if self.chance(0.3) and fold is not exactly else moved + name] = entry
        else:
            folder[name] = self.leaf()

    def tree(self, depth: int, fold: Callable[[str], str]) -> Folder:
        letters = {fold(name): name for name in self.letters if self.chance(0.7)}.values()
        return {name: self.tree(depth - 1, fold) if depth and self.chance(0.4) else self.leaf() for name in letters}

    def leaf(self) -> Entry:
        self.serial += 1
        if self.chance(0.1):
            return Blocked("it is a socket")
        if self.chance(0.1):
            return Link(f"to {self.serial}")
        return File(str(self.serial), self.serial, self.chance(0.3))

    def chance(self, share: float) -> bool:
        return self.random.random() < share


def merged_base(base: Folder, local: Folder, remote: Folder) -> Folder:
    """The base after a sync that stopped: what both sides have alike is remembered."""
    result: Folder = {}
    for name in {*base, *local, *remote}:
        before, here, there = base.get(name), local.get(name), remote.get(name)
        if isinstance(here, dict) and isinstance(there, dict):
            result[name] = merged_base(before if isinstance(before, dict) else {}, here, there)
            continue
        known = here if here == there and not isinstance(here, Blocked) else before
        if known is not None:
            result[name] = known
    return result


def play(seeds: range, fold: Callable[[str], str] = exactly) -> None:
    for seed in seeds:
        try:
            Story(seed, fold).run(6)
        except AssertionError as error:
            error.add_note(f"This is the story of seed {seed}.")
            raise


# A test per story would cost more to collect, in each worker of each run, than to run.
BLOCKS = mostly_nightly([range(first, first + 40) for first in range(0, 2000, 40)], count=1)


@pytest.mark.parametrize("seeds", BLOCKS, ids=str)
def test_a_sync_that_stops_anywhere_loses_no_version(seeds: range) -> None:
    play(seeds)


@pytest.mark.parametrize("seeds", BLOCKS, ids=str)
def test_a_side_that_ignores_the_case_of_letters_loses_no_version(seeds: range) -> None:
    play(seeds, str.casefold)
