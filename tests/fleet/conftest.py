"""A fleet on an emulated cloud in a process of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_tpu.cloud import CloudApi, CloudSettings, connect_cloud
from jupyter_tpu.fleet import Fleet, FleetChange, Polling
from jupyter_tpu.fleet.reconciler.fleet import Controller
from jupyter_tpu.journal import Journal
from jupyter_tpu.models import NodeName, NodeSpec

if TYPE_CHECKING:
    from money_world import World

PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB1/4nBcHyZPu0cyKLPKqxaYqgKhO3O8M3yr9BLGHiIE test"
QUICK = Polling(open_s=0.05, idle_s=1.0)
DYING_PROCESS = Path(__file__).with_name("dying_process.py")


class Bench:
    """One journal, one cloud, and as many fleets as a test wants, one after the other or together."""

    def __init__(self, emulator: Any, cloud: CloudApi, folder: Path, stack: AsyncExitStack) -> None:
        self.emulator = emulator
        self.cloud = cloud
        self.folder = folder
        self.changes: list[FleetChange] = []
        self._changed = asyncio.Event()
        self._stack = stack

    def name(self, node_id: str = "my-node", zone: str = "") -> NodeName:
        return NodeName(project=self.emulator.project, zone=zone or self.emulator.zone, node_id=node_id)

    def spec(self, node_id: str = "my-node", **changes: Any) -> NodeSpec:
        wanted = {
            "name": self.name(node_id),
            "accelerator_type": self.emulator.accelerator_type,
            "runtime_version": self.emulator.runtime_version,
        }
        return NodeSpec(**{**wanted, **changes})

    async def change(self, kind: str, *, state: str) -> FleetChange:
        """The first change of that kind to that state, which may have come already."""

        def found() -> FleetChange | None:
            return next((each for each in self.changes if (each.kind, each.state) == (kind, state)), None)

        await self.until(lambda: found() is not None)
        change = found()
        assert change is not None
        return change

    async def until(self, is_so: Callable[[], bool], timeout_s: float = 120) -> None:
        """Until that is so; looked at after each change."""
        async with asyncio.timeout(timeout_s):
            while not is_so():
                self._changed.clear()
                await self._changed.wait()

    def _on_change(self, change: FleetChange) -> None:
        self.changes.append(change)
        self._changed.set()

    def journal(self) -> Journal:
        """A journal of the bench's folder, as a process of its own would open it."""
        journal = Journal.open(self.folder)
        self._stack.callback(journal.close)
        return journal

    async def fleet(self, *controllers: Callable[[CloudApi, Journal], Controller], **options: Any) -> Fleet:
        journal = options.pop("journal", None) or self.journal()
        fleet = Fleet(
            self.cloud,
            journal,
            ssh_user="me",
            public_key=PUBLIC_KEY,
            on_change=self._on_change,
            polling=options.pop("polling", QUICK),
            controllers=[make(self.cloud, journal) for make in controllers],
            **options,
        )
        self._stack.push_async_callback(fleet.close)
        await fleet.start()
        return fleet

    async def die(self, verb: str, point: str) -> None:
        """Let another process with a fleet begin that to `my-node`, and kill itself at that point."""
        arguments = [self.emulator.grpc, self.emulator.project, str(self.folder), "my-node", verb, point]
        environment = {**os.environ, "PYTHONPATH": str(DYING_PROCESS.parents[2])}
        process = await asyncio.create_subprocess_exec(sys.executable, str(DYING_PROCESS), *arguments, env=environment)
        assert await process.wait() == -signal.SIGKILL


@pytest.fixture
async def make_bench(make_emulator: Callable[..., Any], tmp_path: Path) -> AsyncIterator[Callable[[], Any]]:
    """Gives benches with a cloud each and one journal for all."""
    async with AsyncExitStack() as stack:

        async def make() -> Bench:
            emulator = make_emulator()
            cloud = await connect_cloud(CloudSettings(project=emulator.project, endpoint=emulator.grpc))
            stack.push_async_callback(cloud.aclose)
            return Bench(emulator, cloud, tmp_path, stack)

        yield make


@pytest.fixture
async def bench(make_bench: Callable[[], Any]) -> Bench:
    made: Bench = await make_bench()
    return made


@pytest.fixture
def world() -> Iterator[World]:
    """A cloud, a journal and processes of a user in virtual time."""
    from money_world import World, folder_of_a_story

    with folder_of_a_story() as folder:
        made = World(Path(folder))
        try:
            yield made
        finally:
            made.close()
