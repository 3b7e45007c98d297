"""Stop or delete a node.

Stop and delete requests are idempotent. They are repeated until the cloud responds, and after a rate limit error, so
that no node remains billed by accident.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from jupyter_tpu.error_actions import delete_node, refresh, stop_node
from jupyter_tpu.errors import Action, CloudRefused, CloudUnavailable, NodeNotFound, RateExceeded, Text, TpuError
from jupyter_tpu.lifecycle import intent_texts
from jupyter_tpu.lifecycle.actions import DeleteNode, StopNode
from jupyter_tpu.lifecycle.intent_events import (
    Accepted,
    Event,
    NoAnswer,
    NodeMissing,
    NodeSeen,
    OperationSeen,
    Refused,
    Resumed,
    Started,
    Unanswered,
)
from jupyter_tpu.lifecycle.intents import Intent
from jupyter_tpu.lifecycle.outcomes import (
    Outcome,
    Table,
    continue_polling,
    done,
    failed,
    missing_for,
    moved,
    seen,
    unchanged,
)
from jupyter_tpu.lifecycle.time_limits import Limits
from jupyter_tpu.models import NodeName


@dataclass(frozen=True, slots=True, kw_only=True)
class VerbDetails:
    """The properties that differ between stop and delete.

    Attributes:
        action: the request to the cloud.
        phase: the intent's phase while the cloud performs the action.
        under_way: the node's state during this phase.
        end: the intent's last phase.
        end_state: the node's final state; empty if the node no longer exists.
    """

    action: Callable[[NodeName], DeleteNode | StopNode]
    phase: str
    under_way: str
    end: str
    end_state: str


BY_VERB = {
    "delete": VerbDetails(action=DeleteNode, phase="deleting", under_way="DELETING", end="deleted", end_state=""),
    "stop": VerbDetails(action=StopNode, phase="stopping", under_way="STOPPING", end="stopped", end_state="STOPPED"),
}


WAITING = "waiting"

BEFORE_READY = frozenset({"STARTING", "RESTARTING", "REIMAGING", "REPAIRING"})
"""States of a node that the cloud refuses to stop, and that soon becomes READY."""


def send_request(intent: Intent, event: Event, limits: Limits) -> Outcome:
    """Send or repeat the request."""
    message = (
        Text("Requesting the stop of the node.")
        if intent.verb == "stop"
        else Text("Requesting the deletion of the node.")
    )
    return moved(intent, event.at, "asking", message, asked_at=event.at), (
        BY_VERB[intent.verb].action(intent.node_name),
    )


def accepted(intent: Intent, event: Accepted, limits: Limits) -> Outcome:
    """Track the operation that the cloud has started. A response without an operation counts as no response."""
    if not (event.operation.name or event.operation.done):
        return unsure(intent, Unanswered(at=event.at, error=_empty_answer(intent)), limits)
    details = BY_VERB[intent.verb]
    message = Text("The node is {state}.", state=details.under_way)
    begun = moved(intent, event.at, details.phase, message, operation=event.operation.name, may_appear=False)
    return operation_seen(begun, OperationSeen(at=event.at, operation=event.operation), limits)


def unsure(intent: Intent, event: Refused | Unanswered, limits: Limits) -> Outcome:
    """Check the node, because the response doesn't show whether the request was performed."""
    if isinstance(event.error, NodeNotFound):
        # an open creation may still create the node after this deletion
        if not intent.may_appear:
            return _gone(intent, event)
        intent, _ = missing_for(intent, event.at)
        return moved(intent, event.at, "checking", Text("The node was being created; checking whether it appears.")), ()
    return moved(
        intent,
        event.at,
        "checking",
        Text("{message} Checking the node.", message=event.error.message),
        cause=event.error,
    ), ()


def found(intent: Intent, event: NodeSeen, limits: Limits) -> Outcome:
    """Determine from the node's state whether the request was performed. If not, repeat it or give up."""
    details = BY_VERB[intent.verb]
    intent = replace(seen(intent), may_appear=False)
    if event.node.state == details.end_state:
        return _ended(intent, event)
    if event.node.state == details.under_way:
        return moved(
            intent, event.at, details.phase, Text("The node is {state}.", state=details.under_way), cause=None
        ), ()
    if intent.verb == "stop" and event.node.state in BEFORE_READY:
        return _wait(intent, event, limits)
    # count only the time in which requests were sent: after this computer's sleep, there is one more attempt
    is_late = event.at - intent.created_at > limits.change_s >= event.at - intent.asked_at
    if not _may_succeed(intent.cause) or is_late:
        return failed(intent, event.at, _cause(intent), exists=intent_texts.node_exists(event.node))
    if event.at - intent.asked_at < limits.ask_again_s:
        return unchanged(intent)
    return send_request(intent, event, limits)


def _wait(intent: Intent, event: NodeSeen, limits: Limits) -> Outcome:
    """Wait until the node is READY. This is no refusal: after a refusal, the node may be deleted with its disk."""
    state = event.node.state
    if event.at - intent.created_at > limits.create_s:
        error = CloudUnavailable(
            Text(
                "The node {node} was {state} for more than {minutes} min, so it could not be stopped.",
                node=intent.node_name.node_id,
                state=state,
                minutes=round(limits.create_s / 60),
            ),
            hint=Text("Try again with {command}.", command=intent_texts.command(intent.verb, intent.node_name)),
            actions=(_again(intent),),
        )
        return failed(intent, event.at, error, exists=intent_texts.node_exists(event.node))
    message = Text("The node is {state}. It is stopped as soon as it is READY.", state=state)
    return moved(intent, event.at, WAITING, message, cause=None), ()


