"""Track a node until it is READY and has published its host keys. Used for creating and starting nodes.

The result depends on the node's state, not on the operation, because a create operation sometimes stays unfinished long
after the node is READY. The operation is read only to detect a failure and its reason early.
"""

from __future__ import annotations

from dataclasses import replace

from jupyter_tpu.error_actions import delete_node, elsewhere, start_node
from jupyter_tpu.errors import (
    Action,
    CloudUnavailable,
    NodeNotFound,
    OutOfCapacity,
    Text,
    TpuError,
    WorkerUnreachable,
    WrongState,
)
from jupyter_tpu.lifecycle import intent_texts
from jupyter_tpu.lifecycle.intent_events import KeysSeen, NoAnswer, NodeMissing, NodeSeen, OperationSeen, Resumed
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
from jupyter_tpu.models import Node

ROLLING_BACK = "rolling_back"
BOOTING = "booting"
READY = "ready"

_LOST = frozenset({"PREEMPTED", "TERMINATED"})
_HALTED = frozenset({"STOPPING", "STOPPED"})
_GONE = "The node no longer exists; nothing is billed."


def node_seen(intent: Intent, event: NodeSeen, limits: Limits) -> Outcome:
    """Advance the intent according to the node's state: READY, lost, stopped, or still being created or started."""
    intent = seen(intent)
    state = event.node.state
    if state == "READY":
        message = Text("The node is READY; its workers are booting.")
        return moved(intent, event.at, BOOTING, message, operation="", cause=None), ()
    if state in _LOST:
        return failed(intent, event.at, _preempted(event.node), exists=intent_texts.node_exists(event.node))
    if state in _HALTED:
        return _halted(intent, event, limits)
    return _coming(intent, event, limits)


def _coming(intent: Intent, event: NodeSeen, limits: Limits) -> Outcome:
    exists = intent_texts.node_exists(event.node)
    hint, actions = intent_texts.delete_hint(event.node.name), (delete_node(event.node.name),)
    # the operation failed, but the cloud did not remove the node: the user must delete it
    if intent.phase == ROLLING_BACK and event.at - intent.phase_since > limits.unsure_s:
        return failed(intent, event.at, _cause(intent), exists=exists, hint=hint, actions=actions)
    if event.at - intent.asked_at > limits.create_s:
        return failed(intent, event.at, _too_late(intent, limits), exists=exists, hint=hint, actions=actions)
    if intent.phase == ROLLING_BACK:
        return intent, ()
    return moved(intent, event.at, intent.phase, Text("The node is {state}.", state=event.node.state)), ()


def _halted(intent: Intent, event: NodeSeen, limits: Limits) -> Outcome:
    """Fail the intent of a stopped node, unless a requested start may still take effect."""
    # a start with a running operation gets the time limit of a creation; without an operation, wait only until lists
    # must be up to date
    waiting = intent.verb == "start" and intent.phase != BOOTING and intent.cause is None
    if waiting and event.at - intent.phase_since <= (limits.create_s if intent.operation else limits.unsure_s):
        return unchanged(intent)
    name = event.node.name
    node_id, state = name.node_id, event.node.state
    error = intent.cause or WrongState(
        Text("The node {node} was stopped while it was booting ({state}).", node=node_id, state=state)
        if intent.phase == BOOTING
        else Text("The node {node} is {state} and will not become READY.", node=node_id, state=state)
    )
    hint = error.hint or Text(
        "Start the node with {command}, or delete it.", command=intent_texts.command("start", name)
    )
    actions = error.actions or (start_node(name), delete_node(name))
    return failed(intent, event.at, error, exists=intent_texts.node_exists(event.node), hint=hint, actions=actions)


def node_missing(intent: Intent, event: NodeMissing, limits: Limits) -> Outcome:
    """Determine whether the node was rolled back, has disappeared or is not listed yet."""
    intent, missing_s = missing_for(intent, event.at)
    if intent.phase == ROLLING_BACK:
        exists = intent_texts.NOTHING_CREATED if intent.verb == "create" else _GONE
        hint, actions = _after_stock_out(intent)
        return failed(intent, event.at, _cause(intent), exists=exists, hint=hint, actions=actions)
    if missing_s <= _patience(intent, limits):
        return unchanged(intent)
    error = NodeNotFound(Text("The node {node} disappeared before it could be used.", node=intent.node_name.node_id))
    return failed(intent, event.at, error, exists=_GONE, hint="Create the node again if you did not delete it.")


