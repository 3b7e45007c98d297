"""The view of `IdleTimer`: show when and why auto-stop will stop this node, and keep the node running on request."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from jupyter_tpu.durations import duration_text
from jupyter_tpu.errors import BadInput, Text
from jupyter_tpu.i18n import shown
from jupyter_tpu.notebook.magics.autostop import autostop, reminder
from jupyter_tpu.notebook.magics.context import NOTHING_DONE
from jupyter_tpu.notebook.node.this_worker import this_worker
from jupyter_tpu.notebook.widgets.view import CallAgent, Data, View
from jupyter_tpu.worker_clock import wall_clock

_NAMES = ("sources", "verdict", "reason", "ends_in_s", "ends_why", "is_warning", "has_rules", "rules", "keep", "guard")
# Longest extension that a page may request. The widget's own buttons request at most 3 h.
_LONGEST_KEEP_S = 30 * 86400.0
# How long a click on a button without a duration is valid; after that, the user may have changed their mind.
_LATE_S = 60.0


def read(ask: CallAgent, _whole: bool) -> Data:
    """Return the agent's auto-stop report; its durations are relative to the time in ``at``."""
    report = ask("activity", {})
    known = {name: report[name] for name in _NAMES}
    node = this_worker(os.environ).node_id
    return {**known, "node": node, "reminder": shown(reminder(ask, report)), "at": wall_clock()}


def act(ask: CallAgent, wish: Mapping[str, Any], now: float) -> str:
    """Perform a button's action: keep the node running (``for_s``, ``while_busy``) or cancel the extension (``off``).

    ``for_s`` counts from the click: a busy kernel may receive a click late, so the time since the click is subtracted.
    `now` and the click's ``at`` use the node's clock.

    Raises:
        BadInput: the request is unknown.
    """
    late_s = max(0.0, now - _number(wish.get("at"), now))
    if "for_s" in wish:
        left_s = min(_LONGEST_KEEP_S, _number(wish["for_s"], 0.0)) - late_s
        if left_s <= 0:
            return _too_late(late_s)
        ask("keep", {"for_s": left_s})
        return Text("The node keeps running for {duration}.", duration=duration_text(left_s))
    if late_s > _LATE_S:
        return _too_late(late_s)
    if wish.get("while_busy") is True:
        ask("keep", {"while_busy": True})
        return Text("The node keeps running until the current cell ends.")
    if wish.get("off") is True:
        ask("keep", {})
        return Text("Extension cancelled.")
    raise BadInput("The page sent an unknown request.", exists=NOTHING_DONE)


def _number(value: Any, default: float) -> float:
    return float(value) if isinstance(value, (int, float)) and abs(value) < 1e12 else default


def _too_late(late_s: float) -> str:
    late = duration_text(late_s)
    return Text("The kernel was busy and received this request only after {duration}. Nothing was done.", duration=late)


IDLE = View(title=Text("Idle timer"), script="idle.js", every_s=5.0, read=read, subcommands=(autostop,), act=act)
