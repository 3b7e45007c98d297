"""The live widget: an anywidget whose one trait is a picture of the node."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

OnPage = Callable[[Mapping[str, Any]], None]


def make_live(script: str, on_page: OnPage, on_close: Callable[[], None]) -> Any:
    """A widget that draws with `script`; None where the kernel's Python has no anywidget.

    Args:
        on_page: called with what pages say.
        on_close: called when the widget is closed.
    """
    try:
        kind = _live_class()
    except ImportError:
        return None
    return kind(_source("frame.js") + _source(script), _source("widgets.css"), on_page, on_close)


@cache
def _live_class() -> Any:
    """Raises ImportError where anywidget, or something that it needs, is missing."""
    import anywidget
    import traitlets

    class NodePicture(anywidget.AnyWidget):  # type: ignore[misc, unused-ignore]
        _esm = traitlets.Unicode().tag(sync=True)
        _css = traitlets.Unicode().tag(sync=True)
        picture = traitlets.Dict(help="What the page shows, as a view gave it.").tag(sync=True)

        def __init__(self, script: str, style: str, on_page: OnPage, on_close: Callable[[], None]) -> None:
            super().__init__(_esm=script, _css=style)
            _hear_where_pages_speak(self.comm)
            self._on_close = on_close
            self._drawing = threading.Lock()
            self.on_msg(lambda _widget, content, _buffers: on_page(content if isinstance(content, dict) else {}))

        def draw(self, picture: Mapping[str, Any]) -> None:
            """Show a picture in all pages; may be called from any thread."""
            with self._drawing:
                self.picture = dict(picture)

        def send_state(self, key: Any = None) -> None:
            """Called by ipywidgets when a trait has changed, or a page asks; a picture belongs to no cell that runs."""
            _publish(self.comm, self.get_state(key), is_answer=key != "picture")

        def close(self) -> None:
            self._on_close()
            super().close()

    return NodePicture


def _hear_where_pages_speak(comm: Any) -> None:
    """Let pages be heard while a cell runs, where they can be.

    JupyterLab speaks to widgets past the running cell (in a subshell). But ipykernel from 7.4 on takes what comes for a
    comm to where the comm has spoken last; ours has spoken in a cell, when it was opened.
    """
    if hasattr(comm, "_reply_subshell_id"):
        del comm._reply_subshell_id


def _publish(comm: Any, state: Mapping[str, Any], *, is_answer: bool) -> None:
    """Send a state to all pages, by the kernel's own session.

    Without a parent where nobody has asked: else the hours of pictures would count as output of the cell that runs. And
    not by the comm, which would remember from where it has spoken; see `_hear_where_pages_speak`.
    """
    data = {"method": "update", "state": dict(state), "buffer_paths": []}
    kernel = getattr(comm, "kernel", None)
    if kernel is not None:
        content = {"data": data, "comm_id": comm.comm_id}
        parent = kernel.get_parent() if is_answer else None
        kernel.session.send(kernel.iopub_socket, "comm_msg", content, parent=parent, ident=comm.topic)
    elif comm is not None:
        comm.send(data=data)


def _source(name: str) -> str:
    return (files("jupyter_tpu.notebook.widgets") / name).read_text(encoding="utf-8")
