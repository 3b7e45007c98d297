"""Measure whether this worker's chips are in use. Everything here blocks, so call it in a thread.

If chip use can't be measured, the CPU time of the processes that may use the chips is used instead.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import PurePath

import psutil

from jupyter_tpu.accelerators import find_accelerator
from jupyter_tpu.agent.devices.holders import Kernels, describe
from jupyter_tpu.agent.metrics.libtpu import metric_ports, read_metrics
from jupyter_tpu.agent.metrics.validate import DUTY_CYCLE, validated
from jupyter_tpu.tpu_files import device_files, devices_folder, open_by

# A chip with a lower duty cycle counts as idle. An estimate, not a measured threshold.
_LEAST_DUTY_PERCENT = 1.0
# Time limit of one measurement. `%tpu` in a cell waits 2 s in total, and another caller's measurement may have to
# finish before its own starts.
_ANSWER_S = 0.8
# CPU use above which a process counts as active, as a fraction of one core. Even an idle process that has the chips
# open responds to heartbeats.
_LEAST_CPU = 0.05


@dataclass(frozen=True)
class ChipUse:
    """Whether the chips are in use.

    Attributes:
        state: ``active``, ``quiet`` or ``unknown``.
        detail: why, for display.
        working: the process that has the chips open but uses only the CPU, such as a compiler; empty if there is no
            such process.
        cpu: the state according to CPU time, which replaces an unknown chip use; empty if chip use is known.
    """

    state: str
    detail: str
    working: str = ""
    cpu: str = ""


class Chips:
    """The state for measuring chip use: each measurement compares CPU times with those of the previous measurement.

    Args:
        environ: environment with the accelerator type and libtpu's ports.
        kernels: returns the agent's kernels; called at each measurement.
    """

    def __init__(self, environ: Mapping[str, str], kernels: Callable[[], Kernels]) -> None:
        self._environ = environ
        self._kernels = kernels
        kind = find_accelerator(environ.get("TPU_ACCELERATOR_TYPE", ""))
        self._workers = kind.workers if kind else 1
        self._ports = metric_ports(environ, kind.chips_per_worker if kind else 1)
        self._holder_cpu, self._kernel_cpu = CpuTimes(), CpuTimes()

    def measure(self) -> ChipUse:
        """Measure chip use."""
        use = self._chip_use()
        return replace(use, cpu=self._cpu_state(use)) if use.state == "unknown" else use

    def _chip_use(self) -> ChipUse:
        files = device_files(devices_folder(self._environ))
        if not files:
            return ChipUse("unknown", "no accelerator was found on this machine")
        holders = open_by(files)
        use = self._use_by(holders, self._duty())
        # This worker's chips may be waiting for other workers of the slice, which only their own agents can observe.
        if use.state == "quiet" and self._workers > 1:
            unseen = f"the other workers of the slice ({self._workers} in all) can't be observed from here"
            return replace(use, state="unknown", detail=unseen)
        return use

    def _cpu_state(self, use: ChipUse) -> str:
        """Judge chip use by the CPU time of the kernels, their descendants and the TPU processes."""
        cpu = self._kernel_cpu.cores_of(_with_children(self._kernels()))
        if use.working:
            return "active"
        return "unknown" if cpu is None else "active" if cpu >= _LEAST_CPU else "quiet"

    def _duty(self) -> float | str | None:
        """Return the busiest chip's duty cycle (percent) or why it is unknown, or None if no process serves metrics."""
        raw = read_metrics(self._ports, (DUTY_CYCLE,), _ANSWER_S)
        if raw is None:
            return None
        found = validated(raw, cores_per_chip=1, expected_cores=None)
        known = [chip.duty_percent for chip in found.chips if chip.duty_percent is not None]
        busiest = float(max(known, default=0.0))
        return busiest if busiest >= _LEAST_DUTY_PERCENT else found.unknown.get("duty_percent", busiest)

    def _use_by(self, holders: list[int], duty: float | str | None) -> ChipUse:
        """Determine whether the chips are in use, from the TPU processes and the duty cycle."""
        is_new, cpu = self._holder_cpu.has_new(holders), self._holder_cpu.cores_of(holders) or 0.0
        who = _named(holders[0], self._kernels()) if holders else "a process of another user"
        if not holders and duty is None:
            return ChipUse("quiet", "no process is using the chips")
        if isinstance(duty, float) and duty >= _LEAST_DUTY_PERCENT:
            return ChipUse("active", f"{who} computes on the chips (the busiest: {duty:.0f} %)")
        # A new process may have used the chips between two measurements.
        if is_new:
            return ChipUse("active", f"{who} has just opened the chips")
        # The duty cycle is known but too low to count as use.
        if isinstance(duty, float):
            if cpu >= _LEAST_CPU:
                return ChipUse("quiet", f"{who} has the chips open but does not use them", working=f"{who} works")
            return ChipUse("quiet", f"{who} has the chips open but is idle")
        # Without a duty cycle, assume that a TPU process that uses the CPU also uses the chips.
        if cpu >= _LEAST_CPU:
            return ChipUse("active", f"{who} has the chips open and uses CPU time")
        return ChipUse("unknown", f"{who} has the chips open; {duty or 'their use is unknown'}")


class CpuTimes:
    """CPU times of processes, compared with the last measurement."""

    def __init__(self) -> None:
        self._measured_at: float | None = None
        self._seconds: dict[int, float] = {}

    def has_new(self, pids: Iterable[int]) -> bool:
        """Whether any of the processes has appeared since the last measurement."""
        return not self._seconds.keys() >= set(pids)

    def cores_of(self, pids: Iterable[int]) -> float | None:
        """Return the average number of cores used since the last measurement, or None the first time.

        A new process counts with all of its CPU time.
        """
        now, before, measured_at = time.monotonic(), self._seconds, self._measured_at
        self._measured_at, self._seconds = now, {pid: _cpu_seconds(pid) for pid in pids}
        if measured_at is None:
            return None
        used_s = sum(max(0.0, seconds - before.get(pid, 0.0)) for pid, seconds in self._seconds.items())
        return used_s / max(now - measured_at, 0.01)  # avoids a division by zero


def _with_children(pids: Iterable[int]) -> set[int]:
    """Return these processes and all their descendants."""
    found = set[int]()
    for pid in pids:
        with suppress(psutil.Error):
            found |= {pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))}
    return found


def _cpu_seconds(pid: int) -> float:
    with suppress(psutil.Error):
        times = psutil.Process(pid).cpu_times()
        return float(times.user + times.system + times.children_user + times.children_system)
    return 0.0


def _named(pid: int, kernels: Kernels) -> str:
    """Return a process's name for display: its notebook or, if it has none, its pid and command."""
    known = describe(pid, kernels)
    if known is None:
        return f"process {pid}"
    holder, _began = known
    return PurePath(holder.notebook).name or f"process {pid} ({holder.command[:80]})"
