"""Recreate a pre-empted node if its user has turned on auto-recovery.

`decide` takes the stored `Recovery` and the current observation, and returns the next `Recovery` and the request to
send. The caller saves the `Recovery` before it sends the request. A node that someone stopped or deleted is not
recreated. An on-demand node that disappears counts as deleted: the user may have deleted it in the Cloud console.

    watching → clearing (the leftover is deleted) → waiting → making → watching
       └──────────────────────────────────────────┴─ off, given_up
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from jupyter_tpu.autostop import DEFAULT_DELETE_RULES
from jupyter_tpu.durations import duration_text
from jupyter_tpu.errors import (
    ApiDisabled,
    BadInput,
    BudgetExceeded,
    NodeExists,
    NotAllowlisted,
    PermissionDenied,
    Text,
    TpuError,
    WrongState,
)
from jupyter_tpu.lifecycle.actions import CreateNode, DeleteNode
from jupyter_tpu.lifecycle.intents import Intent
from jupyter_tpu.lifecycle.recovery_state import (
    ATTEMPT_LABEL,
    CancelAttempt,
    DeleteQueued,
    Observation,
    Phase,
    Recovery,
    Step,
    is_lost,
    is_preemptible,
    spec_of,
    watching_text,
)
from jupyter_tpu.lifecycle.time_limits import Limits
from jupyter_tpu.models import Node, QueuedResource

# delays before the first attempt, the second, …; the last delay also applies to all further attempts. Our choice: they
# grow, so that a long stock-out costs few requests.
_DELAYS_S = (0.0, 60.0, 300.0, 900.0)
# delay before repeating a deletion request: longer than one request takes, so that a deletion in progress is not
# requested in every pass
_ASK_AGAIN_S = 15.0
# A recreated node that is lost earlier than this is lost soon. A loop of such losses must end even if the user is away.
# Losses after that need no limit: by then, auto-stop would by default have deleted a node that nobody uses.
_SOON_S = DEFAULT_DELETE_RULES.idle_after_s or 0.0
_HALTED = frozenset({"STOPPED", "STOPPING"})
# permanent errors, which a retry can't fix
_HOPELESS = (BadInput, BudgetExceeded, PermissionDenied, ApiDisabled, NotAllowlisted)


def decide(recovery: Recovery, seen: Observation, limits: Limits) -> Step:
    """Return the next state and request. If there is nothing to do, return `recovery` unchanged and no request."""
    if not recovery.is_on or recovery.phase in ("off", "given_up"):
        return recovery, None
    # check this in any phase: a node whose deletion was requested must never be recreated
    if seen.deletion is not None:
        return turned_off_by_deletion(recovery, seen.at), _late_attempt(recovery, seen.deletion, seen.making)
    match recovery.phase:
        case "clearing":
            return _clearing(recovery, seen)
        case "waiting":
            return _waiting(recovery, seen)
        case "making":
            return _making(recovery, seen, limits)
    return _watching(recovery, seen, limits)


def turned_off_by_deletion(recovery: Recovery, at: float) -> Recovery:
    """Return the state after the user or a budget requested the node's deletion; `at` is in Unix seconds."""
    message = Text("{node} was deleted on purpose, so it will not be recreated.", node=_id(recovery))
    return _moved(replace(recovery, is_on=False), "off", message, at)


def refused(recovery: Recovery, error: TpuError, at: float) -> Recovery:
    """Return the state after the fleet rejected the latest attempt: given up, or with a time for the next attempt."""
    if isinstance(error, _HOPELESS):
        return _given_up(
            recovery, at, Text("{node} will not be recreated: {message}", node=_id(recovery), message=error.message)
        )
    if isinstance(error, NodeExists | WrongState):  # another intent is changing that node
        return replace(recovery, retry_at=at + _ASK_AGAIN_S)
    return replace(recovery, retry_at=at + _ASK_AGAIN_S, message=f"{_being_made(recovery)} {error.message}")


# -- the phases


def _watching(recovery: Recovery, seen: Observation, limits: Limits) -> Step:
    node = seen.node
    if node is None:
        return _disappeared(recovery, seen) if seen.missing_s > limits.vanished_s else (recovery, None)
    # wait until the queued resource is SUSPENDED: before that, its deletion is rejected
    if recovery.is_queued and _is_being_suspended(seen.queued):
        return recovery, None
    if node.uid != recovery.uid:
        return _watch(recovery, node, seen.at), None
    if node.state == "READY":
        return (recovery if recovery.was_ready else replace(recovery, was_ready=True)), None
    # A stop by us, or any stop of an on-demand node, is deliberate: don't recover from a later loss.
    if node.state in _HALTED and (seen.stop is not None or not is_preemptible(node)):
        return replace(recovery, was_ready=False), None
    if node.state == "DELETING":
        return _given_up(recovery, seen.at, _not_by_us(recovery, Text("is being deleted"))), None
    if recovery.was_ready and is_lost(node):
        return _clear(
            _lost(recovery, seen.at),
            seen.at,
            Text("{node} was pre-empted ({state}); deleting its leftovers.", node=_id(recovery), state=node.state),
        )
    return recovery, None


