"""Whether auto-recovery is recreating the node of a lost kernel, so that the kernel can wait for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from jupyter_tpu.kernels.connections.preemption import standing_choice
from jupyter_tpu.kernels.connections.worker import WorkerKey, alias_of_uid
from jupyter_tpu.kernels.kernel_host import Loss

if TYPE_CHECKING:
    from jupyter_tpu.lifecycle.recoveries import Recovery

Comeback = Literal["no", "coming", "ready"]

_SEEN_S = 300.0
"""Seconds within which auto-recovery must have noticed that a node is gone; after that the kernel waits no more."""


def comeback(key: WorkerKey, loss: Loss, now: float) -> Comeback:
    """Return how far the recovery of the kernel's node has got. Blocks on the disk."""
    return judge(standing_choice(key.endpoint, key.node), loss, key.worker_id, now)


def judge(choice: Recovery | None, loss: Loss, worker_id: int, now: float) -> Comeback:
    """Return how far the recovery has got, by the setting in the journal; None if there is none."""
    if choice is None or not choice.is_on:
        return "no"
    if choice.is_being_made:
        return "coming"
    # "watching" means that a node exists and is watched: the lost one, not noticed yet, or its successor.
    if choice.phase != "watching" or not choice.was_ready:
        return "no"
    if _is_another(choice, loss, worker_id):
        return "ready"
    return "coming" if now - loss.known_at < _SEEN_S else "no"


def _is_another(choice: Recovery, loss: Loss, worker_id: int) -> bool:
    """Return whether the node that auto-recovery watches now is another one than the lost one."""
    if not loss.was_on:
        return choice.since > loss.known_at
    return alias_of_uid(choice.uid, worker_id) != loss.was_on
