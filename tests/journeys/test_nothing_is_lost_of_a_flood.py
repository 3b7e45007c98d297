"""Hundreds of megabytes are printed while nobody listens: all of it is there afterwards, and no process has held it.

`FLOOD_MB=1000` in the environment makes it a gigabyte; the record keeps one GiB.
"""

from __future__ import annotations

import asyncio
import json
import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from journey_client import FrontEnd, open_session, outputs_of
from journey_place import GATES, Place, a_place

pytestmark = [pytest.mark.system("sshd"), pytest.mark.timeout(600)]

FLOOD_MB = int(os.environ.get("FLOOD_MB", "200"))
LINE_BYTES = 64 * 1024
LINES = FLOOD_MB * 1_000_000 // LINE_BYTES
MORE_MIB = 64

# IPython keeps a copy of all that cells print, in any kernel; that is not ours to watch, so its write is passed by
FLOOD = f"""
import sys
write = type(sys.stdout).write
wait_at("flood")
for number in range({LINES}):
    write(sys.stdout, f"{{number:07d}} " + "x" * {LINE_BYTES - 9} + "\\n")
    sys.stdout.flush()
come_to("flooded")
"""


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with a_place("--sshd", "system") as place:
        place.start_server()
        yield place


class Peaks:
    """The most memory that processes have held since this was made, beyond what they held then."""

    def __init__(self, processes: dict[str, psutil.Process]) -> None:
        self._processes = processes
        self._before = {name: process.memory_info().rss for name, process in processes.items()}
        for process in processes.values():
            Path(f"/proc/{process.pid}/clear_refs").write_text("5")  # resets the peak that the kernel counts

    def extra_mib(self) -> dict[str, int]:
        return {name: (_peak_bytes(each) - self._before[name]) >> 20 for name, each in self._processes.items()}


def _peak_bytes(process: psutil.Process) -> int:
    status = Path(f"/proc/{process.pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


def processes_of(place: Place, kernel_pid: int) -> dict[str, psutil.Process]:
    assert place.server is not None
    named = {"server": psutil.Process(place.server.pid), "kernel": psutil.Process(kernel_pid)}
    named.update({f"agent {each.pid}": each for each in place.agents()})
    below = psutil.Process(place.emulator.pid).children(recursive=True)
    return {**named, **{f"sshd {each.pid}": each for each in below if each.name() == "sshd"}}


def text_of(place: Place, kernel_id: str, msg_id: str) -> list[bytes]:
    """The beginnings of the lines that the cell printed, as the server streams them."""
    url = f"http://127.0.0.1:{place.port}/jupyter-tpu/v1/kernels/{kernel_id}/requests/{msg_id}/text"
    request = urllib.request.Request(url, headers={"Authorization": f"token {place.token}"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=120) as answer:
        return [line[:7] for line in answer]


@pytest.mark.nightly
async def test_a_flood_that_nobody_heard_is_kept_whole_and_costs_no_memory(place: Place) -> None:
    tab = FrontEnd(place, await asyncio.to_thread(open_session, place))
    await tab.connect()
    await tab.run(GATES)
    kernel_pid = int(await tab.run("import os; print(os.getpid())"))
    cell = await tab.execute(FLOOD)
    await asyncio.to_thread(place.wait_for_mark, "at-flood")
    await tab.settle()
    await tab.drop()

    peaks = Peaks(processes_of(place, kernel_pid))
    place.allow("flood")
    await asyncio.to_thread(place.wait_for_mark, "flooded", 300)
    again = FrontEnd(place, tab.kernel_id)
    shown = again.look_at(cell)
    await again.connect()
    await tab.connect()
    await asyncio.gather(tab.until(lambda: cell.is_done), again.until(lambda: shown.is_done))

    numbers = await asyncio.to_thread(text_of, place, tab.kernel_id, cell.msg_id)
    assert numbers == [b"%07d" % number for number in range(LINES)]
    extra = peaks.extra_mib()
    assert {name: mib for name, mib in extra.items() if mib >= MORE_MIB} == {}, extra
    for seen in (cell, shown):
        shows = json.dumps(outputs_of([seen]))
        assert "0000000 x" in shows
        assert "MB more on the node" in shows
        assert f"{LINES - 1:07d} x" in shows
        assert len(shows) < 4_000_000, "a page gets the beginning and the end"
    await tab.close()
    await again.close()
