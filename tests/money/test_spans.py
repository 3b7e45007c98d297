"""What spans cost, and what a look at the nodes means for them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu.accelerators import list_price
from jupyter_tpu.models import NodeName
from jupyter_tpu.money.accrual import Accrual, NodesObservation, ObservedNode, accrue
from jupyter_tpu.money.spans import EVER, Span, Window, as_counted, at_worst, cost, dearest_usd_per_hour, ready_since

NAME = NodeName(project="demo-project", zone="us-central1-a", node_id="my-node")
OTHER = NodeName(project="demo-project", zone="europe-west4-a", node_id="other")


def span(**changes: object) -> Span:
    values: dict[str, object] = {
        "name": NAME,
        "uid": "1",
        "accelerator_type": "v5litepod-8",
        "spot": False,
        "usd_per_hour": 9.6,
        "began_at": 1000.0,
        "ended_at": 4600.0,
        "is_open": False,
    }
    return Span(**{**values, **changes})  # type: ignore[arg-type]


def sight(uid: str = "1", name: NodeName = NAME, price: float | None = 9.6) -> ObservedNode:
    return ObservedNode(name=name, uid=uid, accelerator_type="v5litepod-8", spot=False, usd_per_hour=price)


def look(as_of: float, *ready: ObservedNode, **changes: object) -> NodesObservation:
    return NodesObservation(as_of=as_of, ready=ready, **changes)  # type: ignore[arg-type]


def after(spans: list[Span], accrual: Accrual) -> list[Span]:
    """The spans with what a look has changed of them."""
    changed = {(each.name, each.began_at): each for each in (*accrual.extended, *accrual.closed)}
    return [changed.get((each.name, each.began_at), each) for each in spans] + list(accrual.opened)


def looked(spans: list[Span], seen: NodesObservation, gone_at: dict[NodeName, float] | None = None) -> list[Span]:
    return after(spans, accrue({each.name: each for each in spans if each.is_open}, gone_at or {}, seen))


def test_an_hour_costs_the_price_and_an_open_span_goes_on() -> None:
    assert cost([span()], EVER, now=99_999.0).usd == pytest.approx(9.6)
    assert cost([span(is_open=True)], EVER, now=8200.0).usd == pytest.approx(19.2)
    assert cost([span(is_open=True)], EVER, now=0.0).usd == pytest.approx(9.6)  # the clock was set back


def test_an_unknown_price_makes_the_sum_unknown_and_counts_as_the_dearest() -> None:
    spent = cost([span(), span(uid="2", accelerator_type="v99-8", usd_per_hour=None)], EVER, now=5000.0)
    assert spent.usd is None
    assert spent.known_usd == pytest.approx(9.6)
    assert spent.unpriced == ("v99-8",)
    assert spent.worst_usd == pytest.approx(9.6 + dearest_usd_per_hour("v99-8"))


@pytest.mark.parametrize("accelerator_type", ["v5litepod-8", "v5p-16", "v3-32", "v6e-4"])
def test_no_list_price_exceeds_the_dearest(accelerator_type: str) -> None:
    for zone in ("us-central1-a", "europe-west4-a", "us-east5-a"):
        price = list_price(accelerator_type, zone, spot=False)
        assert price is None or price.usd_per_hour <= dearest_usd_per_hour(accelerator_type)


def test_a_type_that_says_nothing_counts_as_the_largest() -> None:
    assert dearest_usd_per_hour("") >= dearest_usd_per_hour("v5p-1024") > dearest_usd_per_hour("v99-8") > 0


def test_a_node_that_is_seen_ready_begins_a_span_that_goes_on_until_it_is_not() -> None:
    spans = looked([], look(10.0, sight()))
    spans = looked(spans, look(20.0, sight()))
    assert [(each.began_at, each.ended_at, each.is_open) for each in spans] == [(10.0, 20.0, True)]
    spans = looked(spans, look(30.0))
    assert [(each.began_at, each.ended_at, each.is_open) for each in spans] == [(10.0, 20.0, False)]


def test_the_same_node_seen_again_after_nobody_looked_is_charged_for_the_whole_gap() -> None:
    (only,) = looked([span(is_open=True, ended_at=2000.0)], look(90_000.0, sight()))
    assert (only.ended_at, only.is_open, only.unwatched_s) == (90_000.0, True, 0.0)


def test_another_node_of_the_name_ends_the_old_span_at_its_last_sight() -> None:
    old, new = looked([span(is_open=True, ended_at=2000.0)], look(90_000.0, sight(uid="2")))
    assert (old.ended_at, old.is_open, old.unwatched_s) == (2000.0, False, 88_000.0)
    assert (new.uid, new.began_at, new.is_open) == ("2", 90_000.0, True)


@pytest.mark.parametrize(
    ("successor_s", "told_at", "after_s"),
    [
        (0.0, None, 88_000.0),
        (1_000.0, None, 87_000.0),
        (0.0, 5_000.0, 3_000.0),
        (1_000.0, 5_000.0, 3_000.0),
        (0.0, 95_000.0, 88_000.0),
        (0.0, 1_500.0, 88_000.0),
    ],
)
def test_what_nobody_watched_ends_when_the_cloud_says_so_or_another_node_has_the_name(
    successor_s: float, told_at: float | None, after_s: float
) -> None:
    ended = {} if told_at is None else {NAME: told_at}
    seen = look(90_000.0, replace(sight(uid="2"), unwatched_s=successor_s), ended=ended)
    old, new = looked([span(is_open=True, ended_at=2000.0)], seen)
    assert old.unwatched_after_s == after_s
    assert new.unwatched_before_s == successor_s


def test_a_gap_between_looks_that_follow_each_other_counts_as_ready() -> None:
    counted = as_counted(span(unwatched_before_s=600.0, unwatched_after_s=90.0))
    assert (counted.began_at, counted.ended_at, counted.unwatched_s) == (1000.0, 4690.0, 600.0)
    assert at_worst(counted) == at_worst(span(unwatched_before_s=600.0, unwatched_after_s=90.0))


def test_at_worst_a_node_was_ready_as_long_as_nobody_watched() -> None:
    seen = span(unwatched_before_s=600.0, unwatched_after_s=90.0)
    assert seen.unwatched_s == 600.0  # looks follow each other as closely as the other gap
    longest = at_worst(seen)
    assert (longest.began_at, longest.ended_at) == (400.0, 4690.0)
    assert cost([seen], EVER, now=99_999.0).usd == pytest.approx(9.6)
    assert cost([longest], Window(starts_at=900.0, ends_at=4650.0), now=99_999.0).ready_s == 3750.0


def test_a_zone_that_does_not_answer_is_taken_as_ready_still() -> None:
    spans = [span(is_open=True, ended_at=2000.0), span(name=OTHER, is_open=True, ended_at=2000.0)]
    here, there = looked(spans, look(3000.0, unreachable=("europe-west4-a",)))
    assert (here.is_open, here.ended_at) == (False, 2000.0)
    assert (there.is_open, there.ended_at) == (True, 3000.0)


def test_a_new_price_begins_a_new_span() -> None:
    old, new = looked([span(is_open=True)], look(5000.0, sight(price=5.0)))
    assert (old.ended_at, old.is_open, new.began_at, new.usd_per_hour) == (5000.0, False, 5000.0, 5.0)


def test_a_new_price_seen_by_the_first_look_of_a_process_counts_no_time_twice() -> None:
    first = replace(sight(price=5.0), unwatched_s=4000.0)  # since it was created
    old, new = looked([span(is_open=True)], look(5000.0, first))
    assert (old.ended_at, new.unwatched_before_s) == (5000.0, 0.0)


def test_a_node_is_ready_since_before_its_price_changed() -> None:
    spans = looked([span(is_open=True)], look(5000.0, sight(price=5.0)))
    assert ready_since([span(began_at=10.0, ended_at=500.0), *spans]) == {(NAME, "1"): 1000.0}
    assert ready_since([span()]) == {}


def test_an_old_look_changes_nothing() -> None:
    spans = [span(is_open=True, ended_at=2000.0)]
    assert looked(spans, look(1500.0)) == spans
    assert looked(spans, look(1500.0, sight(uid="0"))) == spans
    assert looked([], look(1500.0, sight()), gone_at={NAME: 1600.0}) == []


def test_a_look_at_one_node_counts_when_it_was_made() -> None:
    (only,) = looked([span(is_open=True, ended_at=2000.0)], look(1000.0, sight(), read_at={NAME: 2500.0}))
    assert only.ended_at == 2500.0


@pytest.mark.parametrize("is_ready", [True, False])
def test_a_span_that_was_written_a_day_ahead_ends_at_the_next_look(is_ready: bool) -> None:
    ahead = span(began_at=100.0, ended_at=86_500.0, is_open=True)
    found = accrue({ahead.name: ahead}, {}, look(160.0, *([sight()] if is_ready else []), now=161.0))
    (changed,) = found.extended + found.closed
    assert (changed.began_at, changed.ended_at, changed.is_open) == (100.0, 160.0, is_ready)


def test_a_node_that_was_seen_to_end_a_day_ahead_is_charged_for_again() -> None:
    (opened,) = accrue({}, {NAME: 86_500.0}, look(160.0, sight(), now=161.0)).opened
    assert (opened.began_at, opened.is_open) == (160.0, True)


@pytest.mark.parametrize("now", [3100.0, float("inf")])
def test_a_look_at_one_node_leaves_the_spans_of_the_others_alone(now: float) -> None:
    spans = [span(is_open=True, ended_at=2000.0), span(name=OTHER, is_open=True, ended_at=2000.0)]
    one, other = looked(spans, look(0.0, sight(), read_at={NAME: 3000.0}, now=now))
    assert (one.ended_at, one.is_open) == (3000.0, True)
    assert other == spans[1]


def test_a_look_that_is_taken_in_a_day_late_changes_nothing() -> None:
    spans = [span(is_open=True, ended_at=86_400.0)]
    assert looked(spans, look(2000.0, now=86_401.0)) == spans
    assert looked(spans, look(2000.0, sight(uid="0"), now=86_401.0)) == spans
    assert looked([], look(2000.0, sight(), now=86_401.0), gone_at={NAME: 86_400.0}) == []


lives = st.lists(st.integers(1, 60), min_size=1, max_size=12)
looks = st.lists(st.tuples(st.integers(0, 400), st.booleans()), max_size=40)


@given(lives, looks)
def test_the_ledger_never_charges_more_than_the_node_was_ready(lives: list[int], looks: list[tuple[int, bool]]) -> None:
    """The node is READY in every second span of `lives`, each time as another one; looks come in any order."""
    edges = [float(sum(lives[:index])) for index in range(len(lives) + 1)]
    spans, gone_at = list[Span](), dict[NodeName, float]()
    for second, is_twice in looks:
        at = float(second)
        live = next((index for index in range(0, len(lives), 2) if edges[index] <= at < edges[index + 1]), None)
        seen = look(at, *([] if live is None else [sight(uid=str(live))]))
        for _ in range(1 + is_twice):  # two processes that saw the same
            before = {each.name: each for each in spans if each.is_open}
            accrual = accrue(before, gone_at, seen)
            gone_at |= {each.name: at for each in accrual.closed}
            spans = after(spans, accrual)
        assert sum(each.is_open for each in spans) <= 1
    true_s = sum(edges[index + 1] - edges[index] for index in range(0, len(lives), 2))
    seen_s = sum(each.ended_at - each.began_at for each in spans)
    assert seen_s <= true_s
    for each in spans:
        index = int(each.uid)
        assert edges[index] <= each.began_at <= each.ended_at <= edges[index + 1]


moments = st.floats(0, 1e6, allow_nan=False)


@given(st.lists(st.tuples(moments, moments, st.booleans()), max_size=8), st.lists(moments, max_size=8))
def test_windows_that_follow_each_other_add_up_to_the_whole(
    ends: list[tuple[float, float, bool]], cuts: list[float]
) -> None:
    spans = [span(began_at=min(pair), ended_at=max(pair), is_open=is_open) for *pair, is_open in ends]
    starts = [0.0, *sorted(cuts)]
    windows = [Window(starts_at=a, ends_at=b) for a, b in zip(starts, [*starts[1:], None], strict=True)]
    parts = [cost(spans, window, now=1e6) for window in windows]
    whole = cost(spans, EVER, now=1e6)
    assert sum(part.ready_s for part in parts) == pytest.approx(whole.ready_s)
    assert sum(part.known_usd for part in parts) == pytest.approx(whole.known_usd)