def _may_succeed(cause: TpuError | None) -> bool:
    """Return whether a retry after a few seconds may succeed. `cause` is the failure's cause, or None if unknown."""
    return cause is None or isinstance(cause, (CloudUnavailable, RateExceeded))


def _is_refusal(cause: TpuError | None) -> bool:
    return isinstance(cause, CloudRefused) and not _may_succeed(cause)


def watched(intent: Intent, event: NodeSeen, limits: Limits) -> Outcome:
    """Complete the intent if the node is in its final state. Fail the intent if this takes too long."""
    intent = seen(intent)
    if event.node.state == BY_VERB[intent.verb].end_state:
        return _ended(intent, event)
    # if there is no operation and no transitional state, the cloud may not have begun yet
    promised = intent.operation or event.node.state == BY_VERB[intent.verb].under_way
    if event.at - intent.phase_since <= (limits.change_s if promised else limits.unsure_s):
        return unchanged(intent)
    return failed(intent, event.at, _cause(intent), exists=intent_texts.node_exists(event.node))


def node_missing(intent: Intent, event: NodeMissing, limits: Limits) -> Outcome:
    """Complete a deletion. A stop fails, because someone else has deleted the node."""
    intent, missing_s = missing_for(intent, event.at)
    if intent.verb == "stop" and missing_s <= limits.vanished_s:
        return unchanged(intent)
    if intent.may_appear and missing_s <= limits.unsure_s:
        return unchanged(intent)
    return _gone(intent, event)


def operation_seen(intent: Intent, event: OperationSeen, limits: Limits) -> Outcome:
    """Detect a failed operation. Success is determined by the node's state."""
    if event.operation.error is not None:
        return moved(
            intent, event.at, "checking", Text("Checking the node."), operation="", cause=event.operation.error
        ), ()
    if event.operation.done:
        return replace(intent, operation="", phase_since=event.at), ()
    return unchanged(intent)


def silent(intent: Intent, event: NoAnswer, limits: Limits) -> Outcome:
    """Keep polling, unless the cloud has permanently rejected both the request and reading the node."""
    if _is_refusal(intent.cause) and _is_refusal(event.error):
        exists = Text("The node {node} may still exist.", node=intent.node_name.node_id)
        return failed(intent, event.at, _cause(intent), exists=exists)
    return moved(intent, event.at, intent.phase, Text("{message} Trying again.", message=event.error.message)), ()


def _ended(intent: Intent, event: NodeSeen) -> Outcome:
    return done(intent, event.at, BY_VERB[intent.verb].end, intent_texts.node_exists(event.node))


def _gone(intent: Intent, event: Event) -> Outcome:
    name = intent.node_name.node_id
    if intent.verb == "delete":
        return done(
            intent, event.at, "deleted", Text("The node {name} no longer exists, and nothing is billed.", name=name)
        )
    error = NodeNotFound(Text("There is no node {node} in {zone}.", node=name, zone=intent.node_name.zone))
    hint = "`jupyter tpu list` lists the existing nodes."
    return failed(intent, event.at, error, exists="Nothing is billed.", hint=hint, actions=(refresh(),))


def _empty_answer(intent: Intent) -> CloudUnavailable:
    return CloudUnavailable(
        Text(
            "The cloud returned an empty response to the request to {verb} {node}.",
            verb=intent.verb,
            node=intent.node_name.node_id,
        ),
        hint=Text("Try again with {command}.", command=intent_texts.command(intent.verb, intent.node_name)),
        actions=(_again(intent),),
    )


def _cause(intent: Intent) -> TpuError:
    return intent.cause or CloudUnavailable(
        Text(
            "The cloud did not {verb} the node {node}, and gave no reason.",
            verb=intent.verb,
            node=intent.node_name.node_id,
        ),
        hint=Text("Try again with {command}.", command=intent_texts.command(intent.verb, intent.node_name)),
        actions=(_again(intent),),
    )


def _again(intent: Intent) -> Action:
    return (delete_node if intent.verb == "delete" else stop_node)(intent.node_name)


def _table(phase: str) -> Table:
    # send an interrupted request again (Resumed in "asking"): unlike a creation, it does no harm
    return {
        ("requested", Started): send_request,
        ("requested", Resumed): send_request,
        ("asking", Accepted): accepted,
        ("asking", Refused): unsure,
        ("asking", Unanswered): unsure,
        ("asking", Resumed): send_request,
        ("checking", Resumed): continue_polling,
        ("checking", NodeSeen): found,
        ("checking", NodeMissing): node_missing,
        ("checking", NoAnswer): silent,
        (phase, Resumed): continue_polling,
        (phase, NodeSeen): watched,
        (phase, NodeMissing): node_missing,
        (phase, OperationSeen): operation_seen,
        (phase, NoAnswer): silent,
    }


DELETE_TABLE = _table(BY_VERB["delete"].phase)
STOP_TABLE: Table = {
    **_table(BY_VERB["stop"].phase),
    (WAITING, Resumed): continue_polling,
    (WAITING, NodeSeen): found,
    (WAITING, NodeMissing): node_missing,
    (WAITING, NoAnswer): silent,
}
