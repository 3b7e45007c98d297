"""The view behind `IdleTimer`: when this node ends by itself and why, and keeping it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from jupyter_tpu.brakes import span_text
from jupyter_tpu.errors import BadInput
from jupyter_tpu.notebook.magics.autostop import idle, reminder
from jupyter_tpu.notebook.widgets.view import Ask, Data, View

_NAMES = ("sources", "verdict", "reason", "ends_in_s", "ends_why", "is_warning", "has_rules", "rules", "keep", "guard")
_LONGEST_KEEP_S = 30 * 86400.0
_LATE_S = 60.0


def look(ask: Ask, _whole: bool) -> Data:
    """What the guard says; `at` is the moment from which its lengths of time count."""
    said = ask("activity", {})
    return {**{name: said[name] for name in _NAMES}, "reminder": reminder(ask, said), "at": time.time()}


def act(ask: Ask, wish: Mapping[str, Any], now: float) -> str:
    """Keep the node as a button says: ``for_s`` from the click on, ``while_busy``, or ``off``.

    `now` and the click's ``at`` are by the clock of the node. A kernel hears of a click only when it is not busy, or
    somewhat sooner; what was meant for the time between does not begin anew then.

    Raises:
        BadInput: it says nothing that we know.
    """
    late_s = max(0.0, now - _number(wish.get("at"), now))
    if "for_s" in wish:
        left_s = min(_LONGEST_KEEP_S, _number(wish["for_s"], 0.0)) - late_s
        if left_s <= 0:
            return _too_late(late_s)
        ask("keep", {"for_s": left_s})
        return f"Kept for {span_text(left_s)}."
    if late_s > _LATE_S:
        return _too_late(late_s)
    if wish.get("while_busy") is True:
        ask("keep", {"while_busy": True})
        return "Kept until what runs now has ended."
    if wish.get("off") is True:
        ask("keep", {})
        return "No longer kept."
    raise BadInput("This page asked for something that this kernel does not know.", exists="Nothing was done.")


def _number(value: Any, default: float) -> float:
    return float(value) if isinstance(value, (int, float)) and abs(value) < 1e12 else default


def _too_late(late_s: float) -> str:
    return f"The kernel was busy and heard of this only after {span_text(late_s)}. Nothing was done."


IDLE = View(title="Idle timer", script="idle.js", every_s=5.0, look=look, words=(idle,), act=act)
