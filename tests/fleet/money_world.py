"""A user's processes and the emulated cloud, all real and all in one process, in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from cloud_line import CloudLine
from paper_emulator import PaperWorkers
from virtual_loop import OWNER, VirtualLoop

from jupyter_tpu.brakes import Moment
from jupyter_tpu.cloud import CloudSettings
from jupyter_tpu.cloud.google import GoogleCloud
from jupyter_tpu.emulator.core import Cloud
from jupyter_tpu.emulator.faults import fault_from_json
from jupyter_tpu.emulator.protos import NodePb, State
from jupyter_tpu.emulator.records import Span
from jupyter_tpu.fleet import Fleet, Polling
from jupyter_tpu.fleet.accounting import Accounting
from jupyter_tpu.fleet.books import Books
from jupyter_tpu.fleet.braking import Braking
from jupyter_tpu.fleet.recovering import Recovering
from jupyter_tpu.fleet.search_desk import SearchDesk
from jupyter_tpu.fleet.searching import Searching
from jupyter_tpu.journal import Journal
from jupyter_tpu.journal.recoveries import Recoveries

T = TypeVar("T")

PROJECT = "demo-project"
POLLING = Polling(open_s=5.0, idle_s=10.0)
BEGIN = 2_000_000_000.0
"""When the world begins, in Unix seconds: always the same, and later than the machine's own clock."""

_ENDPOINT = "127.0.0.1:1"
_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB1/4nBcHyZPu0cyKLPKqxaYqgKhO3O8M3yr9BLGHiIE test"
_DEAD = "dead"


class KeyedWorkers(PaperWorkers):
    """Workers on paper that have published a host key as soon as they are READY."""

    def guest_items(self, node: NodePb, worker_id: int) -> list[tuple[str, str, str]]:
        return [("hostkeys", "ssh-ed25519", _KEY.split()[1])] if node.state == State.READY else []


class Process:
    """A server of the user: a fleet with all its keepers, on the journal that all processes share."""

    def __init__(self, emulated: Cloud, folder: Path) -> None:
        clock = emulated.clock.now
        self.tasks: set[asyncio.Task[Any]] = set()
        self.line = CloudLine(emulated)
        self.cloud = GoogleCloud(CloudSettings(project=PROJECT, endpoint=_ENDPOINT), self.line)
        self.journal = Journal.open(folder)
        with self.journal.reading() as database:
            database.execute("PRAGMA synchronous = OFF")  # the machine's power does not fail
        self.braking = Braking(
            self.cloud, self.journal, look_at_clocks=lambda: Moment(wall=clock(), steady=clock() - BEGIN)
        )
        accounting = Accounting(self.cloud, self.journal, clock=clock)
        others = (Recovering(self.cloud, self.journal), Searching(self.cloud, self.journal))
        self.fleet = Fleet(
            self.cloud,
            self.journal,
            ssh_user="me",
            public_key=_KEY,
            polling=POLLING,
            keepers=(accounting, self.braking, *others),
            guards=(accounting,),
            clock=clock,
        )
        self.books = Books(self.journal, self.cloud.settings)
        self.desk = SearchDesk(self.cloud, self.journal, clock=clock)

    async def does(self, act: Coroutine[Any, Any, T]) -> T:
        """Perform something as this process: it ends with it."""
        owner = OWNER.set(self.tasks)
        try:
            return await asyncio.create_task(act)
        finally:
            OWNER.reset(owner)

    async def die(self) -> None:
        """From one moment to the next: nothing of what it still does has an effect, but what was sent arrives."""
        self.line.is_cut = True
        self.journal.close()
        while self.tasks:
            for task in list(self.tasks):
                task.cancel()
            await asyncio.wait(list(self.tasks))