def _disappeared(recovery: Recovery, seen: Observation) -> Step:
    if not recovery.was_ready:
        message = Text(
            "{node} no longer exists and was not READY when last seen; it will not be recreated.", node=_id(recovery)
        )
        return _given_up(recovery, seen.at, message), None
    if recovery.is_queued and _is_being_suspended(seen.queued):
        return recovery, None
    was_on_purpose = recovery.is_queued and _was_by_user(seen.queued)
    if not seen.is_witnessed:
        message = Text(
            "{node} was stopped or deleted while unmonitored, possibly by its own guard. It will not be recreated.",
            node=_id(recovery),
        )
        return _given_up(recovery, seen.at, message), None
    if seen.was_deleted:
        return _given_up(recovery, seen.at, _not_by_us(recovery, Text("was deleted"))), None
    if not (recovery.spec.spot or recovery.spec.preemptible) or was_on_purpose:
        return _given_up(recovery, seen.at, _not_by_us(recovery, Text("has disappeared"))), None
    recovery = _lost(recovery, seen.at)
    if recovery.is_queued:
        message = Text("{node} was pre-empted and no longer exists; deleting its queued resource.", node=_id(recovery))
        return _unqueue(_moved(recovery, "clearing", message, seen.at), seen)
    return _next_attempt(recovery, seen, Text("{node} was pre-empted and no longer exists.", node=_id(recovery)))


def _lost(recovery: Recovery, at: float) -> Recovery:
    """Start counting the attempts again after a loss."""
    is_soon = recovery.attempts > 0 and at - recovery.since < _SOON_S
    short_runs = recovery.short_runs + 1 if is_soon else 0
    return replace(recovery, earlier_attempts=recovery.attempts, short_runs=short_runs)


def _clearing(recovery: Recovery, seen: Observation) -> Step:
    node = seen.node
    if node is None and recovery.is_queued and seen.queued is not None:
        return _unqueue(recovery, seen)
    if node is None:
        cleared = replace(recovery, is_queued=False)
        return _next_attempt(cleared, seen, Text("The leftovers of {node} are deleted.", node=_id(recovery)))
    # never delete another node with this name or a node that is READY again
    if node.uid != recovery.uid or node.state == "READY":
        return _watch(recovery, node, seen.at), None
    if node.state == "DELETING" or 0 <= seen.at - recovery.asked_at < _ASK_AGAIN_S:
        return recovery, None
    return _clear(recovery, seen.at, recovery.message)


def _unqueue(recovery: Recovery, seen: Observation) -> Step:
    """Delete a queued resource whose node is gone, because it uses quota and its name can't be reused."""
    queued = seen.queued
    if queued is None or not queued.is_leftover or 0 <= seen.at - recovery.asked_at < _ASK_AGAIN_S:
        return recovery, None
    return replace(recovery, asked_at=seen.at), DeleteQueued(queued.name)


def _is_being_suspended(queued: QueuedResource | None) -> bool:
    """Return whether the cloud is still deleting the nodes of a pre-empted queued resource."""
    return queued is not None and queued.state == "SUSPENDING"


def _was_by_user(queued: QueuedResource | None) -> bool:
    """Return whether a user deleted the node of a queued resource, or the queued resource with its node."""
    if queued is None or not queued.is_leftover:
        return True
    return queued.state == "SUSPENDED" and not queued.is_reclaimed


def _waiting(recovery: Recovery, seen: Observation) -> Step:
    if seen.node is not None:
        return _watch(recovery, seen.node, seen.at), None
    if seen.at < recovery.retry_at:
        return recovery, None
    if _is_over_cap(recovery, seen):
        return _too_dear(recovery, seen), None
    begun = replace(recovery, attempts=recovery.attempts + 1)
    return _moved(begun, "making", _being_made(begun), seen.at, retry_at=seen.at), _create(begun)


def _making(recovery: Recovery, seen: Observation, limits: Limits) -> Step:
    intent = seen.making
    if intent is None:
        return _not_begun(recovery, seen)
    if not intent.settled:
        return recovery, None
    if intent.succeeded:
        return _made(recovery, seen, limits)
    if not intent.asked_at:  # the process exited before it sent the request, so this doesn't count as an attempt
        recovery = replace(recovery, attempts=recovery.attempts - 1)
    why = intent.error.message if intent.error else intent.message
    if seen.node is not None and seen.node.intent_id == intent.intent_id:
        return _half_made(recovery, seen.node, seen.at, why)
    if isinstance(intent.error, _HOPELESS):
        return _given_up(
            recovery, seen.at, Text("{node} will not be recreated: {why}", node=_id(recovery), why=why)
        ), None
    return _next_attempt(recovery, seen, why)


def _not_begun(recovery: Recovery, seen: Observation) -> Step:
    if seen.node is not None:
        return _watch(recovery, seen.node, seen.at), None
    return (recovery, None) if seen.at < recovery.retry_at else (recovery, _create(recovery))


