"""Measure how soon a dead connection is noticed and a kernel's output continues: ``python -m benchmarks.recovery``.

A kernel prints continuously. Its connection then fails in one of several ways, and comes back after a different time in
each run, so that it comes back at any point between two attempts to reconnect. See README.md.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from benchmarks.cell import Kernel, interrupt
from benchmarks.worker import NODE, Place, kernel_name_of, opened_place
from jupyter_tpu.emulator.control.client import EmulatorControl

PRINTING = "import time\nwhile True:\n    print(time.time(), flush=True)\n    time.sleep(0.02)"
WAYS: Mapping[str, Mapping[str, Any]] = {
    "stall": {"verb": "stall"},
    "black hole, both ways": {"verb": "black_hole"},
    "black hole, up": {"verb": "black_hole", "direction": "up"},
    "black hole, down": {"verb": "black_hole", "direction": "down"},
}
_KIB_PER_S = 4883  # 5 MB/s
_QUEUED_MIB = 100
_PATIENCE_S = 120
_TICK_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """One outage; times are in seconds.

    Attributes:
        noticed_s: from the start of the outage until the link's state is "down"; None if the outage ended first.
        live_s: from the end of the outage until the link's state is "live".
        output_s: from the end of the outage until the kernel's first line arrives.
    """

    noticed_s: float | None
    live_s: float | None
    output_s: float


class Listener:
    """Reads the kernel's output as it arrives, and signals each line."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._news = asyncio.Event()
        self._task = asyncio.create_task(self._listen())

    async def first_output(self, after: float) -> float:
        """Return when the first line arrived after this time (Unix seconds)."""
        while True:
            self._news.clear()
            async with asyncio.timeout(_PATIENCE_S):
                await self._news.wait()
            if (heard_at := time.time()) > after:
                return heard_at

    async def close(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _listen(self) -> None:
        while True:
            message = await self._kernel.client.get_iopub_msg()
            if message["msg_type"] == "stream":
                self._news.set()


async def measure_outages(place: Place, rtt_ms: float, runs: int, rng: random.Random) -> dict[str, list[Recovery]]:
    """Measure each kind of outage `runs` times with one kernel."""
    control = EmulatorControl(place.environ["JUPYTER_TPU_EMULATOR"])
    control.fault_link(NODE, "clear")
    control.fault_link(NODE, "latency", ms=rtt_ms / 2)
    kernel = Kernel(kernel_name_of(NODE))
    await kernel.start()
    kernel.client.execute(PRINTING)
    listener = Listener(kernel)
    found: dict[str, list[Recovery]] = {way: [] for way in WAYS}
    for _ in range(runs):
        for way, fault in WAYS.items():
            await listener.first_output(after=time.time() + 2)
            found[way].append(await _outage(control, kernel, listener, fault, rng.uniform(15, 25)))
            _print(f"{way}: {found[way][-1]}")
    await listener.close()
    await kernel.manager.interrupt_kernel()
    await kernel.end()
    return found


async def _outage(
    control: EmulatorControl, kernel: Kernel, listener: Listener, fault: Mapping[str, Any], for_s: float
) -> Recovery:
    began = time.time()
    await asyncio.to_thread(control.fault_link, NODE, for_s=for_s, **fault)
    back_at = time.time() + for_s
    down_at = await _since(kernel, "down", until=back_at)
    output_at = await listener.first_output(after=back_at)
    live_at = await _since(kernel, "live", until=time.time() + _PATIENCE_S)
    assert live_at, "the link did not come back"
    return Recovery(
        noticed_s=down_at and down_at - began, live_s=down_at and live_at - back_at, output_s=output_at - back_at
    )


async def _since(kernel: Kernel, state: str, *, until: float) -> float | None:
    """Return since when the link has been in this state, or None if it doesn't reach the state in time."""
    provisioner: Any = kernel.manager.provisioner
    while time.time() < until:
        if provisioner.link_state.state == state:
            return float(provisioner.link_state.since)
        await asyncio.sleep(_TICK_S)
    return None


async def measure_interrupts(place: Place, rtt_ms: float, runs: int) -> dict[str, list[float]]:
    """Measure interrupts over a connection with 5 MB/s, with and without much waiting output."""
    control = EmulatorControl(place.environ["JUPYTER_TPU_EMULATOR"])
    control.fault_link(NODE, "clear")
    control.fault_link(NODE, "latency", ms=rtt_ms / 2)
    control.fault_link(NODE, "rate", kib_per_s=_KIB_PER_S)
    found: dict[str, list[float]] = {}
    for queued_mib in (0, _QUEUED_MIB):
        name = f"{queued_mib} MiB queued"
        found[name] = []
        for _ in range(runs):
            found[name] += (await interrupt(kernel_name_of(NODE), queued_mib)).values()
            _print(f"interrupt, {name}: {found[name][-1]:.3f} s")
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    rng = random.Random(options.seed)
    with opened_place(None, sshd=options.sshd) as place:
        os.environ.update(place.environ)
        outages = asyncio.run(measure_outages(place, options.rtt, options.runs, rng))
        interrupts = asyncio.run(measure_interrupts(place, options.rtt, options.runs))
    sys.stdout.write(_report(options, outages, interrupts))


def _report(
    options: argparse.Namespace, outages: Mapping[str, Sequence[Recovery]], interrupts: Mapping[str, Sequence[float]]
) -> str:
    load = ", ".join(f"{load:.1f}" for load in os.getloadavg())
    lines = [
        f"RTT {options.rtt:g} ms, {options.sshd} sshd, {options.runs} runs, seed {options.seed}; load {load}",
        "",
        "| in seconds: median (worst) | noticed | live again | first output |",
        "| --- | --- | --- | --- |",
    ]
    for way, recoveries in outages.items():
        columns = [[getattr(each, name) for each in recoveries] for name in ("noticed_s", "live_s", "output_s")]
        lines.append(f"| {way} | {' | '.join(map(_shown, columns))} |")
    lines += [f"| interrupt, {name} | | | {_shown(values)} |" for name, values in interrupts.items()]
    return "\n".join(lines) + "\n"


def _shown(values: Sequence[float | None]) -> str:
    there = [value for value in values if value is not None]
    missing = f", {len(values) - len(there)} never" if len(there) < len(values) else ""
    return f"{statistics.median(there):.2f} ({max(there):.2f}){missing}" if there else "never"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recovery", description=__doc__)
    parser.add_argument("--rtt", type=float, default=50, help="round trip of the path, in ms")
    parser.add_argument("--runs", type=int, default=5, help="of each")
    parser.add_argument("--sshd", choices=("embedded", "system"), default="system", help="SSH server of the worker")
    parser.add_argument("--seed", type=int, default=0, help="of how long each outage is")
    return parser


def _print(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    main()
