"""No order of events breaks the invariants."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu.errors import CloudUnavailable, NodeExists, NodeNotFound, OutOfCapacity, PermissionDenied, WrongState
from jupyter_tpu.lifecycle.actions import CreateNode, StartNode
from jupyter_tpu.lifecycle.intent_events import (
    Accepted,
    Event,
    KeysSeen,
    NoAnswer,
    NodeMissing,
    NodeSeen,
    OperationSeen,
    Overruled,
    Refused,
    Resumed,
    Started,
    Unanswered,
)
from jupyter_tpu.lifecycle.intent_machine import IllegalEvent, queries, step
from jupyter_tpu.lifecycle.intents import Intent
from jupyter_tpu.models import INTENT_LABEL, Node, NodeName, NodeSpec, Operation

NAME = NodeName(project="demo-project", zone="us-central1-a", node_id="my-node")
SPEC = NodeSpec(name=NAME, accelerator_type="v5litepod-8", runtime_version="v2-alpha-tpuv5-lite")
STATES = ["CREATING", "READY", "STARTING", "STOPPING", "STOPPED", "DELETING", "PREEMPTED", "TERMINATED", "UNKNOWN(17)"]

silence = st.just(CloudUnavailable("silent"))
refusals = st.sampled_from(
    [NodeExists("taken"), NodeNotFound("gone"), OutOfCapacity("none"), PermissionDenied("no"), WrongState("busy")]
)
nodes = st.builds(
    lambda state, label: Node(name=NAME, state=state, labels={INTENT_LABEL: label}),
    st.sampled_from(STATES),
    st.sampled_from(["abc", "other"]),
)
operations = st.builds(
    lambda done, error: Operation(name="operations/1", verb="", target="", done=done, error=error if done else None),
    st.booleans(),
    st.none() | refusals | silence,
)
at = st.just(0.0)
events: st.SearchStrategy[Event] = st.one_of(
    st.builds(Started, at=at),
    st.builds(Resumed, at=at),
    st.builds(Overruled, at=at),
    st.builds(Accepted, at=at, operation=operations),
    st.builds(Refused, at=at, error=refusals),
    st.builds(Unanswered, at=at, error=silence),
    st.builds(NodeSeen, at=at, node=nodes),
    st.builds(NodeMissing, at=at),
    st.builds(KeysSeen, at=at, node=nodes, published=st.booleans()),
    st.builds(OperationSeen, at=at, operation=operations),
    st.builds(NoAnswer, at=at, error=refusals | silence),
)
Story = list[tuple[Event, float]]
stories = st.lists(st.tuples(events, st.floats(0, 2000)), max_size=40)
# Making up a story takes far longer than following it, so each one is tried with all verbs.
VERBS = ("create", "delete", "stop", "start")


def intent(verb: Any) -> Intent:
    return Intent(intent_id="abc", verb=verb, node_name=NAME, spec=SPEC if verb == "create" else None)


def tell(verb: str, story: Story) -> SimpleNamespace:
    """Everything that came of a story: the intents after each step, and the changes that were asked for."""
    told = SimpleNamespace(intents=[intent(verb)], asked=[])
    now = 0.0
    for event, passed in story:
        now += passed
        try:
            after, changes = step(told.intents[-1], replace(event, at=now))
        except IllegalEvent:
            continue
        told.intents.append(after)
        told.asked += [(after, change) for change in changes]
    return told


@given(stories)
def test_what_costs_money_is_asked_for_at_most_once(story: Story) -> None:
    for verb, change in (("create", CreateNode), ("start", StartNode)):
        assert [type(each) for _, each in tell(verb, story).asked] in ([], [change]), verb


@given(stories)
def test_nothing_is_asked_before_the_intent_says_so(story: Story) -> None:
    for verb in VERBS:
        for written, _ in tell(verb, story).asked:
            assert (written.phase, written.settled) == ("asking", False), verb
            assert written.updated_at == written.asked_at, verb


@given(stories)
def test_a_settled_intent_stays_as_it_is(story: Story) -> None:
    for verb in VERBS:
        assert not any(each.settled for each in tell(verb, story).intents[:-1]), verb


@given(stories)
def test_an_open_intent_that_was_asked_for_always_has_something_to_look_at(story: Story) -> None:
    for verb in VERBS:
        last = tell(verb, story).intents[-1]
        assert last.settled or last.phase in ("requested", "asking") or queries(last), verb


@given(stories)
def test_a_failure_says_what_failed_and_what_exists(story: Story) -> None:
    for verb in VERBS:
        last = tell(verb, story).intents[-1]
        if last.error is not None:
            assert last.settled, verb
            assert last.error.message, verb
            assert last.error.exists, verb


@given(stories)
def test_every_intent_survives_the_journal(story: Story) -> None:
    for verb in VERBS:
        for each in tell(verb, story).intents:
            assert Intent.from_json(each.to_json()).to_json() == each.to_json(), verb
