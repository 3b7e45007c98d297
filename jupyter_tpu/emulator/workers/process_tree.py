"""Find and kill every process of a worker, including daemons.

A worker's processes have its token in their environment, even if their parents, sessions and groups have changed.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable

import psutil

TOKEN_VARIABLE = "JUPYTER_TPU_WORKER_UID"
PATIENCE_S = 10.0
"""Real seconds in which all processes must exit after SIGKILL. Only a process that hangs in the kernel takes longer."""


def processes_of(tokens: Iterable[str]) -> list[psutil.Process]:
    """Return the processes that have one of the tokens in their environment, and the descendants of these processes."""
    wanted = frozenset(tokens)
    found: dict[int, psutil.Process] = {}
    for process in psutil.process_iter():
        if _token_of(process) in wanted:
            found[process.pid] = process
            # child processes may have cleared their environment, including the token
            found.update({child.pid: child for child in _descendants(process)})
    return list(found.values())


def kill_processes_of(tokens: Iterable[str], patience_s: float = PATIENCE_S) -> None:
    """Kill all processes with these tokens and their descendants.

    Searches and kills repeatedly until no process is left, because a process may fork while others are being killed.
    Blocks, but does not wait for individual processes: some are children of this process, and asyncio needs their exit
    status.

    Raises:
        TimeoutError: some processes are still running `patience_s` seconds after they were first killed, which is
            possible only if they hang in the kernel.
    """
    tokens = frozenset(tokens)
    deadline: float | None = None
    while victims := processes_of(tokens):
        for process in victims:
            _kill(process)
        # Only now, because the search for the processes of many workers may take long on a busy machine.
        deadline = deadline or time.monotonic() + patience_s
        if time.monotonic() > deadline:
            raise TimeoutError(f"still alive after SIGKILL: {[process.pid for process in victims]}")
        # real seconds; SIGKILL takes effect within milliseconds
        time.sleep(0.01)


def kill_server(pid: int, token: str) -> None:
    """Kill an SSH server and the sessions that it is starting. Sessions that already have the worker's token continue.

    All processes are frozen before they are examined, so that none can fork or receive the token in the meantime.
    """
    try:
        server = psutil.Process(pid)
        # suspend first, so that the server doesn't start another session in the meantime
        server.suspend()
        for child in _descendants(server):
            child.suspend()
            _end_frozen(child, token)
        server.kill()
    except psutil.NoSuchProcess:
        return


def _end_frozen(process: psutil.Process, token: str) -> None:
    if _token_of(process) == token:
        process.resume()
    else:
        process.kill()


async def kill_workers(tokens: Iterable[str]) -> None:
    """Run `kill_processes_of` in a thread."""
    await asyncio.to_thread(kill_processes_of, tuple(tokens))


def _token_of(process: psutil.Process) -> str | None:
    try:
        if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
            return None
        return process.environ().get(TOKEN_VARIABLE)
    except (psutil.Error, OSError):
        return None


def _descendants(process: psutil.Process) -> list[psutil.Process]:
    try:
        return [child for child in process.children(recursive=True) if child.status() != psutil.STATUS_ZOMBIE]
    except psutil.Error:
        return []


def _kill(process: psutil.Process) -> None:
    try:
        process.kill()
    except psutil.Error:
        return
