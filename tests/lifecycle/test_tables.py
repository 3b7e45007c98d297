"""Stories of intents, event by event: phases, what is asked, and the words at the end."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_tpu.error_actions import show_quota
from jupyter_tpu.errors import (
    CloudUnavailable,
    NodeExists,
    NodeNotFound,
    OutOfCapacity,
    PermissionDenied,
    QuotaExceeded,
    RateExceeded,
    WrongState,
)
from jupyter_tpu.lifecycle.actions import CreateNode, DeleteNode, GetNode, GetOperation, GetWorkerIdentities, StopNode
from jupyter_tpu.lifecycle.intent_events import (
    Accepted,
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
from jupyter_tpu.lifecycle.to_stopped import BEFORE_READY
from jupyter_tpu.models import Operation

NO_ANSWER = CloudUnavailable("The cloud does not answer.")
STOCK_OUT = OutOfCapacity("No capacity.", raw="There is no more capacity in the zone")


def tell(intent: Intent, *events: Any) -> tuple[Intent, list[Any]]:
    """The intent after the events, and all that was asked on the way."""
    asked: list[Any] = []
    for event in events:
        intent, changes = step(intent, event)
        asked += changes
    return intent, asked


def created(make: Any) -> tuple[Any, ...]:
    return Started(at=0), Accepted(at=1, operation=make.operation())


def test_a_creation_goes_through_its_phases(make: Any) -> None:
    events = [
        *created(make),
        NodeSeen(at=2, node=make.node("CREATING")),
        NodeSeen(at=9, node=make.node("READY")),
        KeysSeen(at=10, node=make.node("READY"), published=False),
        KeysSeen(at=11, node=make.node("READY"), published=True),
    ]
    intent, asked = tell(make.intent(), *events)
    assert asked == [CreateNode(make.spec)]
    assert (intent.phase, intent.succeeded) == ("ready", True)


def test_a_stock_out_is_told_with_other_zones_once_the_node_is_rolled_back(make: Any) -> None:
    failure = OperationSeen(at=30, operation=make.operation(done=True, error=STOCK_OUT))
    rolling_back, _ = tell(make.intent(), *created(make), failure, NodeSeen(at=31, node=make.node("CREATING")))
    assert (rolling_back.phase, rolling_back.settled) == ("rolling_back", False)
    intent, _ = tell(rolling_back, NodeMissing(at=32))
    assert intent.error is not None
    assert intent.error.exists == "No node was created; nothing is billed."
    assert "us-south1-a" in intent.error.hint
    assert "`jupyter tpu search my-node --types v5litepod-8`" in intent.error.hint
    assert "`jupyter tpu queue add my-node --type v5litepod-8 --zone us-central1-a`" in intent.error.hint
    assert intent.error.raw == STOCK_OUT.raw


def test_a_node_that_outlives_its_failed_creation_is_said_to_exist(make: Any) -> None:
    failure = OperationSeen(at=30, operation=make.operation(done=True, error=STOCK_OUT))
    intent, _ = tell(make.intent(), *created(make), failure, NodeSeen(at=200, node=make.node("CREATING")))
    assert intent.error is not None
    assert intent.error.exists.startswith("The node my-node exists and is CREATING")
    assert "`jupyter tpu delete my-node --zone us-central1-a`" in intent.error.hint


@pytest.mark.parametrize("lost", [Unanswered(at=1, error=NO_ANSWER), Resumed(at=1)])
def test_a_node_with_our_label_is_adopted(make: Any, lost: Any) -> None:
    intent, asked = tell(make.intent(), Started(at=0), lost, NodeSeen(at=5, node=make.node("READY")))
    assert (intent.phase, intent.error) == ("booting", None)
    assert asked == [CreateNode(make.spec)]


@pytest.mark.parametrize("label", ["", "0" * 12])
def test_a_node_with_another_label_is_not_ours(make: Any, label: str) -> None:
    refused = Refused(at=1, error=NodeExists("taken"))
    intent, _ = tell(make.intent(), Started(at=0), refused, NodeSeen(at=2, node=make.node("READY", label=label)))
    assert intent.error is not None
    assert intent.error.code == "node_exists"
    assert intent.error.exists == "The node my-node exists and costs $9.60 per hour."


def test_an_unknown_price_is_said_to_be_unknown(make: Any) -> None:
    refused = Refused(at=1, error=NodeExists("taken"))
    odd = make.node("READY", label="")
    odd = type(odd)(name=odd.name, state="READY", accelerator_type="v99-8")
    intent, _ = tell(make.intent(), Started(at=0), refused, NodeSeen(at=2, node=odd))
    assert intent.error is not None
    assert "costs an unknown amount per hour (no list price is known)" in intent.error.exists


def test_a_creation_is_closed_only_after_rechecks(make: Any) -> None:
    checking, _ = tell(make.intent(), Started(at=0), Unanswered(at=1, error=NO_ANSWER), NodeMissing(at=2))
    assert not tell(checking, NodeMissing(at=50))[0].settled
    closed, asked = tell(checking, NodeMissing(at=50), NodeMissing(at=63))
    assert closed.error is not None
    assert (closed.error.exists, asked) == ("No node was created; nothing is billed.", [])


def test_a_creation_that_was_never_asked_for_is_not_asked_for_after_a_restart(make: Any) -> None:
    intent, asked = tell(make.intent(), Resumed(at=1000))
    assert (intent.settled, asked) == (True, [])


def test_nothing_is_concluded_while_the_cloud_is_silent(make: Any) -> None:
    intent, _ = tell(make.intent(), *created(make), *(NoAnswer(at=at, error=NO_ANSWER) for at in range(2, 9999, 500)))
    assert (intent.phase, intent.settled) == ("provisioning", False)


def test_a_creation_without_end_is_given_up_with_the_node_named(make: Any) -> None:
    intent, _ = tell(make.intent(), *created(make), NodeSeen(at=1802, node=make.node("CREATING")))
    assert intent.error is not None
    assert "within 30 minutes" in intent.error.message
    assert "not billed until it is READY" in intent.error.exists


def test_a_node_without_host_keys_is_given_up_with_its_cost(make: Any) -> None:
    ready = make.node("READY")
    keys = [KeysSeen(at=at, node=ready, published=False) for at in (10, 611)]
    intent, _ = tell(make.intent(), *created(make), NodeSeen(at=10, node=ready), *keys)
    assert intent.error is not None
    assert (intent.error.code, intent.error.exists) == (
        "worker_unreachable",
        "The node my-node exists and costs $9.60 per hour.",
    )


def test_a_node_that_nobody_looked_at_while_it_booted_is_ready_once_its_keys_are_seen(make: Any) -> None:
    ready = make.node("READY")
    seen = [NodeSeen(at=at, node=ready) for at in (10, 5000)]
    intent, _ = tell(make.intent(), *created(make), *seen, KeysSeen(at=5001, node=ready, published=True))
    assert (intent.phase, intent.succeeded) == ("ready", True)


@pytest.mark.parametrize(("state", "code"), [("PREEMPTED", "out_of_capacity"), ("STOPPED", "wrong_state")])
def test_a_node_lost_while_it_comes_up_fails_the_creation(make: Any, state: str, code: str) -> None:
    intent, _ = tell(make.intent(), *created(make), NodeSeen(at=5, node=make.node(state)))
    assert intent.error is not None
    assert intent.error.code == code


def test_a_node_that_is_stopped_while_it_boots_is_said_to_have_been_stopped(make: Any) -> None:
    ready = NodeSeen(at=3, node=make.node("READY"))
    intent, _ = tell(make.intent(), *created(make), ready, NodeSeen(at=4, node=make.node("STOPPED")))
    assert intent.error is not None
    assert intent.error.message == "The node my-node was stopped while it was booting (STOPPED)."


def test_a_deletion_overrules_everything_but_a_deletion(make: Any) -> None:
    for verb in ("create", "stop", "start"):
        intent, asked = tell(make.intent(verb), Overruled(at=1))
        assert (intent.phase, asked) == ("cancelled", [])
    with pytest.raises(IllegalEvent):
        step(make.intent("delete"), Overruled(at=1))


@pytest.mark.parametrize("verb", ["delete", "stop"])
def test_an_end_that_was_not_answered_is_asked_for_again_though_nobody_looked_for_hours(make: Any, verb: str) -> None:
    ready = make.node("READY")
    lost = [Started(at=0), Unanswered(at=1, error=NO_ANSWER), *(NoAnswer(at=at, error=NO_ANSWER) for at in (9, 900))]
    intent, asked = tell(make.intent(verb), *lost, NodeSeen(at=9000, node=ready))
    assert (intent.phase, len(asked)) == ("asking", 2)
    intent, asked = tell(intent, Unanswered(at=9001, error=NO_ANSWER), NodeSeen(at=9100, node=ready))
    assert (intent.succeeded, asked) == (False, []), "that somebody looked, and it helped nothing"


@pytest.mark.parametrize("again", [Resumed(at=99), Unanswered(at=1, error=NO_ANSWER)])
def test_a_deletion_is_asked_for_until_it_is_heard(make: Any, again: Any) -> None:
    seen = [] if isinstance(again, Resumed) else [NodeSeen(at=99, node=make.node("READY"))]
    _, asked = tell(make.intent("delete", created_at=0.0), Started(at=0), again, *seen)
    assert asked == [DeleteNode(make.name), DeleteNode(make.name)]


@pytest.mark.parametrize("verb", ["delete", "stop"])
def test_an_end_that_was_refused_for_its_rate_is_asked_for_again(make: Any, verb: str) -> None:
    too_often = RateExceeded("Too many requests.")
    refused = [Started(at=0), Refused(at=1, error=too_often), NoAnswer(at=2, error=too_often)]
    intent, asked = tell(make.intent(verb), *refused, NodeSeen(at=30, node=make.node("READY")))
    assert (intent.phase, len(asked)) == ("asking", 2)
    late, asked = tell(intent, Refused(at=901, error=too_often), NodeSeen(at=902, node=make.node("READY")))
    assert (late.error and late.error.code, asked) == (too_often.code, [])


@pytest.mark.parametrize("gone", [NodeMissing(at=9), Refused(at=9, error=NodeNotFound("gone"))])
def test_a_deletion_ends_when_the_node_is_gone(make: Any, gone: Any) -> None:
    events = [] if isinstance(gone, Refused) else [Accepted(at=1, operation=make.operation())]
    intent, _ = tell(make.intent("delete"), Started(at=0), *events, gone)
    assert (intent.phase, intent.succeeded) == ("deleted", True)


def test_a_refused_deletion_says_what_the_node_costs(make: Any) -> None:
    refused = Refused(at=1, error=PermissionDenied("no"))
    intent, _ = tell(make.intent("delete"), Started(at=0), refused, NodeSeen(at=2, node=make.node("READY")))
    assert intent.error is not None
    assert intent.error.exists == "The node my-node exists and costs $9.60 per hour."
    blind, _ = tell(make.intent("delete"), Started(at=0), refused, NoAnswer(at=2, error=PermissionDenied("no")))
    assert blind.error is not None
    assert "may still exist" in blind.error.exists


def test_a_stop_of_a_stopped_node_is_done(make: Any) -> None:
    refused = Refused(at=1, error=WrongState("no"))
    intent, asked = tell(make.intent("stop"), Started(at=0), refused, NodeSeen(at=2, node=make.node("STOPPED")))
    assert (intent.phase, asked) == ("stopped", [StopNode(make.name)])


@pytest.mark.parametrize("state", sorted(BEFORE_READY))
def test_a_stop_waits_until_the_node_can_be_stopped(make: Any, state: str) -> None:
    refused = [Started(at=0), Refused(at=1, error=WrongState("no"))]
    waiting, _ = tell(make.intent("stop"), *refused, *(NodeSeen(at=at, node=make.node(state)) for at in (2, 1700)))
    assert (waiting.phase, waiting.settled) == ("waiting", False)
    asked_again, asked = tell(waiting, NodeSeen(at=1701, node=make.node("READY")))
    assert (asked_again.phase, asked) == ("asking", [StopNode(make.name)])
    given_up, asked = tell(waiting, NodeSeen(at=1801, node=make.node(state)))
    assert asked == []
    assert given_up.error is not None
    assert given_up.error.code == "cloud_unavailable", "which is no refusal, after which a node may be deleted"
    assert f"was {state} for more than 30 min" in given_up.error.message


def test_a_start_that_failed_leaves_the_node_stopped(make: Any) -> None:
    failure = OperationSeen(at=9, operation=make.operation(done=True, error=STOCK_OUT))
    intent, _ = tell(make.intent("start"), *created(make), failure, NodeSeen(at=10, node=make.node("STOPPED")))
    assert intent.error is not None
    assert (intent.error.code, intent.error.exists) == (
        "out_of_capacity",
        "The node my-node exists and is STOPPED: only its disk is billed.",
    )


def labels(intent: Intent) -> list[str]:
    assert intent.error is not None
    return [action.label for action in intent.error.actions]


def test_a_stock_out_offers_other_zones_and_the_queue(make: Any) -> None:
    failure = OperationSeen(at=30, operation=make.operation(done=True, error=STOCK_OUT))
    intent, _ = tell(make.intent(), *created(make), failure, NodeMissing(at=99))
    assert labels(intent) == ["Try us-west1-c", "Search other zones", "Wait in the queue"]


def test_a_refusal_keeps_its_own_actions(make: Any) -> None:
    refused = QuotaExceeded("A quota is used up.", actions=[show_quota("us-central1-a")])
    intent, _ = tell(make.intent(), Started(at=0), Refused(at=1, error=refused))
    assert labels(intent) == ["Show quota"]


def test_a_node_that_is_left_can_be_deleted_or_started(make: Any) -> None:
    lost, _ = tell(make.intent(), *created(make), NodeSeen(at=2, node=make.node("PREEMPTED")))
    assert labels(lost) == ["Delete node…"]
    failure = OperationSeen(at=9, operation=make.operation(done=True, error=STOCK_OUT))
    stopped, _ = tell(make.intent("start"), *created(make), failure, NodeSeen(at=10, node=make.node("STOPPED")))
    assert labels(stopped) == ["Start node", "Delete node…"]


def test_each_phase_says_what_to_look_at(make: Any) -> None:
    provisioning, _ = tell(make.intent(), *created(make))
    assert queries(provisioning) == (GetOperation("operations/1"), GetNode(make.name))
    booting, _ = tell(provisioning, NodeSeen(at=2, node=make.node("READY")))
    assert queries(booting) == (GetNode(make.name), GetWorkerIdentities(make.name))
    assert queries(make.intent()) == ()


def test_an_illegal_event_changes_nothing(make: Any) -> None:
    with pytest.raises(IllegalEvent, match="KeysSeen in phase requested of create"):
        step(make.intent(), KeysSeen(at=1, node=make.node("READY"), published=True))


def test_an_intent_survives_its_json(make: Any) -> None:
    failed, _ = tell(make.intent(), Started(at=0), Refused(at=1, error=STOCK_OUT))
    again = Intent.from_json(failed.to_json())
    assert again.to_json() == failed.to_json()
    assert isinstance(again.error, OutOfCapacity)


@pytest.mark.parametrize(("verb", "action"), [("delete", DeleteNode), ("stop", StopNode)])
def test_an_end_that_the_cloud_answered_with_nothing_is_asked_for_again(make: Any, verb: str, action: Any) -> None:
    nothing = Operation(name="", verb="", target="")
    intent, asked = tell(
        make.intent(verb),
        Started(at=0),
        Accepted(at=1, operation=nothing),
        NodeSeen(at=5, node=make.node("READY")),
        NodeSeen(at=12, node=make.node("READY")),
    )
    assert asked == [action(make.name), action(make.name)]
    assert (intent.phase, intent.settled) == ("asking", False)
