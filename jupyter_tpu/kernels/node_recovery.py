"""Check whether auto-recovery is recreating a lost kernel's node, so that the kernel can wait for the node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from jupyter_tpu.kernels.connections.preemption import recovery_setting
from jupyter_tpu.kernels.connections.worker import WorkerKey, alias_of_uid
from jupyter_tpu.kernels.kernel_host import Loss

if TYPE_CHECKING:
    from jupyter_tpu.lifecycle.recovery_state import Recovery

RecoveryProgress = Literal["no", "coming", "ready"]

_SEEN_S = 300.0
"""Seconds in which auto-recovery must detect the loss of a node; after that, the kernel stops waiting."""


def recovery_progress(key: WorkerKey, loss: Loss, now: float) -> RecoveryProgress:
    """Return auto-recovery's progress for the kernel's node. Blocks on the disk."""
    return progress_of(recovery_setting(key.endpoint, key.node), loss, key.worker_id, now)


def recovery_view(key: WorkerKey) -> dict[str, Any] | None:
    """Return auto-recovery's progress for the notebooks of a lost node, or None if it is off. Blocks on the disk."""
    choice = recovery_setting(key.endpoint, key.node)
    if choice is None or not choice.is_on:
        return None
    # before the phase `making`, the next attempt is not counted yet
    attempt = choice.attempts if choice.phase in ("making", "given_up") else choice.attempts + 1
    return {
        "attempt": min(attempt, choice.max_attempts),
        "max_attempts": choice.max_attempts,
        "has_given_up": choice.phase == "given_up",
        "message": choice.message,
    }


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
