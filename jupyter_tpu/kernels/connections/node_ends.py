"""Determine why a node is gone, from the journal's intents, auto-recovery and the node's state in the cloud.

The journal is imported only where it is read, so that a kernel on an existing node doesn't wait for the import.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from jupyter_tpu.error_actions import recreate_node, start_node
from jupyter_tpu.errors import Action, TpuError
from jupyter_tpu.kernels.connections.preemption import recovery_setting
from jupyter_tpu.models import Node, NodeName, NodeSpec, QueuedResource
from jupyter_tpu.node_end import Cause, EndCause, NodeEnd
from jupyter_tpu.provisioning import can_start_again, flags_of

if TYPE_CHECKING:
    from jupyter_tpu.cloud.api import CloudApi
    from jupyter_tpu.lifecycle.intents import Intent
    from jupyter_tpu.lifecycle.recovery_state import Recovery

RISING = frozenset({"CREATING", "STARTING"})
"""The states before a node is READY. Kernels of a node in such a state ran on its predecessor."""

_TAKEN = frozenset({"PREEMPTED", "TERMINATED"})
_SUSPENDED = frozenset({"SUSPENDING", "SUSPENDED"})
_COMES_BACK = frozenset({"REIMAGING", "REPAIRING", "RESTARTING"})


def end_of_node(
    endpoint: str,
    name: NodeName,
    node: Node | None,
    at: float,
    *,
    is_another: bool = False,
    queued: QueuedResource | None = None,
) -> NodeEnd:
    """Return how and why the node was stopped or deleted, and what users of its kernels can do. Blocks on the disk.

    Args:
        node: the node's current state in the cloud; None if it doesn't exist.
        at: when the termination was noticed (Unix seconds); used if no recorded termination has a time.
        is_another: whether `node` is a newer node with the same name.
        queued: the queued resource that was suspended with the node, if any.
    """
    intents, choice = _intents_about(endpoint, name), recovery_setting(endpoint, name)
    is_replaced = is_another or (node is not None and node.state in RISING)
    is_left = node is not None and not is_replaced and node.state != "DELETING"
    own = None if choice and choice.is_being_recreated else _request(intents, is_replaced=is_replaced)
    if own:
        why = own.because or EndCause(cause="delete" if own.verb == "delete" else "stop")
        at, is_deleted = own.created_at, own.verb == "delete"
    else:
        was_preempted = queued is not None and queued.was_preempted
        cause: Cause = "preempted" if was_preempted else _cause_in_cloud(node, choice, is_another)
        why, is_deleted = EndCause(cause=cause), not is_left
    actions = _actions(name, node if is_left else None, intents, queued)
    return NodeEnd(node=name, why=why, at=at, is_deleted=is_deleted, actions=actions)


async def suspended_with(cloud: CloudApi, name: NodeName) -> QueuedResource | None:
    """Return the node's queued resource if the cloud has suspended it, or None.

    When a node of a queued resource is pre-empted, it is deleted and never enters the state PREEMPTED. Only the
    suspension distinguishes a pre-emption from a deletion by someone else.
    """
    try:
        listed = await cloud.list_queued_resources(name.zone)
    except TpuError:  # report the end of the node even if its reason is unknown
        return None
    return next((each for each in listed.items if name.node_id in each.node_ids and each.state in _SUSPENDED), None)


def _intents_about(endpoint: str, name: NodeName) -> tuple[Intent, ...]:
    """Return all intents for the node, newest first; nothing if the journal cannot be read."""
    from jupyter_tpu.journal.journal import FILE_NAME, Journal
    from jupyter_tpu.journal.paths import journal_dir

    try:
        folder = journal_dir(endpoint)
        if not (folder / FILE_NAME).exists():
            return ()
        with closing(Journal.open(folder)) as journal:
            return journal.intents_about(name, endpoint=endpoint, since=0.0)
    except TpuError:  # report the end of the node even if its reason is unknown
        return ()


def _request(intents: tuple[Intent, ...], *, is_replaced: bool) -> Intent | None:
    """Return the request that stopped or deleted the node, or None if there was no such request.

    Args:
        is_replaced: whether the newest intent is for another node with the same name.
    """
    newest = intents[1:] if is_replaced and intents and intents[0].verb in ("create", "start") else intents
    asked = bool(newest) and newest[0].verb in ("stop", "delete") and newest[0].error is None
    return newest[0] if asked else None


def _cause_in_cloud(node: Node | None, choice: Recovery | None, is_another: bool) -> Cause:
    """Return why the node is gone, according to its state in the cloud. Used if no recorded request explains it."""
    if _was_preempted(node, choice, is_another):
        return "preempted"
    return "repair" if node is not None and not is_another and node.state in _COMES_BACK else "unknown"


def _was_preempted(node: Node | None, choice: Recovery | None, is_another: bool) -> bool:
    from jupyter_tpu.lifecycle.recovery_state import is_lost

    if choice is not None and (choice.is_being_recreated or choice.phase == "given_up"):
        return True
    if is_another:
        return choice is not None and choice.attempts > 0
    return node is not None and (node.state in _TAKEN or is_lost(node))


def _actions(
    name: NodeName, left: Node | None, intents: tuple[Intent, ...], queued: QueuedResource | None
) -> tuple[Action, ...]:
    """Return the actions that restore the node: start it, or open the creation form with its options.

    Args:
        left: the node if it still exists, else None.
    """
    if left is not None and left.state in _COMES_BACK:  # the node will restart automatically
        return ()
    if left is not None and left.state not in _TAKEN and can_start_again(left.provisioning):
        return (start_node(name),)
    spec = _spec(name, left, intents, queued)
    return (recreate_node(spec, is_name_free=left is None),) if spec else ()


def _spec(
    name: NodeName, left: Node | None, intents: tuple[Intent, ...], queued: QueuedResource | None
) -> NodeSpec | None:
    from jupyter_tpu.lifecycle.recovery_state import spec_of

    known = spec_of(left) if left else next((intent.spec for intent in intents if intent.spec), None)
    if known or queued is None:
        return known
    return NodeSpec(
        name=name,
        accelerator_type=queued.accelerator_type,
        runtime_version=queued.runtime_version,
        **flags_of(queued.provisioning),
    )
