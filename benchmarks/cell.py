"""Run one measurement in a separate process: ``python -m benchmarks.cell MEASURE KERNEL_NAME [OPTIONS_AS_JSON]``.

Prints one JSON object of numbers. Times are in seconds, from the call of `start_kernel`. Memory is this process's
resident set in MiB. "cold" is measured twice: in a new process, including the imports, and with the modules imported
before the start, as in a server that expects a kernel.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine
from importlib import import_module
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import psutil
from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning.factory import KernelProvisionerFactory

from benchmarks.cpu import CpuTimes
from benchmarks.worker import NODE, PROJECT
from jupyter_tpu.emulator.control.client import ADDRESS_VARIABLE, EmulatorControl
from jupyter_tpu.models import NodeName

Numbers = dict[str, float]
_PATIENCE_S = 120
_PAUSE_S = 12.0  # longer than a link remembers the rate of its connection
_SLOW_S = 0.038  # Nagle's algorithm and similar delays add at least this much
IMPORTED_AHEAD = ("jupyter_tpu.kernels.provisioner", "jupyter_tpu.kernels.kernel_host", "benchmarks.forwards")

STDOUT = "import sys\nfor _ in range({count}):\n    sys.stdout.write('x' * 65535 + '\\n')\n    sys.stdout.flush()"
DISPLAY = """
publish = get_ipython().display_pub.publish
for _ in range({count}):
    publish({{'text/plain': 'x' * {size}}})
"""
WAIT_FOR_INTERRUPT = """
{before}
import time
from pathlib import Path
try:
    Path({ready!r}).touch()
    while True:
        time.sleep(0.001)
except KeyboardInterrupt:
    Path({path!r}).with_suffix(".new").write_text(repr(time.time()))
    Path({path!r}).with_suffix(".new").rename({path!r})
"""


class Kernel:
    """A kernel with a client, from its start to its shutdown."""

    def __init__(self, kernel_name: str) -> None:
        self.manager = AsyncKernelManager(kernel_name=kernel_name)
        self.client: AsyncKernelClient

    async def start(self) -> float:
        """Start the kernel; return the seconds until the first reply."""
        began = time.perf_counter()
        await self.manager.start_kernel()
        self.client = self.manager.client()
        self.client.start_channels(hb=False)
        await self.run("1+1")
        return time.perf_counter() - began

    async def answer(self) -> float:
        """Start the kernel; return the seconds until it responds.

        It may respond before the other workers of a slice have joined.
        """
        began = time.perf_counter()
        await self.manager.start_kernel()
        self.client = self.manager.client()
        self.client.start_channels(hb=False)
        await self.reply(self.client.kernel_info())
        return time.perf_counter() - began

    async def restart(self, *, now: bool) -> float:
        """Restart the kernel; return the seconds until the first reply."""
        began = time.perf_counter()
        await self.manager.restart_kernel(now=now)
        await self.run("1+1")
        return time.perf_counter() - began

    async def run(self, code: str) -> dict[str, Any]:
        """Execute the code, and return the content of the reply."""
        return await self.reply(self.client.execute(code))

    async def pid(self) -> int:
        """Return the pid of the kernel's process."""
        request = self.client.execute("", silent=True, user_expressions={"pid": "__import__('os').getpid()"})
        return int((await self.reply(request))["user_expressions"]["pid"]["data"]["text/plain"])

    async def reply(self, request: str) -> dict[str, Any]:
        while True:
            reply = await self.client.get_shell_msg(timeout=_PATIENCE_S)
            if reply["parent_header"].get("msg_id") == request:
                return dict(reply["content"])

    async def output(self, code: str) -> tuple[float, int]:
        """Execute the code; return the seconds until its last output has arrived, and the number of characters."""
        began, size = time.perf_counter(), 0
        request = self.client.execute(code)
        while True:
            message = await self.client.get_iopub_msg(timeout=_PATIENCE_S)
            if message["parent_header"].get("msg_id") != request:
                continue
            content = message["content"]
            size += len(content.get("text", "")) + len(content.get("data", {}).get("text/plain", ""))
            if content.get("execution_state") == "idle":
                return time.perf_counter() - began, size

    async def read(self) -> None:
        """Read and discard all output until cancelled."""
        while True:
            await self.client.get_iopub_msg()

    async def end(self) -> None:
        self.client.stop_channels()
        await self.manager.shutdown_kernel()


