"""The samples of the last hour, in arrays of about 30 bytes per second and core (under 1 MiB for 8 cores)."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from jupyter_tpu.metrics import Sample

SAMPLES = 3600
"""Number of samples to keep: an hour at one per second, the longest history that the panel shows."""
# Maximum number of series. Bounds memory; enough for three series for each of 64 cores (`MOST_IDS`) and two series for
# the host.
_MOST_SERIES = 200

Key: TypeAlias = "tuple[str, str]"
"""Name of a series, and the id of its chip or core; the id is empty for a series of the whole machine."""


class SampleHistory:
    """A ring buffer of the newest samples; unknown values are None."""

    def __init__(self, samples: int = SAMPLES) -> None:
        self._size = samples
        self._at = array("d", [math.nan]) * samples
        self._series: dict[Key, array[float]] = {}
        self._next = 0
        self._count = 0

    def add(self, sample: Sample, at: float) -> None:
        """Add a sample; if the buffer is full, it replaces the oldest one.

        Args:
            at: when the sample was taken, in seconds of the boot clock. The wall clock may be set, and the samples
                would then be out of order.
        """
        self._at[self._next] = at
        # A series without a value in this sample must not keep its value from an hour ago.
        for column in self._series.values():
            column[self._next] = math.nan
        for key, value in _values(sample):
            if value is not None and (place := self._column(key)) is not None:
                place[self._next] = value
        self._next = (self._next + 1) % self._size
        self._count = min(self._count + 1, self._size)

    def _column(self, key: Key) -> array[float] | None:
        """Return the values of a series, which is created if needed; None if there are already too many series."""
        if key not in self._series and len(self._series) < _MOST_SERIES:
            self._series[key] = array("d", [math.nan]) * self._size
        return self._series.get(key)

    def copy(self) -> SampleHistory:
        """Return a copy for another thread, which can read it while this thread adds samples."""
        other = SampleHistory(0)
        other._size, other._next, other._count = self._size, self._next, self._count
        other._at, other._series = self._at[:], {key: column[:] for key, column in self._series.items()}
        return other

    def history(self, since: float, step_s: float, points: int = SAMPLES) -> dict[str, Any]:
        """Return the newest points after `since`, at most `points` of them, one per `step_s` (see `thinned`).

        Args:
            since: seconds of the boot clock, as all times in the result.
        """
        # Order the samples from the oldest to the newest: in the ring buffer, the oldest is at the position that is
        # written next.
        order = [(self._next - self._count + index) % self._size for index in range(self._count)]
        chosen = [index for index in order if self._at[index] > since]
        keys = sorted(self._series)
        rows = [[_known(self._series[key][index]) for index in chosen] for key in keys]
        at, thin = thinned([self._at[index] for index in chosen], rows, step_s)
        newest = [row[-points:] for row in thin]
        return {"at": at[-points:], **_nested(zip(keys, newest, strict=True))}


def _values(sample: Sample) -> Iterator[tuple[Key, float | None]]:
    for chip in sample.chips:
        yield ("duty_percent", str(chip.chip)), chip.duty_percent
    for core in sample.cores:
        yield ("hbm_used_bytes", str(core.core)), core.hbm_used_bytes
        yield ("tensorcore_percent", str(core.core)), core.tensorcore_percent
    yield ("cpu_percent", ""), sample.host.cpu_percent
    yield ("memory_used_bytes", ""), sample.host.memory_used_bytes


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _nested(series: Iterable[tuple[Key, list[float | None]]]) -> Mapping[str, Any]:
    found: dict[str, Any] = {"duty_percent": {}, "hbm_used_bytes": {}, "tensorcore_percent": {}}
    found |= {"cpu_percent": [], "memory_used_bytes": []}
    for (name, number), values in series:
        if number:
            found[name][number] = values
        else:
            found[name] = values
    return found


def thinned(
    at: Sequence[float], rows: Sequence[Sequence[float | None]], step_s: float
) -> tuple[list[float], list[list[float | None]]]:
    """Reduce each series to one point per `step_s`: the mean of the known values, with the time of the last value.

    Steps begin at multiples of their length, so that later calls return the same points for the same times.
    """
    ends = [index + 1 for index in range(len(at)) if _is_last(at, index, step_s)]
    spans = list(zip([0, *ends[:-1]], ends, strict=True)) if ends else []
    return [at[end - 1] for end in ends], [[_mean(row[start:end]) for start, end in spans] for row in rows]


def _is_last(at: Sequence[float], index: int, step_s: float) -> bool:
    return index + 1 == len(at) or at[index] // step_s != at[index + 1] // step_s


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None