def _made(recovery: Recovery, seen: Observation, limits: Limits) -> Step:
    if seen.node is None:
        gone = replace(recovery, was_ready=True)
        return _disappeared(gone, seen) if seen.missing_s > limits.vanished_s else (recovery, None)
    made = replace(recovery, uid=seen.node.uid, was_ready=True)
    return _moved(
        made,
        "watching",
        Text("{node} was recreated ({attempt}).", node=_id(recovery), attempt=recovery.attempt_text),
        seen.at,
    ), None


def _half_made(recovery: Recovery, node: Node, at: float, why: str) -> Step:
    # `was_ready` is True, because the previous node was READY and the attempts continue
    leftover = replace(recovery, uid=node.uid, was_ready=True)
    return _clear(leftover, at, Text("{why} Deleting the leftovers of {node}.", why=why, node=_id(recovery)))


def _next_attempt(recovery: Recovery, seen: Observation, why: str) -> Step:
    """Schedule the next attempt, or give up. Called when the node's name is available again."""
    if recovery.short_runs >= recovery.max_attempts:
        message = Text(
            "{why} The node will not be recreated again: each time, it was lost within {duration} (limit: {most} in a"
            " row).",
            why=why,
            duration=duration_text(_SOON_S),
            most=recovery.max_attempts,
        )
        return _given_up(recovery, seen.at, message), None
    if recovery.attempt_number >= recovery.max_attempts:
        message = Text(
            "{why} The node will not be recreated: {attempts} of {most} attempts are used up.",
            why=why,
            attempts=recovery.attempt_number,
            most=recovery.max_attempts,
        )
        return _given_up(recovery, seen.at, message), None
    if _is_over_cap(recovery, seen):
        return _too_dear(recovery, seen), None
    delay_s = _DELAYS_S[min(recovery.attempt_number + recovery.short_runs, len(_DELAYS_S) - 1)]
    coming = Text("attempt {attempt} of {most}", attempt=recovery.attempt_number + 1, most=recovery.max_attempts)
    when = Text("in {seconds} s", seconds=f"{delay_s:.0f}") if delay_s else Text("now")
    return _moved(
        recovery,
        "waiting",
        Text("{why} The node will be recreated {when} ({coming}).", why=why, when=when, coming=coming),
        seen.at,
        retry_at=seen.at + delay_s,
    ), None


def _clear(recovery: Recovery, at: float, message: str) -> Step:
    return _moved(recovery, "clearing", message, at, asked_at=at), DeleteNode(recovery.name)


def _create(recovery: Recovery) -> CreateNode:
    labels = {**recovery.spec.labels, ATTEMPT_LABEL: recovery.attempt}
    return CreateNode(replace(recovery.spec, labels=labels))


def _watch(recovery: Recovery, node: Node, at: float) -> Recovery:
    """Apply the setting to a new node with the same name, which the user created after the old node was lost."""
    watched = replace(recovery, uid=node.uid, was_ready=node.state == "READY", is_queued=False, spec=spec_of(node))
    return _moved(watched, "watching", watching_text(watched), at)


def _late_attempt(recovery: Recovery, deletion: Intent, attempt: Intent | None) -> CancelAttempt | None:
    """Cancel an attempt that the deletion didn't, because the attempt was saved after the deletion had finished."""
    is_late = deletion.settled and attempt is not None and not attempt.settled
    return CancelAttempt(recovery.name) if is_late else None


# -- end of a recovery, and its messages


def _is_over_cap(recovery: Recovery, seen: Observation) -> bool:
    """Return whether the cost has reached the cap. An unknown cost counts as above the cap."""
    return recovery.max_usd is not None and (seen.spent_usd is None or seen.spent_usd >= recovery.max_usd)


def _too_dear(recovery: Recovery, seen: Observation) -> Recovery:
    spent = Text("an unknown amount") if seen.spent_usd is None else f"${seen.spent_usd:,.2f}"
    message = Text(
        "{node} will not be recreated: it has cost {spent}, and the cap is ${cap}.",
        node=_id(recovery),
        spent=spent,
        cap=f"{recovery.max_usd:,.2f}",
    )
    return _given_up(recovery, seen.at, message)


def _given_up(recovery: Recovery, at: float, message: str) -> Recovery:
    return _moved(recovery, "given_up", message, at)


def _moved(recovery: Recovery, phase: Phase, message: str, at: float, **changes: Any) -> Recovery:
    since = recovery.since if phase == recovery.phase else at
    return replace(recovery, phase=phase, message=message, since=since, **changes)


def _id(recovery: Recovery) -> str:
    return recovery.name.node_id


def _being_made(recovery: Recovery) -> str:
    return Text("{node} is being recreated ({attempt}).", node=_id(recovery), attempt=recovery.attempt_text)


def _not_by_us(recovery: Recovery, what: str) -> str:
    """Return a message: the node is not recreated, because someone may have stopped or deleted it on purpose."""
    name = recovery.name
    return Text(
        "{node} {what}, and jupyter_tpu did not request this. Someone may have done this on purpose, so the node is not"
        " recreated. Create it again if you need it.",
        node=name.node_id,
        what=what,
    )
