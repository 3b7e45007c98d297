"""An emulator whose workers exist on paper only, for tests of the cloud that make thousands of nodes or kill it often.

A process of ours holds everything imported and forks the emulator, so that it starts in a tenth of a second. Run as
``python paper_emulator.py FOLDER PAUSED``; each line on standard input kills it with kill -9 and restarts it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jupyter_tpu.emulator.access.callers import Callers
from jupyter_tpu.emulator.core import Cloud
from jupyter_tpu.emulator.process import serving
from jupyter_tpu.emulator.transport.ports import Ports
from jupyter_tpu.emulator.workers.workers import Workers


class PaperWorkers(Workers):
    """No machine ever starts; nobody can log in."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, None, None)  # type: ignore[arg-type]

    async def start(self, node: Any) -> None:
        """It is as if they were up."""

    async def stop(self, node: Any) -> None:
        """It is as if they were down."""

    async def remove(self, node: Any) -> None:
        """Nothing is left."""

    async def remove_all(self) -> None:
        """Nothing is left."""

    async def end_strays(self, nodes: Iterable[Any]) -> None:
        """There are none."""

    async def close(self) -> None:
        """Nothing runs."""


class PaperEmulator:
    """What tests hold: `start` after each `kill`, and `close`."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-W", "ignore", __file__, str(folder)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.rest = ""
        self.grpc = ""

    def start(self) -> None:
        """Kill -9 what runs, and start it again on the same folder and ports."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("start\n")
        self._process.stdin.flush()
        ready = json.loads(self._process.stdout.readline())
        self.rest, self.grpc = ready["rest"], ready["grpc"]

    def close(self) -> None:
        self._process.communicate(timeout=60)


async def serve(folder: Path) -> None:
    cloud = Cloud(project="demo-project", state_dir=folder, time_scale=1.0, workers=PaperWorkers(folder / "w"))
    cloud.time.run(is_paused=True)
    async with serving(cloud, Ports(grpc=0, rest=0), Callers()) as ports:
        sys.stdout.write(json.dumps({"rest": f"http://127.0.0.1:{ports.rest}", "grpc": f"127.0.0.1:{ports.grpc}"}))
        sys.stdout.write("\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


def forked(folder: Path) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            asyncio.run(serve(folder))
        finally:
            os._exit(1)
    return pid


def end(pid: int | None) -> None:
    if pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def main() -> None:
    folder, pid = Path(sys.argv[1]), None
    for _ in iter(sys.stdin.readline, ""):
        end(pid)
        pid = forked(folder)
    end(pid)


if __name__ == "__main__":
    main()
