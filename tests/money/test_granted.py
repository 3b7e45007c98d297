"""What a TRC grant paid for is not billed, and counts towards no budget in money."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jupyter_tpu.models import NodeName
from jupyter_tpu.money.days import began_at, day_number
from jupyter_tpu.money.grants import Grant, grant_from_json
from jupyter_tpu.money.grants_applied import as_billed
from jupyter_tpu.money.spans import EVER, HOUR_S, Span, cost
from jupyter_tpu.provisioning import Provisioning

FIRST = began_at(day_number("2026-11-10"))
DAY_S = 24 * HOUR_S


def grant(chips: int = 8) -> Grant:
    row = {"chips": chips, "generation": "v5e", "spot": False, "zone": "us-central1-a"}
    return grant_from_json("trc", {"kind": "trc", "starts_on": "2026-11-10", "days": 2, "rows": [row]})


def span(began: float, ended: float, node_id: str = "a", *, is_open: bool = False, zone: str = "us-central1-a") -> Span:
    """In days since the grant began."""
    return Span(
        name=NodeName(project="demo-project", zone=zone, node_id=node_id),
        uid=node_id,
        accelerator_type="v5litepod-8",
        spot=False,
        usd_per_hour=9.6,
        began_at=FIRST + began * DAY_S,
        ended_at=FIRST + ended * DAY_S,
        is_open=is_open,
        unwatched_before_s=700.0,
        unwatched_after_s=500.0,
    )


def days_billed(*spans: Span, now: float = 100.0, chips: int = 8) -> float:
    seen = as_billed([grant(chips)], spans, FIRST + now * DAY_S)
    assert cost(seen, EVER, FIRST + now * DAY_S).ready_s == pytest.approx(
        cost(spans, EVER, FIRST + now * DAY_S).ready_s
    )
    assert sum(part.unwatched_s for part in seen) == sum(each.unwatched_s for each in spans)
    return cost(seen, EVER, FIRST + now * DAY_S).known_usd / 9.6 / 24


@pytest.mark.parametrize(
    ("spans", "days"),
    [
        ((span(0, 2),), 0.0),
        ((span(-1, 1),), 1.0),
        ((span(-1, 4),), 3.0),
        ((span(0, 1), span(0, 1, "b")), 1.0),
        ((span(0, 1), span(1, 2, "b")), 0.0),
        ((span(0, 1, zone="us-west4-a"),), 1.0),
    ],
)
def test_only_what_no_grant_paid_for_is_billed(spans: tuple[Span, ...], days: float) -> None:
    assert days_billed(*spans) == pytest.approx(days)


def test_a_node_that_outlives_its_grant_is_billed_from_then_on() -> None:
    running = span(0, 1, is_open=True)
    assert days_billed(running, now=1.5) == 0.0
    assert days_billed(running, now=5.0) == pytest.approx(3.0)
    free, paid = as_billed([grant()], [running], FIRST + 5 * DAY_S)
    assert (free.is_open, free.usd_per_hour) == (False, 0.0)
    assert (paid.is_open, paid.usd_per_hour) == (True, 9.6)


def test_without_grants_and_for_a_new_node_nothing_changes() -> None:
    new = span(5, 5, is_open=True)
    assert as_billed([], [new], FIRST) == (new,)
    assert as_billed([grant()], [new], new.began_at) == (new,)


@pytest.mark.parametrize("provisioning", ["reserved", "flex-start"])
def test_no_grant_pays_for_what_has_terms_of_its_own(provisioning: Provisioning) -> None:
    assert days_billed(replace(span(0, 2), provisioning=provisioning)) == pytest.approx(2.0)
