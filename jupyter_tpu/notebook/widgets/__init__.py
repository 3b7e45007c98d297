"""The widgets `TpuMonitor`, `IdleTimer` and `QuotaAndCredit`, which show this node inside a notebook.

They update automatically if the kernel's Python has anywidget and the front end supports it; otherwise, they show a
snapshot from when the cell was run, as text and HTML. Each kind of widget is a `View` (see `view`) with a JavaScript
file; a `Feed` reads the agent in a thread. docs/how-to/show-live-widgets.md lists what each front end shows.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

from jupyter_tpu.errors import Text, TpuError
from jupyter_tpu.notebook.node.agent_call import CELL_TIMEOUT_S, call_agent
from jupyter_tpu.notebook.widgets.feed import Feed, PageRequest
from jupyter_tpu.notebook.widgets.idle import IDLE
from jupyter_tpu.notebook.widgets.live import make_live_widget
from jupyter_tpu.notebook.widgets.monitor import MONITOR
from jupyter_tpu.notebook.widgets.quota import QUOTA
from jupyter_tpu.notebook.widgets.view import SnapshotReader, View

_INSTALL = Text(
    "This is a snapshot. For live values, run `%pip install anywidget` and restart the kernel; JupyterLab "
    "also needs anywidget."
)
_NOT_LIVE = Text(
    "This is a snapshot of the widget. Live widgets need a trusted notebook and anywidget in the front end."
)


class NodeWidget:
    """A widget of this node; make it the last expression of a cell, or call ``display(widget)``.

    Attributes:
        live: the `anywidget.AnyWidget`, for use inside other widgets; None if anywidget is not installed.
    """

    _view: ClassVar[View]

    def __init__(self) -> None:
        self._looker = SnapshotReader(self._view, partial(call_agent, patience_s=CELL_TIMEOUT_S), call_agent)
        self._feed = Feed(self._update, self._view.every_s, _is_kernel_busy)
        self.live = make_live_widget(self._view.script, self._on_page, self._feed.close)
        if self.live is not None:
            self._feed.notify(whole=True)

    def close(self) -> None:
        """Remove the widget from all pages and stop requesting data from the agent."""
        self._feed.close()
        if self.live is not None:
            self.live.close()

    def _update(self, whole: bool, acts: list[PageRequest]) -> None:
        self.live.draw(self._looker.snapshot(whole=whole, acts=acts))

    def _on_page(self, message: Mapping[str, Any]) -> None:
        # Ignore unknown messages: they may come from another version of our widget or from other code.
        if message.get("say") == "shown":
            self._feed.notify(whole=message.get("whole") is True)
        elif message.get("say") == "act":
            self._feed.notify(act=message)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        """Return the live widget for IPython, and a snapshot for front ends without widgets."""
        is_live = self.live is not None and self.live.comm is not None
        live = _bundle_of(self.live) if is_live else {}
        return {**live, **self._view.as_text(_NOT_LIVE if is_live else _INSTALL).to_mimebundle()}


class TpuMonitor(NodeWidget):
    """A widget with duty cycle, HBM and recent history of this worker's chips, and its CPU, memory and disk."""

    _view = MONITOR


class IdleTimer(NodeWidget):
    """A widget with the countdown to auto-stop, its reason, and buttons that keep this node running."""

    _view = IDLE


class QuotaAndCredit(NodeWidget):
    """A widget with the cost of this node and the remaining budgets, quota, grants and credit."""

    _view = QUOTA


def _bundle_of(live: Any) -> dict[str, Any]:
    """Return the MIME bundle of the live widget; newer ipywidgets return a pair of data and metadata."""
    bundle = live._repr_mimebundle_()
    return dict(bundle[0] if isinstance(bundle, tuple) else bundle)


def _is_kernel_busy() -> bool:
    """Ask the agent whether this kernel is running a cell; a kernel without an agent counts as idle."""
    try:
        kernel = call_agent(
            "kernel_info", {"kernel_id": os.environ.get("JUPYTER_TPU_KERNEL_ID", "")}, patience_s=CELL_TIMEOUT_S
        )
    except TpuError:
        return False
    return kernel.get("execution_state") == "busy"
