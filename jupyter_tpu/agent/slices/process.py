"""The controller or an engine of a slice. A later agent can find this process, even after it has exited."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import shutil
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from jupyter_tpu.agent.clock import boot_id, this_moment
from jupyter_tpu.agent.kernels.kernel_dir import STATE_FILE, tail_of, trim
from jupyter_tpu.agent.kernels.process import Exit, Process, ReportedExits, end_of
from jupyter_tpu.agent.paths import private_folder
from jupyter_tpu.autostop import moment_from_json
from jupyter_tpu.files import write_whole

log = logging.getLogger(__name__)

# Grace period after SIGTERM. A new process must not wait long for an old process that hangs in C++ code.
_POLITE_S = 1.0
# The name of the helper process that watches an engine and has its own session.
_NANNY = b"ipyparallel.engine.nanny"


class SliceProcess:
    """A process with its own folder, from which a later agent can find it.

    Attributes:
        folder: folder of the process's files; removed before each start.
        state: the process's details, as stored in the folder; empty if it was never started.
        ended: set once the process's exit has been detected.
    """

    def __init__(self, folder: Path, reports: ReportedExits) -> None:
        self.folder = folder
        self.state: dict[str, Any] = {}
        self.ended = asyncio.Event()
        self._reports = reports
        self._process: Process | None = None
        self._watch: asyncio.Task[None] | None = None
        self._reporting: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        """Whether a process is running."""
        return self._process is not None

    @property
    def pid(self) -> int | None:
        """The pid of the process, or None if no process is running."""
        return self._process.pid if self._process else None

    def make_folder(self) -> Path:
        """Replace the folder with an empty folder that only this user can read."""
        shutil.rmtree(self.folder, ignore_errors=True)
        return private_folder(self.folder)

    def start(self, argv: Sequence[str], env: Mapping[str, str], **facts: Any) -> None:
        """Start the process in its folder, and store `facts` and the details that a later agent needs to find it.

        Raises:
            OSError: the process can't be started, or the disk is full.
        """
        process = Process.start(argv, env=env, cwd=self.folder, output=self._output, reports=self._reports)
        self.state = {}
        self.save(
            pid=process.pid,
            started=process.started,
            boot_id=boot_id(),
            since=this_moment().to_json(),
            exit=None,
            **facts,
        )
        self._observe(process)

    def adopt(self) -> None:
        """Adopt the process that an earlier agent started, or record that it has exited."""
        self.state = _read(self._file)
        pid, started = self.state.get("pid"), self.state.get("started")
        if not isinstance(pid, int) or not isinstance(started, int):
            self.ended.set()
        elif self.state.get("boot_id") != boot_id():
            self._record(Exit())
        elif process := Process.find(pid, started, self._reports):
            self._observe(process)
        else:
            self._watch = asyncio.create_task(self._learn_of_end(pid))

    async def stop(self) -> None:
        """Stop the process, and return once it has exited."""
        self._note_request()
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._process is None:
                break
            self._process.send_signal(number)
            with suppress(asyncio.TimeoutError, TimeoutError):
                await asyncio.wait_for(self.ended.wait(), _POLITE_S)
        self._kill_nanny()

    def kill(self) -> None:
        """Kill the process with SIGKILL, without waiting."""
        self._note_request()
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)

    @property
    def state_for_s(self) -> float:
        """Seconds since the process was started or, if it has exited, since then; infinite if unknown."""
        try:
            return moment_from_json(self.state["since"]).age_s(this_moment())
        except (KeyError, TypeError, ValueError):  # never started, or started by an older agent
            return math.inf

    def describe(self) -> dict[str, Any]:
        """Return the process's state for ``slice_info``; ``exit`` has the same format as a kernel's."""
        start_id = self.state.get("start_id", "")
        return {"alive": self.is_running, "pid": self.pid, "exit": self.state.get("exit"), "start_id": start_id}

    def save(self, **changes: Any) -> None:
        """Change details of the process, in its folder too, where a later agent finds them."""
        self.state.update(changes)
        # The folder may have been deleted with its kernel, and must not be created again.
        with suppress(FileNotFoundError):
            try:
                write_whole(self._file, json.dumps(self.state).encode())
            except FileNotFoundError:
                raise
            except OSError as error:
                log.error("%s cannot be saved, a later agent will not find its process: %s", self._file, error)

    def when_lost(self, report: Callable[[], Awaitable[None]]) -> None:
        """Call `report` once the process has exited although nobody requested it, unless `close` is called first."""
        self._reporting = asyncio.create_task(self._report_loss(report))

    async def _report_loss(self, report: Callable[[], Awaitable[None]]) -> None:
        await self.ended.wait()
        if not self.state.get("asked"):
            await report()

    def close(self) -> None:
        """Stop watching the process, which keeps running."""
        for task in (self._watch, self._reporting):
            if task is not None:
                task.cancel()
        if self._process is not None:
            self._process.close()

    def last_output(self) -> str:
        """Return the last lines of the process's own output, or an empty string if there are none."""
        return tail_of(self._output)

    @property
    def _file(self) -> Path:
        return self.folder / STATE_FILE

    @property
    def _output(self) -> Path:
        return self.folder / "output.log"

    def _observe(self, process: Process) -> None:
        self._process = process
        self.ended.clear()
        self._watch = asyncio.create_task(self._watch_end(process))

    async def _watch_end(self, process: Process) -> None:
        ended = await end_of(process, lambda: trim(self._output))
        self._process = None
        process.close()
        self._record(ended)

    async def _learn_of_end(self, pid: int) -> None:
        self._record(await self._reports.of(pid))

    def _kill_nanny(self) -> None:
        """Kill the engine's helper. It normally exits with the engine, but can't do so while suspended by SIGSTOP."""
        marks = {f"{name}={value}".encode() for name, value in self.state.get("marks", {}).items()}
        for process in Path("/proc").glob("[0-9]*") if marks else ():
            with suppress(OSError):
                is_nanny = _NANNY in (process / "cmdline").read_bytes().split(b"\0")
                if is_nanny and marks <= {*(process / "environ").read_bytes().split(b"\0")}:
                    os.kill(int(process.name), signal.SIGKILL)

    def _note_request(self) -> None:
        if self._process is not None:
            self.save(asked=True)

    def _record(self, ended: Exit) -> None:
        outcome = {
            "exit_code": ended.exit_code,
            "signal": ended.signal,
            "asked": bool(self.state.get("asked")),
            "stderr": self.last_output(),
        }
        self.save(pid=None, exit=outcome, since=this_moment().to_json())
        self.ended.set()


def _read(path: Path) -> dict[str, Any]:
    try:
        state = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return state if isinstance(state, dict) else {}
