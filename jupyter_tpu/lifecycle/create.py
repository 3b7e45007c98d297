"""Create a node: send one request. If the response is lost, identify the node by its label.

A second request could create and bill a second node, so a request without a response is never repeated. Instead, the
phase `checking` looks for the node.
"""

from __future__ import annotations

from jupyter_tpu.error_actions import delete_node
from jupyter_tpu.errors import CloudUnavailable, NodeExists, Text, TpuError
from jupyter_tpu.lifecycle import intent_texts, to_ready
from jupyter_tpu.lifecycle.actions import CreateNode
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
from jupyter_tpu.lifecycle.outcomes import Outcome, Table, continue_polling, failed, missing_for, moved, unchanged
from jupyter_tpu.lifecycle.time_limits import Limits

PROVISIONING = "provisioning"


def send_request(intent: Intent, event: Started, limits: Limits) -> Outcome:
    """Request the node."""
    if intent.spec is None:
        raise ValueError(f"the intent {intent.intent_id} to create a node has no spec")
    asking = moved(intent, event.at, "asking", Text("Requesting the node from the cloud."), asked_at=event.at)
    return asking, (CreateNode(intent.spec),)


def close_unasked(intent: Intent, event: Resumed, limits: Limits) -> Outcome:
    """Mark an intent as failed if its process exited before it sent the request: the node may no longer be wanted."""
    error = TpuError(Text("jupyter_tpu exited before it requested the node {node}.", node=intent.node_name.node_id))
    return failed(
        intent, event.at, error, exists=intent_texts.NOTHING_CREATED, hint="Create the node again if you still need it."
    )


def accepted(intent: Intent, event: Accepted, limits: Limits) -> Outcome:
    """Track the operation that the cloud has started."""
    # the response has the operation's first state, which may already be a failure
    begun = moved(
        intent, event.at, PROVISIONING, Text("The cloud is creating the node."), operation=event.operation.name
    )
    return to_ready.operation_seen(begun, OperationSeen(at=event.at, operation=event.operation), limits)


def refused(intent: Intent, event: Refused, limits: Limits) -> Outcome:
    """Fail the intent. If the node exists, first check whether an earlier request of this intent created it."""
    if isinstance(event.error, NodeExists):
        message = Text("A node with that name exists; checking whether this request created it.")
        return moved(intent, event.at, "checking", message, cause=event.error), ()
    return failed(intent, event.at, event.error, exists=intent_texts.NOTHING_CREATED)


def unanswered(intent: Intent, event: Unanswered, limits: Limits) -> Outcome:
    """Check whether the node exists, because the create request got no response."""
    message = Text("The cloud did not respond; checking whether the node was created.")
    return moved(intent, event.at, "checking", message, cause=event.error), ()


def recheck(intent: Intent, event: Resumed, limits: Limits) -> Outcome:
    """Look for the node, because the previous process may have requested it."""
    return moved(intent, event.at, "checking", Text("Resumed; checking whether the node was created.")), ()


def found(intent: Intent, event: NodeSeen, limits: Limits) -> Outcome:
    """Track the node if it has our label. A node without the label was created by someone else."""
    # compare the label with the intent's ID, so that a node from an earlier intent of the user does not count as ours
    if event.node.intent_id == intent.intent_id:
        adopted = moved(
            intent, event.at, PROVISIONING, Text("The node was created; waiting until it is READY."), cause=None
        )
        return to_ready.node_seen(adopted, event, limits)
    error = NodeExists(
        Text("{zone} already has a node named {node}.", node=intent.node_name.node_id, zone=intent.node_name.zone),
        raw=intent.cause.raw if intent.cause else "",
    )
    hint = Text(
        "Choose another name, or delete that node with {command}.",
        command=intent_texts.command("delete", intent.node_name),
    )
    exists, actions = intent_texts.node_exists(event.node), (delete_node(intent.node_name),)
    return failed(intent, event.at, error, exists=exists, hint=hint, actions=actions)


def not_found(intent: Intent, event: NodeMissing, limits: Limits) -> Outcome:
    """Fail the intent if the cloud has had enough time to list the node."""
    intent, missing_s = missing_for(intent, event.at)
    # lists may be out of date, so the node may still appear
    if missing_s <= limits.unsure_s:
        return unchanged(intent)
    error = intent.cause or CloudUnavailable(Text("The node {node} was not created.", node=intent.node_name.node_id))
    return failed(
        intent, event.at, error, exists=intent_texts.NOTHING_CREATED, hint="Create the node again if you still need it."
    )


TABLE: Table = {
    ("requested", Started): send_request,
    ("requested", Resumed): close_unasked,
    ("asking", Accepted): accepted,
    ("asking", Refused): refused,
    ("asking", Unanswered): unanswered,
    ("asking", Resumed): recheck,
    ("checking", Resumed): continue_polling,
    ("checking", NodeSeen): found,
    ("checking", NodeMissing): not_found,
    ("checking", NoAnswer): to_ready.silent,
    **to_ready.table(PROVISIONING),
}
