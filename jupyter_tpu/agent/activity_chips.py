"""Who holds the chips of this worker, and whether they are used. Everything here blocks: call it in a thread."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from jupyter_tpu.accelerators import find_accelerator
from jupyter_tpu.agent.activity_duty import MetricsUnreadable, NobodyServes, duty_cycles

DEVICES_VARIABLE = "JUPYTER_TPU_DEVICES"
"""Names the folder that stands for /dev where the chips' device files lie elsewhere."""

_PORTS_VARIABLE = "TPU_RUNTIME_METRICS_PORTS"
_FIRST_PORT = "8431"
_LEAST_DUTY_PERCENT = 1.0
# of one core: a process that only holds the chips answers heartbeats
_LEAST_CPU = 0.05


@dataclass(frozen=True)
class ChipUse:
    """``active``, ``quiet`` or ``unknown``, and why."""

    state: str
    detail: str


class Chips:
    """Looks at the chips again and again: CPU time is compared with that of the last look."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._devices = Path(environ.get(DEVICES_VARIABLE) or "/dev")
        self._ports = list(_numbers(environ.get(_PORTS_VARIABLE) or _FIRST_PORT))
        kind = find_accelerator(environ.get("TPU_ACCELERATOR_TYPE", ""))
        self._workers = kind.workers if kind else 1
        self._cpu: dict[int, tuple[float, float]] = {}

    def look(self) -> ChipUse:
        """What the chips are doing."""
        files = self._device_files()
        if not files:
            return ChipUse("unknown", "no accelerator is seen on this machine")
        holders = _holders(files)
        use = self._use_by(holders, self._duty())
        if use.state == "quiet" and self._workers > 1:
            return ChipUse("unknown", f"the other workers of the slice ({self._workers} in all) are not seen")
        return use

    def _device_files(self) -> set[str]:
        found = (*self._devices.glob("accel[0-9]*"), *self._devices.glob("vfio/[0-9]*"))
        return {os.path.realpath(path) for path in found}

    def _duty(self) -> float | str | None:
        """Percent of the busiest chip; None while nobody serves metrics; a text: why it is not known."""
        found, why = list[float](), ""
        for port in self._ports:
            with suppress(NobodyServes):
                try:
                    found.append(max(duty_cycles(port), default=0.0))
                except MetricsUnreadable as error:
                    why = str(error)
        return max(found) if found and not why else (why or None)

    def _use_by(self, holders: list[int], duty: float | str | None) -> ChipUse:
        cpu = self._cpu_of(holders)
        who = _named(holders[0]) if holders else "a process of another user"
        if not holders and duty is None:
            return ChipUse("quiet", "no process holds the chips")
        if isinstance(duty, float) and duty >= _LEAST_DUTY_PERCENT:
            return ChipUse("active", f"{who} computes (the busiest chip: {duty:.0f} %)")
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


def _numbers(text: str) -> Iterator[int]:
    yield from (int(word) for word in text.split(",") if word.strip().isdecimal())


def _holders(files: set[str]) -> list[int]:
    """Processes that have a device file open, as far as this user may see."""
    processes = (path for path in Path("/proc").iterdir() if path.name.isdecimal())
    return sorted(int(path.name) for path in processes if _open_files(path / "fd") & files)


def _open_files(folder: Path) -> set[str]:
    """What a process has open; nothing where it is gone or another user's."""
    found = set[str]()
    with suppress(OSError):
        for link in folder.iterdir():
            with suppress(OSError):
                found.add(str(link.readlink()))
    return found


def _cpu_seconds(pid: int) -> float:
    with suppress(psutil.Error):
        times = psutil.Process(pid).cpu_times()
        return float(times.user + times.system + times.children_user + times.children_system)
    return 0.0


def _named(pid: int) -> str:
    with suppress(psutil.Error):
        return f"process {pid} ({' '.join(psutil.Process(pid).cmdline())[:80]})"
    return f"process {pid}"