@dataclass
class World:
    """The emulated cloud, the user's folder, and the processes that run."""

    folder: Path

    def __post_init__(self) -> None:
        self.loop = VirtualLoop()
        self.processes: list[Process] = []
        self.errors = _Errors()
        logging.getLogger("jupyter_tpu").addHandler(self.errors)
        self.emulated = Cloud(
            project=PROJECT,
            state_dir=self.folder,
            time_scale=1.0,
            workers=KeyedWorkers(self.folder / "w"),
            real_time=self.loop.time,
        )
        self.emulated.clock.move_to(BEGIN)
        self.run(self.emulated.start())

    def run(self, act: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(act)

    @property
    def now(self) -> float:
        return self.emulated.clock.now()

    async def open(self) -> Process:
        process = Process(self.emulated, self.folder)
        self.processes.append(process)
        await process.does(process.fleet.start())
        return process

    async def kill(self, process: Process) -> None:
        """`kill -9`. The journal says who owned what; that owner is gone now."""
        self.processes.remove(process)
        with self.errors.ignored():
            await process.die()
        self._bury(process.journal.owner)

    def _bury(self, owner: str) -> None:
        """Its process id is ours, which lives, so that the journal is told of the death."""
        journal = Journal.open(self.folder)
        with journal.writing() as database:
            database.execute("UPDATE intents SET owner = ? WHERE owner = ?", (_DEAD, owner))
            database.execute("UPDATE documents SET body = replace(body, ?, ?)", (f'"{owner}"', f'"{_DEAD}"'))
        journal.close()

    def close(self) -> None:
        self.run(self._close())
        self.loop.close()
        logging.getLogger("jupyter_tpu").removeHandler(self.errors)

    async def _close(self) -> None:
        for process in list(self.processes):
            await self.kill(process)
        await self.emulated.close()

    # -- what the cloud does

    def fault(self, method: str, kind: str, **options: Any) -> None:
        asked = {"method": method, "kind": kind, **options}
        self.emulated.scripted.table.add(fault_from_json(asked, self.emulated.methods))

    async def preempt(self, name: str) -> None:
        node = self.emulated.store.node(name)
        if node is not None and node.state == State.READY:
            await self.emulated.effects.preempt(node)
        self.emulated.timeline.arm()

    def stock_out(self, zone: str, for_s: float) -> None:
        with self.emulated.store.transaction():
            self.emulated.rules.capacity.stock_out(zone, "", for_s)

    def all_is_well(self) -> None:
        """No fault waits, and there is room for everything."""
        self.emulated.scripted.clear()
        with self.emulated.store.transaction():
            self.emulated.rules.capacity.clear()

    # -- what the judge sees

    def nodes(self) -> list[NodePb]:
        return self.emulated.store.nodes()

    def spans(self) -> list[Span]:
        """Every time in which a node was billed."""
        return [span for span in self.emulated.store.spans() if not span.is_waived]

    # -- what the journal says

    def is_known(self, intent_id: str) -> bool:
        return self.processes[0].journal.find(intent_id) is not None

    def is_at_rest(self) -> bool:
        """Whether nothing is under way that anybody asked for."""
        process = self.processes[0]
        settings = process.cloud.settings
        place = {"endpoint": settings.endpoint, "project": settings.project}
        is_open = any(not each.settled for each in process.journal.listed(self.now, **place))
        is_made = any(each.is_being_made for each in Recoveries(process.journal, **place).all())
        is_sought = any(not search.has_ended for search in self.run(process.desk.all()))
        return not (is_open or is_made or is_sought)


class _Errors(logging.Handler):
    """What the product itself calls a mistake of its own."""

    def __init__(self) -> None:
        super().__init__(level=logging.ERROR)
        self.seen: list[str] = []
        self._are_ignored = False

    def emit(self, record: logging.LogRecord) -> None:
        if not self._are_ignored:
            self.seen.append(self.format(record))

    @contextlib.contextmanager
    def ignored(self) -> Iterator[None]:
        self._are_ignored = True
        try:
            yield
        finally:
            self._are_ignored = False
