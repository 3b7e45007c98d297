"""TPU processes of this worker, and whether they are used. Everything here blocks: call it in a thread.

Where the use of the chips can't be measured, the CPU time of those who may use them is, which stands in for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import PurePath

import psutil

from jupyter_tpu.accelerators import find_accelerator
from jupyter_tpu.agent.devices.holders import Kernels, describe, device_files, open_by
from jupyter_tpu.agent.metrics.libtpu import metric_ports, read_metrics
from jupyter_tpu.agent.metrics.validate import DUTY_CYCLE, believed

_LEAST_DUTY_PERCENT = 1.0
# a cell waits 2 s for what goes on here, perhaps for a look that somebody else has begun and then for its own
_ANSWER_S = 0.8
# of one core: a process that only uses the chips answers heartbeats
_LEAST_CPU = 0.05


@dataclass(frozen=True)
class ChipUse:
    """``active``, ``quiet`` or ``unknown``, and why.

    Attributes:
        working: who uses the chips and works without using them, such as a compiler; empty where nobody does.
        cpu: the same three states of the CPU time that stands in; empty where the use of the chips is known.
    """

    state: str
    detail: str
    working: str = ""
    cpu: str = ""


class Chips:
    """Looks at the chips again and again: CPU time is compared with that of the last look.

    Args:
        kernels: the kernels of the agent, called at each look.
    """

    def __init__(self, environ: Mapping[str, str], kernels: Callable[[], Kernels]) -> None:
        self._environ = environ
        self._kernels = kernels
        kind = find_accelerator(environ.get("TPU_ACCELERATOR_TYPE", ""))
        self._workers = kind.workers if kind else 1
        self._ports = metric_ports(environ, kind.chips_per_worker if kind else 1)
        self._holder_cpu, self._kernel_cpu = CpuTimes(), CpuTimes()

    def look(self) -> ChipUse:
        """What the chips are doing."""
        use = self._chip_use()
        return replace(use, cpu=self._cpu_state(use)) if use.state == "unknown" else use

    def _chip_use(self) -> ChipUse:
        files = device_files(self._environ)
        if not files:
            return ChipUse("unknown", "no accelerator is seen on this machine")
        holders = open_by(files)
        use = self._use_by(holders, self._duty())
        if use.state == "quiet" and self._workers > 1:
            unseen = f"the other workers of the slice ({self._workers} in all) are not seen"
            return replace(use, state="unknown", detail=unseen)
        return use

    def _cpu_state(self, use: ChipUse) -> str:
        """Of the kernels with all that they have started, and of those that use the chips."""
        cpu = self._kernel_cpu.cores_of(_with_children(self._kernels()))
        if use.working:
            return "active"
        return "unknown" if cpu is None else "active" if cpu >= _LEAST_CPU else "quiet"

    def _duty(self) -> float | str | None:
        """Percent of the busiest chip; None while nobody serves metrics; a text: why it is not known."""
        told = read_metrics(self._ports, (DUTY_CYCLE,), _ANSWER_S)
        if told is None:
            return None
        found = believed(told, cores_per_chip=1, expected_cores=None)
        known = [chip.duty_percent for chip in found.chips if chip.duty_percent is not None]
        busiest = float(max(known, default=0.0))
        return busiest if busiest >= _LEAST_DUTY_PERCENT else found.unknown.get("duty_percent", busiest)

    def _use_by(self, holders: list[int], duty: float | str | None) -> ChipUse:
        is_new, cpu = self._holder_cpu.has_new(holders), self._holder_cpu.cores_of(holders) or 0.0
        who = _named(holders[0], self._kernels()) if holders else "a process of another user"
        if not holders and duty is None:
            return ChipUse("quiet", "no process uses the chips")
        if isinstance(duty, float) and duty >= _LEAST_DUTY_PERCENT:
            return ChipUse("active", f"{who} computes on the chips (the busiest: {duty:.0f} %)")
        if is_new:
            return ChipUse("active", f"{who} has taken the chips")
        if isinstance(duty, float):
            if cpu >= _LEAST_CPU:
                return ChipUse("quiet", f"{who} has the chips open and does not use them", working=f"{who} works")
            return ChipUse("quiet", f"{who} has the chips open and does nothing")
        if cpu >= _LEAST_CPU:
            return ChipUse("active", f"{who} uses the chips and works")
        return ChipUse("unknown", f"{who} uses the chips; {duty or 'their use is not known'}")


class CpuTimes:
    """CPU times of processes, compared with those of the last look."""

    def __init__(self) -> None:
        self._looked_at: float | None = None
        self._seconds: dict[int, float] = {}

    def has_new(self, pids: Iterable[int]) -> bool:
        """Whether one of them was not there at the last look."""
        return not self._seconds.keys() >= set(pids)

    def cores_of(self, pids: Iterable[int]) -> float | None:
        """Cores that these have used since the last look, all of it where one began since; None at the first look."""
        now, before, looked_at = time.monotonic(), self._seconds, self._looked_at
        self._looked_at, self._seconds = now, {pid: _cpu_seconds(pid) for pid in pids}
        if looked_at is None:
            return None
        used_s = sum(max(0.0, seconds - before.get(pid, 0.0)) for pid, seconds in self._seconds.items())
        return used_s / max(now - looked_at, 0.01)


def _with_children(pids: Iterable[int]) -> set[int]:
    """These processes, and all that they have started."""
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
    """The notebook that it belongs to, or the process itself."""
    known = describe(pid, kernels)
    if known is None:
        return f"process {pid}"
    holder, _began = known
    return PurePath(holder.notebook).name or f"process {pid} ({holder.command[:80]})"
