"""Reply to cells while worker 0 hangs in C++ code, where its main thread can't reply to them.

ipykernel receives requests in a separate thread, which passes them to the main thread. While the main thread hangs,
the receiving thread answers them here.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from typing import Any

from jupyter_tpu.notebook.slices.folding import CellError
from jupyter_tpu.notebook.slices.publisher import Publisher

_DELIMITER = b"<IDS|MSG>"


class Refusals:
    """The cells that worker 0 has received but not begun.

    Args:
        kernel: worker 0's ipykernel.
        reason: returns the error of cells that can't run because worker 0 hangs; None if it does not hang.
    """

    def __init__(self, kernel: Any, reason: Callable[[], CellError | None]) -> None:
        self._kernel = kernel
        self._reason = reason
        self._waiting: dict[str, list[Any]] = {}
        self._running: tuple[Any, Any] = (None, None)  # the routing identities and the message of a cell
        self._refused: set[str] = set()
        self._lock = threading.Lock()
        self._should_handle = kernel.should_handle
        kernel.should_handle = self._begin
        self._thread = getattr(kernel, "shell_channel_thread", None)
        if self._thread is None:  # ipykernel 6, where the main thread receives requests
            return
        self._pass_on = kernel.shell_channel_thread_main
        kernel.shell_channel_thread_main = self._receive
        if getattr(kernel, "io_loop", None) is not None:  # the kernel was a spare, which already receives requests
            self._thread.io_loop.add_callback(kernel.shell_stream.on_recv, self._receive, copy=False)

    def refuse_waiting(self) -> None:
        """Refuse the waiting cells, because worker 0 hangs. This can be called from any thread."""
        if self._thread is not None:
            self._thread.io_loop.add_callback(lambda: self._refuse_waiting(self._reason()))

    def fail_all(self, error: CellError) -> None:
        """Fail the running cell and the waiting cells, because the kernel will exit. Can be called from any thread."""
        if self._thread is not None:
            self._thread.io_loop.add_callback(self._fail_all, error)
        else:  # the agent replies to the waiting cells after the exit
            self._fail(*self._running, error)

    # -- methods for the main thread

    def _begin(self, stream: Any, message: Mapping[str, Any], idents: Any) -> Any:
        """Return whether to handle a message; False for a cell that was refused while it waited."""
        begun = message["header"]["msg_id"]
        with self._lock:
            if begun in self._refused:
                self._refused.discard(begun)
                return False
            # The cells before this one have run or were aborted.
            for request in list(self._waiting) if begun in self._waiting else ():
                del self._waiting[request]
                if request == begun:
                    break
        if _is_cell(message["header"]):
            self._running = idents, message
        return self._should_handle(stream, message, idents)

    # -- methods for the receiving thread

    async def _receive(self, parts: list[Any]) -> None:
        header = _cell_header(parts)
        if header is not None:
            error = self._reason()
            if error is not None:
                self._refuse(parts, error)
                return
            with self._lock:
                self._waiting[header["msg_id"]] = parts
        await self._pass_on(parts)

    def _fail_all(self, error: CellError) -> None:
        self._fail(*self._running, error)
        self._refuse_waiting(error)

    def _refuse_waiting(self, error: CellError | None) -> None:
        if error is None:
            return
        with self._lock:
            waiting, self._waiting = self._waiting, {}
            self._refused.update(waiting)
        for parts in waiting.values():
            self._refuse(parts, error)

    def _refuse(self, parts: list[Any], error: CellError) -> None:
        session = self._kernel.session
        idents, frames = session.feed_identities(parts, copy=False)
        try:
            request = session.deserialize(frames, content=False, copy=False)
        except ValueError:  # the main thread would ignore it, too
            return
        self._fail(idents, request, error)

    def _fail(self, idents: Any, request: Any, error: CellError) -> None:
        kernel = self._kernel
        kernel._publish_status("busy", "shell", parent=request)
        Publisher(kernel, request).fail(error)
        content = {
            "status": "error",
            "ename": error.name,
            "evalue": error.value,
            "traceback": [str(error)],
            "execution_count": kernel.execution_count,
            "user_expressions": {},
            "payload": [],
        }
        # With ipykernel 6, the hanging main thread owns the stream, and would never send the reply.
        stream = kernel.shell_stream if self._thread else kernel.shell_stream.socket
        kernel.session.send(stream, "execute_reply", content, parent=request, ident=idents)
        kernel._publish_status("idle", "shell", parent=request)


def _cell_header(parts: list[Any]) -> Mapping[str, Any] | None:
    """Return the header of a request to run a cell in the main thread; None for other messages."""
    frames = [bytes(part) for part in parts[:8]]  # routing identities, the delimiter, the signature and the header
    header = frames.index(_DELIMITER) + 2 if _DELIMITER in frames else len(frames)
    if header >= len(frames) or b"execute_request" not in frames[header]:
        return None
    try:
        found = json.loads(frames[header])
    except ValueError:
        return None
    return found if _is_cell(found) else None


def _is_cell(header: Mapping[str, Any]) -> bool:
    return header.get("msg_type") == "execute_request" and not header.get("subshell_id")
