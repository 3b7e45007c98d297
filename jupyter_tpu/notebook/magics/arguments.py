"""The building blocks of ``%tpu``'s subcommands: their description, their parsed arguments, and their context."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jupyter_tpu.errors import BadInput, TpuError
from jupyter_tpu.notebook.display import MagicOutput
from jupyter_tpu.notebook.node.agent_call import CELL_TIMEOUT_S, Call, call_agent, call_all

PATIENCE_VARIABLE = "JUPYTER_TPU_PATIENCE_S"
"""The name of the variable with the seconds that a line of ``%tpu`` waits for the agent."""

# Bounds what the variable may ask for: a cell that waits longer looks dead.
LONGEST_PATIENCE_S = 600

Answer = Mapping[str, Any]


@dataclass(frozen=True)
class MagicContext:
    """The kernel that a magic runs in.

    Attributes:
        environ: the kernel's environment, which names the agent's socket.
        now: when the magic began, in Unix seconds.
    """

    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    now: float = field(default_factory=time.time)

    @property
    def patience_s(self) -> float:
        """Seconds to wait for answers that are only shown; a variable makes it longer on slow nodes."""
        text = self.environ.get(PATIENCE_VARIABLE, "")
        return (
            float(text) if text.isascii() and text.isdigit() and 0 < int(text) <= LONGEST_PATIENCE_S else CELL_TIMEOUT_S
        )

    def call(self, method: str, params: Mapping[str, Any], patience_s: float | None = None) -> dict[str, Any]:
        """Call one method of the agent, see `call_agent`; waits for the longer of `patience_s` and the usual time."""
        return call_agent(method, params, self.environ, patience_s=max(patience_s or 0.0, self.patience_s))

    def call_all(self, calls: Mapping[str, Call]) -> Mapping[str, dict[str, Any] | TpuError]:
        """Call several methods of the agent at once, see `agent_call.call_all`."""
        return call_all(calls, self.environ, patience_s=self.patience_s)

    def confirm(self, question: str, hint: str = "Add --yes to the line.") -> bool:
        """Ask the user a yes-or-no question, and return whether the answer is yes.

        Raises:
            BadInput: the front end cannot ask; `hint` says how to answer without it.
        """
        try:
            return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
        except (EOFError, OSError, RuntimeError) as error:  # IPython's own is a RuntimeError
            raise BadInput(
                "This front end can't ask for confirmation.", exists="Nothing was done.", hint=hint
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Subcommand:
    """One subcommand of ``%tpu``.

    Attributes:
        summary: one sentence for the list of subcommands.
        usage: example lines, each with its meaning.
        act: runs the subcommand with its arguments; raises `TpuError`.
        options: what tab completion offers after the name.
    """

    name: str
    summary: str
    usage: Mapping[str, str]
    act: Callable[[MagicContext, Sequence[str]], MagicOutput]
    options: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """The parsed arguments of a subcommand.

    Attributes:
        flags: options without a value.
        values: options with a value.
        others: the remaining arguments.
    """

    flags: frozenset[str] = frozenset()
    values: Mapping[str, str] = field(default_factory=dict)
    others: Sequence[str] = ()


def parse_arguments(
    words: Sequence[str], *, flags: Sequence[str] = (), values: Sequence[str] = (), most_others: int = 0
) -> Arguments:
    """Parse the arguments of a subcommand; the parameters say which options and how many other arguments are allowed.

    Raises:
        BadInput: an argument is not allowed, or an option lacks its value.
    """
    found, given, others = set[str](), dict[str, str](), list[str]()
    left = list(words)
    while left:
        word = left.pop(0)
        if word in flags:
            found.add(word)
        elif word in values:
            if not left:
                raise BadInput(f"{word} needs a value.", exists="Nothing was done.")
            given[word] = left.pop(0)
        elif word.startswith("-") or len(others) == most_others:
            raise BadInput(f"{word[:60]!r} is not a valid argument here.", exists="Nothing was done.")
        else:
            others.append(word)
    return Arguments(flags=frozenset(found), values=given, others=others)


def whole_number(text: str, most: int) -> int:
    """Parse a whole number from 1 to `most`; raises `BadInput`."""
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(most)) and 1 <= int(text) <= most):
        raise BadInput(f"{text[:40]!r} is not a whole number from 1 to {most:,}.", exists="Nothing was done.")
    return int(text)
