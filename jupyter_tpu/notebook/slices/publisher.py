"""Publish the slice's output in a cell, from any thread, as messages of worker 0's kernel."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from jupyter_tpu.errors import Text
from jupyter_tpu.i18n import shown
from jupyter_tpu.notebook.display import as_html
from jupyter_tpu.notebook.slices.folding import CellError


class Publisher:
    """Publishes outputs and notes below one cell.

    Args:
        kernel: worker 0's ipykernel.
        request: the request that runs the cell; the running one by default.
    """

    def __init__(self, kernel: Any, request: Mapping[str, Any] | None = None) -> None:
        self._kernel = kernel
        self._parent = request or kernel.get_parent("shell")
        self._display_id = ""
        self._shown: Mapping[str, str] = {}

    def show(self, data: Mapping[str, str]) -> None:
        """Show the other workers' output in the cell; later calls replace the earlier output."""
        if data == self._shown or not (data["text/plain"] or self._display_id):
            return
        self._shown = data
        kind = "update_display_data" if self._display_id else "display_data"
        self._display_id = self._display_id or uuid.uuid4().hex
        self._send(kind, {"data": data, "metadata": {}, "transient": {"display_id": self._display_id}})

    def clear(self) -> None:
        """Remove the display while it is the only output. The next display then appears below worker 0's output."""
        if self._display_id:
            self._send("clear_output", {"wait": False})
            self._display_id, self._shown = "", {}

    def note(self, text: Text) -> None:
        """Show a separate line in the cell's output."""
        data = {"text/plain": shown(text), "text/html": f"<small>{as_html(shown(text))}</small>"}
        self._send("display_data", {"data": data, "metadata": {}, "transient": {}})

    def fail(self, error: CellError) -> None:
        """Show an error as if the cell itself had raised it."""
        self._send("error", {"ename": error.name, "evalue": error.value, "traceback": [str(error)]})

    def _send(self, kind: str, content: Mapping[str, Any]) -> None:
        kernel = self._kernel
        kernel.session.send(kernel.iopub_socket, kind, dict(content), parent=self._parent, ident=kernel._topic(kind))
