"""`TpuMonitor`, `IdleTimer` and `QuotaAndCredit`: this node inside a notebook.

Live where the kernel's Python has anywidget and the front end shows it; else a picture, as text and as HTML, of the
moment at which the cell was run. Which front end shows what, and how the numbers come there: docs/widgets.md.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

from jupyter_tpu.errors import TpuError
from jupyter_tpu.notebook.node.agent_call import CELL_S, ask_agent
from jupyter_tpu.notebook.widgets.feed import Act, Feed
from jupyter_tpu.notebook.widgets.idle import IDLE
from jupyter_tpu.notebook.widgets.live import make_live
from jupyter_tpu.notebook.widgets.monitor import MONITOR
from jupyter_tpu.notebook.widgets.quota import QUOTA
from jupyter_tpu.notebook.widgets.view import Looker, View

_HOW = "This is a picture. For live numbers run %pip install anywidget and restart the kernel; JupyterLab needs it too."
_NOT_HERE = "A picture of the widget: live widgets need a trusted notebook and anywidget in the front end."


class NodeWidget:
    """A widget of this node; the last expression of a cell, or ``display(widget)``, shows it.

    Attributes:
        live: the `anywidget.AnyWidget`, for use inside other widgets; None where anywidget is missing.
    """

    _view: ClassVar[View]

    def __init__(self) -> None:
        self._looker = Looker(self._view, partial(ask_agent, patience_s=CELL_S))
        self._feed = Feed(self._look, self._view.every_s, _is_kernel_busy)
        self.live = make_live(self._view.script, self._on_page, self._feed.close)
        if self.live is not None:
            self._feed.hear(whole=True)

    def close(self) -> None:
        """Take it out of all pages, and look no more."""
        self._feed.close()
        if self.live is not None:
            self.live.close()

    def _look(self, whole: bool, acts: list[Act]) -> None:
        self.live.draw(self._looker.picture(whole=whole, acts=acts))

    def _on_page(self, word: Mapping[str, Any]) -> None:
        if word.get("say") == "shown":
            self._feed.hear(whole=word.get("whole") is True)
        elif word.get("say") == "act":
            self._feed.hear(act=word)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        """For IPython: the live widget, and a picture for front ends that show none."""
        is_live = self.live is not None and self.live.comm is not None
        live = _bundle_of(self.live) if is_live else {}
        return {**live, **self._view.as_text(_NOT_HERE if is_live else _HOW).to_mimebundle()}


class TpuMonitor(NodeWidget):
    """Duty cycle, HBM and recent history of each chip and core of this worker, and its CPU, memory and disk."""

    _view = MONITOR


class IdleTimer(NodeWidget):
    """When this node ends by itself and why; with buttons that keep it."""

    _view = IDLE


class QuotaAndCredit(NodeWidget):
    """What this node costs, and what is left of budgets, quota, grants and credit, as told by the laptop."""

    _view = QUOTA


def _bundle_of(live: Any) -> dict[str, Any]:
    """Newer ipywidgets give the metadata too, as a second part."""
    bundle = live._repr_mimebundle_()
    return dict(bundle[0] if isinstance(bundle, tuple) else bundle)


def _is_kernel_busy() -> bool:
    """By the agent, which hears what the kernel says of itself; a kernel without an agent has nothing to show."""
    try:
        kernel = ask_agent("kernel_info", {"kernel_id": os.environ.get("JUPYTER_TPU_KERNEL_ID", "")}, patience_s=CELL_S)
    except TpuError:
        return False
    return kernel.get("execution_state") == "busy"
