"""The results of a step: an intent that has advanced, is done, has failed or was cancelled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from jupyter_tpu.errors import Action, Text, TpuError
from jupyter_tpu.lifecycle.actions import Change
from jupyter_tpu.lifecycle.intent_events import Event, Resumed
from jupyter_tpu.lifecycle.intents import Intent
from jupyter_tpu.lifecycle.time_limits import Limits

Outcome = tuple[Intent, tuple[Change, ...]]
"""The intent to save, and the requests to send afterwards."""

Table = dict[tuple[str, type[Event]], Callable[[Intent, Any, Limits], Outcome]]
"""The handler that returns the outcome, by phase and kind of event."""


def moved(intent: Intent, at: float, phase: str, message: str, **changes: Any) -> Intent:
    """Return the intent with this phase. If the phase is the intent's current phase, `phase_since` stays the same."""
    since = intent.phase_since if phase == intent.phase else at
    return replace(intent, phase=phase, message=message, updated_at=at, phase_since=since, **changes)


def continue_polling(intent: Intent, event: Resumed, limits: Limits) -> Outcome:
    """Keep polling in a process that has taken over the intent. The intent's phase determines what to poll."""
    return moved(intent, event.at, intent.phase, intent.message), ()


def done(intent: Intent, at: float, phase: str, message: str) -> Outcome:
    """Settle the intent as successful."""
    return moved(intent, at, phase, message, settled=True, cause=None), ()


def failed(
    intent: Intent, at: float, error: TpuError, *, exists: str, hint: str = "", actions: Sequence[Action] = ()
) -> Outcome:
    """Settle the intent with an error.

    `exists` describes what remains in the cloud; `hint` and `actions` replace the error's hint and actions.
    """
    # use the same type: front ends recognize the kind of failure by its code
    full = type(error)(
        error.message, exists=exists, hint=hint or error.hint, raw=error.raw, actions=actions or error.actions
    )
    return moved(intent, at, "failed", str(full), settled=True, error=full, cause=None), ()


def cancelled(intent: Intent, at: float) -> Outcome:
    """Settle the intent as cancelled, because a newer intent stops or deletes the node."""
    message = Text("Cancelled: the node is being stopped or deleted.")
    return moved(intent, at, "cancelled", message, settled=True, cause=None), ()


def unchanged(intent: Intent) -> Outcome:
    """Return the intent unchanged, without requests."""
    return intent, ()


def missing_for(intent: Intent, at: float) -> tuple[Intent, float]:
    """Set `missing_since` if unset; return the intent and how long its node has been missing, in seconds."""
    # count from the first time, so that later checks do not restart the wait
    since = intent.missing_since or at
    return replace(intent, missing_since=since), at - since


def seen(intent: Intent) -> Intent:
    """Return the intent with `missing_since` cleared, because the node was seen."""
    return replace(intent, missing_since=0.0)
