"""Child processes that are stopped when the command that started them exits."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from jupyter_tpu.errors import Text, TpuError

# JupyterLab shuts its kernels down before it exits; a process that takes longer than this is killed
_GRACE_S = 20.0
# how much of a log an error includes: about the last 50 lines
_TAIL_BYTES = 4000
_PR_SET_PDEATHSIG = 1  # from linux/prctl.h
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


@dataclass(frozen=True, slots=True)
class Child:
    """A running child process and the log file with its messages."""

    name: str
    process: asyncio.subprocess.Process
    log: Path

    async def first_line(self) -> bytes:
        """Return the first line that the process prints, or an empty string if it exits without printing a line."""
        assert self.process.stdout is not None
        return await self.process.stdout.readline()

    async def send_line(self, line: bytes) -> None:
        """Write one line to the process's standard input and close the input."""
        assert self.process.stdin is not None
        with suppress(ConnectionError):  # the process has exited; the caller waits for that
            self.process.stdin.write(line)
            await self.process.stdin.drain()
        self.process.stdin.close()

    async def listens_on(self, port: int) -> bool:
        """Return whether this process, and not a process of another demo, listens on the TCP port."""
        return await asyncio.to_thread(_listens_on, self.process.pid, port)

    def failure(self) -> TpuError:
        """Return the error for a process that did not start, or that exited before it was stopped."""
        code = self.process.returncode
        if code is None:
            what = Text("{program} did not start.", program=self.name)
        else:
            what = Text("{program} exited unexpectedly with exit code {exit_code}.", program=self.name, exit_code=code)
        return TpuError(what, hint=Text("Read the messages in {log}.", log=self.log), raw=_tail(self.log))


@asynccontextmanager
async def running(
    name: str, argv: Sequence[str], *, log: Path, env: Mapping[str, str], answers: bool = False, listens: bool = False
) -> AsyncIterator[Child]:
    """Run a child process in the context; at the end, kill it and its whole process group.

    It runs in a separate session, so that Ctrl-C reaches only this process, which then stops the child cleanly.

    Args:
        name: the name of the process in errors.
        argv: the command.
        log: file for the child's messages, overwritten.
        env: the child's environment.
        answers: whether standard output is read with `Child.first_line`; if not, it is written to the log too.
        listens: whether standard input is written with `Child.send_line`; if not, it is empty.
    """
    with _closed_log(log) as messages:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE if listens else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE if answers else messages,
            stderr=messages,
            env=dict(env),
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )
    try:
        yield Child(name, process, log)
    finally:
        await _end(process)


def _closed_log(path: Path) -> IO[bytes]:
    """Open the log with access for its owner only, because JupyterLab's messages contain its token."""
    return open(path, "wb", opener=lambda name, flags: os.open(name, flags, 0o600))


def _end_with_parent() -> None:
    """Make Linux send SIGTERM to this child process if its parent is killed; call this in the child, before exec."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        # don't send SIGKILL first: JupyterLab must shut down its kernels, and the emulator must write its state
        process.terminate()
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _GRACE_S)
    with suppress(ProcessLookupError):  # kill child processes that it left behind
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def _listens_on(pid: int, port: int) -> bool:
    import psutil  # slow to import, and not needed at a server's start

    try:
        connections = psutil.Process(pid).net_connections("tcp")
    except psutil.Error:  # the process has exited; the caller waits for that
        return False
    return any(each.status == psutil.CONN_LISTEN and each.laddr.port == port for each in connections)


def _tail(path: Path) -> str:
    return path.read_bytes()[-_TAIL_BYTES:].decode(errors="replace")
