"""A long run with a cut every 20 s and a server restart every 5 min, and what it costs the processes.

Cells go on all the time. File descriptors, threads and memory of server, agent and kernel, and the disk of the worker,
are looked at after each restart of the server; they may not grow from the second look on.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
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
    """Server, emulator (which holds the SSH servers), agent and the kernels of the worker."""
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


def soak_for(minutes: float, say: Callable[[str], None]) -> list[str]:
    """What has worn in so many minutes."""
    with a_place() as place:
        place.start_server()
        return asyncio.run(_soak(place, minutes * 60, say))


async def _soak(place: Place, seconds: float, say: Callable[[str], None]) -> list[str]:
    page = FrontEnd(place, await asyncio.to_thread(open_session, place))
    await page.connect()
    began, cell, looks = time.monotonic(), 0, list[dict[str, Look]]()
    cut_at, restart_at, rng, complaints = began + CUT_EVERY_S, began + RESTART_EVERY_S, random.Random(0), list[str]()
    looks.append(await asyncio.to_thread(look_at_all, place))
    while (now := time.monotonic()) < began + seconds:
        if now > cut_at:
            cut_at += CUT_EVERY_S
            fault = random_fault(rng, rng.choice(VERBS))
            await asyncio.to_thread(place.fault_link, fault)
            if fault.verb == "black_hole":
                await asyncio.sleep(fault.for_s)
        if now > restart_at:
            restart_at += RESTART_EVERY_S
            looks.append(await asyncio.to_thread(look_at_all, place))
            say(f"{now - began:.0f} s, {cell} cells: {looks[-1]}, disk {disk_bytes(place.home) >> 20} MiB")
            await page.settle()
            await asyncio.to_thread(place.kill_server)
            await page.lost()
            await asyncio.to_thread(place.start_server)
            await page.connect()
        printed = await page.run(f"cell = {cell}\n{CELL}")
        if printed != TEXT.format(cell=cell):
            complaints.append(f"cell {cell} printed {printed[:500]!r}")
        page.forget()
        cell += 1
    await asyncio.to_thread(place.fault_link, LinkFault(verb="clear"))
    looks.append(await asyncio.to_thread(look_at_all, place))
    say(f"{seconds:.0f} s, {cell} cells: {looks[-1]}, disk {disk_bytes(place.home) >> 20} MiB")
    await page.close()
    return [*complaints, *_growth(looks)]


def _growth(looks: list[dict[str, Look]]) -> list[str]:
    """From the second look on, when everything has been imported and used once."""
    first, last = looks[min(1, len(looks) - 1)], looks[-1]
    return [f"{name}: {told}" for name in first if name in last for told in first[name].growth(last[name])]
