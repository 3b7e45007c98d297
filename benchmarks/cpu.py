"""CPU time by part of the way: it repeats within 15 % where wall-clock times of a shared machine vary threefold.

The parts are the kernel, what carries its messages on the worker (agent, sshd), the fault proxy (with the rest of the
emulated cloud), and on this side the link's thread, the caller's, and all other threads (ZMQ's, mostly). Linux only.
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
"""Environment variable with the process that has the fault proxy."""

PARTS = ("kernel", "agent", "sshd", "ssh", "proxy", "link", "caller", "others")


def worker_processes(kernel_pid: int) -> dict[str, list[int]]:
    """Those of the emulated worker that a kernel's messages pass, by their part; only the kernel if it is local."""
    token = psutil.Process(kernel_pid).environ().get(TOKEN_VARIABLE)
    agents = [process.pid for process in processes_of([token]) if _is_agent(process)] if token else []
    return {"kernel": [kernel_pid], "agent": agents}


def ssh_servers(emulator_pid: int) -> list[int]:
    """The processes of OpenSSH's server that serve connections now."""
    children = psutil.Process(emulator_pid).children(recursive=True)
    return [child.pid for child in children if child.name().startswith("sshd")]


class CpuTimes:
    """What each part has used since this was made, in seconds of CPU."""

    def __init__(self, kernel_pid: int) -> None:
        self._kernel_pid = kernel_pid
        self._before = self._now()

    def used(self) -> dict[str, float]:
        """By part; those that do not exist are left out."""
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
    """The link's thread by the name that it has in Python; the caller's is the main one."""
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
        with suppress(OSError):  # it has ended
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
