"""Compare a trivial cell on all workers of a slice with a local kernel, and with ipyparallel on the same engines.

The workers are processes on this machine, and the three take turns: ``python -m benchmarks.slices --workers 4``. With
``--starts 10``, the start of kernels on all workers of an emulated node is compared with the start on worker 0 alone,
and the time until all workers have run a cell with that of a local kernel.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median

import ipyparallel
from jupyter_client.manager import start_new_kernel

from benchmarks.worker import FIRST_ONLY, NODE, kernel_name_of, opened_place

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from raw_slice import RawSlice

_CELL = "x = 1"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=120)
    parser.add_argument("--starts", type=int, default=0, help="rounds of starts on an emulated v5litepod-16")
    options = parser.parse_args(arguments)
    if options.starts:
        _measure_starts(options.starts)
        return
    with tempfile.TemporaryDirectory() as folder:
        running = RawSlice(Path(folder), options.workers)
        try:
            running.start_engines()
            running.run(_CELL, timeout=600)
            times = _measure(running, options.rounds)
        finally:
            running.close()
    sys.stdout.write(report(times, options.workers))


def _measure_starts(rounds: int) -> None:
    with opened_place(accelerator_type="v5litepod-16") as place:

        def measured(measure: str, **options: object) -> Mapping[str, float]:
            text = json.dumps({"rounds": rounds, **options})
            command = [sys.executable, "-W", "ignore", "-m", "benchmarks.cell", measure, kernel_name_of(NODE), text]
            done = subprocess.run(command, env=place.environ, check=True, stdout=subprocess.PIPE, text=True)
            return dict(json.loads(done.stdout.splitlines()[-1]))

        numbers = {**measured("starts", other=FIRST_ONLY), **measured("ready")}
    for what, other in (("s", "first"), ("cpu_s", "first"), ("ready_s", "local"), ("restarted_s", "local")):
        every, one = numbers[f"all_{what}"], numbers[f"{other}_{what}"]
        sys.stdout.write(f"- {what}: all workers {every:.3f}, {other} {one:.3f}, ratio {every / one:.2f}\n")


def _measure(running: RawSlice, rounds: int) -> Mapping[str, list[float]]:
    """Return the seconds of each round, by way."""
    manager, client = start_new_kernel()
    engines = ipyparallel.Client(str(running.client_file))
    view = engines[:]
    ways: Mapping[str, Callable[[], object]] = {
        "slice": lambda: running.run(_CELL),
        "worker 0 only": lambda: running.run(f"%%worker 0\n{_CELL}"),
        "local kernel": lambda: client.execute_interactive(_CELL, timeout=60),
        "ipyparallel": lambda: view.execute(_CELL, silent=False).get(),
    }
    times: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, run in ways.items():
            begin = time.perf_counter()
            run()
            times[way].append(time.perf_counter() - begin)
    engines.close()
    client.stop_channels()
    manager.shutdown_kernel(now=True)
    return times


def report(times: Mapping[str, list[float]], workers: int) -> str:
    """Return a Markdown table of the times, with the ratios that the documentation promises."""
    lines = [f"{workers} workers, a trivial cell", "", "| way | median ms | fastest tenth ms |", "|---|---|---|"]
    fast = {way: sorted(each)[len(each) // 10] for way, each in times.items()}
    middle = {way: median(each) for way, each in times.items()}
    lines += [f"| {way} | {1000 * middle[way]:.1f} | {1000 * fast[way]:.1f} |" for way in times]
    ratios = [("slice", "local kernel"), ("slice", "ipyparallel"), ("worker 0 only", "local kernel")]
    lines += [""] + [
        f"- {one} / {other}: {middle[one] / middle[other]:.2f} (fastest tenth: {fast[one] / fast[other]:.2f})"
        for one, other in ratios
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
