"""A node on its way to STOPPED or out of existence: stop and delete.

Both may be asked for again without harm, so they are, until the cloud answers: what costs money must not be forgotten.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from jupyter_tpu.errors import CloudRefused, CloudUnavailable, NodeNotFound, TpuError
from jupyter_tpu.lifecycle import words
from jupyter_tpu.lifecycle.actions import DeleteNode, StopNode
from jupyter_tpu.lifecycle.events import (
    Asked,
    Event,
    NodeMissing,
    NodeSeen,
    OperationSeen,
    Refused,
    Resumed,
    Silent,
    Taken,
    Unanswered,
)
from jupyter_tpu.lifecycle.intents import Intent
from jupyter_tpu.lifecycle.limits import Limits
from jupyter_tpu.lifecycle.outcomes import Outcome, Table, done, failed, go_on, missing_for, moved, seen, unchanged
from jupyter_tpu.models import NodeName


@dataclass(frozen=True, slots=True, kw_only=True)
class Fall:
    """What sets stop and delete apart.

    Attributes:
        action: what is asked of the cloud.
        phase: while the cloud does it.
        under_way: the node's state meanwhile.
        end: the last phase.
        end_state: the node's state then; empty = it is gone.
    """

    action: Callable[[NodeName], DeleteNode | StopNode]
    phase: str
    under_way: str
    end: str
    end_state: str


FALLS = {
    "delete": Fall(action=DeleteNode, phase="deleting", under_way="DELETING", end="deleted", end_state=""),
    "stop": Fall(action=StopNode, phase="stopping", under_way="STOPPING", end="stopped", end_state="STOPPED"),
}


def ask(intent: Intent, event: Event, limits: Limits) -> Outcome:
    """Ask, for the first time or again."""
    message = f"Asking to {intent.verb} the node."
    return moved(intent, event.at, "asking", message, asked_at=event.at), (FALLS[intent.verb].action(intent.node_name),)


def accepted(intent: Intent, event: Asked, limits: Limits) -> Outcome:
    """The cloud has begun, unless it named no operation: such an answer promises nothing."""
    if not (event.operation.name or event.operation.done):
        return unsure(intent, Unanswered(at=event.at, error=_empty_answer(intent)), limits)
    fall = FALLS[intent.verb]
    message = f"The node is {fall.under_way}."
    begun = moved(intent, event.at, fall.phase, message, operation=event.operation.name, may_appear=False)
    return operation_seen(begun, OperationSeen(at=event.at, operation=event.operation), limits)


def unsure(intent: Intent, event: Refused | Unanswered, limits: Limits) -> Outcome:
    """Look at the node: it tells what exists, and may be on its way already."""
    if isinstance(event.error, NodeNotFound):
        if not intent.may_appear:
            return _gone(intent, event)
        intent, _ = missing_for(intent, event.at)
        return moved(intent, event.at, "checking", "The node was being created; looking whether it appears."), ()
    return moved(intent, event.at, "checking", f"{event.error.message} Looking at the node.", cause=event.error), ()


def found(intent: Intent, event: NodeSeen, limits: Limits) -> Outcome:
    """Judge by the node whether it was asked for."""
    fall = FALLS[intent.verb]
    intent = replace(seen(intent), may_appear=False)
    if event.node.state == fall.end_state:
        return _ended(intent, event)
    if event.node.state == fall.under_way:
        return moved(intent, event.at, fall.phase, f"The node is {fall.under_way}.", cause=None), ()
    # It is given up in time, but not for the time in which nobody asked, as in a sleep of this computer.
    is_late = event.at - intent.created_at > limits.change_s >= event.at - intent.asked_at
    if not _was_unanswered(intent) or is_late:
        return failed(intent, event.at, _cause(intent), exists=words.node_exists(event.node))
    if event.at - intent.asked_at < limits.ask_again_s:
        return unchanged(intent)
    return ask(intent, event, limits)


def _was_unanswered(intent: Intent) -> bool:
    return intent.cause is None or isinstance(intent.cause, CloudUnavailable)


def watched(intent: Intent, event: NodeSeen, limits: Limits) -> Outcome:
    """Wait for the end that the cloud promised."""
    intent = seen(intent)
    if event.node.state == FALLS[intent.verb].end_state:
        return _ended(intent, event)
    promised = intent.operation or event.node.state == FALLS[intent.verb].under_way
    if event.at - intent.phase_since <= (limits.change_s if promised else limits.unsure_s):
        return unchanged(intent)
    return failed(intent, event.at, _cause(intent), exists=words.node_exists(event.node))


def node_missing(intent: Intent, event: NodeMissing, limits: Limits) -> Outcome:
    """The end of a deletion; for a stop, somebody else's doing."""
    intent, missing_s = missing_for(intent, event.at)
    if intent.verb == "stop" and missing_s <= limits.vanished_s:
        return unchanged(intent)
    if intent.may_appear and missing_s <= limits.unsure_s:
        return unchanged(intent)
    return _gone(intent, event)


