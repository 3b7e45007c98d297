"""How an intent moves on, is done, or fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from jupyter_tpu.errors import TpuError
from jupyter_tpu.lifecycle.actions import Change
from jupyter_tpu.lifecycle.events import Event, Resumed
from jupyter_tpu.lifecycle.intents import Intent
from jupyter_tpu.lifecycle.limits import Limits

Outcome = tuple[Intent, tuple[Change, ...]]
"""The intent as it is now, to be written down, and then what to ask of the cloud."""

Table = dict[tuple[str, type[Event]], Callable[[Intent, Any, Limits], Outcome]]
"""What becomes of an intent, by its phase and the kind of event."""


def moved(intent: Intent, at: float, phase: str, message: str, **changes: Any) -> Intent:
    """The intent in a phase, perhaps the one it is in already."""
    since = intent.phase_since if phase == intent.phase else at
    return replace(intent, phase=phase, message=message, updated_at=at, phase_since=since, **changes)


def go_on(intent: Intent, event: Resumed, limits: Limits) -> Outcome:
    """What to look for is known: no more than the process has changed."""
    return moved(intent, event.at, intent.phase, intent.message), ()


def done(intent: Intent, at: float, phase: str, message: str) -> Outcome:
    """It came to what was wanted."""
    return moved(intent, at, phase, message, settled=True, cause=None), ()


def failed(intent: Intent, at: float, error: TpuError, *, exists: str, hint: str = "") -> Outcome:
    """It did not, and nothing more is asked. `exists` says what is left; `hint` replaces the error's own."""
    told = type(error)(error.message, exists=exists, hint=hint or error.hint, raw=error.raw)
    return moved(intent, at, "failed", str(told), settled=True, error=told, cause=None), ()


def cancelled(intent: Intent, at: float) -> Outcome:
    """The user changed their mind."""
    return moved(intent, at, "cancelled", "Cancelled: the node is being ended.", settled=True, cause=None), ()


def unchanged(intent: Intent) -> Outcome:
    """Nothing new."""
    return intent, ()


def missing_for(intent: Intent, at: float) -> tuple[Intent, float]:
    """The intent with the time noted since when the node is missing, and for how long it is."""
    since = intent.missing_since or at
    return replace(intent, missing_since=since), at - since


def seen(intent: Intent) -> Intent:
    """The intent with the node no longer missing."""
    return replace(intent, missing_since=0.0)
