"""Display the output of a cell that runs on a node as if the cell ran in this kernel."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Callable, Mapping
from typing import Any

Content = Mapping[str, Any]


class CellFailed(Exception):
    """The cell failed on the node. This exception is displayed as the node's traceback."""

    def __init__(self, content: Content) -> None:
        super().__init__(f"{content.get('ename', 'Error')}: {content.get('evalue', '')}")
        self._traceback = [str(line) for line in content.get("traceback", ())]

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython shows instead of a traceback."""
        return self._traceback or [str(self)]


class OutputDisplay:
    """Displays a remote kernel's messages as outputs of the cell that runs in this shell.

    Args:
        answer: called with the user's reply to an ``input()`` on the node.
    """

    def __init__(self, shell: Any, answer: Callable[[str], None]) -> None:
        self._shell = shell
        self._answer = answer
        self._show: dict[str, Callable[[Content], None]] = {
            "stream": self._stream,
            "display_data": self._display,
            "execute_result": self._display,
            "update_display_data": lambda content: self._display(content, update=True),
            "clear_output": lambda content: self._shell.display_pub.clear_output(bool(content.get("wait"))),
            "input_request": self._ask,
        }

    def show(self, message: Mapping[str, Any]) -> None:
        """Show one message. Ignore messages that are not output, such as the kernel's state."""
        show = self._show.get(message["msg_type"])
        if show is not None:
            show(message["content"])

    def _stream(self, content: Content) -> None:
        stream = sys.stderr if content["name"] == "stderr" else sys.stdout
        stream.write(content["text"])
        stream.flush()

    def _display(self, content: Content, *, update: bool = False) -> None:
        self._shell.display_pub.publish(
            data=content["data"], metadata=content["metadata"], transient=content.get("transient") or {}, update=update
        )

    def _ask(self, content: Content) -> None:
        ask = getpass.getpass if content.get("password") else input
        self._answer(ask(str(content.get("prompt", ""))))
