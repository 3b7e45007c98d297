"""What is decided for a node that the cloud took away: a table of situations, and invariants over any order of them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu.errors import (
    BudgetExceeded,
    CloudUnavailable,
    NodeExists,
    NotAllowlisted,
    OutOfCapacity,
    PermissionDenied,
)
from jupyter_tpu.lifecycle.actions import CreateNode, DeleteNode
from jupyter_tpu.lifecycle.auto_recovery import decide, refused
from jupyter_tpu.lifecycle.intents import Intent
from jupyter_tpu.lifecycle.recovery_state import (
    ATTEMPT_LABEL,
    CancelAttempt,
    DeleteQueued,
    Observation,
    Recovery,
    is_preemptible,
    outlook,
    spec_of,
)
from jupyter_tpu.lifecycle.time_limits import Limits
from jupyter_tpu.models import INTENT_LABEL, Node, NodeName, NodeOptions, NodeSpec, QueuedName, QueuedResource

NAME = NodeName(project="demo-project", zone="us-central1-a", node_id="my-node")
SPOT = NodeSpec(name=NAME, accelerator_type="v5litepod-8", runtime_version="v2-alpha-tpuv5-lite", spot=True)
LIMITS = Limits()
LONG_S = LIMITS.vanished_s + 1


def recovery(**changes: Any) -> Recovery:
    return Recovery(**{"choice_id": "c", "spec": SPOT, "uid": "1", "was_ready": True, **changes})


def on_demand(**changes: Any) -> Recovery:
    return recovery(spec=replace(SPOT, spot=False), **changes)


def node(state: str, uid: str = "1", **changes: Any) -> Node:
    return Node(
        **{"name": NAME, "state": state, "uid": uid, "accelerator_type": "v5litepod-8", "spot": True, **changes}
    )


def queued(state: str, *, is_reclaimed: bool = True) -> QueuedResource:
    name = QueuedName(project=NAME.project, zone=NAME.zone, queued_id="my-node")
    return QueuedResource(name=name, state=state, spot=True, node_ids=("my-node",), is_reclaimed=is_reclaimed)


def intent(verb: Any = "create", **changes: Any) -> Intent:
    return Intent(intent_id="abc", verb=verb, node_name=NAME, **changes)


def attempt(**changes: Any) -> Intent:
    return intent(spec=SPOT, asked_at=1.0, **changes)


SITUATIONS = [
    ("a READY node is watched", recovery(), Observation(at=9, node=node("READY")), "watching", None),
    ("PREEMPTED is a loss", recovery(), Observation(at=9, node=node("PREEMPTED")), "clearing", DeleteNode),
    ("so is TERMINATED", recovery(), Observation(at=9, node=node("TERMINATED")), "clearing", DeleteNode),
    ("and SUSPENDED", recovery(), Observation(at=9, node=node("SUSPENDED")), "clearing", DeleteNode),
    ("and a spot node that is STOPPED", recovery(), Observation(at=9, node=node("STOPPED")), "clearing", DeleteNode),
    ("and one that is gone", recovery(), Observation(at=9, missing_s=LONG_S), "waiting", None),
    (
        "unless the cloud lists its deletion",
        recovery(),
        Observation(at=9, missing_s=LONG_S, was_deleted=True),
        "given_up",
        None,
    ),
    ("but not when it is missing for a moment", recovery(), Observation(at=9, missing_s=1), "watching", None),
    ("REPAIRING is waited for", recovery(), Observation(at=9, node=node("REPAIRING")), "watching", None),
    ("RESTARTING as well", recovery(), Observation(at=9, node=node("RESTARTING")), "watching", None),
    ("SUSPENDING as well", recovery(), Observation(at=9, node=node("SUSPENDING")), "watching", None),
    ("an unknown state as well", recovery(), Observation(at=9, node=node("UNKNOWN(17)")), "watching", None),
    (
        "one on demand may be PREEMPTED",
        on_demand(),
        Observation(at=9, node=node("PREEMPTED", spot=False)),
        "clearing",
        DeleteNode,
    ),
    (
        "but STOPPED it keeps its disk",
        on_demand(),
        Observation(at=9, node=node("STOPPED", spot=False)),
        "watching",
        None,
    ),
    ("and gone it may have been deleted", on_demand(), Observation(at=9, missing_s=LONG_S), "given_up", None),
    (
        "and one that went while nobody looked may have ended by its rules",
        recovery(),
        Observation(at=9, missing_s=LONG_S, is_witnessed=False),
        "given_up",
        None,
    ),
    ("as may one that is DELETING", recovery(), Observation(at=9, node=node("DELETING")), "given_up", None),
    (
        "one that was stopped is no loss",
        recovery(was_ready=False),
        Observation(at=9, node=node("TERMINATED")),
        "watching",
        None,
    ),
    ("nor one that never was READY", recovery(was_ready=False), Observation(at=9, missing_s=LONG_S), "given_up", None),
    (
        "a deletion ends it",
        recovery(),
        Observation(at=9, node=node("DELETING"), deletion=intent("delete")),
        "off",
        None,
    ),
    ("also of the leftover", recovery(phase="clearing"), Observation(at=9, deletion=intent("delete")), "off", None),
    ("also of the new one", recovery(phase="making"), Observation(at=9, deletion=intent("delete")), "off", None),
    (
        "and ends an attempt that began after it",
        recovery(phase="making", attempts=1),
        Observation(at=9, deletion=intent("delete", phase="deleted", settled=True), making=attempt()),
        "off",
        CancelAttempt,
    ),
    (
        "but not one that it cancels itself",
        recovery(phase="making", attempts=1),
        Observation(at=9, deletion=intent("delete"), making=attempt()),
        "off",
        None,
    ),
    ("no choice, nothing", recovery(is_on=False, phase="off"), Observation(at=9, node=node("PREEMPTED")), "off", None),
    (
        "a leftover that goes",
        recovery(phase="clearing", asked_at=1),
        Observation(at=90, node=node("DELETING")),
        "clearing",
        None,
    ),
    (
        "one that stays",
        recovery(phase="clearing", asked_at=1),
        Observation(at=90, node=node("PREEMPTED")),
        "clearing",
        DeleteNode,
    ),
    (
        "one just asked for",
        recovery(phase="clearing", asked_at=1),
        Observation(at=2, node=node("PREEMPTED")),
        "clearing",
        None,
    ),
    ("gone", recovery(phase="clearing"), Observation(at=9), "waiting", None),
    ("somebody was faster", recovery(phase="clearing"), Observation(at=9, node=node("READY", "2")), "watching", None),
    ("or is at it", recovery(phase="clearing"), Observation(at=9, node=node("CREATING", "2")), "watching", None),
    ("due", recovery(phase="waiting"), Observation(at=9), "making", CreateNode),
    ("not yet due", recovery(phase="waiting", retry_at=60), Observation(at=9), "waiting", None),
    ("somebody made it", recovery(phase="waiting"), Observation(at=9, node=node("CREATING", "2")), "watching", None),
    ("not begun", recovery(phase="making", attempts=1), Observation(at=9), "making", CreateNode),
    ("begun", recovery(phase="making", attempts=1), Observation(at=9, making=attempt()), "making", None),
    (
        "made",
        recovery(phase="making", attempts=1),
        Observation(at=9, node=node("READY", "2"), making=attempt(phase="ready", settled=True)),
        "watching",
        None,
    ),
    (
        "no capacity",
        recovery(phase="making", attempts=1),
        Observation(at=9, making=attempt(phase="failed", settled=True, error=OutOfCapacity("none"))),
        "waiting",
        None,
    ),
    (
        "no capacity for the last time",
        recovery(phase="making", attempts=3),
        Observation(at=9, making=attempt(phase="failed", settled=True, error=OutOfCapacity("none"))),
        "given_up",
        None,
    ),
    (
        "not allowed",
        recovery(phase="making", attempts=1),
        Observation(at=9, making=attempt(phase="failed", settled=True, error=NotAllowlisted("no"))),
        "given_up",
        None,
    ),
    (
        "half made",
        recovery(phase="making", attempts=1),
        Observation(
            at=9,
            node=node("PREEMPTED", "2", labels={INTENT_LABEL: "abc"}),
            making=attempt(phase="failed", settled=True, error=OutOfCapacity("taken")),
        ),
        "clearing",
        DeleteNode,
    ),
    (
        "a queue takes its node away",
        recovery(is_queued=True),
        Observation(at=99, node=node("DELETING"), queued=queued("SUSPENDING")),
        "watching",
        None,
    ),
    (
        "and has taken it",
        recovery(is_queued=True),
        Observation(at=99, missing_s=LONG_S, queued=queued("SUSPENDED")),
        "clearing",
        DeleteQueued,
    ),
    (
        "a user has deleted its node elsewhere",
        recovery(is_queued=True),
        Observation(at=99, missing_s=LONG_S, queued=queued("SUSPENDED", is_reclaimed=False)),
        "given_up",
        None,
    ),
    ("and is taken away", recovery(is_queued=True), Observation(at=99, missing_s=LONG_S), "given_up", None),
    (
        "its leftover stays",
        recovery(phase="clearing", is_queued=True),
        Observation(at=99, queued=queued("SUSPENDED")),
        "clearing",
        DeleteQueued,
    ),
    (
        "or goes",
        recovery(phase="clearing", is_queued=True),
        Observation(at=99, queued=queued("DELETING")),
        "clearing",
        None,
    ),
    ("and is gone", recovery(phase="clearing", is_queued=True), Observation(at=99), "waiting", None),
    ("used up", recovery(phase="clearing", attempts=3), Observation(at=9), "given_up", None),
    ("too dear", recovery(phase="clearing", max_usd=5.0), Observation(at=9, spent_usd=5.0), "given_up", None),
    ("of unknown cost", recovery(phase="clearing", max_usd=5.0), Observation(at=9, spent_usd=None), "given_up", None),
    ("cheap enough", recovery(phase="clearing", max_usd=5.0), Observation(at=9, spent_usd=4.9), "waiting", None),
    ("too dear meanwhile", recovery(phase="waiting", max_usd=5.0), Observation(at=9, spent_usd=9.0), "given_up", None),
]


@pytest.mark.parametrize(
    ("before", "seen", "phase", "action"), [row[1:] for row in SITUATIONS], ids=[row[0] for row in SITUATIONS]
)
def test_each_situation_has_its_answer(before: Recovery, seen: Observation, phase: str, action: Any) -> None:
    after, asked = decide(before, seen, LIMITS)
    assert (after.phase, type(asked) if asked else None) == (phase, action)


def test_what_is_made_again_is_as_it_was_but_for_our_labels() -> None:
    labels = {"team": "a", INTENT_LABEL: "old", ATTEMPT_LABEL: "c-1"}
    options = NodeOptions(internal_ips=True)
    seen = node("READY", labels=labels, metadata={"startup-script": "x"}, runtime_version="r", options=options)
    spec = spec_of(seen)
    assert (spec.accelerator_type, spec.runtime_version, spec.spot) == ("v5litepod-8", "r", True)
    assert spec.options == options
    assert (spec.labels, spec.metadata) == ({"team": "a"}, {"startup-script": "x"})
    begun, asked = decide(recovery(phase="waiting", spec=spec), Observation(at=9), LIMITS)
    assert isinstance(asked, CreateNode)
    assert asked.spec.labels == {"team": "a", ATTEMPT_LABEL: "c-1"}
    assert (begun.attempts, begun.message) == (1, "my-node is being recreated (attempt 1 of 3).")


def test_attempts_come_at_growing_distances() -> None:
    delays = []
    for attempts in range(5):
        after, _ = decide(recovery(phase="clearing", attempts=attempts, max_attempts=9), Observation(at=0), LIMITS)
        delays.append(after.retry_at)
    assert delays == [0, 60, 300, 900, 900]


def lost_again(choice: Recovery, *, after_s: float) -> Recovery:
    """A recreated node is lost, and its leftover is deleted."""
    at = choice.since + after_s
    lost, _ = decide(choice, Observation(at=at, node=node("PREEMPTED")), LIMITS)
    cleared, _ = decide(lost, Observation(at=at + 9), LIMITS)
    return cleared


def test_attempts_are_counted_for_each_loss() -> None:
    after = lost_again(recovery(attempts=2, since=1.0), after_s=5 * 3600)
    assert after.message == "The leftovers of my-node are deleted. The node will be recreated now (attempt 1 of 3)."
    begun, asked = decide(after, Observation(at=after.retry_at), LIMITS)
    assert isinstance(asked, CreateNode)
    assert asked.spec.labels[ATTEMPT_LABEL] == "c-3", "the attempts before must not be taken for this one"
    assert begun.message == "my-node is being recreated (attempt 1 of 3)."


def test_a_node_that_is_lost_soon_again_and_again_is_given_up() -> None:
    choice, messages = recovery(max_attempts=2, attempts=1), []
    for _ in range(2):
        choice = lost_again(choice, after_s=60)
        messages.append(choice.message)
        choice = replace(choice, phase="watching", attempts=choice.attempts + 1)
    assert messages[0].endswith("The node will be recreated in 60 s (attempt 1 of 2).")
    assert messages[1].endswith("each time, it was lost within 4 h (limit: 2 in a row).")


def test_an_attempt_that_was_never_asked_for_does_not_count() -> None:
    unasked = attempt(phase="failed", settled=True, error=CloudUnavailable("ended before it asked"))
    after, _ = decide(
        recovery(phase="making", attempts=3), Observation(at=9, making=replace(unasked, asked_at=0.0)), LIMITS
    )
    assert (after.phase, after.attempts) == ("waiting", 2)


@pytest.mark.parametrize(
    ("error", "phase"),
    [
        (PermissionDenied("no"), "given_up"),
        (BudgetExceeded("used up"), "given_up"),
        (CloudUnavailable("silent"), "making"),
        (NodeExists("taken"), "making"),
    ],
)
def test_a_refusal_ends_it_only_where_waiting_does_not_help(error: Any, phase: str) -> None:
    after = refused(recovery(phase="making", attempts=1), error, 9.0)
    assert after.phase == phase
    again, asked = decide(after, Observation(at=10), LIMITS)
    assert (again.phase, asked) == (phase, None)


def test_the_outlook_of_a_lost_kernel_names_the_attempt() -> None:
    assert "attempt 1 of 3). When it is READY, the kernels of" in outlook(recovery(phase="clearing"))
    assert "attempt 2 of 3" in outlook(recovery(phase="making", attempts=2))
    assert "`jupyter tpu recover my-node" in outlook(recovery(phase="given_up", message="It is not recreated."))


STATES = ["CREATING", "READY", "REPAIRING", "STOPPED", "DELETING", "PREEMPTED", "TERMINATED", "SUSPENDED", "UNKNOWN(1)"]
nodes = st.builds(
    lambda state, uid, spot, label: node(state, uid, spot=spot, labels={INTENT_LABEL: label}),
    st.sampled_from(STATES),
    st.sampled_from(["1", "2"]),
    st.booleans(),
    st.sampled_from(["abc", "other"]),
)
makings = st.sampled_from(
    [
        attempt(),
        attempt(phase="ready", settled=True),
        attempt(phase="failed", settled=True, error=OutOfCapacity("none")),
        attempt(phase="failed", settled=True, error=PermissionDenied("no")),
        intent(spec=SPOT, phase="failed", settled=True, error=CloudUnavailable("never asked")),
    ]
)
sights = st.builds(
    Observation,
    at=st.just(0.0),
    node=st.none() | nodes,
    missing_s=st.sampled_from([0.0, LONG_S]),
    queued=st.none() | st.sampled_from(["ACTIVE", "SUSPENDING", "SUSPENDED", "DELETING"]).map(queued),
    deletion=st.none() | st.none() | st.none() | st.sampled_from([intent("delete"), intent("delete", settled=True)]),
    stop=st.none() | st.just(intent("stop")),
    making=st.none() | makings,
    spent_usd=st.none() | st.floats(0, 20),
)
stories = st.lists(st.tuples(sights, st.floats(0, 2000)), max_size=40)
choices = st.builds(
    lambda spot, is_on, most, usd, is_queued: recovery(
        is_queued=is_queued,
        spec=replace(SPOT, spot=spot),
        is_on=is_on,
        phase="watching" if is_on else "off",
        max_attempts=most,
        max_usd=usd,
    ),
    st.booleans(),
    st.booleans(),
    st.integers(1, 4),
    st.none() | st.just(10.0),
    st.booleans(),
)


@given(choice=choices, story=stories)
def test_no_order_of_events_makes_two_nodes_or_one_too_many(choice: Recovery, story: Any) -> None:
    now, begun = 0.0, 0
    for sight, passed in story:
        now += passed
        seen = replace(sight, at=now)
        before, (choice, asked) = choice, decide(choice, seen, LIMITS)
        if isinstance(asked, CreateNode):
            begun += choice.attempts != before.attempts
            assert seen.node is None, "one at a time"
            assert not choice.is_queued, "nor one that may be queued still"
            assert seen.deletion is None, "nobody wants it"
            assert choice.phase == "making", "written down before it is asked"
            assert choice.attempt_number <= choice.max_attempts
            assert choice.short_runs < choice.max_attempts
        if isinstance(asked, CreateNode) and before.phase == "waiting" and choice.max_usd is not None:
            assert seen.spent_usd is not None
            assert seen.spent_usd < choice.max_usd
        if isinstance(asked, CancelAttempt):
            assert seen.making is not None
            assert not seen.making.settled
        if isinstance(asked, DeleteNode):
            assert seen.node is not None
            assert seen.node.state != "READY"
            assert seen.node.uid == choice.uid, "only the leftover that was written down"
            assert is_preemptible(seen.node) or seen.node.state != "STOPPED" or before.phase != "watching"
        assert Recovery.from_json(json.loads(json.dumps(choice.to_json()))) == choice
    assert choice.is_on or not begun or choice.phase == "off"
