"""A kernel's process, started in its own session: it keeps running when the agent exits, and a later agent finds it.

A process is identified by pid and start time, never by pid alone. With a pidfd, any process can wait for the kernel's
exit, but only the kernel's parent receives the exit status. The parent is the agent that started the process, or the
supervisor, which inherits the kernels of an agent that has exited and reports their exits to the next agent.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from jupyter_tpu.files import users_umask

# How long to wait for the supervisor's report about a kernel's exit. The supervisor reports it at once, so this limit
# matters only if the supervisor has exited too.
_REPORT_WAIT_S = 2.0
# How often a process's own output is checked against its limit.
_TRIM_EVERY_S = 2.0
# Number of unclaimed exit reports to keep; bounds memory.
_REMEMBERED = 1000


@dataclass(frozen=True)
class Exit:
    """The exit of a process: its exit code or signal. If the exit is unknown, both are None."""

    exit_code: int | None = None
    signal: str | None = None

    @classmethod
    def from_wait_status(cls, status: int) -> Exit:
        """Convert a status from `waitpid` to an `Exit`."""
        code = os.waitstatus_to_exitcode(status)
        return cls(exit_code=code) if code >= 0 else cls(signal=_signal_name(-code))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class ReportedExits:
    """Exits of processes that are not this agent's children, as reported by the supervisor."""

    def __init__(self) -> None:
        self._reports: dict[int, asyncio.Future[Exit]] = {}

    def report(self, pid: int, status: int) -> None:
        """Store the reported exit of a process; `status` is a status from `waitpid`."""
        future = self._future(pid)
        if not future.done():
            future.set_result(Exit.from_wait_status(status))
        # Most of these reports are about daemons that kernels left behind, so no kernel will ask for them.
        for old in list(self._reports)[:-_REMEMBERED]:
            if self._reports[old].done():
                del self._reports[old]

    async def of(self, pid: int) -> Exit:
        """Return how the process `pid` exited. The exit is unknown if the supervisor doesn't report it in time."""
        try:
            return await asyncio.wait_for(asyncio.shield(self._future(pid)), _REPORT_WAIT_S)
        except asyncio.TimeoutError:
            return Exit()
        finally:
            self._reports.pop(pid, None)

    def _future(self, pid: int) -> asyncio.Future[Exit]:
        if pid not in self._reports:
            self._reports[pid] = asyncio.get_running_loop().create_future()
        return self._reports[pid]


class Process:
    """A kernel's process; created by `start` or `find`."""

    def __init__(self, pid: int, started: int, child: subprocess.Popen[bytes] | None, reports: ReportedExits) -> None:
        self.pid = pid
        self.started = started
        self._child = child
        self._reports = reports
        self._pidfd = os.pidfd_open(pid)

    @classmethod
    def start(
        cls,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        output: Path,
        reports: ReportedExits,
        stdin: int = subprocess.DEVNULL,
    ) -> Process:
        """Run a command with its output in the file `output` and input from `stdin`, which is empty by default.

        Raises:
            OSError: the command can't be run.
        """
        output.write_bytes(b"")
        # Open the file in append mode, so that it can be truncated while the process writes.
        with output.open("ab") as file:
            child = subprocess.Popen(
                argv,
                env=dict(env),
                cwd=cwd,
                stdin=stdin,
                stdout=file,
                stderr=file,
                start_new_session=True,
                umask=users_umask(),
            )
        return cls(child.pid, start_ticks(child.pid) or 0, child, reports)

    @classmethod
    def find(cls, pid: int, started: int, reports: ReportedExits) -> Process | None:
        """Return the process with this pid and start time, or None if it has exited."""
        with suppress(ProcessLookupError):
            process = cls(pid, started, None, reports)
            if start_ticks(pid) == started:
                return process
            process.close()
        return None

    @property
    def is_running(self) -> bool:
        """Whether the process is still running."""
        return start_ticks(self.pid) == self.started

    async def wait(self) -> Exit:
        """Wait for the process to exit, and return its `Exit`."""
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        loop.add_reader(self._pidfd, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(self._pidfd)
        if self._child is None:
            return await self._reports.of(self.pid)
        code = self._child.wait()
        return Exit(exit_code=code) if code >= 0 else Exit(signal=_signal_name(-code))

    def send_signal(self, number: int) -> None:
        """Send a signal to the kernel and the processes it started; do nothing if the kernel has exited."""
        # Check the pidfd first, because the group ID may have been reused.
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, 0)
            os.killpg(self.pid, number)

    def close(self) -> None:
        """Close the descriptor; the process keeps running."""
        os.close(self._pidfd)


async def end_of(process: Process, trim: Callable[[], None]) -> Exit:
    """Wait for a process to exit; meanwhile, call `trim` periodically to keep its output file small."""
    ending = asyncio.create_task(process.wait())
    try:
        while not ending.done():
            trim()
            await asyncio.wait([ending], timeout=_TRIM_EVERY_S)
        return ending.result()
    finally:
        ending.cancel()


def start_ticks(pid: int) -> int | None:
    """Return when a process started, in Linux's ticks since boot, or None if it has exited or is a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # proc(5): fields 3 (state) and 22 (starttime); the list starts with field 3, after the name
    return None if fields[0] in "ZX" else int(fields[19])