def _patience(intent: Intent, limits: Limits) -> float:
    # a node that has been READY was already listed, so if it is missing now, it is almost certainly gone
    if intent.phase == BOOTING:
        return limits.vanished_s
    return limits.create_s if intent.operation else limits.unsure_s


def operation_seen(intent: Intent, event: OperationSeen, limits: Limits) -> Outcome:
    """If the operation failed, check for leftovers of the node. If it succeeded, wait for the node's next state."""
    if event.operation.error is not None:
        message = Text("{message} Checking for leftovers of the node.", message=event.operation.error.message)
        return moved(intent, event.at, ROLLING_BACK, message, operation="", cause=event.operation.error), ()
    if event.operation.done:
        return replace(intent, operation="", phase_since=event.at), ()
    return unchanged(intent)


def keys_seen(intent: Intent, event: KeysSeen, limits: Limits) -> Outcome:
    """Finish when all host keys are published, because SSH connections require them."""
    if event.published:
        return done(intent, event.at, READY, Text("The node is ready."))
    # decide only after a new read of the keys: after this computer's sleep, the last read may be older than the limit
    if event.node.state != "READY" or event.at - intent.phase_since <= limits.boot_s:
        return unchanged(intent)
    error = WorkerUnreachable(
        Text(
            "The node {node} is READY, but its workers published no SSH host keys within {minutes} minutes.",
            node=event.node.name.node_id,
            minutes=round(limits.boot_s / 60),
        )
    )
    name = event.node.name
    hint, actions = intent_texts.delete_hint(name), (delete_node(name),)
    return failed(intent, event.at, error, exists=intent_texts.node_exists(event.node), hint=hint, actions=actions)


def silent(intent: Intent, event: NoAnswer, limits: Limits) -> Outcome:
    """Keep polling, because a missing response contains no information about the node."""
    return moved(intent, event.at, intent.phase, Text("{message} Trying again.", message=event.error.message)), ()


def _after_stock_out(intent: Intent) -> tuple[str, tuple[Action, ...]]:
    """Return the hint and actions after a stock-out; after any other failure, an empty hint and no actions."""
    if intent.spec is None or not isinstance(intent.cause, OutOfCapacity):
        return "", ()
    return intent_texts.elsewhere_hint(intent.spec), elsewhere(intent.spec, queue=True)


def _cause(intent: Intent) -> TpuError:
    return intent.cause or CloudUnavailable(
        Text("The node {node} did not become READY.", node=intent.node_name.node_id)
    )


def _preempted(node: Node) -> TpuError:
    return OutOfCapacity(
        Text(
            "The node {node} was pre-empted before it could be used ({state}).",
            node=node.name.node_id,
            state=node.state,
        ),
        hint=Text(
            "The node cannot be used again: delete it with {command} and create another one.",
            command=intent_texts.command("delete", node.name),
        ),
        actions=(delete_node(node.name),),
    )


def _too_late(intent: Intent, limits: Limits) -> TpuError:
    return CloudUnavailable(
        Text(
            "The node {node} did not become READY within {minutes} minutes.",
            node=intent.node_name.node_id,
            minutes=round(limits.create_s / 60),
        )
    )


def table(coming: str) -> Table:
    """Return the transitions that apply once the cloud has accepted the request to create or start a node.

    `coming` is the phase until the node is created or started.
    """
    common: Table = {
        (phase, event): act
        for phase in (coming, ROLLING_BACK, BOOTING)
        for event, act in (
            (Resumed, continue_polling),
            (NodeSeen, node_seen),
            (NodeMissing, node_missing),
            (NoAnswer, silent),
        )
    }
    return {**common, (coming, OperationSeen): operation_seen, (BOOTING, KeysSeen): keys_seen}
