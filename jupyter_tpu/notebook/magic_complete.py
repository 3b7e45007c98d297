"""Completion of ``%tpu``: IPython asks for what may stand where the cursor is."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any


def register_completion(shell: Any) -> None:
    """Have IPython ask us for lines that begin with ``%tpu``; a shell that cannot complete goes without."""
    completer = getattr(shell, "Completer", None)
    if hasattr(completer, "custom_matchers"):
        completer.custom_matchers.append(_matcher())
    elif hasattr(shell, "set_hook"):  # before IPython 8.6
        shell.set_hook("complete_command", _complete, str_key="%tpu")


def _matcher() -> Callable[[Any], dict[str, Any]]:
    """As IPython's matchers of the second kind, which can keep Python's own words out of a magic's line."""

    def match_tpu(context: Any) -> dict[str, Any]:
        found = _matches(context.text_until_cursor, context.token)
        return {"completions": [SimpleNamespace(text=each, type="magic") for each in found], "suppress": bool(found)}

    return _marked(match_tpu)


def _marked(matcher: Any) -> Any:
    """What IPython's decorator does, which cannot be imported where there is no IPython."""
    matcher.matcher_api_version = 2
    matcher.matcher_priority = 0
    matcher.matcher_identifier = "jupyter_tpu.tpu"
    return matcher


def _complete(_shell: Any, event: Any) -> list[str]:
    """Called by older IPythons; `event` has the line as far as the cursor, and the text to be completed."""
    return _matches(event.text_until_cursor, event.symbol)


def _matches(line: str, token: str) -> list[str]:
    begun = line.lstrip()
    if not begun.startswith(("%tpu ", "%tpu\t")):
        return []
    return [match for match in candidates(begun) if match.startswith(token)]


def candidates(line: str) -> list[str]:
    """What may follow a line of ``%tpu`` that ends where the cursor is."""
    from jupyter_tpu.notebook.magic_table import HELP, WORDS

    before = line.split()[1:] if line[-1:].isspace() else line.split()[1:-1]
    if not before:
        return [*WORDS, HELP[0]]
    if before[0] in HELP:
        return list(WORDS)
    word = WORDS.get(before[0])
    return [] if word is None else [each for each in (*word.options, HELP[0]) if each not in before]