def operation_seen(intent: Intent, event: OperationSeen, limits: Limits) -> Outcome:
    """Learn that it failed; that it succeeded only the node can tell."""
    if event.operation.error is not None:
        return moved(
            intent, event.at, "checking", "Looking at the node.", operation="", cause=event.operation.error
        ), ()
    if event.operation.done:
        return replace(intent, operation="", phase_since=event.at), ()
    return unchanged(intent)


def silent(intent: Intent, event: Silent, limits: Limits) -> Outcome:
    """Go on asking, unless the request itself was refused and nothing can be seen either."""
    if isinstance(intent.cause, CloudRefused) and isinstance(event.error, CloudRefused):
        exists = f"Whether the node {intent.node_name.node_id} still exists is not known."
        return failed(intent, event.at, intent.cause, exists=exists)
    return moved(intent, event.at, intent.phase, f"{event.error.message} It is asked again."), ()


def _ended(intent: Intent, event: NodeSeen) -> Outcome:
    return done(intent, event.at, FALLS[intent.verb].end, words.node_exists(event.node))


def _gone(intent: Intent, event: Event) -> Outcome:
    name = intent.node_name.node_id
    if intent.verb == "delete":
        return done(intent, event.at, "deleted", f"The node {name} is gone; nothing is billed.")
    error = NodeNotFound(f"There is no node {name} in {intent.node_name.zone}.")
    return failed(intent, event.at, error, exists="Nothing is billed.", hint="`jupyter tpu list` shows what exists.")


def _empty_answer(intent: Intent) -> CloudUnavailable:
    return CloudUnavailable(
        f"The cloud's answer to the {intent.verb} of {intent.node_name.node_id} was empty.",
        hint=f"Try again with {words.command(intent.verb, intent.node_name)}.",
    )


def _cause(intent: Intent) -> TpuError:
    return intent.cause or CloudUnavailable(
        f"The node {intent.node_name.node_id} was not {FALLS[intent.verb].end}, although the cloud was asked.",
        hint=f"Try again with {words.command(intent.verb, intent.node_name)}.",
    )


def _table(phase: str) -> Table:
    return {
        ("requested", Taken): ask,
        ("requested", Resumed): ask,
        ("asking", Asked): accepted,
        ("asking", Refused): unsure,
        ("asking", Unanswered): unsure,
        ("asking", Resumed): ask,
        ("checking", Resumed): go_on,
        ("checking", NodeSeen): found,
        ("checking", NodeMissing): node_missing,
        ("checking", Silent): silent,
        (phase, Resumed): go_on,
        (phase, NodeSeen): watched,
        (phase, NodeMissing): node_missing,
        (phase, OperationSeen): operation_seen,
        (phase, Silent): silent,
    }


DELETE_TABLE = _table(FALLS["delete"].phase)
STOP_TABLE = _table(FALLS["stop"].phase)
