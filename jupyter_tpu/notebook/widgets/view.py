"""The part of a widget that runs in the kernel: it reads the node, performs requests from pages and formats text."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jupyter_tpu.errors import Text, TpuError
from jupyter_tpu.i18n import _, shown
from jupyter_tpu.notebook.display import MagicOutput, Section, text_output
from jupyter_tpu.notebook.magics.context import MagicContext
from jupyter_tpu.worker_clock import wall_clock

CallAgent = Callable[[str, Mapping[str, Any]], dict[str, Any]]
"""A function that calls a method of the agent; raises `TpuError`."""

Data = Mapping[str, Any]


def _no_act(_ask: CallAgent, _act: Mapping[str, Any], _now: float) -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One kind of widget.

    Attributes:
        script: the JavaScript file that draws the widget in a page.
        every_s: seconds between two updates.
        read: calls the agent and returns the data for the page, including the history if its second argument is true.
            ``at``, if present, is the time of the data in Unix seconds by the node's clock. Raises `TpuError`, or the
            exception caused by an unreadable response.
        subcommands: the subcommands of ``%tpu`` that show the same data, for front ends without live widgets.
        act: performs a page's request, given the time in Unix seconds, and returns the result as a sentence; raises
            `TpuError`.
    """

    title: str
    script: str
    every_s: float
    read: Callable[[CallAgent, bool], Data]
    subcommands: Sequence[Callable[[MagicContext], MagicOutput]]
    act: Callable[[CallAgent, Mapping[str, Any], float], str] = _no_act

    def as_text(self, how: str) -> MagicOutput:
        """Return a current snapshot as text, followed by `how`, a line that explains how to see live values."""
        context = MagicContext()
        at = Text("as of {time}", time=time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(context.now)))
        return MagicOutput(sections=[Section(title=self.title, age=at), *self._seen(context), Section(lines=[how])])

    def _seen(self, context: MagicContext) -> list[Section]:
        """Return the subcommands' output. Stop at the first error, because each further subcommand might wait too."""
        seen: list[Section] = []
        try:
            for word in self.subcommands:
                seen += word(context).sections
        except TpuError as error:
            seen += text_output(_in_a_line(error)).sections
        return seen


def _in_a_line(error: TpuError) -> str:
    return " ".join(_(part) for part in (error.message, error.exists, error.hint) if part).replace("\n", " ")


class SnapshotReader:
    """A reader of a view's data; keeps the last data in case the agent does not respond.

    Args:
        ask: a function that calls the agent for data to show.
        request: a function that calls the agent to perform a page's request; its time limit is longer than that of
            `ask`.
    """

    def __init__(self, view: View, ask: CallAgent, request: CallAgent | None = None) -> None:
        self._view = view
        self._ask = ask
        self._request = request or ask
        self._data: Data | None = None

    def snapshot(self, *, whole: bool = False, acts: Iterable[Mapping[str, Any]] = ()) -> dict[str, Any]:
        """Return the snapshot for pages: the last data, why it could not be updated (if so), and results of requests.

        Args:
            whole: whether to add the history.
            acts: requests from pages, performed first so that the data shows their effect.
        """
        results = [self._performed(act) for act in acts]
        # Send the history only when a page requests it, because it is most of the data.
        if self._data is not None:
            self._data = {name: value for name, value in self._data.items() if name != "history"}
        problem = self._read(whole)
        return {"problem": problem, "data": self._data, "heard": results}

    def _read(self, whole: bool) -> str:
        try:
            self._data = self._view.read(self._ask, whole)
        except TpuError as error:
            return _in_a_line(error)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            reason = f"{type(error).__name__} {error}"[:200]
            return _("This widget can't read the agent's response: {reason}.", reason=reason)
        return ""

    def _performed(self, act: Mapping[str, Any]) -> dict[str, Any]:
        try:
            text = shown(self._view.act(self._request, act, wall_clock()))
        except TpuError as error:
            text = _in_a_line(error)
        return {"id": str(act.get("id", ""))[:40], "text": text}
