"""Spans: the periods during which a node was READY, and their cost at list price.

Money is in US dollars, time in Unix seconds. An unknown price is None, never 0. Caps treat an unknown price as the
highest known price.
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
"""Gaps between observations of at most this many seconds count as monitored; a server lists the nodes every 15 s."""

_SIZE = re.compile(r".*?([0-9]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The time from `starts_at` until `ends_at`, exclusive (Unix seconds; None for no end)."""

    starts_at: float = 0.0
    ends_at: float | None = None


EVER = Window()


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A period during which one node was READY at one price.

    Attributes:
        uid: the node's uid; see `Node.uid`.
        provisioning: the provisioning model; None in spans from older versions, which stored only `spot`.
        usd_per_hour: list price of the whole node; None if no source has a price.
        began_at: when the node was first observed READY.
        ended_at: when the node was last observed READY.
        is_open: whether the node still counts as READY.
        unwatched_before_s: seconds before `began_at` for which the node may have been READY but was unmonitored.
        unwatched_after_s: the same, after `ended_at`.
        price_source: the source of the price, see `Price.origin`; empty in spans from older versions.
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
        """The provisioning model; it is guessed for spans from older versions."""
        return self.provisioning or ("spot" if self.spot else "on-demand")

    @property
    def unwatched_s(self) -> float:
        """Unmonitored seconds before and after the span, not counting the short gaps between regular observations."""
        return sum(gap for gap in (self.unwatched_before_s, self.unwatched_after_s) if gap > WATCHED_S)

    def seconds(self, window: Window, now: float) -> float:
        """Return the seconds of the span within a window; an open span lasts until `now`."""
        end = max(self.ended_at, now) if self.is_open else self.ended_at
        within = end if window.ends_at is None else min(end, window.ends_at)
        return max(0.0, within - max(self.began_at, window.starts_at))

    @property
    def usd_per_hour_at_worst(self) -> float:
        """The price or, if it is unknown, the highest known price for the same number of chips."""
        return dearest_usd_per_hour(self.accelerator_type) if self.usd_per_hour is None else self.usd_per_hour


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The total cost and READY time of some spans.

    Attributes:
        known_usd: cost of the spans whose price is known.
        worst_usd: the cost if unknown prices are replaced with the highest known price; this counts toward a cap.
        ready_s: total READY time in node-seconds.
        unpriced: accelerator types without a known price, sorted.
    """

    known_usd: float
    worst_usd: float
    ready_s: float
    unpriced: tuple[str, ...]

    @property
    def usd(self) -> float | None:
        """The total cost, or None if a price is unknown."""
        return None if self.unpriced else self.known_usd


def cost(spans: Iterable[Span], window: Window, now: float) -> Cost:
    """Return the cost of spans within a window, up to `now`."""
    parts = [(span, span.seconds(window, now)) for span in spans]
    parts = [(span, seconds) for span, seconds in parts if seconds > 0]
    return Cost(
        known_usd=sum((span.usd_per_hour or 0.0) * seconds / HOUR_S for span, seconds in parts),
        worst_usd=sum(span.usd_per_hour_at_worst * seconds / HOUR_S for span, seconds in parts),
        ready_s=sum(seconds for _, seconds in parts),
        unpriced=tuple(sorted({span.accelerator_type for span, _ in parts if span.usd_per_hour is None})),
    )


def as_counted(span: Span) -> Span:
    """Return the span as every sum counts it: the short gaps between regular observations count as READY.

    Longer gaps stay unmonitored, so they are shown next to the sums, and count only toward budgets.
    """
    return _extended(
        span,
        before_s=span.unwatched_before_s if span.unwatched_before_s <= WATCHED_S else 0.0,
        after_s=span.unwatched_after_s if span.unwatched_after_s <= WATCHED_S else 0.0,
    )


def at_worst(span: Span) -> Span:
    """Return the span with its maximum duration: all unmonitored time counts as READY."""
    return _extended(span, before_s=span.unwatched_before_s, after_s=span.unwatched_after_s)


def _extended(span: Span, *, before_s: float, after_s: float) -> Span:
    if not (before_s or after_s):  # a ledger may be long, and most spans have no gaps
        return span
    return replace(
        span,
        began_at=span.began_at - before_s,
        ended_at=span.ended_at + after_s,
        unwatched_before_s=span.unwatched_before_s - before_s,
        unwatched_after_s=span.unwatched_after_s - after_s,
    )


def dearest_usd_per_hour(accelerator_type: str) -> float:
    """Return a price that no node of this type is likely to exceed: its chips times the highest known chip price.

    For a type that is not in the catalogue, the number of chips is taken from its name (``v9-16``: at most 16) or, if
    the name has no number, from the largest known type.
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
    # nine digits are enough for any type and limit the number in a long name
    return max(1, int(size[1][:9])) if size else max(kind.chips for kind in accelerators.accelerators().values())


def ready_since(spans: Iterable[Span]) -> dict[tuple[NodeName, str], float]:
    """Return when the nodes with an open span became READY (Unix seconds), by name and uid.

    When a price changes, a new span begins exactly where the old one ends, and the node stays READY.

    Args:
        spans: sorted by start time.
    """
    began: dict[tuple[NodeName, str], float] = {}
    ended: dict[tuple[NodeName, str], float] = {}
    open_ones = set[tuple[NodeName, str]]()
    for span in spans:
        key = span.name, span.uid
        if ended.get(key) != span.began_at:  # an actual start, not just a price change
            began[key] = span.began_at
        ended[key] = span.ended_at
        if span.is_open:
            open_ones.add(key)
    return {key: began[key] for key in open_ones}
