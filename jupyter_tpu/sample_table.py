"""A sample of a worker's chips as a table, with the same columns and texts in a terminal, a cell and a widget.

Start with `chips_table`. Pure; runs on Python 3.10. `metrics.CORE_METRICS` defines the columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from jupyter_tpu.durations import duration_text
from jupyter_tpu.errors import Text
from jupyter_tpu.metrics import CORE_METRICS, Core, CoreMetric, Sample

TITLES: Mapping[str, str] = {
    "duty_percent": Text("duty cycle"),
    **{metric.name: metric.title for metric in CORE_METRICS},
}
"""The title of each value of chips and cores, by field name."""

UNKNOWN = Text("unknown")

_GIB = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of text below a header."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def percent_text(value: float | None) -> str:
    """Return ``78.7 %``, or ``unknown``."""
    return UNKNOWN if value is None else f"{value:.1f} %"


def bytes_text(used: float | None, total: float | None = None) -> str:
    """Return ``3.2 of 16.0 GiB``, ``3.2 GiB`` or ``unknown``."""
    if used is None:
        return UNKNOWN
    if total is None:
        return f"{used / _GIB:.1f} GiB"
    return Text("{used} of {total} GiB", used=f"{used / _GIB:.1f}", total=f"{total / _GIB:.1f}")


_TEXTS: Mapping[str, Callable[[float], str]] = {
    "percent": percent_text,
    "bytes": bytes_text,
    "seconds": duration_text,
    "count": str,
}


def chips_table(sample: Sample) -> Table:
    """Return a row per core; omit columns that are unknown for all cores.

    Without per-core metrics, return a row per chip with its load.
    """
    if not sample.cores:
        return Table(
            header=(Text("chip"), TITLES["duty_percent"]),
            rows=tuple((str(chip.chip), percent_text(chip.duty_percent)) for chip in sample.chips),
        )
    duties = {chip.chip: chip.duty_percent for chip in sample.chips}
    shown = [metric for metric in CORE_METRICS if metric.kind != "capacity" and _is_known(metric, sample)]
    # libtpu may report one duty cycle for all cores of a chip
    duty = Text("duty cycle of the chip") if sample.duty_per == "chip" else TITLES["duty_percent"]
    return Table(
        header=(Text("core"), Text("chip"), duty, *(metric.title for metric in shown)),
        rows=tuple(
            (
                str(core.core),
                str(core.chip),
                percent_text(duties.get(core.chip)),
                *(_core_text(metric, core) for metric in shown),
            )
            for core in sample.cores
        ),
    )


def _is_known(metric: CoreMetric, sample: Sample) -> bool:
    return any(getattr(core, metric.name) is not None for core in sample.cores)


def _core_text(metric: CoreMetric, core: Core) -> str:
    if metric.name == "hbm_used_bytes":
        return bytes_text(core.hbm_used_bytes, core.hbm_total_bytes)
    value = getattr(core, metric.name)
    return UNKNOWN if value is None else _TEXTS[metric.kind](value)
