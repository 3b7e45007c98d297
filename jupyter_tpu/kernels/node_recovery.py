"""Check whether auto-recovery is recreating a lost kernel's node, so that the kernel can wait for the node."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Literal

from jupyter_tpu.kernels.connections.preemption import recovery_setting
from jupyter_tpu.kernels.connections.worker import WorkerKey, alias_of_uid
from jupyter_tpu.kernels.kernel_host import Loss
from jupyter_tpu.node_end import Cause

if TYPE_CHECKING:
    from jupyter_tpu.lifecycle.recovery_state import Recovery

RecoveryProgress = Literal["no", "coming", "ready"]

_MAY_RETURN: frozenset[Cause] = frozenset({"preempted", "unknown"})
"""The causes of an end after which auto-recovery recreates a node. Until it has noticed the loss, the cause of a spot
node that has disappeared is unknown.
"""

_SEEN_S = 300.0
"""Seconds in which auto-recovery must detect the loss of a node; after that, the kernel stops waiting."""


def recovery_progress(key: WorkerKey, loss: Loss, now: float) -> RecoveryProgress:
    """Return auto-recovery's progress for the kernel's node. Blocks on the disk."""
    return progress_of(recovery_setting(key.endpoint, key.node), loss, key.worker_id, now)


def recovery_view(key: WorkerKey, loss: Loss) -> dict[str, Any] | None:
    """Return auto-recovery's progress for the notebooks of a lost node; see `view_of`. Blocks on the disk."""
    return view_of(recovery_setting(key.endpoint, key.node), loss, key.worker_id, time.time())


def view_of(choice: Recovery | None, loss: Loss, worker_id: int, now: float) -> dict[str, Any] | None:
    """Return auto-recovery's progress in the form of the REST API; None if it does not recreate the lost node."""
    if choice is None or not choice.is_on or loss.end.why.cause not in _MAY_RETURN:
        return None
    has_given_up = choice.phase == "given_up"
    if not has_given_up and progress_of(choice, loss, worker_id, now) == "no":
        return None
    return {
        "attempt": min(max(_attempt(choice, loss, worker_id), 1), choice.max_attempts),
        "max_attempts": choice.max_attempts,
        "has_given_up": has_given_up,
        "message": choice.message,
    }


def _attempt(choice: Recovery, loss: Loss, worker_id: int) -> int:
    """Return the number of the attempt that is in progress, comes next, or has succeeded."""
    if choice.phase == "watching" and not _is_another(choice, loss, worker_id):
        return 1  # the loss hasn't been noticed yet, so the attempts are those of an earlier loss
    # before the phase `making`, the next attempt is not counted yet
    return choice.attempt_number + (choice.phase in ("clearing", "waiting"))


def progress_of(choice: Recovery | None, loss: Loss, worker_id: int, now: float) -> RecoveryProgress:
    """Return the progress of auto-recovery from its setting in the journal, or None if there is no recovery."""
    if choice is None or not choice.is_on:
        return "no"
    if choice.is_being_recreated:
        return "coming"
    # "watching" means that a node is watched: its successor, or the lost node if the loss hasn't been noticed yet.
    if choice.phase != "watching" or not choice.was_ready:
        return "no"
    if _is_another(choice, loss, worker_id):
        return "ready"
    return "coming" if now - loss.known_at < _SEEN_S else "no"


def _is_another(choice: Recovery, loss: Loss, worker_id: int) -> bool:
    """Return whether the auto-recovery setting belongs to a newer node with the same name as the lost node."""
    if not loss.host_key_alias:
        return choice.since > loss.known_at
    return alias_of_uid(choice.uid, worker_id) != loss.host_key_alias
