"""Measure the speed and the resource use of the emulated cloud: ``python -m benchmarks.emulator`` (see README.md).

Measures the start, memory and CPU use when idle, listing many nodes page by page over REST and gRPC, and many
concurrent operations. The listed nodes are copies of one stopped node, added to the store between two runs.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import grpc
import psutil
from google.cloud import tpu_v2
from google.cloud.tpu_v2.services.tpu.transports import TpuGrpcTransport

from jupyter_tpu.emulator.control.client import EmulatorControl
from jupyter_tpu.emulator.store.database import Store

ZONE = "projects/demo-project/locations/us-central1-a"
NODE = {"acceleratorType": "v5litepod-1", "runtimeVersion": "v2-alpha-tpuv5-lite", "labels": {"team": "a"}}
MIB = 2**20
PAGE = 1000


@dataclass
class Running:
    """An emulator in a separate process; its clock is paused."""

    rest: str
    grpc: str
    process: psutil.Process
    start_s: float

    @property
    def control(self) -> EmulatorControl:
        return EmulatorControl(self.rest)

    def ask(self, verb: str, path: str, body: object = None) -> Any:
        """Send a request to the REST API and return the response; raise RuntimeError if it fails."""
        connection = http.client.HTTPConnection(urlsplit(self.rest).netloc, timeout=300)
        with contextlib.closing(connection):
            sent = None if body is None else json.dumps(body)
            connection.request(verb, path, sent, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            content = json.loads(answer.read())
        if answer.status != 200:
            raise RuntimeError(f"{verb} {path}: {content}")
        return content

    def set(self, what: str, **fields: object) -> Any:
        return self.ask("POST", f"/emulator/v1/{what}", fields)


def main() -> None:
    options = _parser().parse_args()
    _print(f"start: {statistics.median(_starts(options.repeats)):.2f} s (median of {options.repeats})")
    with tempfile.TemporaryDirectory(prefix="jt-bench-") as folder:
        _idle(Path(folder), options.idle_s)
        _operations(Path(folder), options.operations)
    with tempfile.TemporaryDirectory(prefix="jt-bench-") as folder:
        _fill(Path(folder), options.nodes)
        _lists(Path(folder), options.nodes, options.repeats)


def _starts(repeats: int) -> Iterator[float]:
    for _ in range(repeats):
        with tempfile.TemporaryDirectory(prefix="jt-bench-") as folder, _running(Path(folder)) as emulator:
            yield emulator.start_s


def _idle(folder: Path, seconds: float) -> None:
    with _running(folder) as emulator:
        emulator.set("clock", paused=False)
        time.sleep(2)
        before = _cpu_s(emulator)
        time.sleep(seconds)
        used = _cpu_s(emulator) - before
        _print(f"idle: {_rss_mib(emulator):.0f} MiB resident, {100 * used / seconds:.2f} % of a core in {seconds:g} s")


def _operations(folder: Path, count: int) -> None:
    """Measure `count` creations that are requested at the same virtual time; each starts a worker."""
    with _running(folder) as emulator, ThreadPoolExecutor(16) as pool:
        emulator.set("project", creates_per_minute=None)
        began = time.monotonic()
        paths = [f"/v2/{ZONE}/nodes?nodeId=n{index}" for index in range(count)]
        list(pool.map(lambda path: emulator.ask("POST", path, NODE), paths))
        _print(f"{count} operations: asked for in {time.monotonic() - began:.2f} s, {_undone(emulator)} in flight")
        began = time.monotonic()
        emulator.set("clock", advance_s=600)
        while _undone(emulator):
            emulator.set("clock", advance_s=1)
        took = time.monotonic() - began
        ready = [node for node in emulator.ask("GET", f"/v2/{ZONE}/nodes")["nodes"] if node["state"] == "READY"]
        _print(f"  all done {took:.2f} s later, {len(ready)} nodes READY; {_rss_mib(emulator):.0f} MiB resident")


def _undone(emulator: Running) -> int:
    operations = emulator.ask("GET", f"/v2/{ZONE}/operations?pageSize={PAGE}").get("operations", [])
    return sum(not operation["done"] for operation in operations)


def _fill(folder: Path, count: int) -> None:
    with _running(folder) as emulator:
        emulator.ask("POST", f"/v2/{ZONE}/nodes?nodeId=n", NODE)
        emulator.set("clock", advance_s=600)
        emulator.ask("POST", f"/v2/{ZONE}/nodes/n:stop", {})
        emulator.set("clock", advance_s=600)
    store = Store(folder / "cloud.db")
    (node,) = store.nodes()
    with store.transaction():
        store.remove_node(node.name, 0.0)
        for index in range(count):
            node.name, node.id = f"{ZONE}/nodes/node-{index:05d}", index + 1
            store.save_node(node)
    store.close()


def _lists(folder: Path, count: int, repeats: int) -> None:
    with _running(folder) as emulator:
        for name, listed in (("REST", _list_by_rest), ("gRPC", _list_by_grpc)):
            times, cpu = [], -_cpu_s(emulator)
            for _ in range(repeats):
                began = time.monotonic()
                names = listed(emulator)
                times.append(time.monotonic() - began)
                assert names == sorted(set(names)), "each node once, in order"
                assert len(names) == count
            cpu = (cpu + _cpu_s(emulator)) / repeats
            took = statistics.median(times)
            _print(
                f"{count} nodes over {name}: {took:.2f} s (median of {repeats}; {cpu:.2f} s of CPU), pages of {PAGE}"
            )
        _print(f"  {_rss_mib(emulator):.0f} MiB resident")


def _list_by_rest(emulator: Running) -> list[str]:
    names: list[str] = []
    token = ""
    while True:
        page = emulator.ask("GET", f"/v2/{ZONE}/nodes?pageSize={PAGE}&pageToken={token}")
        names += [node["name"] for node in page["nodes"]]
        token = page.get("nextPageToken", "")
        if not token:
            return names


def _list_by_grpc(emulator: Running) -> list[str]:
    with grpc.insecure_channel(emulator.grpc) as channel:
        client = tpu_v2.TpuClient(transport=TpuGrpcTransport(channel=channel, host=emulator.grpc))
        request = tpu_v2.ListNodesRequest(parent=ZONE, page_size=PAGE)
        return [node.name for node in client.list_nodes(request)]


@contextlib.contextmanager
def _running(folder: Path) -> Iterator[Running]:
    began = time.monotonic()
    command = [sys.executable, "-m", "jupyter_tpu.emulator", "--json", "--state-dir", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            ready = json.loads(process.stdout.readline())
            start_s = time.monotonic() - began
            emulator = Running(ready["rest"], ready["grpc"], psutil.Process(process.pid), start_s)
            emulator.set("clock", paused=True)
            yield emulator
        finally:
            process.terminate()


def _cpu_s(emulator: Running) -> float:
    return float(sum(emulator.process.cpu_times()[:2]))


def _rss_mib(emulator: Running) -> float:
    return float(emulator.process.memory_info().rss) / MIB


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.emulator", description=__doc__)
    parser.add_argument("--nodes", type=int, default=10_000, help="in the list")
    parser.add_argument("--operations", type=int, default=200, help="in flight together")
    parser.add_argument("--idle-s", type=float, default=30.0, help="seconds to watch an idle emulator")
    parser.add_argument("--repeats", type=int, default=3)
    return parser


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
