"""Measure the memory that processes use to transfer much output: ``python -m benchmarks.memory`` (see README.md).

A cell prints 1 GB while its kernel's link is disconnected. After the link has reconnected, another process reads the
output from the kernel's local sockets, and then a follower reads it again, as a page's WebSocket does. The peaks are
the system's own high-water marks, so no peak is missed. Finally, the memory used by links and kernels with little
output is measured. Linux only.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_client.asynchronous.client import AsyncKernelClient

from benchmarks.cell import Kernel
from benchmarks.cpu import worker_processes
from benchmarks.worker import NODE, Place, kernel_name_of, opened_place
from jupyter_tpu.emulator.control.client import EmulatorControl

_QUIETLY = "import sys\nwrite = type(sys.stdout).write\n"  # bypasses IPython, which stores a copy of all output
CELLS = {
    "blocks": _QUIETLY + "for _ in range({mb} * 1_000_000 // 65536 + 1):\n"
    "    write(sys.stdout, 'x' * 65535 + '\\n')\n    sys.stdout.flush()",
    "lines": _QUIETLY + "for _ in range({mb} * 10_000):\n    write(sys.stdout, 'x' * 99 + '\\n')",
    "print": "for _ in range({mb} * 10_000):\n    print('x' * 99)",
}
GATED = """
import time
from pathlib import Path
Path({begun!r}).touch()
while not Path({gate!r}).exists():
    time.sleep(0.05)
{printing}
Path({done!r}).touch()
"""
LINKS = {"import_mib": "imports", "first_mib": "first kernel", "further_mib": "each further one"}
_KIB_OF_A_MIB = 1024
_PATIENCE_S = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """A process's resident memory in MiB, before a step and at its peak."""

    before_mib: float
    peak_mib: float


class Processes:
    """The processes that transfer the output, by part; this process is the client."""

    def __init__(self, place: Place, kernel_pid: int) -> None:
        self._place = place
        self._kernel_pid = kernel_pid
        self._before: dict[str, float] = {}

    def begin(self) -> None:
        """Start measuring: store the current memory use, and reset the peaks.

        A part without a process keeps its earlier value.
        """
        for part, pids in self._parts().items():
            self._before[part] = _most(pids, "VmRSS")
            for pid in pids:
                Path(f"/proc/{pid}/clear_refs").write_text("5")

    def costs(self) -> dict[str, Cost]:
        return {
            part: Cost(before_mib=self._before[part], peak_mib=_most(pids, "VmHWM"))
            for part, pids in self._parts().items()
        }

    def _parts(self) -> dict[str, list[int]]:
        client = {"sshd": self._place.ssh_servers(), "client": [os.getpid()]}
        return {part: pids for part, pids in (worker_processes(self._kernel_pid) | client).items() if pids}


def _most(pids: Iterable[int], field: str) -> float:
    return max(_field_mib(pid, field) for pid in pids)


