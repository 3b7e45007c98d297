"""A long run with a cut every 20 s and a server restart every 5 min, and what it costs the processes.

Cells go on all the time, in a page and over a link of this process. File descriptors, threads and memory of server,
agent and emulator, and the tasks of this process, are looked at before each restart of the server; they may not grow
from the second look on. The worker's disk grows by what cells print (the record keeps it up to its cap), and by no more
per cell in the end than in the beginning.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from journey_client import FrontEnd, open_session
from journey_place import Place, a_place
from journey_schedules import LinkPlayer, link_player

from jupyter_tpu.emulator.network_faults.fault_script import random_fault
from jupyter_tpu.emulator.network_faults.verbs import LinkFault

CUT_EVERY_S = 20.0
RESTART_EVERY_S = 300.0
CELL = "for number in range(200): print('cell', cell, number, flush=True)"
TEXT = "".join(f"cell {{cell}} {number}\n" for number in range(200))
VERBS = ("reset", "finish", "half_close", "cut", "corrupt", "stall", "refuse", "black_hole")
MORE_FILES, MORE_THREADS, MORE_BYTES, MORE_TASKS = 12, 6, 48 * 1024 * 1024, 6
MORE_DISK_PER_CELL = 1.25


@dataclass(frozen=True)
class Look:
    """What a process has at one moment."""

    files: int
    threads: int
    rss_bytes: int

    @classmethod
    def at(cls, process: psutil.Process) -> Look:
        return cls(process.num_fds(), process.num_threads(), process.memory_info().rss)

    def growth(self, later: Look) -> list[str]:
        grown = (
            ("file descriptors", self.files, later.files, MORE_FILES),
            ("threads", self.threads, later.threads, MORE_THREADS),
            ("bytes of memory", self.rss_bytes, later.rss_bytes, MORE_BYTES),
        )
        return [f"{what}: {before} → {after}" for what, before, after, more in grown if after - before > more]


def look_at_all(place: Place) -> dict[str, Look]:
    """Server, agent, and the emulator, which holds the SSH servers."""
    assert place.server is not None
    looks = {
        "server": Look.at(psutil.Process(place.server.pid)),
        "emulator": Look.at(psutil.Process(place.emulator.pid)),
    }
    for process in place.agents():
        looks["agent"] = Look.at(process)
    return looks


def disk_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@dataclass
class Wear:
    """The run: `complaints` is what was wrong with it so far."""

    place: Place
    page: FrontEnd
    other: LinkPlayer
    say: Callable[[str], None]
    cells: int = 0
    looks: list[dict[str, Look]] = field(default_factory=list)
    tasks: list[int] = field(default_factory=list)
    disk: list[tuple[int, int]] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    rng: random.Random = field(default_factory=lambda: random.Random(0))

    async def run_cell(self) -> None:
        code = f"cell = {self.cells}\n{CELL}"
        cell = await self.other.execute(code)
        self._check("page", await self.page.run(code))
        await self.other.tab.until(lambda: cell.is_done)
        self._check("link", cell.text())
        self.page.forget()
        self.other.tab.forget()
        self.cells += 1

    def _check(self, client: str, printed: str) -> None:
        if printed != TEXT.format(cell=self.cells):
            self.complaints.append(f"cell {self.cells} printed in the {client} {printed[:500]!r}")

    async def cut(self) -> None:
        fault = random_fault(self.rng, self.rng.choice(VERBS))
        await asyncio.to_thread(self.place.fault_link, fault)
        if fault.verb == "black_hole":  # so that something is lost in it
            await asyncio.sleep(fault.for_s)

    async def restart_server(self) -> None:
        await self.look()
        await self.page.settle()
        await asyncio.to_thread(self.place.kill_server)
        await self.page.lost()
        await asyncio.to_thread(self.place.start_server)
        await self.page.connect()

    async def look(self) -> None:
        await asyncio.to_thread(self.place.fault_link, LinkFault(verb="clear"))
        self.looks.append(await asyncio.to_thread(look_at_all, self.place))
        self.tasks.append(len(asyncio.all_tasks()))
        self.disk.append((self.cells, disk_bytes(self.place.home)))
        told = ", ".join(f"{name} {look}" for name, look in self.looks[-1].items())
        self.say(f"{self.cells} cells: {told}, {self.tasks[-1]} tasks, disk {self.disk[-1][1] >> 10} KiB")


def soak_for(
    seconds: float,
    say: Callable[[str], None],
    *,
    cut_every_s: float = CUT_EVERY_S,
    restart_every_s: float = RESTART_EVERY_S,
) -> list[str]:
    """What has worn in so many seconds."""
    with a_place() as place:
        place.start_server()
        return asyncio.run(_soak(place, say, seconds, {"cut": cut_every_s, "restart_server": restart_every_s}))


async def _soak(place: Place, say: Callable[[str], None], seconds: float, every_s: dict[str, float]) -> list[str]:
    page = FrontEnd(place, await asyncio.to_thread(open_session, place))
    await page.connect()
    async with link_player(place, []) as other:
        wear = Wear(place, page, other, say)
        await _go_on(wear, seconds, every_s)
        await page.close()
        return [*wear.complaints, *other.complaints(), *_growth(wear)]


async def _go_on(wear: Wear, seconds: float, every_s: dict[str, float]) -> None:
    began = time.monotonic()
    due_at = {what: began + each_s for what, each_s in every_s.items()}
    await wear.run_cell()
    while (now := time.monotonic()) < began + seconds:
        for what, at in due_at.items():
            if now > at:
                due_at[what] = now + every_s[what]
                await getattr(wear, what)()
        await wear.run_cell()
    await wear.look()


def _growth(wear: Wear) -> list[str]:
    """From the second look on, when everything has been imported and used once."""
    second = min(1, len(wear.looks) - 1)
    first, last = wear.looks[second], wear.looks[-1]
    told = [f"{name}: {grown}" for name in first if name in last for grown in first[name].growth(last[name])]
    if wear.tasks[-1] - wear.tasks[second] > MORE_TASKS:
        told.append(f"tasks: {wear.tasks}")
    return [*told, *_disk_growth(wear.disk[second:])]


def _disk_growth(disk: list[tuple[int, int]]) -> list[str]:
    """Bytes per cell in the second half of the looks against the first half."""
    if len(disk) < 3:
        return []
    early, late = _per_cell(disk[: len(disk) // 2 + 1]), _per_cell(disk[len(disk) // 2 :])
    return [f"disk: {early:.0f} → {late:.0f} bytes per cell"] if late > MORE_DISK_PER_CELL * early else []


def _per_cell(disk: list[tuple[int, int]]) -> float:
    (first_cells, first_bytes), (last_cells, last_bytes) = disk[0], disk[-1]
    return (last_bytes - first_bytes) / max(1, last_cells - first_cells)
