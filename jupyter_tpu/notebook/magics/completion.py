"""Tab completion of ``%tpu`` and ``%tpu_init`` in IPython."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

Find = Callable[[str], Sequence[str]]
"""A function that returns the completions for a line; the line is given from ``%tpu`` to the cursor."""

_NAME = "jupyter_tpu.tpu"


def candidates(line: str) -> list[str]:
    """Return the completions of a ``%tpu`` line in a kernel on a node."""
    from jupyter_tpu.commands.grammar import NOTEBOOK
    from jupyter_tpu.commands.shared import ON_NODE
    from jupyter_tpu.notebook.magics.subcommands import HELP

    words = {name: each.words(NOTEBOOK) for name, each in ON_NODE.items()}
    before = line.split()[1:] if line[-1:].isspace() else line.split()[1:-1]
    return list(words) if before[:1] and before[0] in HELP else completed(words, before, HELP[0])


def completed(words: Mapping[str, Sequence[str]], before: Sequence[str], help_option: str = "--help") -> list[str]:
    """Return the matching commands, or the arguments of a command that are not yet on the line.

    Args:
        words: the arguments of each command.
        before: the complete words to the left of the cursor.
        help_option: the help option, which is always offered.
    """
    if not before:
        return [*words, help_option]
    found = words.get(before[0])
    return [] if found is None else [each for each in (*found, help_option) if each not in before]


def register_completion(shell: Any, find: Find = candidates) -> None:
    """Make IPython use `find` to complete lines that start with ``%tpu``; replace an earlier registration.

    A shell without completion is not changed.
    """
    completer: Any = getattr(shell, "Completer", None)
    if hasattr(completer, "custom_matchers"):
        others = [each for each in completer.custom_matchers if getattr(each, "matcher_identifier", "") != _NAME]
        completer.custom_matchers[:] = [*others, _matcher(find)]
    elif hasattr(shell, "set_hook"):  # IPython before 8.6
        shell.set_hook("complete_command", _hook(find), str_key="%tpu")


def _matcher(find: Find) -> Any:
    """Return a matcher of IPython's API version 2, which can suppress Python names in a magic's line."""

    def match_tpu(context: Any) -> dict[str, Any]:
        """Return the completions as a dictionary in the format of IPython's matcher API."""
        found = _matches(find, context.text_until_cursor, context.token)
        # Suppress other matchers only if there are completions, so that file names still work.
        return {"completions": [SimpleNamespace(text=each, type="magic") for each in found], "suppress": bool(found)}

    return _marked(match_tpu)


def _marked(matcher: Any) -> Any:
    """Set the attributes that IPython's decorator would set, without importing IPython, which may be missing."""
    matcher.matcher_api_version = 2
    matcher.matcher_priority = 0
    matcher.matcher_identifier = _NAME
    return matcher


def _hook(find: Find) -> Callable[[Any, Any], list[str]]:
    def complete(_shell: Any, event: Any) -> list[str]:
        """Return the completions; called by versions of IPython older than 8.6."""
        return _matches(find, event.text_until_cursor, event.symbol)

    return complete


def _matches(find: Find, line: str, token: str) -> list[str]:
    begun = line.lstrip()
    if begun.startswith("%tpu_init "):
        return [match for match in _frameworks() if match.startswith(token) and len(begun.split()) < 3]
    if not begun.startswith(("%tpu ", "%tpu\t")):
        return []
    return [match for match in find(begun) if match.startswith(token)]


def _frameworks() -> Sequence[str]:
    from jupyter_tpu.notebook.tpu_init.choice import ARGUMENTS

    return ARGUMENTS
