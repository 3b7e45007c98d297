"""The live widget: an anywidget with one synced trait, ``picture``, a snapshot of the node."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from jupyter_tpu.i18n import _

OnPage = Callable[[Mapping[str, Any]], None]


def make_live_widget(script: str, on_page: OnPage, on_close: Callable[[], None]) -> Any:
    """Create a widget that draws with `script`; return None if the kernel's Python has no anywidget.

    Args:
        script: name of a file in this module's folder.
        on_page: called with each message from a page.
        on_close: called when the widget is closed.
    """
    try:
        kind = _live_class()
    except ImportError:
        return None
    return kind(_translated(_source("frame.js") + _source(script)), _source("widgets.css"), on_page, on_close)


@cache
def _live_class() -> Any:
    """Define the widget's class; raises ImportError if anywidget or one of its dependencies is missing."""
    import anywidget
    import traitlets

    class NodePicture(anywidget.AnyWidget):  # type: ignore[misc, unused-ignore]
        _esm = traitlets.Unicode().tag(sync=True)
        _css = traitlets.Unicode().tag(sync=True)
        picture = traitlets.Dict(help="Data that the page shows.").tag(sync=True)

        def __init__(self, script: str, style: str, on_page: OnPage, on_close: Callable[[], None]) -> None:
            super().__init__(_esm=script, _css=style)
            _allow_any_subshell(self.comm)
            self._on_close = on_close
            self._drawing = threading.Lock()
            self.on_msg(lambda _widget, content, _buffers: on_page(content if isinstance(content, dict) else {}))

        def draw(self, picture: Mapping[str, Any]) -> None:
            """Show a snapshot in all pages; may be called from any thread."""
            with self._drawing:
                self.picture = dict(picture)

        def send_state(self, key: Any = None) -> None:
            """Send the state to the pages; called by ipywidgets when a trait changes or a page requests the state."""
            _publish(self.comm, self.get_state(key), is_answer=key != "picture")

        def close(self) -> None:
            """Close the widget in all pages."""
            self._on_close()
            super().close()

    return NodePicture


def _allow_any_subshell(comm: Any) -> None:
    """Let messages from pages arrive while a cell runs, if ipykernel can deliver them.

    JupyterLab sends messages to widgets in a subshell, bypassing the running cell. But ipykernel 7.4 and later handle a
    comm's messages in the subshell from which the comm last sent a message. This widget's comm last sent from the main
    shell, because a cell opened the comm.
    """
    if hasattr(comm, "_reply_subshell_id"):
        del comm._reply_subshell_id


def _publish(comm: Any, state: Mapping[str, Any], *, is_answer: bool) -> None:
    """Send a state to all pages, through the kernel's own session.

    The message has a parent request only if a page requested the state. Otherwise, the message would count as output of
    the running cell. It is not sent through the comm, because the comm would record the current subshell; see
    `_allow_any_subshell`.
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


# A call `translated("…")` in a script. catalogue.py uses the same pattern.
_MARKED = re.compile(r'(\btranslated\(\s*)("(?:[^"\\]|\\.)*")')


def _translated(script: str) -> str:
    """Translate a script: replace each text that matches `_MARKED` with its translation."""
    return _MARKED.sub(lambda found: found[1] + json.dumps(_(json.loads(found[2]))), script)