def _field_mib(pid: int, field: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / _KIB_OF_A_MIB
    return 0.0


async def measure_flood(place: Place, printing: str, mb: int) -> dict[str, dict[str, Cost]]:
    """Measure memory while output is printed, read from the local sockets, and read by a follower."""
    control = EmulatorControl(place.environ["JUPYTER_TPU_EMULATOR"])
    control.fault_link(NODE, "clear")
    kernel = Kernel(kernel_name_of(NODE))
    await kernel.start()
    provisioner: Any = kernel.manager.provisioner
    processes = Processes(place, int((await provisioner.call("kernel_info"))["pid"]))
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        begun, gate, done = (Path(folder, name) for name in ("begun", "gate", "done"))
        code = GATED.format(printing=printing, begun=str(begun), gate=str(gate), done=str(done))
        request = kernel.client.execute(code)
        await _until(begun.exists)
        kernel.client.stop_channels()  # otherwise, it would queue all output
        processes.begin()
        control.fault_link(NODE, "refuse")
        control.fault_link(NODE, "reset")
        await _until(lambda: provisioner.link_state.state == "down")
        await asyncio.to_thread(gate.touch)
        await _until(done.exists)
        found["printed, nobody connected"] = processes.costs()

        processes.begin()
        async with _Reader(kernel.manager.connection_file, request) as reader:
            control.fault_link(NODE, "clear")
            characters = await reader.count()
        assert characters >= mb * 1_000_000, f"only {characters} characters arrived"
        found["read by a client"] = processes.costs() | {"its reader": reader.cost}

        processes.begin()
        await _follow_all(provisioner)
        found["read by a follower"] = processes.costs()
    await kernel.end()
    return found


class _Reader:
    """A process that reads a kernel's output from its local sockets."""

    def __init__(self, connection_file: str, request: str) -> None:
        self._command = [sys.executable, "-W", "ignore", "-m", "benchmarks.memory", "--read", connection_file, request]
        self.cost: Cost

    async def __aenter__(self) -> _Reader:
        self._process = await asyncio.create_subprocess_exec(*self._command, stdout=subprocess.PIPE)
        assert self._process.stdout
        self._out = self._process.stdout
        self._before_mib = json.loads(await self._out.readline())
        return self

    async def count(self) -> int:
        """Wait until the request is done, and return the number of characters that it printed."""
        count = int(await self._out.readline())
        self.cost = Cost(before_mib=self._before_mib, peak_mib=json.loads(await self._out.readline()))
        return count

    async def __aexit__(self, *_: object) -> None:
        await self._process.wait()


async def read(connection_file: str, request: str) -> None:
    """Read a request's output; print this process's memory first, then the characters and the peak memory."""
    client = AsyncKernelClient(connection_file=connection_file)
    client.load_connection_file()
    client.start_channels(shell=False, stdin=False, hb=False, control=False)
    await client.get_iopub_msg(timeout=_PATIENCE_S)  # the iopub_welcome, which shows that the client is subscribed
    _print(_field_mib(os.getpid(), "VmRSS"))
    size, is_done = 0, False
    while not is_done:
        message = await client.get_iopub_msg(timeout=_PATIENCE_S)
        size += len(message["content"].get("text", ""))
        is_done = message["content"].get("execution_state") == "idle" and message["parent_header"]["msg_id"] == request
    _print(size)
    _print(_field_mib(os.getpid(), "VmHWM"))
    client.stop_channels()


async def _follow_all(provisioner: Any) -> None:
    last_seq = (await provisioner.call("kernel_info"))["next_seq"] - 1
    has_all = asyncio.Event()

    def deliver(messages: Sequence[Any]) -> None:
        if messages[-1].seq >= last_seq:
            has_all.set()

    follower = await provisioner.follow(0, deliver)
    async with asyncio.timeout(_PATIENCE_S):
        await has_all.wait()
    await follower.close()


async def _until(is_so: Callable[[], bool]) -> None:
    """Wait until the condition is true; other processes change it without a notification."""
    async with asyncio.timeout(_PATIENCE_S):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def measure_links(place: Place) -> dict[str, dict[str, float]]:
    """Measure how much a process's memory grows with the imports, the first kernel and each further kernel.

    Compares jupyter_tpu's kernels with local ones.
    """
    return {name: _links_of(place, name) for name in (kernel_name_of(NODE), "python3")}


def _links_of(place: Place, kernel_name: str) -> dict[str, float]:
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.cell", "memory", kernel_name, '{"further": 4}']
    done = subprocess.run(command, env=place.environ, stdout=subprocess.PIPE, check=True, text=True)
    numbers: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return numbers


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    if options.read:
        asyncio.run(read(*options.read))
        return
    with opened_place(None) as place:
        os.environ.update(place.environ)
        for name in options.cells:
            flood = asyncio.run(measure_flood(place, CELLS[name].format(mb=options.mb), options.mb))
            _print_flood(f"{options.mb} MB in {name}", flood)
        _print_links(measure_links(place))


def _print_flood(title: str, flood: dict[str, dict[str, Cost]]) -> None:
    _print(f"\n| {title} | process | before, MiB | most, MiB | more |\n| --- | --- | --- | --- | --- |")
    for phase, costs in flood.items():
        for part, cost in costs.items():
            more = cost.peak_mib - cost.before_mib
            _print(f"| {phase} | {part} | {cost.before_mib:.0f} | {cost.peak_mib:.0f} | {more:.0f} |")


def _print_links(links: dict[str, dict[str, float]]) -> None:
    _print(f"\n| on this side, in MiB | {' | '.join(LINKS.values())} |\n| --- | --- | --- | --- |")
    for name, numbers in links.items():
        _print(f"| {name} | {' | '.join(f'{numbers[each]:.1f}' for each in LINKS)} |")
    _print(f"\nload {', '.join(f'{load:.1f}' for load in os.getloadavg())}; {time.strftime('%H:%M')}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    parser.add_argument("--mb", type=int, default=1000, help="how much is printed")
    parser.add_argument("--cells", nargs="*", choices=CELLS, default=["blocks", "lines"], help="in which way")
    parser.add_argument("--read", nargs=2, metavar=("FILE", "REQUEST"), help="read what a request prints, and count it")
    return parser


def _print(value: object) -> None:
    sys.stdout.write(f"{value}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
