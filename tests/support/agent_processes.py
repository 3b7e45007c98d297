"""Finds the agents of emulated workers among this machine's processes, to let them stand still or die."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def agents_of(home: str | Path) -> list[int]:
    """The pids of the agents of the worker with this home folder."""
    found = list[int]()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = path.read_bytes().decode(errors="replace").split("\0")
            if "agent" in words and any(word.startswith(str(home)) for word in words):
                found.append(int(path.parts[2]))
    return found


def kill_agent(home: str | Path) -> int:
    """Kill the agent of the worker with this home, unless its node has ended already; how many there were."""
    killed = 0
    for pid in agents_of(home):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            killed += 1
    return killed


@contextmanager
def agent_stopped(home: str | Path) -> Iterator[None]:
    """The agent stands still; its socket takes what it is asked."""
    pids = agents_of(home)
    assert pids
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
