"""What a search does next, as values: no try is begun twice in a round, and none that cannot help."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu.errors import (
    AddressQuotaExceeded,
    BudgetExceeded,
    CloudUnavailable,
    NodeExists,
    NotAllowlisted,
    OutOfCapacity,
    QuotaExceeded,
    RateExceeded,
    TpuError,
)
from jupyter_tpu.lifecycle.search import (
    LONGEST_PAUSE_S,
    PAUSE_S,
    STALE_S,
    Begin,
    End,
    Wait,
    begun,
    lost,
    next_step,
    ordered,
    resumed,
    with_last,
)
from jupyter_tpu.lifecycle.search_state import MOST_TRIES, Candidate, Search
from jupyter_tpu.models import NodeOptions

ZONES = ("us-central1-a", "us-south1-a", "us-west4-a")
STOCK_OUT = OutOfCapacity("No machines.", raw="no more capacity")
IN_REGION = QuotaExceeded("Used up.", raw="Quota limit 'X' has been exceeded. Limit: 0 in region us-central1.")
IN_ZONE = QuotaExceeded("Used up.", raw="Quota limit 'X' has been exceeded. Limit: 0 in zone us-central1-a.")


def candidate(zone: str = ZONES[0], accelerator_type: str = "v5litepod-8", spot: bool = False) -> Candidate:
    return Candidate(zone=zone, accelerator_type=accelerator_type, runtime_version="v", spot=spot)


def search(*candidates: Candidate, until: float | None = None) -> Search:
    wanted = candidates or tuple(candidate(zone) for zone in ZONES)
    return Search(search_id="s", project="my-project", node_id="n", candidates=wanted, until=until)


def tried(now: Search, error: TpuError, at: float = 0.0) -> Search:
    """The search after its next try came to that and was cleaned away."""
    step = next_step(now, at)
    assert isinstance(step, Begin), step
    return with_last(lost(begun(now, step.index, at), error), is_clean=True)


def test_candidates_are_tried_by_their_cost_to_the_user() -> None:
    dear, cheap = candidate(accelerator_type="v5litepod-16"), candidate(accelerator_type="v5litepod-4")
    free, unknown = candidate(accelerator_type="v5litepod-64"), candidate(accelerator_type="v99-1")
    wanted = (unknown, dear, cheap, free)
    assert ordered(wanted, lambda each: each is free) == (free, cheap, dear, unknown)


def test_without_time_each_candidate_is_tried_once() -> None:
    now = search()
    for _ in ZONES:
        now = tried(now, STOCK_OUT)
    step = next_step(now, 0.0)
    assert isinstance(step, End)
    assert (step.search.phase, [each.index for each in now.tries]) == ("failed", [0, 1, 2])


def test_with_time_all_begins_again_after_pauses_that_grow_to_a_bound() -> None:
    now, at, pauses = search(candidate(), until=1e9), 0.0, []
    for _ in range(6):
        step = next_step(tried(now, STOCK_OUT, at), at)
        assert isinstance(step, Wait)
        pauses.append(step.search.next_at - at)
        now, at = step.search, step.search.next_at
        assert isinstance(next_step(now, at - 1), Wait)
    assert pauses == [PAUSE_S, 60, 120, 240, LONGEST_PAUSE_S, LONGEST_PAUSE_S]
    assert isinstance(next_step(replace(now, until=at), at), End)


@pytest.mark.parametrize(
    ("error", "hopeless"),
    [
        (IN_ZONE, (0,)),
        (IN_REGION, (0, 1)),
        (AddressQuotaExceeded("No address."), (0, 1, 2, 3)),
        (NotAllowlisted("Not yours."), (0,)),
        (RateExceeded("Too often."), ()),
        (STOCK_OUT, ()),
        (CloudUnavailable("Silence."), ()),
    ],
)
def test_what_waiting_does_not_help_is_not_tried_again(error: TpuError, hopeless: tuple[int, ...]) -> None:
    wanted = (
        candidate("us-central1-a"),
        candidate("us-central1-b"),
        candidate("us-central1-a", "v5litepod-4"),
        candidate("us-central1-a", spot=True),
        candidate("us-west4-a"),
    )
    assert tried(search(*wanted, until=1e9), error).hopeless == hopeless


def test_preemptible_and_spot_share_a_quota_that_reserved_nodes_do_not_take() -> None:
    spot = candidate("us-central1-a", spot=True)
    wanted = (spot, replace(spot, spot=False, preemptible=True), replace(spot, spot=False, reserved=True))
    assert tried(search(*wanted, until=1e9), IN_ZONE).hopeless == (0, 1)


def test_a_search_of_before_other_terms_and_options_were_known_is_read() -> None:
    written = search(candidate("us-central1-a", spot=True)).to_json()
    for each in written["candidates"]:
        del each["preemptible"], each["reserved"], each["internal_ips"]
    assert Search.from_json(written) == search(candidate("us-central1-a", spot=True))


def test_the_options_of_a_candidate_are_written_among_its_fields_and_go_into_its_spec() -> None:
    options = NodeOptions(internal_ips=True)
    wanted = search(replace(candidate(), options=options))
    (written,) = wanted.to_json()["candidates"]
    assert {"internal_ips": True}.items() <= written.items()
    assert Search.from_json(wanted.to_json()).spec(0).options == options


@pytest.mark.parametrize("damaged", ["x", 1, None, [["zone"]], {"zone": "us-central1-a"}])
def test_a_damaged_candidate_is_an_error_that_the_journal_knows(damaged: object) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        Search.from_json({**search().to_json(), "candidates": [damaged]})


@pytest.mark.parametrize("error", [BudgetExceeded("The budget is used up."), NodeExists("The name is taken.")])
def test_what_forbids_every_candidate_ends_the_search(error: TpuError) -> None:
    step = next_step(tried(search(until=1e9), error), 0.0)
    assert isinstance(step, End)
    assert (step.search.phase, step.search.message) == ("failed", error.message)


def test_a_search_that_was_interrupted_for_long_begins_nothing_new() -> None:
    lately, long_ago = resumed(search(until=1e9), STALE_S), resumed(search(until=1e9), STALE_S + 1)
    assert isinstance(next_step(lately, STALE_S), Begin)
    assert isinstance(next_step(long_ago, STALE_S + 1), End)


def test_a_try_that_was_interrupted_perhaps_before_the_cloud_was_asked_is_made_again() -> None:
    cut = resumed(begun(search(), 0, 0.0), 1.0)
    again = next_step(with_last(lost(cut, CloudUnavailable("It was not created.")), is_clean=True), 1.0)
    assert again == Begin(index=0)


@given(st.lists(st.sampled_from([STOCK_OUT, IN_ZONE, IN_REGION, NotAllowlisted("x"), CloudUnavailable("x")])))
def test_whatever_the_refusals_a_search_ends_in_time_and_can_be_written_down(errors: list[TpuError]) -> None:
    now, at, answers = search(until=3600.0), 0.0, iter(errors)
    while not isinstance(step := next_step(now, at), End):
        if isinstance(step, Wait):
            now, at = step.search, max(at + 1, step.search.next_at)
            continue
        assert step.index not in now.hopeless
        now, at = tried(now, next(answers, STOCK_OUT), at), at + 60
        assert Search.from_json(json.loads(json.dumps(now.to_json()))) == now
    assert at <= 3600 + 60 + LONGEST_PAUSE_S
    assert len(now.tries) <= MOST_TRIES