async def start(kernel_name: str, repeats: int, restarts: int) -> Numbers:
    """Measure a first start over a cold connection, further starts and restarts, and the memory of each kernel."""
    at_first = _memory_mib()
    first = Kernel(kernel_name)
    numbers = {"cold_s": await first.start(), "first_mib": 0.0}
    numbers["first_mib"] = _memory_mib() - at_first
    warm, kernels = [], []
    for _ in range(repeats):
        await _quiet()
        kernels.append(Kernel(kernel_name))
        warm.append(await kernels[-1].start())
    numbers["further_mib"] = (_memory_mib() - at_first - numbers["first_mib"]) / repeats
    for kernel in kernels:
        await kernel.end()
    times = []
    for _ in range(restarts):
        await _quiet()
        times.append(await first.restart(now=True))
    await first.end()
    numbers["warm_s"] = statistics.median(warm)
    return {**numbers, "restart_s": statistics.median(times)} if times else numbers


async def cold(kernel_name: str, imported: bool = False) -> Numbers:
    """Measure one first start over a cold connection, with its CPU time and the fault proxy's count of round trips.

    If `imported`, import the modules before the measurement.
    """
    if imported:
        for module in IMPORTED_AHEAD:
            import_module(module)
    kernel, before = Kernel(kernel_name), _round_trips()
    began_cpu_s = time.process_time()
    seconds = await kernel.start()
    numbers = {
        "cold_s": seconds,
        "trips_count": _round_trips() - before,
        "cold_cpu_s": time.process_time() - began_cpu_s,
    }
    await kernel.end()
    return {f"imported_{name}" if imported else name: number for name, number in numbers.items()}


async def starts(kernel_name: str, other: str, rounds: int) -> Numbers:
    """Start two kernels in turn over an open connection; measure the time until each responds, and its CPU time."""
    keeper = Kernel(kernel_name)  # keeps the connections open
    await keeper.answer()
    numbers: dict[str, list[float]] = defaultdict(list)
    for _ in range(rounds):
        for way, name in (("all", kernel_name), ("first", other)):
            await _quiet()
            kernel, began_cpu_s = Kernel(name), time.process_time()
            numbers[f"{way}_s"].append(await kernel.answer())
            numbers[f"{way}_cpu_s"].append(time.process_time() - began_cpu_s)
            await kernel.end()
    await keeper.end()
    return {name: statistics.median(values) for name, values in numbers.items()}


async def ready(kernel_name: str, rounds: int) -> Numbers:
    """Start and restart a kernel on a node and a local one in turn; measure the time until each has run a cell."""
    keeper = Kernel(kernel_name)  # keeps the connections open
    await keeper.start()
    numbers: dict[str, list[float]] = defaultdict(list)
    for _ in range(rounds):
        for way, name in (("all", kernel_name), ("local", "python3")):
            await _quiet()
            kernel = Kernel(name)
            numbers[f"{way}_ready_s"].append(await kernel.start())
            await _quiet()
            numbers[f"{way}_restarted_s"].append(await kernel.restart(now=True))
            await kernel.end()
    await keeper.end()
    return {name: statistics.median(values) for name, values in numbers.items()}


async def memory(kernel_name: str, further: int) -> Numbers:
    """Measure how much this process's memory grows with the provisioner's imports, the first and further kernels."""
    looks = [_memory_mib()]
    import_module("jupyter_tpu.kernels.provisioner")
    looks.append(_memory_mib())
    kernels = [Kernel(kernel_name) for _ in range(1 + further)]
    for kernel in kernels:
        await kernel.start()
        await _quiet()
        looks.append(_memory_mib())
    for kernel in kernels:
        await kernel.end()
    return {
        "import_mib": looks[1] - looks[0],
        "first_mib": looks[2] - looks[1],
        "further_mib": (looks[-1] - looks[2]) / further,
    }


