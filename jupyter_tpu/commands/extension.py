"""Interpret the arguments of ``extend`` in the terminal and in a notebook."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from jupyter_tpu.autostop import LONGEST_S
from jupyter_tpu.durations import parse_duration, parse_time_of_day
from jupyter_tpu.errors import BadInput, Text

DEFAULT_EXTENSION = "1h"
SPELLED_OUT = ("1h", "3h", "until", "while-busy", "off")
"""Values that tab completion offers for the duration."""

_UNCHANGED = "Nothing was changed."
_HOW = "Use `extend 3h`, `extend until 18:00`, `extend while-busy` or `extend off`."


def extension(options: argparse.Namespace, now: float) -> dict[str, Any]:
    """Return the parameters of the agent's method ``keep`` for the parsed arguments of ``extend``.

    Args:
        options: the arguments.
        now: Unix seconds on the clock used for times of day.

    Returns:
        A dict with one of ``for_s``, ``until`` and ``while_busy``, or an empty dict to cancel an extension.

    Raises:
        BadInput: the arguments specify no duration, or several.
    """
    has_option = options.for_ or options.until or options.while_busy or options.off
    if options.time and has_option:
        raise BadInput("The time was given twice.", exists=_UNCHANGED, hint=_HOW)
    return _of_words(options.time, now) if options.time else _of_options(options, now)


def _of_options(options: argparse.Namespace, now: float) -> dict[str, Any]:
    if options.off:
        return {}
    if options.while_busy:
        return {"while_busy": True}
    if options.until:
        return {"until": _time_of_day(options.until, now)}
    return _for(options.for_ or parse_duration(DEFAULT_EXTENSION))


def _of_words(words: Sequence[str], now: float) -> dict[str, Any]:
    if words == ["off"]:
        return {}
    if words == ["while-busy"]:
        return {"while_busy": True}
    if len(words) == 2 and words[0] == "until":
        return {"until": _time_of_day(words[1], now)}
    for_s = parse_duration(words[0]) if len(words) == 1 else None
    if for_s is None:
        raise BadInput(
            Text("{words} is not a valid duration or time.", words=f"{' '.join(words)[:60]!r}"),
            exists=_UNCHANGED,
            hint=_HOW,
        )
    return _for(for_s)


def _for(for_s: float | None) -> dict[str, Any]:
    if for_s is None or for_s > LONGEST_S:
        longest = Text("A node can be extended by {value} days at most.", value=f"{LONGEST_S / 86400:.0f}")
        raise BadInput("The extension is too long.", exists=_UNCHANGED, hint=longest)
    return {"for_s": for_s}


def _time_of_day(text: str, now: float) -> float:
    until = parse_time_of_day(text, now)
    if until is None:
        raise BadInput(
            Text("{text} is not a time of day.", text=f"{text[:40]!r}"), exists=_UNCHANGED, hint="Use the format 18:00."
        )
    return until
