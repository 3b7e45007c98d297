"""Sync a folder of many small files with an empty one, and again without changes; beside `rsync -a` where installed.

    python -m benchmarks.files --files 20000

Both folders are on this machine. CPU times are those of all processes; compare them and not the times on the clock.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from jupyter_tpu.journal.sync_state import SyncState
from jupyter_tpu.sync.replica_client import LocalReplica
from jupyter_tpu.sync.session import SyncSession

_IN_A_FOLDER = 100


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--bytes", type=int, default=2_000, help="size of each file")
    parser.add_argument("--sync-once", nargs=3, metavar=("FROM", "TO", "STATE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.sync_once:
        asyncio.run(_sync(*map(Path, options.sync_once)))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _make(folder / "source", options.files, options.bytes)
        ours = [sys.executable, "-m", "benchmarks.files", "--sync-once"]
        ours += [str(folder / each) for each in ("source", "ours", "state.sqlite")]
        (folder / "ours").mkdir()
        _measure("jupyter_tpu, first", ours)
        _measure("jupyter_tpu, second (reads its own fresh files again)", ours)
        _measure("jupyter_tpu, unchanged", ours)
        if rsync := shutil.which("rsync"):
            theirs = [rsync, "-a", f"{folder}/source/", f"{folder}/theirs/"]
            _measure("rsync -a, first", theirs)
            _measure("rsync -a, unchanged", theirs)
        else:
            _say("rsync is not installed")


def _make(folder: Path, count: int, size: int) -> None:
    source = random.Random(1)
    for number in range(count):
        path = folder / f"{number // _IN_A_FOLDER // _IN_A_FOLDER}/{number // _IN_A_FOLDER % _IN_A_FOLDER}/{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(source.randbytes(size))


def _measure(name: str, argv: list[str]) -> None:
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(argv, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    _say(f"{name}: {cpu_s:.2f} s CPU, {time.monotonic() - began:.2f} s")


async def _sync(source: Path, target: Path, state: Path) -> None:
    replicas = [await LocalReplica.start(folder) for folder in (source, target)]
    try:
        result = await SyncSession(*replicas, SyncState(state), node="benchmark").run_once(is_confirmed=True)
        memory = [_peak_mib(pid) for pid in (os.getpid(), *(replica.pid for replica in replicas))]
    finally:
        for replica in replicas:
            await replica.close()
    shown = ", ".join(f"{mib:.0f}" for mib in memory)
    _say(f"  complete: {result.is_complete}; peak MiB of the client and the two replicas: {shown}")


def _peak_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
