"""What a widget is made of: how it looks at the node, what its page may ask for, and how it reads as text."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jupyter_tpu.errors import TpuError
from jupyter_tpu.notebook.display import MagicOutput, Section, said
from jupyter_tpu.notebook.magics.words import MagicContext

Ask = Callable[[str, Mapping[str, Any]], dict[str, Any]]
"""Calls a method of the agent; raises `TpuError`."""

Data = Mapping[str, Any]

_NONSENSE = "The agent on this machine answered something that this widget does not understand: {}."


def _no_act(_ask: Ask, _act: Mapping[str, Any], _now: float) -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One kind of widget.

    Attributes:
        script: the file that draws it in a page.
        every_s: how often it looks.
        look: what the page is given, of the agent's answers; with its history where that is asked for. ``at``, if
            it has one, is when it was so, in Unix seconds by the node's clock. Raises `TpuError`, or what reading
            nonsense raises.
        words: what ``%tpu`` shows of the same, for people who see no live widget.
        act: does what a page asks for, and says what became of it; raises `TpuError`.
    """

    title: str
    script: str
    every_s: float
    look: Callable[[Ask, bool], Data]
    words: Sequence[Callable[[MagicContext, Sequence[str]], MagicOutput]]
    act: Callable[[Ask, Mapping[str, Any], float], str] = _no_act

    def as_text(self, how: str) -> MagicOutput:
        """The picture of this moment, and a line on `how` to see more."""
        context = MagicContext()
        at = time.strftime("as of %Y-%m-%d %H:%M:%S %Z", time.localtime(context.now))
        return MagicOutput(sections=[Section(title=self.title, age=at), *self._seen(context), Section(lines=[how])])

    def _seen(self, context: MagicContext) -> list[Section]:
        """What the words say, up to the first that fails: a cell must not wait for each of them."""
        seen: list[Section] = []
        try:
            for word in self.words:
                seen += word(context, ()).sections
        except TpuError as error:
            seen += said(_in_a_line(error)).sections
        return seen


def _in_a_line(error: TpuError) -> str:
    return str(error).replace("\n", " ")


class Looker:
    """Looks at the node by a view, and remembers what it saw last."""

    def __init__(self, view: View, ask: Ask) -> None:
        self._view = view
        self._ask = ask
        self._data: Data | None = None

    def picture(self, *, whole: bool = False, acts: Iterable[Mapping[str, Any]] = ()) -> dict[str, Any]:
        """What pages show: what was seen last, what is the matter if that is old, and what became of acts."""
        heard = [self._heard(act) for act in acts]
        if self._data is not None:
            self._data = {name: value for name, value in self._data.items() if name != "history"}
        problem = self._look(whole)
        return {"problem": problem, "data": self._data, "heard": heard}

    def _look(self, whole: bool) -> str:
        try:
            self._data = self._view.look(self._ask, whole)
        except TpuError as error:
            return _in_a_line(error)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            return _NONSENSE.format(f"{type(error).__name__} {error}"[:200])
        return ""

    def _heard(self, act: Mapping[str, Any]) -> dict[str, Any]:
        try:
            text = self._view.act(self._ask, act, time.time())
        except TpuError as error:
            text = _in_a_line(error)
        return {"id": str(act.get("id", ""))[:40], "text": text}
