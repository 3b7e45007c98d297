"""Create a node: asked for once and never again, adopted by its label when the answer got lost."""

from __future__ import annotations

from jupyter_tpu.errors import CloudUnavailable, NodeExists, TpuError
from jupyter_tpu.lifecycle import rising, words
from jupyter_tpu.lifecycle.actions import CreateNode
from jupyter_tpu.lifecycle.events import (
    Asked,
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
from jupyter_tpu.lifecycle.outcomes import Outcome, Table, failed, go_on, missing_for, moved, unchanged

PROVISIONING = "provisioning"


def ask(intent: Intent, event: Taken, limits: Limits) -> Outcome:
    """Ask for the node."""
    if intent.spec is None:
        raise ValueError(f"the intent {intent.intent_id} to create a node does not say which")
    return moved(intent, event.at, "asking", "Asking for the node.", asked_at=event.at), (CreateNode(intent.spec),)


def close_unasked(intent: Intent, event: Resumed, limits: Limits) -> Outcome:
    """Nobody asked for it before the process died; its user may no longer want it, so it is not asked for now."""
    error = TpuError(f"jupyter_tpu ended before it asked for the node {intent.node_name.node_id}.")
    return failed(intent, event.at, error, exists=words.NOTHING_CREATED, hint="Create it again if you still want it.")


def accepted(intent: Intent, event: Asked, limits: Limits) -> Outcome:
    """The cloud has begun."""
    begun = moved(intent, event.at, PROVISIONING, "The cloud is making the node.", operation=event.operation.name)
    return rising.operation_seen(begun, OperationSeen(at=event.at, operation=event.operation), limits)


def refused(intent: Intent, event: Refused, limits: Limits) -> Outcome:
    """Nothing was made, unless the refusal says that it was made before."""
    if isinstance(event.error, NodeExists):
        return moved(intent, event.at, "checking", "A node of that name exists; looking whose.", cause=event.error), ()
    return failed(intent, event.at, event.error, exists=words.NOTHING_CREATED)


def unanswered(intent: Intent, event: Unanswered, limits: Limits) -> Outcome:
    """It may have been made."""
    message = "The cloud did not answer; looking whether the node was made."
    return moved(intent, event.at, "checking", message, cause=event.error), ()


def recheck(intent: Intent, event: Resumed, limits: Limits) -> Outcome:
    """It may have been asked for by the process that ended."""
    return moved(intent, event.at, "checking", "Taken up again; looking whether the node was made."), ()


def found(intent: Intent, event: NodeSeen, limits: Limits) -> Outcome:
    """Adopt the node that carries our label; any other is somebody else's."""
    if event.node.intent_id == intent.intent_id:
        adopted = moved(intent, event.at, PROVISIONING, "The node was made; it is taken over.", cause=None)
        return rising.node_seen(adopted, event, limits)
    error = NodeExists(
        f"The name {intent.node_name.node_id} is taken in {intent.node_name.zone}.",
        raw=intent.cause.raw if intent.cause else "",
    )
    hint = f"Choose another name, or delete that node with {words.command('delete', intent.node_name)}."
    return failed(intent, event.at, error, exists=words.node_exists(event.node), hint=hint)


def not_found(intent: Intent, event: NodeMissing, limits: Limits) -> Outcome:
    """Not made, once the cloud has had time to list it."""
    intent, missing_s = missing_for(intent, event.at)
    if missing_s <= limits.unsure_s:
        return unchanged(intent)
    error = intent.cause or CloudUnavailable(f"The node {intent.node_name.node_id} was not created.")
    return failed(intent, event.at, error, exists=words.NOTHING_CREATED, hint="Create it again if you still want it.")


TABLE: Table = {
    ("requested", Taken): ask,
    ("requested", Resumed): close_unasked,
    ("asking", Asked): accepted,
    ("asking", Refused): refused,
    ("asking", Unanswered): unanswered,
    ("asking", Resumed): recheck,
    ("checking", Resumed): go_on,
    ("checking", NodeSeen): found,
    ("checking", NodeMissing): not_found,
    ("checking", Silent): rising.silent,
    **rising.table(PROVISIONING),
}
