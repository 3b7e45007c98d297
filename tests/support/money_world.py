"""A user's processes and the emulated cloud, all real and all in one process, in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from cloud_line import CloudLine
from paper_emulator import PaperWorkers
from virtual_loop import OWNER, VirtualLoop

from jupyter_tpu.autostop import Moment
from jupyter_tpu.cloud import CloudSettings
from jupyter_tpu.cloud.cloud_clock import CloudClock
from jupyter_tpu.cloud.google import GoogleCloud
from jupyter_tpu.emulator.api_faults.faults import fault_from_json
from jupyter_tpu.emulator.core import Cloud
from jupyter_tpu.emulator.resources.protos import NodePb, State
from jupyter_tpu.emulator.resources.records import Span
from jupyter_tpu.fleet import Fleet, Polling
from jupyter_tpu.fleet.autostop.controller import AutostopController
from jupyter_tpu.fleet.capacity.recreate import RecreateController
from jupyter_tpu.fleet.capacity.search_controller import SearchController
from jupyter_tpu.fleet.capacity.search_service import SearchService
from jupyter_tpu.fleet.spend.enforcer import BudgetEnforcer
from jupyter_tpu.fleet.spend.spend_ledger import SpendLedger
from jupyter_tpu.journal import Journal
from jupyter_tpu.journal.recovery_store import Recoveries

T = TypeVar("T")

PROJECT = "demo-project"
POLLING = Polling(open_s=10.0, idle_s=20.0)
BEGIN = 2_000_000_000.0
"""When the world begins, in Unix seconds: always the same, and later than the machine's own clock."""

_ENDPOINT = "127.0.0.1:1"
_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB1/4nBcHyZPu0cyKLPKqxaYqgKhO3O8M3yr9BLGHiIE test"
_DEAD = "dead"
_DEATH_S = 600.0
_IN_MEMORY = "/dev/shm"
_log = logging.getLogger("jupyter_tpu")


class KeyedWorkers(PaperWorkers):
    """Workers on paper that have published a host key as soon as they are READY."""

    def guest_items(self, node: NodePb, worker_id: int) -> list[tuple[str, str, str]]:
        return [("hostkeys", "ssh-ed25519", _KEY.split()[1])] if node.state == State.READY else []


def journal_in(folder: Path) -> Journal:
    """The journal of all processes of the user, on a machine whose power does not fail."""
    journal = Journal.open(folder)
    with journal.reading() as database:
        database.execute("PRAGMA synchronous = OFF")
    return journal


def folder_of_a_story() -> tempfile.TemporaryDirectory[str]:
    """In memory where the machine has such a place: nothing of a story needs to outlive it."""
    is_in_memory = os.access(_IN_MEMORY, os.W_OK)
    return tempfile.TemporaryDirectory(prefix="money-", dir=_IN_MEMORY if is_in_memory else None)


@functools.cache
def _new_folder() -> tempfile.TemporaryDirectory[str]:
    """An empty cloud and an empty journal, made once: to make them takes longer than many a story."""
    folder = folder_of_a_story()
    Journal.open(Path(folder.name)).close()
    _cloud_in(Path(folder.name), time.monotonic).store.close()
    return folder


def _cloud_in(folder: Path, real_time: Callable[[], float]) -> Cloud:
    return Cloud(
        project=PROJECT, state_dir=folder, time_scale=1.0, workers=KeyedWorkers(folder / "w"), real_time=real_time
    )


class Process:
    """A server of the user: a fleet with all its controllers, on the journal that all processes share.

    Its computer's clock is `ahead_s` ahead.
    """

    def __init__(self, emulated: Cloud, folder: Path, ahead_s: Callable[[], float] = float) -> None:
        def clock() -> float:
            return emulated.clock.now() + ahead_s()

        def steady() -> float:
            return emulated.clock.now() - BEGIN

        self.tasks: set[asyncio.Task[Any]] = set()
        own_clock = CloudClock(lambda: (clock(), steady()))
        self.line = CloudLine(emulated, own_clock)
        self.cloud = GoogleCloud(CloudSettings(project=PROJECT, endpoint=_ENDPOINT), self.line, own_clock)
        self.journal = journal_in(folder)
        self.braking = AutostopController(
            self.cloud, self.journal, read_clocks=lambda: Moment(wall=clock(), steady=steady())
        )
        accounting = BudgetEnforcer(self.cloud, self.journal)
        others = (RecreateController(self.cloud, self.journal), SearchController(self.cloud, self.journal))
        self.fleet = Fleet(
            self.cloud,
            self.journal,
            ssh_user="me",
            public_key=_KEY,
            polling=POLLING,
            controllers=(accounting, self.braking, *others),
            admission_checks=(accounting,),
            clock=clock,
        )
        self.books = SpendLedger(self.journal, self.cloud.settings)
        self.desk = SearchService(self.cloud, self.journal, clock=clock)

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
            _, living = await asyncio.wait(list(self.tasks), timeout=_DEATH_S)
            assert not living, f"these are not cancelled: {living}"


@dataclass
class World:
    """The emulated cloud, the user's folder, and the processes that run."""

    folder: Path

    def __post_init__(self) -> None:
        self.loop = VirtualLoop()
        self.clock_ahead_s = 0.0  # of the user's computer
        self.processes: list[Process] = []
        self._lines: list[CloudLine] = []
        self.errors = _Errors()
        _log.addHandler(self.errors)
        _log.propagate = False  # a kept log record would keep everything that its frames refer to
        shutil.copytree(_new_folder().name, self.folder, dirs_exist_ok=True)
        self.emulated = _cloud_in(self.folder, self.loop.time)
        self.emulated.clock.move_to(BEGIN)
        self.run(self.emulated.start())

    def run(self, act: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(act)

    @property
    def now(self) -> float:
        return self.emulated.clock.now()

    async def open(self) -> Process:
        process = Process(self.emulated, self.folder, lambda: self.clock_ahead_s)
        self.processes.append(process)
        self._lines.append(process.line)
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
        journal = journal_in(self.folder)
        with journal.writing() as database:
            database.execute("UPDATE intents SET owner = ? WHERE owner = ?", (_DEAD, owner))
            database.execute("UPDATE documents SET body = replace(body, ?, ?)", (f'"{owner}"', f'"{_DEAD}"'))
        journal.close()

    def close(self) -> None:
        self.run(self._close())
        self.loop.close()
        _log.propagate = True
        _log.removeHandler(self.errors)

    async def _close(self) -> None:
        for process in list(self.processes):
            await self.kill(process)
        for line in self._lines:
            await line.emptied()
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

    def delay(self, name: str, for_s: float) -> None:
        """The operations on a node take so much longer."""
        store = self.emulated.store
        with store.transaction():
            for each in store.operations_in_flight(name):
                ready_at = None if each.ready_at is None else each.ready_at + for_s
                store.save_operation(replace(each, due=(each.due or 0.0) + for_s, ready_at=ready_at))
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
        is_made = any(each.is_being_recreated for each in Recoveries(process.journal, **place).all())
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
