"""What the nodes have used of the credits in dollars."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu.models import NodeName
from jupyter_tpu.money.credit import credits_used
from jupyter_tpu.money.days import began_at, day_number
from jupyter_tpu.money.grants import Grant, grant_from_json
from jupyter_tpu.money.spans import HOUR_S, Span

START = began_at(day_number("2026-11-01"))
NOW = START + 48 * HOUR_S
TERM = {"starts_on": "2026-11-01", "days": 90}
ROW = {"chips": 8, "generation": "v5e", "spot": False, "zone": "us-central1-a"}
TRC = grant_from_json("trc", {"kind": "trc", "rows": [ROW], **TERM})


def credit(usd: float = 300, name: str = "welcome", **term: Any) -> Grant:
    return grant_from_json(name, {"kind": "credit", "usd": usd, **TERM, **term})


def span(begins: float, ends: float | None, price: float | None = 10.0, node_id: str = "a", **fields: Any) -> Span:
    """In hours since the credit began; None = READY still."""
    return Span(
        name=NodeName(project="my-project", zone="us-central1-a", node_id=node_id),
        uid=node_id,
        accelerator_type="v5litepod-8",
        spot=False,
        usd_per_hour=price,
        began_at=START + begins * HOUR_S,
        ended_at=START + (begins + 1 if ends is None else ends) * HOUR_S,
        is_open=ends is None,
        **fields,
    )


@pytest.mark.parametrize(
    ("spans", "usd"),
    [
        ([], 0.0),
        ([span(2, 5)], 30.0),
        ([span(46, None)], 20.0),
        ([span(-10, 5)], 50.0),  # only what came after its beginning
        ([span(-10, -5)], 0.0),
        ([span(2, 5), span(3, 6, node_id="b")], 60.0),
        ([span(0, 48)], 300.0),  # no more than there was
        ([span(2, 5, None)], None),
        ([span(-9, -5, None), span(2, 5)], 30.0),
    ],
)
def test_what_the_ledger_knows_is_taken_from_the_credit(spans: list[Span], usd: float | None) -> None:
    assert credits_used([credit()], spans, now=NOW) == {"welcome": usd if usd is None else pytest.approx(usd)}


def test_what_a_grant_paid_for_uses_no_credit() -> None:
    spans = [span(0, 4), span(2, 5, node_id="b")]  # together they are more than the grant has, for two hours
    assert credits_used([credit(), TRC], spans, now=NOW)["welcome"] == pytest.approx(20.0)
    assert credits_used([credit(), TRC], [span(0, 4, None)], now=NOW)["welcome"] == 0.0


def test_a_grant_that_ends_covers_no_longer() -> None:
    short = grant_from_json("trc", {"kind": "trc", "rows": [ROW], "starts_on": "2026-11-01", "days": 1})
    assert credits_used([credit(), short], [span(22, 26)], now=NOW)["welcome"] == pytest.approx(20.0)


def test_the_credit_that_ends_first_is_used_first() -> None:
    grants = [credit(500, "later", days=120), credit(100, "sooner", days=60)]
    assert credits_used(grants, [span(0, 30)], now=NOW) == {
        "sooner": pytest.approx(100.0),
        "later": pytest.approx(200.0),
    }


def test_a_credit_that_has_not_begun_is_not_used() -> None:
    assert credits_used([credit(starts_on="2026-11-20")], [span(2, 5)], now=NOW) == {"welcome": 0.0}


SPANS = st.builds(
    span,
    st.floats(-50, 50),
    st.none() | st.floats(-50, 60),
    st.none() | st.floats(0, 100),
    st.sampled_from(["a", "b", "c"]),
)


@given(st.lists(SPANS, max_size=10), st.booleans())
def test_never_more_is_used_than_there_was(spans: list[Span], has_grant: bool) -> None:
    used = credits_used([credit(), *([TRC] if has_grant else [])], spans, now=NOW)["welcome"]
    assert used is None or 0.0 <= used <= 300.0
