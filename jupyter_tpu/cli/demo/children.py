"""Child processes that never outlive the command that started them."""

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

import psutil

from jupyter_tpu.errors import TpuError

# JupyterLab shuts its kernels down first; after that long it is not going to
_GRACE_S = 20.0
_TAIL_BYTES = 4000
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


@dataclass(frozen=True, slots=True)
class Child:
    """A running program and the file that its messages go to."""

    name: str
    process: asyncio.subprocess.Process
    log: Path

    async def first_line(self) -> bytes:
        """The first line it prints; empty when it ended without one."""
        assert self.process.stdout is not None
        return await self.process.stdout.readline()

    async def tell(self, line: bytes) -> None:
        """Give it a line on its standard input, and the end of it."""
        assert self.process.stdin is not None
        with suppress(ConnectionError):  # it has ended, which is noticed elsewhere
            self.process.stdin.write(line)
            await self.process.stdin.drain()
        self.process.stdin.close()

    async def listens_on(self, port: int) -> bool:
        """Whether this program itself listens on the TCP port; another program that does is not meant."""
        return await asyncio.to_thread(_listens_on, self.process.pid, port)

    def failure(self) -> TpuError:
        """What to tell the user when it ended though nobody asked it to, or never came up."""
        code = self.process.returncode
        what = "did not come up" if code is None else f"ended by itself with exit code {code}"
        return TpuError(f"{self.name} {what}.", hint=f"Its messages are in {self.log}.", raw=_tail(self.log))


@asynccontextmanager
async def running(
    name: str, argv: Sequence[str], *, log: Path, env: Mapping[str, str], answers: bool = False, listens: bool = False
) -> AsyncIterator[Child]:
    """Start a program in a session of its own, so that Ctrl-C reaches only us, and end all of it on leaving.

    With `answers` its standard output is for `Child.first_line`; otherwise it goes to the log as well. With `listens`
    its standard input is for `Child.tell`; otherwise it is empty.
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
    """JupyterLab's messages hold its token."""
    return open(path, "wb", opener=lambda name, flags: os.open(name, flags, 0o600))


def _end_with_parent() -> None:
    """Runs in the child before the program: Linux will send it SIGTERM should we be killed without a chance to."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _GRACE_S)
    with suppress(ProcessLookupError):  # what is left of its process group, if anything
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def _listens_on(pid: int, port: int) -> bool:
    try:
        connections = psutil.Process(pid).net_connections("tcp")
    except psutil.Error:  # it has ended, which is noticed elsewhere
        return False
    return any(each.status == psutil.CONN_LISTEN and each.laddr.port == port for each in connections)


def _tail(path: Path) -> str:
    return path.read_bytes()[-_TAIL_BYTES:].decode(errors="replace")
