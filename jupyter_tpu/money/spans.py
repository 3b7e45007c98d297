"""What nodes cost: the spans of time in which they were READY, times what they list for.

Money is in US dollars, time in Unix seconds. A price that no source gives is None, never 0; where a cap depends on it,
it counts as the dearest that is known.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from jupyter_tpu import accelerators
from jupyter_tpu.models import NodeName
from jupyter_tpu.provisioning import Provisioning

HOUR_S = 3600.0

WATCHED_S = 120.0
"""Looks that lie no further apart count as watching."""

_SIZE = re.compile(r".*?([0-9]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """From `starts_at` until before `ends_at`; None = for ever."""

    starts_at: float = 0.0
    ends_at: float | None = None


EVER = Window()


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A time in which one node was READY.

    Attributes:
        uid: the node's, see `Node.uid`.
        provisioning: on which terms; None = written down by a version that knew `spot` only.
        usd_per_hour: of the whole node; None = no source gives a price.
        began_at: when the node was first seen READY.
        ended_at: when it was last seen READY.
        is_open: it is taken as READY still.
        unwatched_before_s: for how long it may have been READY before that, while nobody looked.
        unwatched_after_s: the same, after it was last seen.
        price_source: where the price is from, see `Price.origin`; empty = not written down.
    """

    name: NodeName
    uid: str
    accelerator_type: str
    spot: bool
    usd_per_hour: float | None
    began_at: float
    ended_at: float
    is_open: bool = True
    unwatched_before_s: float = 0.0
    unwatched_after_s: float = 0.0
    price_source: str = ""
    provisioning: Provisioning | None = None

    @property
    def terms(self) -> Provisioning:
        """The provisioning model, as far as it is known."""
        return self.provisioning or ("spot" if self.spot else "on-demand")

    @property
    def unwatched_s(self) -> float:
        """The same of both sides, but for the gaps between looks that follow each other closely."""
        return sum(gap for gap in (self.unwatched_before_s, self.unwatched_after_s) if gap > WATCHED_S)

    def seconds(self, window: Window, now: float) -> float:
        """How much of it lies in a window; an open one goes on until `now`."""
        end = max(self.ended_at, now) if self.is_open else self.ended_at
        within = end if window.ends_at is None else min(end, window.ends_at)
        return max(0.0, within - max(self.began_at, window.starts_at))

    @property
    def usd_per_hour_at_worst(self) -> float:
        """The price, or the dearest that is known for so many chips."""
        return dearest_usd_per_hour(self.accelerator_type) if self.usd_per_hour is None else self.usd_per_hour


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What spans cost together.

    Attributes:
        usd: None where a price in it is unknown.
        known_usd: of those whose price is known.
        worst_usd: with the dearest known price for the others; this is what counts towards a cap.
        ready_s: node-seconds.
        unpriced: accelerator types without a price, sorted.
    """

    known_usd: float
    worst_usd: float
    ready_s: float
    unpriced: tuple[str, ...]

    @property
    def usd(self) -> float | None:
        return None if self.unpriced else self.known_usd


def cost(spans: Iterable[Span], window: Window, now: float) -> Cost:
    """What spans cost within a window, up to `now`."""
    parts = [(span, span.seconds(window, now)) for span in spans]
    parts = [(span, seconds) for span, seconds in parts if seconds > 0]
    return Cost(
        known_usd=sum((span.usd_per_hour or 0.0) * seconds / HOUR_S for span, seconds in parts),
        worst_usd=sum(span.usd_per_hour_at_worst * seconds / HOUR_S for span, seconds in parts),
        ready_s=sum(seconds for _, seconds in parts),
        unpriced=tuple(sorted({span.accelerator_type for span, _ in parts if span.usd_per_hour is None})),
    )


def at_worst(span: Span) -> Span:
    """The longest that it can have been READY: what nobody watched counts as READY."""
    return replace(
        span,
        began_at=span.began_at - span.unwatched_before_s,
        ended_at=span.ended_at + span.unwatched_after_s,
        unwatched_before_s=0.0,
        unwatched_after_s=0.0,
    )


def dearest_usd_per_hour(accelerator_type: str) -> float:
    """A price that no node of this type is likely to exceed: the dearest in the catalogue per chip, times its chips.

    A type that the catalogue does not know has as many chips as its name says (``v9-16``: at most 16), and where the
    name says nothing, as many as the largest type that is known.
    """
    return _dearest_chip_hour() * _chips_at_most(accelerator_type)


@functools.cache
def _dearest_chip_hour() -> float:
    return max(float(row["usd_per_chip_hour"]) for row in accelerators.catalogue()["prices"])


def _chips_at_most(accelerator_type: str) -> int:
    kind = accelerators.find_accelerator(accelerator_type)
    if kind is not None:
        return kind.chips
    size = _SIZE.fullmatch(accelerator_type.rpartition("-")[2])
    return max(1, int(size[1][:9])) if size else max(kind.chips for kind in accelerators.accelerators().values())


def ready_since(spans: Iterable[Span]) -> dict[tuple[NodeName, str], float]:
    """Since when the nodes of open spans have been READY, by name and uid; `spans` in the order in which they began.

    A new price begins a new span where the old one ends, while the node stays READY.
    """
    began: dict[tuple[NodeName, str], float] = {}
    ended: dict[tuple[NodeName, str], float] = {}
    open_ones = set[tuple[NodeName, str]]()
    for span in spans:
        key = span.name, span.uid
        if ended.get(key) != span.began_at:
            began[key] = span.began_at
        ended[key] = span.ended_at
        if span.is_open:
            open_ones.add(key)
    return {key: began[key] for key in open_ones}
