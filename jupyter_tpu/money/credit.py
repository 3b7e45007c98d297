"""Compute how many US dollars of each credit the nodes have used, from the ledger's list prices.

Time covered by a TRC grant uses no credit. If there are several credits, the one that expires first is used first. Only
the cost of chips is counted. Disks, addresses and egress use credit too, but no API reports how much.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from jupyter_tpu.money.allotment import RowKey, assign
from jupyter_tpu.money.days import began_at, day_of
from jupyter_tpu.money.grants import Grant
from jupyter_tpu.money.spans import HOUR_S, Span
from jupyter_tpu.provisioning import is_grantable


def credits_used(grants: Iterable[Grant], spans: Iterable[Span], *, now: float) -> Mapping[str, float | None]:
    """Return the US dollars spent from each credit, by the credit's name; an amount is None if it is unknown.

    An amount is unknown if a node that may have used the credit has no price.
    """
    known = tuple(grants)
    credits = sorted((grant for grant in known if grant.kind == "credit"), key=lambda grant: grant.last_day)
    if not credits:
        return {}
    used: dict[str, float | None] = dict.fromkeys((credit.name for credit in credits), 0.0)
    since = min(credit.starts_at for credit in credits)
    for start, end, running in steady_periods(known, spans, since, now):
        holding = [credit for credit in credits if credit.holds(day_of(start))]
        _charge(holding, used, billed(known, running, day_of(start)), (end - start) / HOUR_S)
    return used


def steady_periods(
    grants: tuple[Grant, ...], spans: Iterable[Span], since: float, now: float
) -> Iterator[tuple[float, float, list[Span]]]:
    """Split the time from `since` to `now` wherever a span or grant starts or ends; yield (start, end, spans).

    Periods without nodes are skipped. The spans of a period are sorted by start time, so older nodes use a grant first.
    """
    # split the time wherever a grant or a node's span starts or ends, so that prices are constant within each interval
    waiting = sorted((span for span in spans if _end(span, now) > since), key=lambda span: span.began_at, reverse=True)
    days = (day for grant in grants for day in (began_at(grant.first_day), began_at(grant.last_day + 1)))
    moments = {since, now, *days, *(moment for span in waiting for moment in (span.began_at, _end(span, now)))}
    running: list[Span] = []
    for start, end in itertools.pairwise(sorted(moment for moment in moments if since <= moment <= now)):
        while waiting and waiting[-1].began_at <= start:
            running.append(waiting.pop())
        running = [span for span in running if _end(span, now) > start]
        if running:
            yield start, end, running


def _end(span: Span, now: float) -> float:
    return now if span.is_open else min(span.ended_at, now)


def billed(grants: tuple[Grant, ...], running: list[Span], today: int) -> list[Span]:
    """Return the spans in `running` that no TRC grant covers on the day `today`; older spans use the grants first."""
    places = [(grant, number) for grant in grants if grant.holds(today) for number in range(len(grant.rows))]
    used: Counter[RowKey] = Counter()
    return [span for span in running if not (is_grantable(span.terms) and _give(places, used, span))]


def _give(places: Iterable[tuple[Grant, int]], used: Counter[RowKey], span: Span) -> bool:
    return assign(places, used, span.accelerator_type, span.name.zone, span.spot)


def _charge(credits: list[Grant], used: dict[str, float | None], billed: list[Span], hours: float) -> None:
    prices = [span.usd_per_hour for span in billed]
    # a node's price is unknown, and any credit may have paid for it: what is left of each is unknown
    if None in prices:
        used.update(dict.fromkeys((credit.name for credit in credits), None))
        return
    rest = sum(price for price in prices if price is not None) * hours
    for credit in credits:
        before = used[credit.name]
        if before is not None and credit.usd is not None:
            taken = min(rest, max(0.0, credit.usd - before))
            used[credit.name] = before + taken
            rest -= taken
