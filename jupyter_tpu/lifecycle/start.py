"""Start a stopped node. A start costs money, so a request without a response is never repeated."""

from __future__ import annotations

from jupyter_tpu.error_actions import refresh
from jupyter_tpu.errors import CloudUnavailable, NodeNotFound, Text, TpuError, WrongState
from jupyter_tpu.lifecycle import intent_texts, to_ready
from jupyter_tpu.lifecycle.actions import StartNode
from jupyter_tpu.lifecycle.intent_events import (
    Accepted,
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
from jupyter_tpu.lifecycle.outcomes import Outcome, Table, continue_polling, failed, missing_for, moved, seen, unchanged
from jupyter_tpu.lifecycle.time_limits import Limits

STARTING = "starting"


def send_request(intent: Intent, event: Started, limits: Limits) -> Outcome:
    """Request the start."""
    asking = moved(intent, event.at, "asking", Text("Requesting the start of the node."), asked_at=event.at)
    return asking, (StartNode(intent.node_name),)


def close_unasked(intent: Intent, event: Resumed, limits: Limits) -> Outcome:
    """Mark an intent as failed if its process exited before it sent the request. The node may no longer be wanted."""
    error = TpuError(
        Text("jupyter_tpu exited before it requested the start of the node {node}.", node=intent.node_name.node_id)
    )
    return failed(
        intent, event.at, error, exists="The node was not started.", hint="Start the node again if you still need it."
    )


def accepted(intent: Intent, event: Accepted, limits: Limits) -> Outcome:
    """Track the operation that the cloud has started."""
    begun = moved(intent, event.at, STARTING, Text("The node is starting."), operation=event.operation.name)
    return to_ready.operation_seen(begun, OperationSeen(at=event.at, operation=event.operation), limits)


def unsure(intent: Intent, event: Refused | Unanswered, limits: Limits) -> Outcome:
    """Check the node, because it may be starting although the request was rejected or got no response."""
    return moved(intent, event.at, "checking", Text("Checking the node."), cause=event.error), ()


def recheck(intent: Intent, event: Resumed, limits: Limits) -> Outcome:
    """Check the node, because the previous process may have requested the start."""
    return moved(intent, event.at, "checking", Text("Resumed; checking the node.")), ()


def found(intent: Intent, event: NodeSeen, limits: Limits) -> Outcome:
    """Determine from the node's state whether the start has taken effect."""
    if event.node.state in ("STARTING", "READY"):
        begun = moved(seen(intent), event.at, STARTING, Text("The node is starting."), cause=None)
        return to_ready.node_seen(begun, event, limits)
    # an unanswered request may still take effect, so ignore STOPPED for a while
    unanswered = intent.cause is None or isinstance(intent.cause, CloudUnavailable)
    if event.node.state == "STOPPED" and unanswered and event.at - intent.phase_since <= limits.unsure_s:
        return unchanged(seen(intent))
    error = intent.cause or WrongState(Text("The node {node} was not started.", node=event.node.name.node_id))
    return failed(intent, event.at, error, exists=intent_texts.node_exists(event.node))


def not_found(intent: Intent, event: NodeMissing, limits: Limits) -> Outcome:
    """Fail the intent, because there is no node to start."""
    intent, missing_s = missing_for(intent, event.at)
    # the earlier error and this response agree that the node is missing, so there is no need to wait
    if missing_s <= limits.vanished_s and not isinstance(intent.cause, NodeNotFound):
        return unchanged(intent)
    error = NodeNotFound(
        Text("There is no node {node} in {zone}.", node=intent.node_name.node_id, zone=intent.node_name.zone)
    )
    hint = "`jupyter tpu list` lists the existing nodes."
    return failed(intent, event.at, error, exists="Nothing was started.", hint=hint, actions=(refresh(),))


TABLE: Table = {
    ("requested", Started): send_request,
    ("requested", Resumed): close_unasked,
    ("asking", Accepted): accepted,
    ("asking", Refused): unsure,
    ("asking", Unanswered): unsure,
    ("asking", Resumed): recheck,
    ("checking", Resumed): continue_polling,
    ("checking", NodeSeen): found,
    ("checking", NodeMissing): not_found,
    ("checking", NoAnswer): to_ready.silent,
    **to_ready.table(STARTING),
}
