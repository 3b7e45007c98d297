"""Alignment and reduction of time series, limited to what dashboards of TPU workers use."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jupyter_tpu.emulator.resources.behaviours import assumed
from jupyter_tpu.emulator.services.requests.calls import ServiceCall
from jupyter_tpu.emulator.services.requests.errors import invalid_argument

Point = tuple[float, float]
"""Moment (virtual seconds since the epoch) and value."""

_FOLDS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "MEAN": lambda values: sum(values) / len(values),
    "MAX": max,
    "MIN": min,
    "SUM": sum,
    "COUNT": len,
    "NEXT_OLDER": lambda values: values[-1],
}
_SHORTEST_S = 60.0  # the shortest alignment period that Cloud Monitoring accepts


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One time series; points oldest first."""

    metric: Mapping[str, Any]
    resource: Mapping[str, Any]
    value: str
    unit: str
    points: tuple[Point, ...]

    @property
    def key(self) -> str:
        """A text that tells it from all other series; pages are in this order."""
        return repr(
            (self.metric["type"], sorted(self.resource["labels"].items()), sorted(self.metric["labels"].items()))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregation:
    """The aggregation of a request; an empty aligner or reducer means none."""

    period_s: float
    aligner: str
    reducer: str
    group_by: tuple[str, ...]


@assumed(
    "monitoring-aggregation",
    "Aligners and reducers MEAN, MAX, MIN, SUM and COUNT (and the aligner NEXT_OLDER) work; others are refused.",
)
def aggregation_of(call: ServiceCall) -> Aggregation:
    """Parse the aggregation of a call; raise for one that is malformed or not supported."""
    aligner = _fold_name(call, "aggregation.perSeriesAligner", "ALIGN_")
    reducer = _fold_name(call, "aggregation.crossSeriesReducer", "REDUCE_")
    period = call.query.get("aggregation.alignmentPeriod", "")
    match = re.fullmatch(r"\+?([0-9]{1,9}(?:\.[0-9]{1,9})?)s", period) if period else None
    # an aligner needs a period; a period alone is checked as well
    if (period or aligner) and (match is None or float(match[1]) < _SHORTEST_S):
        raise invalid_argument("aggregation.alignmentPeriod must be at least 60s.", "aggregation.alignmentPeriod")
    if reducer and not aligner:
        raise invalid_argument("A reducer needs an aligner.", "aggregation.perSeriesAligner")
    group_by = tuple(call.lists.get("aggregation.groupByFields", ()))
    return Aggregation(period_s=float(match[1]) if match else 0.0, aligner=aligner, reducer=reducer, group_by=group_by)


def _fold_name(call: ServiceCall, name: str, prefix: str) -> str:
    word = call.query.get(name, f"{prefix}NONE").removeprefix(prefix)
    if word != "NONE" and (word not in _FOLDS or (prefix, word) == ("REDUCE_", "NEXT_OLDER")):
        raise invalid_argument(f"{name} {word[:40]!r} is not supported.", name)
    return "" if word == "NONE" else word


def aggregated(found: Iterable[Series], how: Aggregation, end: float) -> list[Series]:
    """Return the series aligned to periods that end at `end` and before, then reduced by group."""
    if not how.aligner:
        return list(found)
    aligned = [_aligned(series, how, end) for series in found]
    return _reduced(aligned, how) if how.reducer else aligned


def _aligned(series: Series, how: Aggregation, end: float) -> Series:
    periods: dict[int, list[float]] = {}
    for moment, value in series.points:
        # counted back from the end of the interval, as Cloud Monitoring aligns
        periods.setdefault(int((end - moment) // how.period_s), []).append(value)
    fold = _FOLDS[how.aligner]
    points = tuple((end - number * how.period_s, fold(values)) for number, values in periods.items())
    return Series(
        metric=series.metric,
        resource=series.resource,
        value=_value_of(series, how.aligner),
        unit=series.unit,
        points=points,
    )


def _reduced(found: list[Series], how: Aggregation) -> list[Series]:
    def group_of(series: Series) -> str:
        return repr([series.metric["type"], *(_label(series, path) for path in how.group_by)])

    # groupby joins neighbours only
    groups = itertools.groupby(sorted(found, key=group_of), key=group_of)
    return [_one_of(list(members), how) for _, members in groups]


def _one_of(members: list[Series], how: Aggregation) -> Series:
    values: dict[float, list[float]] = {}
    for series in members:
        for moment, value in series.points:
            # aligned series share their moments, so values of one moment are reduced together
            values.setdefault(moment, []).append(value)
    first, fold = members[0], _FOLDS[how.reducer]
    return Series(
        metric={"type": first.metric["type"], "labels": _labels(first, "metric", how.group_by)},
        resource={"type": first.resource["type"], "labels": _labels(first, "resource", how.group_by)},
        value=_value_of(first, how.reducer),
        unit=first.unit,
        points=tuple((moment, fold(values[moment])) for moment in sorted(values)),
    )


def _value_of(series: Series, fold: str) -> str:
    if fold == "COUNT":
        return "INT64"
    return "DOUBLE" if fold == "MEAN" else series.value


def _label(series: Series, path: str) -> str:
    part, _, name = path.replace(".label.", ".labels.").partition(".labels.")
    labels = {"metric": series.metric, "resource": series.resource}.get(part, {"labels": {}})["labels"]
    return str(labels.get(name.strip('"'), ""))


def _labels(series: Series, part: str, group_by: tuple[str, ...]) -> dict[str, str]:
    """Return the labels that are left after a reduction; the project of the resource always is."""
    kept = {
        path.rpartition(".")[2].strip('"'): _label(series, path) for path in group_by if path.startswith(f"{part}.")
    }
    if part == "resource" and "project_id" in series.resource["labels"]:
        return {"project_id": series.resource["labels"]["project_id"], **kept}
    return kept
