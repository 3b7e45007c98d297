"""A long run with a cut every 20 s and a server restart every 5 min, and what it costs the processes.

Cells go on all the time. File descriptors, threads and memory of server, agent and kernel, and the disk of the worker,
are looked at after each restart of the server; they may not grow from the second look on.
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

from jupyter_tpu.emulator.fault_proxy_script import random_fault
from jupyter_tpu.emulator.fault_proxy_verbs import LinkFault

CUT_EVERY_S = 20.0
RESTART_EVERY_S = 300.0
CELL = "for number in range(200): print('cell', cell, number, flush=True)"
TEXT = "".join(f"cell {{cell}} {number}\n" for number in range(200))
VERBS = ("reset", "finish", "half_close", "cut", "corrupt", "stall", "refuse", "black_hole")
MORE_FILES, MORE_THREADS, MORE_BYTES = 12, 6, 48 * 1024 * 1024


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
    say: Callable[[str], None]
    cells: int = 0
    looks: list[dict[str, Look]] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    rng: random.Random = field(default_factory=lambda: random.Random(0))

    async def run_cell(self) -> None:
        printed = await self.page.run(f"cell = {self.cells}\n{CELL}")
        if printed != TEXT.format(cell=self.cells):
            self.complaints.append(f"cell {self.cells} printed {printed[:500]!r}")
        self.page.forget()
        self.cells += 1

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
        told = ", ".join(f"{name} {look}" for name, look in self.looks[-1].items())
        self.say(f"{self.cells} cells: {told}, disk {disk_bytes(self.place.home) >> 20} MiB")


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
    wear = Wear(place, page, say)
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
    await page.close()
    return [*wear.complaints, *_growth(wear.looks)]


def _growth(looks: list[dict[str, Look]]) -> list[str]:
    """From the second look on, when everything has been imported and used once."""
    first, last = looks[min(1, len(looks) - 1)], looks[-1]
    return [f"{name}: {told}" for name in first if name in last for told in first[name].growth(last[name])]
