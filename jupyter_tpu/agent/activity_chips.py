"""Who holds the chips of this worker, and whether they are used. Everything here blocks: call it in a thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePath

import psutil

from jupyter_tpu.accelerators import find_accelerator
from jupyter_tpu.agent.holders import Kernels, describe, device_files, open_by
from jupyter_tpu.agent.metrics_believed import DUTY_CYCLE, believed
from jupyter_tpu.agent.metrics_service import metric_ports, read_metrics

_LEAST_DUTY_PERCENT = 1.0
# a cell waits 2 s for what goes on here, perhaps for a look that somebody else has begun and then for its own
_ANSWER_S = 0.8
# of one core: a process that only holds the chips answers heartbeats
_LEAST_CPU = 0.05


@dataclass(frozen=True)
class ChipUse:
    """``active``, ``quiet`` or ``unknown``, and why."""

    state: str
    detail: str


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
        self._cpu: dict[int, tuple[float, float]] = {}

    def look(self) -> ChipUse:
        """What the chips are doing."""
        files = device_files(self._environ)
        if not files:
            return ChipUse("unknown", "no accelerator is seen on this machine")
        holders = open_by(files)
        use = self._use_by(holders, self._duty())
        if use.state == "quiet" and self._workers > 1:
            return ChipUse("unknown", f"the other workers of the slice ({self._workers} in all) are not seen")
        return use

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
        cpu = self._cpu_of(holders)
        who = _named(holders[0], self._kernels()) if holders else "a process of another user"
        if not holders and duty is None:
            return ChipUse("quiet", "no process holds the chips")
        if isinstance(duty, float) and duty >= _LEAST_DUTY_PERCENT:
            return ChipUse("active", f"{who} computes on the chips (the busiest: {duty:.0f} %)")
        if cpu is None or cpu >= _LEAST_CPU:
            return ChipUse("active", f"{who} {'has taken the chips' if cpu is None else 'holds the chips and works'}")
        if isinstance(duty, float):
            return ChipUse("quiet", f"{who} holds the chips and does nothing")
        return ChipUse("unknown", f"{who} holds the chips; {duty or 'their use is not told'}")

    def _cpu_of(self, pids: list[int]) -> float | None:
        """Cores that these processes have used since the last look; None where one of them is new; 0 for none."""
        now = time.monotonic()
        before, self._cpu = self._cpu, {pid: (now, _cpu_seconds(pid)) for pid in pids}
        if any(pid not in before for pid in pids):
            return None
        spans = [
            (seconds - before[pid][1]) / max(now - before[pid][0], 0.01) for pid, (_, seconds) in self._cpu.items()
        ]
        return max(0.0, sum(spans))


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
