"""Measure CPU time by part: it is repeatable within 15 %, while wall-clock times on a shared machine vary threefold.

The parts are the kernel, the worker's processes that carry its messages (agent, sshd), the fault proxy (with the rest
of the emulated cloud) and, in this process, the link thread, the main thread and all other threads (mostly ZMQ's).
Linux only.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil

from jupyter_tpu.emulator.workers.process_tree import TOKEN_VARIABLE, processes_of

EMULATOR_PID = "JUPYTER_TPU_BENCHMARK_EMULATOR"
"""The environment variable with the pid of the process that contains the fault proxy."""

PARTS = ("kernel", "agent", "sshd", "ssh", "proxy", "link", "caller", "others")


def worker_processes(kernel_pid: int) -> dict[str, list[int]]:
    """Return the pids of the worker's processes that carry a kernel's messages, by part.

    For a local kernel, this is only the kernel's own pid.
    """
    token = psutil.Process(kernel_pid).environ().get(TOKEN_VARIABLE)
    agents = [process.pid for process in processes_of([token]) if _is_agent(process)] if token else []
    return {"kernel": [kernel_pid], "agent": agents}


def ssh_servers(emulator_pid: int) -> list[int]:
    """Return the pids of OpenSSH's server processes that currently serve connections."""
    children = psutil.Process(emulator_pid).children(recursive=True)
    return [child.pid for child in children if child.name().startswith("sshd")]


class CpuTimes:
    """The CPU time in seconds that each part has used since this object was created."""

    def __init__(self, kernel_pid: int) -> None:
        self._kernel_pid = kernel_pid
        self._before = self._now()

    def used(self) -> dict[str, float]:
        """Return the CPU time by part, without parts that do not exist."""
        now = self._now()
        return {part: now[part] - self._before.get(part, 0.0) for part in PARTS if part in now}

    def _now(self) -> dict[str, float]:
        parts = dict(worker_processes(self._kernel_pid))
        if emulator := int(os.environ.get(EMULATOR_PID, "0")):
            parts |= {"sshd": ssh_servers(emulator), "proxy": [emulator]}
        parts["ssh"] = [process.pid for process in psutil.process_iter(["name"]) if process.info["name"] == "ssh"]
        times = {part: _seconds_of_all(pids) for part, pids in parts.items() if pids}
        return times | _own_threads()


def _own_threads() -> dict[str, float]:
    """Return the CPU time of this process's threads by part; the link thread is identified by its Python name."""
    links = {thread.native_id for thread in threading.enumerate() if thread.name == "jupyter-tpu links"}
    times: dict[str, float] = {"caller": 0.0, "others": 0.0}
    for task in Path("/proc/self/task").iterdir():
        number = int(task.name)
        part = "caller" if number == os.getpid() else "link" if number in links else "others"
        times[part] = times.get(part, 0.0) + _seconds_of([task])
    return times


def _seconds_of_all(pids: Iterable[int]) -> float:
    seconds = 0.0
    for pid in pids:
        with suppress(OSError):  # the process has exited
            seconds += _seconds_of(Path(f"/proc/{pid}/task").iterdir())
    return seconds


def _seconds_of(tasks: Iterable[Path]) -> float:
    nanoseconds = 0
    for task in tasks:
        with suppress(OSError):
            nanoseconds += int((task / "schedstat").read_text().split()[0])
    return nanoseconds / 1e9


def _is_agent(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return "agent" in (line := process.cmdline()) and "supervise" not in line
    return False
