"""Validate libtpu's numbers, without I/O.

An impossible value (NaN, negative or above the maximum) is treated as unknown, with a reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jupyter_tpu.metrics import CORE_METRICS, MOST_IDS, Chip, Core

_LIBTPU = {metric.name: metric.served_as for metric in CORE_METRICS}
HBM_TOTAL, HBM_USED = _LIBTPU["hbm_total_bytes"], _LIBTPU["hbm_used_bytes"]
TENSORCORE = _LIBTPU["tensorcore_percent"]
DUTY_CYCLE = "tpu.runtime.tensorcore.dutycycle.percent"

SERVED = (DUTY_CYCLE, *(name for name in _LIBTPU.values() if name != TENSORCORE))
"""The metrics that are requested from libtpu's service."""

# A larger value is certainly wrong: ten years of idle time, a TiB of memory per core, a million queued programs.
_MOST_SECONDS = 10 * 365 * 86400.0
_MOST_BYTES = 2**40
_MOST_COUNTED = 10**6


@dataclass(frozen=True, slots=True, kw_only=True)
class RawMetrics:
    """The metrics as sent by the TPU processes.

    Attributes:
        values: pairs of id and value, by metric.
        why_not: reason why values are missing, by metric.
    """

    values: Mapping[str, Sequence[tuple[int, float]]] = field(default_factory=dict)
    why_not: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidMetrics:
    """The part of a `Sample` that comes from libtpu."""

    duty_per: str
    chips: tuple[Chip, ...]
    cores: tuple[Core, ...]
    unknown: Mapping[str, str]


# There is one function per kind of metric. It returns the value, or None if the value is impossible; `abs` turns -0.0
# into 0.
def _percent(value: float) -> float | None:
    return abs(value) if 0 <= value <= 100 else None


def _seconds(value: float) -> float | None:
    return abs(value) if 0 <= value <= _MOST_SECONDS else None


def _count(value: float) -> int | None:
    return int(value) if 0 <= value <= _MOST_COUNTED else None


def _bytes(value: float) -> int | None:
    return int(value) if 0 <= value <= _MOST_BYTES else None


def _capacity(value: float) -> int | None:
    return int(value) if 1 <= value <= _MOST_BYTES else None


_RULES: Mapping[str, Callable[[float], float | None]] = {
    "percent": _percent,
    "bytes": _bytes,
    "capacity": _capacity,
    "seconds": _seconds,
    "count": _count,
}


def validated(
    raw: RawMetrics, cores_per_chip: int, expected_cores: int | None, *, is_whole_node: bool = False
) -> ValidMetrics:
    """Turn raw metrics into chips and cores, with the reason for each unknown field.

    Args:
        raw: the raw metrics.
        cores_per_chip: JAX devices per chip.
        expected_cores: number of cores of this worker; None if its type is unknown.
        is_whole_node: whether this is the node's only worker, so that ids start at 0.
    """
    unknown: dict[str, str] = {}
    columns = {each.name: _column(raw, each.name, each.served_as, _RULES[each.kind], unknown) for each in CORE_METRICS}
    # Any metric may lack some IDs, so collect the cores from all metrics.
    ids = sorted(set().union(*columns.values()))
    _drop_impossible_memory(columns, unknown)
    for name, column in columns.items():
        _explain(name, column, ids, unknown)
    duty = _column(raw, "duty_percent", DUTY_CYCLE, _percent, unknown)
    # The duty cycle is per chip. If no metric names a core, use the duty cycle's own IDs as the chips.
    chips = sorted({core // cores_per_chip for core in ids} or duty)
    _explain("duty_percent", duty, chips, unknown)
    if expected_cores is not None:
        _explain_cores(ids, expected_cores, is_whole_node, unknown)
    return ValidMetrics(
        duty_per="chip" if cores_per_chip > 1 else "core",
        chips=tuple(Chip(chip=chip, duty_percent=duty.get(chip)) for chip in chips),
        cores=tuple(_core(core, core // cores_per_chip, columns) for core in ids),
        unknown=unknown,
    )


def _explain_cores(ids: Sequence[int], expected: int, is_whole_node: bool, unknown: dict[str, str]) -> None:
    if len(ids) != expected:
        unknown["cores"] = f"libtpu reports {len(ids)} cores, this worker has {expected}"
    elif is_whole_node and ids[-1] >= expected:
        unknown["cores"] = f"libtpu reports cores {ids[0]} to {ids[-1]}, this worker has 0 to {expected - 1}"


def _core(core: int, chip: int, columns: Mapping[str, Mapping[int, Any]]) -> Core:
    return Core(core=core, chip=chip, **{name: column.get(core) for name, column in columns.items()})


def _column(
    raw: RawMetrics, name: str, metric: str, rule: Callable[[float], float | None], unknown: dict[str, str]
) -> dict[int, float | None]:
    """Return the values of one field by id; an impossible value is None, with the reason in `unknown`."""
    pairs = raw.values.get(metric, ())
    if len({number for number, _ in pairs}) > MOST_IDS:
        unknown[name] = f"libtpu reports more than {MOST_IDS} cores"
        return {}
    column: dict[int, float | None] = {}
    for number, value in pairs:
        known = rule(value) if math.isfinite(value) else None
        if number < 0:
            unknown[name] = f"libtpu reports a core {number}"
        # Two processes that report the same core can't both be right.
        elif number in column:
            column[number] = None
            unknown[name] = f"libtpu reports core {number} more than once"
        else:
            column[number] = known
            if known is None:
                unknown[name] = f"libtpu reports {value:g}, which is impossible"
    if metric in raw.why_not or not pairs:
        unknown[name] = raw.why_not.get(metric) or "libtpu does not report it"
    return column


def _drop_impossible_memory(columns: Mapping[str, dict[int, Any]], unknown: dict[str, str]) -> None:
    used, total = columns["hbm_used_bytes"], columns["hbm_total_bytes"]
    for core, most in total.items():
        if most is not None and (used.get(core) or 0) > most:
            used[core] = None
            unknown["hbm_used_bytes"] = f"libtpu reports more memory in use than core {core} has"


def _explain(name: str, column: Mapping[int, Any], ids: Iterable[int], unknown: dict[str, str]) -> None:
    """Store a field's missing or unexpected ids as the reason why its values are unknown. Keep an earlier reason."""
    wanted = set(ids)
    for numbers, what in ((wanted - set(column), "leaves out"), (set(column) - wanted, "reports what does not exist:")):
        if numbers and name not in unknown:
            unknown[name] = f"libtpu {what} {', '.join(map(str, sorted(numbers)[:8]))}"
