"""Capacity pools: how many chips of one family a zone has over time. Pure values; a restart does not change them.

A pool is unlimited until it is set to a number, a script of numbers or a seeded random walk.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

Step = tuple[float, int | None]
"""A virtual time, and the number of chips from then on; None means unlimited."""

RANDOM_PERIOD_S = 600.0
"""Virtual seconds between two changes of a random pool: our choice. Bounds how often the queue checks the capacity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """The chips of one generation in one zone.

    Attributes:
        steps: changes of the number of chips, sorted by time; before the first change, the pool is unlimited.
        seed: if given, the number of chips is random, from 0 to `most`, and changes every `RANDOM_PERIOD_S`; if None,
            the steps apply.
        stocked_out_until: virtual time before which no chips are available; infinity if the stock-out has no set end.
    """

    steps: tuple[Step, ...] = ()
    seed: int | None = None
    most: int = 0
    stocked_out_until: float = 0.0

    def chips(self, now: float) -> int | None:
        """Return the total number of chips, including used ones; None means unlimited."""
        if now < self.stocked_out_until:
            return 0
        return self._by_steps(now) if self.seed is None else self._at_random(self.seed, now)

    def next_change(self, now: float) -> float | None:
        """Return when the number of chips may next change; None means never."""
        moments = [moment for moment, _ in self.steps if self.seed is None]
        moments.append(self.stocked_out_until)
        if self.seed is not None:
            moments.append((now // RANDOM_PERIOD_S + 1) * RANDOM_PERIOD_S)
        coming = [moment for moment in moments if now < moment < float("inf")]
        return min(coming, default=None)

    def _by_steps(self, now: float) -> int | None:
        past = [chips for moment, chips in self.steps if moment <= now]
        return past[-1] if past else None

    def _at_random(self, seed: int, now: float) -> int:
        # use a separate generator for each period, so that periods can be queried in any order
        return random.Random(f"{seed}:{now // RANDOM_PERIOD_S:.0f}").randint(0, self.most)

    def to_json(self) -> dict[str, Any]:
        """Return the pool as it is stored."""
        return asdict(self)


def pool_from_json(data: Mapping[str, Any]) -> Pool:
    """Rebuild a pool from `Pool.to_json`."""
    return Pool(**{**data, "steps": tuple((moment, chips) for moment, chips in data["steps"])})


def script(now: float, after: Sequence[tuple[float, int | None]]) -> tuple[Step, ...]:
    """Convert pairs (virtual seconds from now, chips) to steps, sorted by time."""
    return tuple(sorted(((now + seconds, chips) for seconds, chips in after), key=lambda step: step[0]))