async def latency(kernel_name: str, repeats: int) -> Numbers:
    """Measure the latency of successive cells ``1+1``, and the CPU time that each part uses per cell."""
    kernel = Kernel(kernel_name)
    await kernel.start()
    await _quiet()
    times = []
    for _ in range(20):
        await kernel.run("1+1")
    cpu = CpuTimes(await kernel.pid())
    for _ in range(repeats):
        began = time.perf_counter()
        await kernel.run("1+1")
        times.append(time.perf_counter() - began)
    used = cpu.used()
    await kernel.end()
    ordered = sorted(times)
    numbers = {f"p{share}_s": ordered[max(0, len(ordered) * share // 100 - 1)] for share in (50, 90, 99)}
    slow = sum(1 for seconds in times if seconds > numbers["p50_s"] + _SLOW_S)
    return {**numbers, "slow_per_1000": 1000 * slow / repeats, **_per(used, "cell", repeats)}


async def throughput(kernel_name: str, mib: int) -> Numbers:
    """Measure the throughput of stdout and display data in MiB/s, for the first two bursts of `mib` MiB each."""
    kernel = Kernel(kernel_name)
    await kernel.start()
    await _quiet()
    numbers: Numbers = {}
    for name, code in (
        ("stdout", STDOUT.format(count=mib * 16)),
        ("display", DISPLAY.format(count=mib, size=1 << 20)),
    ):
        await asyncio.sleep(_PAUSE_S)
        seconds, _ = await kernel.output(code)
        numbers[f"first_{name}_mib_s"] = mib / seconds
        cpu = CpuTimes(await kernel.pid())
        seconds, size = await kernel.output(code)
        numbers |= _per(cpu.used(), name, mib)
        assert size == mib << 20, f"{size} of {mib << 20} characters arrived"
        numbers[f"{name}_mib_s"] = mib / seconds
    await kernel.end()
    return numbers


async def interrupt(kernel_name: str, queued_mib: int) -> Numbers:
    """Measure how long an interrupt takes to reach the kernel while `queued_mib` MiB of output are waiting."""
    kernel = Kernel(kernel_name)
    await kernel.start()
    with tempfile.TemporaryDirectory() as folder:
        ready, path = Path(folder, "ready"), Path(folder, "interrupted")
        before = STDOUT.format(count=queued_mib * 16) if queued_mib else ""
        reading = asyncio.create_task(kernel.read())  # otherwise, no output would be sent
        kernel.client.execute(WAIT_FOR_INTERRUPT.format(before=before, ready=str(ready), path=str(path)))
        await _appears(ready)
        began = time.time()
        await kernel.manager.interrupt_kernel()
        await _appears(path)
        seconds = float(await asyncio.to_thread(path.read_text)) - began
        reading.cancel()
    await kernel.end()
    return {f"interrupt_{queued_mib}_mib_s": seconds}


MEASURES: dict[str, Callable[..., Coroutine[Any, Any, Numbers]]] = {
    "start": start,
    "cold": cold,
    "starts": starts,
    "ready": ready,
    "memory": memory,
    "latency": latency,
    "throughput": throughput,
    "interrupt": interrupt,
}


async def _appears(path: Path) -> None:
    """Wait until another process has written the file; it sends no other signal."""
    async with asyncio.timeout(_PATIENCE_S):
        while not await asyncio.to_thread(path.exists):  # noqa: ASYNC110
            await asyncio.sleep(0.002)


async def _quiet() -> None:
    """Wait until the previous step has no more effect: after each start, the agent starts a pre-warmed kernel."""
    await asyncio.sleep(2)
    if "jupyter_tpu.kernels.connections.pool" not in sys.modules:
        return
    links = import_module("jupyter_tpu.kernels.connections.pool")
    pool = links.link_thread.enter()
    node = NodeName(project=PROJECT, zone="us-central1-a", node_id=NODE)
    shared = pool.find_up(node, os.environ["JUPYTER_TPU_ENDPOINT"])
    links.link_thread.leave()
    async with asyncio.timeout(_PATIENCE_S):
        while shared and shared.link.is_up and shared.link.spare is None:  # noqa: ASYNC110 - it lives in another loop
            await asyncio.sleep(0.1)


def _per(used: dict[str, float], what: str, count: int) -> Numbers:
    """Return the CPU time in ms for one of `count` items, for each part and for all parts together."""
    each = {part: 1000 * seconds / count for part, seconds in used.items()}
    return {f"cpu_{what}_{part}_ms": value for part, value in {**each, "sum": sum(each.values())}.items()}


def _round_trips() -> int:
    """Return the number of round trips to the worker so far; 0 without an emulated cloud."""
    if ADDRESS_VARIABLE not in os.environ:
        return 0
    return sum(int(link["round_trips"]) for link in EmulatorControl(os.environ[ADDRESS_VARIABLE]).links())


def _memory_mib() -> float:
    return float(psutil.Process().memory_info().rss) / (1 << 20)


def main(arguments: list[str]) -> None:
    measure, kernel_name, *options = arguments
    entry_point = EntryPoint("ssh-forwards", "benchmarks.forwards:ForwardsProvisioner", "")
    KernelProvisionerFactory.instance().provisioners["ssh-forwards"] = entry_point
    numbers = asyncio.run(MEASURES[measure](kernel_name, **json.loads(options[0] if options else "{}")))
    sys.stdout.write(json.dumps(numbers) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
