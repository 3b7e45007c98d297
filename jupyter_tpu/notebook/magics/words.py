"""The words of ``%tpu``: what each is called, what may follow it, what it does, and with what it does that."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jupyter_tpu.errors import BadInput, TpuError
from jupyter_tpu.notebook.display import MagicOutput
from jupyter_tpu.notebook.node.agent_call import CELL_S, Call, ask_agent, ask_all

PATIENCE_VARIABLE = "JUPYTER_TPU_PATIENCE_S"
"""Names the variable that says how many seconds a line of ``%tpu`` waits for the agent."""

LONGEST_PATIENCE_S = 600

Answer = Mapping[str, Any]


@dataclass(frozen=True)
class MagicContext:
    """The kernel that a magic runs in.

    Attributes:
        environ: says where the agent is.
        now: Unix seconds at which the magic began.
    """

    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    now: float = field(default_factory=time.time)

    @property
    def patience_s(self) -> float:
        """What a cell waits for answers that it only shows; a variable makes it longer where a node is slow."""
        text = self.environ.get(PATIENCE_VARIABLE, "")
        return float(text) if text.isascii() and text.isdigit() and 0 < int(text) <= LONGEST_PATIENCE_S else CELL_S

    def ask(self, method: str, params: Mapping[str, Any], patience_s: float | None = None) -> dict[str, Any]:
        """See `ask_agent`."""
        return ask_agent(method, params, self.environ, patience_s=max(patience_s or 0.0, self.patience_s))

    def ask_all(self, calls: Mapping[str, Call]) -> Mapping[str, dict[str, Any] | TpuError]:
        """See `agent_call.ask_all`."""
        return ask_all(calls, self.environ, patience_s=self.patience_s)

    def ask_person(self, question: str, hint: str = "Add --yes to the line.") -> bool:
        """Whether the person at the front end says yes.

        Raises:
            BadInput: there is none who could be asked.
        """
        try:
            return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
        except (EOFError, OSError, RuntimeError) as error:  # IPython's own is a RuntimeError
            raise BadInput("This front end cannot ask you.", exists="Nothing was done.", hint=hint) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """One word of ``%tpu``.

    Attributes:
        usage: the lines that can be written, each with what it does.
        summary: one sentence.
        options: what completion offers after the word.
        act: performs the words that follow it; raises `TpuError`.
    """

    name: str
    summary: str
    usage: Mapping[str, str]
    act: Callable[[MagicContext, Sequence[str]], MagicOutput]
    options: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """What follows a word, taken apart.

    Attributes:
        flags: options without a value.
        values: options with one.
        others: what is no option.
    """

    flags: frozenset[str] = frozenset()
    values: Mapping[str, str] = field(default_factory=dict)
    others: Sequence[str] = ()


def take_apart(
    words: Sequence[str], *, flags: Sequence[str] = (), values: Sequence[str] = (), most_others: int = 0
) -> Arguments:
    """Read what follows a word.

    Raises:
        BadInput: it has something that none of these allows.
    """
    found, given, others = set[str](), dict[str, str](), list[str]()
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        if word in flags:
            found.add(word)
        elif word in values and waiting:
            given[word] = waiting.pop(0)
        elif word.startswith("-") or len(others) == most_others:
            raise BadInput(f"{word[:60]!r} was not understood here.", exists="Nothing was done.")
        else:
            others.append(word)
    return Arguments(flags=frozenset(found), values=given, others=others)


def whole_number(text: str, most: int) -> int:
    """A number from 1 to `most`; raises `BadInput`."""
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(most)) and 1 <= int(text) <= most):
        raise BadInput(f"{text[:40]!r} is not a whole number from 1 to {most:,}.", exists="Nothing was done.")
    return int(text)
