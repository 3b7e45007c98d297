"""The view of `TpuMonitor`: the load of this worker's chips, cores and host."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from jupyter_tpu.accelerators import find_accelerator
from jupyter_tpu.errors import Text
from jupyter_tpu.i18n import _, shown
from jupyter_tpu.metrics import CORE_METRICS, Core, Holder, Sample
from jupyter_tpu.notebook.display import UNKNOWN
from jupyter_tpu.notebook.magics.chips import NEWEST_SAMPLE, top
from jupyter_tpu.notebook.node.this_worker import this_worker
from jupyter_tpu.notebook.widgets.view import CallAgent, Data, View
from jupyter_tpu.sample_table import TITLES

# The call for the history that monitor.js draws: the last 10 minutes (HISTORY_S there), with a point every 5 s.
_WITH_HISTORY = ("metrics", {"history_s": 600, "points": 120})
# Number of processes to show: as many as fit into a line or two below the table.
_MOST_HOLDERS = 4


def read(ask: CallAgent, whole: bool) -> Data:
    """Return the newest sample in a compact form: lists instead of records, and TPU processes as text.

    Percentages are not rounded here: the page rounds them like the panel, so that the widget and the panel show the
    same values.
    """
    answer = ask(*(_WITH_HISTORY if whole else NEWEST_SAMPLE))
    sample = Sample.from_json(answer["sample"])
    accelerator_type = str(answer["worker"].get("accelerator_type") or "")
    seen = {
        "at": sample.at,
        "type": accelerator_type,
        "place": _place(accelerator_type),
        "node": this_worker(os.environ).node_id,
        "state": sample.state,
        "reason": sample.reason,
        "duty_per": sample.duty_per,
        "chips": [[chip.chip, chip.duty_percent] for chip in sample.chips],
        "columns": _columns(),
        "cores": [_core(core) for core in sample.cores],
        "unknown": list(map(shown, sample.unknown_lines(TITLES))),
        "machine": asdict(sample.host),
        "holders": [_holder(holder) for holder in sample.holders[:_MOST_HOLDERS]],
    }
    return {**seen, "history": _history(answer["history"], sample.cores)} if whole and answer["history"] else seen


def _columns() -> list[list[str]]:
    """Return the name, the title and the kind of each metric of a core."""
    titles = ((metric, shown(metric.title)) for metric in CORE_METRICS)
    return [[metric.name, f"{title[0].upper()}{title[1:]}", metric.kind] for metric, title in titles]


def _place(accelerator_type: str) -> str:
    kind = find_accelerator(accelerator_type)
    if kind is None or kind.workers == 1:
        return ""
    return _("1 of {count} workers; the TPU panel shows all workers.", count=kind.workers)


def _core(core: Core) -> list[Any]:
    return [core.core, core.chip, *(getattr(core, metric.name) for metric in CORE_METRICS)]


def _history(history: Mapping[str, Any], cores: Sequence[Core]) -> dict[str, Any]:
    """Return the duty cycle and the share of HBM in use, in percent, by chip id (as a string)."""
    duty = {chip: [_rounded(percent) for percent in row] for chip, row in (history.get("duty_percent") or {}).items()}
    used = history.get("hbm_used_bytes") or {}
    hbm = {str(chip): _shares([core for core in cores if core.chip == chip], used) for chip in _chips(cores)}
    return {"at": [round(at, 1) for at in history["at"]], "duty": duty, "hbm": hbm}


def _chips(cores: Sequence[Core]) -> list[int]:
    return sorted({core.chip for core in cores})


def _shares(cores: Sequence[Core], used: Mapping[str, Sequence[int | None]]) -> list[float | None]:
    """For each time, return the share of HBM in use on all cores of a chip, in percent."""
    total = sum(core.hbm_total_bytes or 0 for core in cores)
    moments = zip(*(used.get(str(core.core), ()) for core in cores), strict=False)
    return [None if None in moment or not total else round(100 * sum(moment) / total, 1) for moment in moments]


def _rounded(percent: float | None) -> float | None:
    return None if percent is None else round(percent, 1)


def _holder(holder: Holder) -> str:
    name = (holder.notebook or holder.command or _("a process"))[:80]
    if holder.is_own_user:
        return f"{name} (pid {holder.pid})"
    return _("{name} (pid {pid}, user {user})", name=name, pid=holder.pid, user=holder.user or UNKNOWN)


MONITOR = View(title=Text("TPU monitor"), script="monitor.js", every_s=1.0, read=read, subcommands=(top,))
