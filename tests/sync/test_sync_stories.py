"""Random edits in two real folders, with killed replicas, edits during a sync and wrong clocks: nothing is lost."""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from replicas import tree, visible
from tiers import mostly_nightly

from jupyter_tpu.journal.sync_state import SyncState
from jupyter_tpu.sync.replica_client import LocalReplica, ReplicaFailed
from jupyter_tpu.sync.session import SyncResult, SyncSession


class Watched:
    """A replica; the story gets a turn before each request that changes its folder, and may kill it."""

    def __init__(self, replica: LocalReplica, turn: Callable[[LocalReplica], None]) -> None:
        self._replica = replica
        self._turn = turn

    def __getattr__(self, name: str) -> Any:
        return getattr(self._replica, name)

    async def ask(self, op: str, data: bytes = b"", **request: Any) -> Any:
        if op in ("apply", "save"):
            self._turn(self._replica)
        return await self._replica.ask(op, data, **request)


class Story:
    """Two folders and a source of random edits."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.serial = 0
        self.folders = {side: folder / side for side in ("local", "remote")}
        for each in self.folders.values():
            each.mkdir()
        self.state = SyncState(folder / "state.sqlite")
        self.new: set[str] = set()
        self.is_calm = True
        self.replicas: dict[str, LocalReplica] = {}

    async def run(self, rounds: int) -> None:
        for _ in range(rounds):
            self.edit()
            for _ in range(self.random.randint(0, 2)):
                with suppress(ReplicaFailed):
                    await self.sync(is_calm=False)
            result = await self.sync(is_calm=True)
            while not result.is_complete:
                result = await self.sync(is_calm=True)
            assert tree(self.folders["local"]) == tree(self.folders["remote"])
            again = await self.sync(is_calm=True)
            assert (*again.local, *again.remote) == ()

    async def sync(self, *, is_calm: bool) -> SyncResult:
        self.is_calm = is_calm
        self.new = set(self.versions()) - self.base_versions()
        try:
            watched = {side: Watched(await self.replica(side), self.turn) for side in self.folders}
            session = SyncSession(**watched, state=self.state, node="my-node", batch=500 if is_calm else 1)  # type: ignore[arg-type]
            return await session.run_once(is_confirmed=True)
        except ReplicaFailed:
            await self.close()
            raise
        finally:
            self.check()
            if self.chance(0.2):
                await self.close()

    async def replica(self, side: str) -> LocalReplica:
        if side not in self.replicas:
            self.replicas[side] = await LocalReplica.start(self.folders[side])
        return self.replicas[side]

    async def close(self) -> None:
        while self.replicas:
            _, replica = self.replicas.popitem()
            await replica.close()

    def check(self) -> None:
        lost = self.new - set(self.versions())
        assert not lost

    def turn(self, replica: LocalReplica) -> None:
        self.check()
        if not self.is_calm and self.chance(0.15):
            os.kill(replica.pid, 9)
        if not self.is_calm and self.chance(0.1):
            before = self.versions()
            self.edit()
            self.new -= set(before - self.versions())  # the user may delete a copy that this sync has just made

    def versions(self) -> Counter[str]:
        return Counter(entry[1] for folder in self.folders.values() for entry in tree(folder).values() if entry[1])

    def base_versions(self) -> set[str]:
        rows = self.state.load()[1].get("base", {})
        return {row[1] for row in rows.values() if row is not None and len(row) > 1}

    def edit(self) -> None:
        for folder in self.folders.values():
            for _ in range(self.random.randint(0, 4)):
                inside = folder
                while self.chance(0.6) and (inner := sorted(each for each in visible(inside) if is_folder(each))):
                    inside = self.random.choice(inner)
                self.change(inside)

    def change(self, folder: Path) -> None:
        path = folder / self.random.choice("abc")
        if self.chance(0.3):
            remove(path)
        elif self.chance(0.15):
            remove(path)
            path.mkdir()
            for name in "abc":
                if self.chance(0.6):
                    self.write(path / name)
        elif self.chance(0.1) and path.is_file() and not path.is_symlink():
            path.chmod(path.stat().st_mode ^ 0o100)
        elif self.chance(0.2) and (there := sorted(visible(folder))):
            moved = self.random.choice(there)
            with suppress(OSError):
                moved.rename(moved.with_name(moved.name[:20] + "x"))
        else:
            self.write(path)

    def write(self, path: Path) -> None:
        self.serial += 1
        if not (self.chance(0.3) and path.is_file() and not path.is_symlink()):  # else in place
            remove(path)
        if self.chance(0.1):
            remove(path)
            path.symlink_to(f"to-{self.serial}")
            return
        size = self.random.choice((1, 10, 10, 100_000, 2_000_000)) if self.chance(0.2) else 10
        path.write_bytes(b"%d," % self.serial * size)
        if self.chance(0.3):  # the clock of this side is wrong
            os.utime(path, (self.random.choice((0, 1e9, 4e9)),) * 2)

    def chance(self, share: float) -> bool:
        return self.random.random() < share


def is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def remove(path: Path) -> None:
    if is_folder(path):
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


# A test per story would cost more to collect, in each worker of each run, than to run.
@pytest.mark.parametrize(
    "seeds", mostly_nightly([range(first, first + 10) for first in range(0, 2000, 10)], count=1), ids=str
)
async def test_a_sync_that_is_killed_anywhere_loses_no_version(tmp_path: Path, seeds: range) -> None:
    for seed in seeds:
        folder = tmp_path / str(seed)
        folder.mkdir()
        story = Story(folder, seed)
        try:
            await story.run(3)
        except AssertionError as error:
            error.add_note(f"This is the story of seed {seed}.")
            raise
        finally:
            await story.close()
