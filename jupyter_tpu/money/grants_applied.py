"""Apply TRC grants to the ledger, so that time covered by a grant is free.

The ledger contains only list prices. Grants may be entered or removed later, so coverage is computed for each request.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from jupyter_tpu.models import NodeName
from jupyter_tpu.money.credit import billed, steady_periods
from jupyter_tpu.money.days import day_of
from jupyter_tpu.money.grants import Grant
from jupyter_tpu.money.spans import Span


def as_billed(grants: Iterable[Grant], spans: Sequence[Span], now: float) -> tuple[Span, ...]:
    """Split spans where the coverage by TRC grants changes; parts that a grant covers get the price 0."""
    trc = tuple(grant for grant in grants if grant.kind == "trc")
    if not trc or not spans:
        return tuple(spans)
    parts: dict[int, list[Span]] = {}  # keyed by id(span), because equal spans are still different ledger entries
    for start, end, running in steady_periods(trc, spans, min(span.began_at for span in spans), now):
        paid = {id(span) for span in billed(trc, running, day_of(start))}
        for span in running:
            price = span.usd_per_hour if id(span) in paid else 0.0
            _add(parts.setdefault(id(span), []), replace(span, usd_per_hour=price, began_at=start, ended_at=end))
    return tuple(part for span in spans for part in _closed(parts.get(id(span), [span])))


def paid_by_grants(grants: Iterable[Grant], running: Iterable[Span], now: float) -> frozenset[NodeName]:
    """Return the currently READY nodes that a TRC grant covers; older nodes use the grants first, as in `as_billed`."""
    trc = tuple(grant for grant in grants if grant.kind == "trc")
    oldest_first = sorted(running, key=lambda span: span.began_at)
    unpaid = {span.name for span in billed(trc, oldest_first, day_of(now))}
    return frozenset(span.name for span in oldest_first if span.name not in unpaid)


def _add(parts: list[Span], part: Span) -> None:
    """Append a part of a span; merge it with the previous part if the price is the same.

    Only the first part keeps the unmonitored time before the span, and only the last part the unmonitored time after
    it.
    """
    if parts and parts[-1].usd_per_hour == part.usd_per_hour:
        parts[-1] = replace(parts[-1], ended_at=part.ended_at)
    else:
        parts[-1:] = [replace(last, unwatched_after_s=0.0) for last in parts[-1:]]
        parts.append(replace(part, unwatched_before_s=0.0) if parts else part)


def _closed(parts: list[Span]) -> list[Span]:
    """Return the parts of a span with all but the last marked as ended."""
    return [*(replace(part, is_open=False) for part in parts[:-1]), parts[-1]]
