"""The connection to the engines of the other workers. Only this module uses ipyparallel and its private names.

All callbacks run in the client's own thread, even while worker 0 is computing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

_FILE_POLL_S = 0.05
# Delay before the request is repeated: if the engine's socket is not connected yet, a request is silently lost.
_PROBE_AGAIN_S = 1.0

HELLO = "tpu_hello_request"

ENDED = "tpu_ended"
"""An engine's last message about a cell: its whole output, and its outcome. It takes the place of ``idle``."""

EXITED = b"tpu_exited"
"""The topic of an agent's message that its worker's engine has exited."""

OnMessage = Callable[[str, Mapping[str, Any]], None]
"""Called with the type and content of each message about a request; the last one is the reply."""


class Cluster:
    """The engines of a slice.

    Args:
        workers: the numbers of the slice's other workers.
        on_joined: called with the number of a worker and its reply to `HELLO` when the worker has replied on every
            channel.
        on_lost: called with the number of a worker whose process has exited.

    Attributes:
        address: the address at which the engines register; empty until it is known.
    """

    def __init__(
        self,
        workers: Iterable[int],
        on_joined: Callable[[int, Mapping[str, Any]], None],
        on_lost: Callable[[int], None],
    ) -> None:
        self._workers = workers
        self._on_joined = on_joined
        self._on_lost = on_lost
        self.address = ""
        self._client: Any = None
        self._controller_events: Any = None
        self._registered: dict[int, bytes] = {}
        self._joined: set[int] = set()
        self._exited: set[int] = set()

    def connect(self, file: Path) -> None:
        """Wait for the controller's file and connect; blocks.

        Raises:
            ImportError: ipyparallel is missing.
            OSError: the controller does not respond.
        """
        connection = _connection_in(file)
        self.address = f"{connection['location']}:{connection['registration']}"
        import ipyparallel
        from ipyparallel.client import client as client_module

        # Without an IPython instance, the client does not relay the engines' widgets to the front end.
        client_module.get_ipython = lambda: None
        # The client prints messages about late replies, which would appear in the user's cell.
        client_module.print = lambda *_: None
        self._client = ipyparallel.Client(str(file), timeout=60)
        self._client._registration_callbacks.append(self._registration)
        self.call(lambda: self._watch_controller(client_module))
        self.call(self._watch_agents)
        self.call(self._find_registered)

    def _watch_controller(self, client_module: Any) -> None:
        """Lose all workers as soon as the controller exits, because they can't be reached without it."""
        monitor = self._client._mux_socket.get_monitor_socket(client_module.zmq.EVENT_DISCONNECTED)
        monitor.linger = 0
        self._controller_events = client_module.ZMQStream(monitor, self._client._io_loop)
        self._controller_events.on_recv(lambda _: self._lose_all())

    def _watch_agents(self) -> None:
        """Lose a worker whose agent reports that the engine has exited; see `agent.slices.engine_exits`."""
        dispatch = self._client._dispatch_iopub

        def listen(frames: list[Any]) -> None:
            if bytes(frames[0]) == EXITED:
                self._lose_exited(json.loads(bytes(frames[-1]))["worker"])
            else:
                dispatch(frames)

        self._client._iopub_stream.on_recv(listen, copy=False)

    def _lose_exited(self, worker: int) -> None:
        if worker in self._registered:
            self._lose(worker)
        elif worker not in self._exited:  # it has not joined
            self._on_lost(worker)
        self._exited.add(worker)

    def _lose_all(self) -> None:
        self._registered.clear()
        self._joined.clear()
        for worker in self._workers:  # also those that have not joined, because now they can't
            self._on_lost(worker)

    def _lose(self, worker: int) -> None:
        if self._registered.pop(worker, None) is not None:
            self._joined.discard(worker)
            self._on_lost(worker)

    # -- search for the engines

    def _find_registered(self) -> None:
        for worker in list(self._client._engines):
            if isinstance(worker, int):
                self._register(worker)

    def _registration(self, event: Mapping[str, Any]) -> None:
        worker = int(event["id"])
        if event["event"] == "register":
            self._register(worker)
        else:
            self._lose(worker)

    def _register(self, worker: int) -> None:
        if worker not in self._registered:
            self._registered[worker] = self._client._engines[worker].encode()
            self._probe(worker, {})

    def _probe(self, worker: int, answers: dict[str, Any]) -> None:
        """Send requests until the engine has joined: it has replied on the channels for cells, output and control."""
        if worker not in self._registered or worker in self._joined:
            return

        def answer(channel: str, content: Any) -> None:
            answers[channel] = content
            if len(answers) == 3 and worker not in self._joined:
                self._joined.add(worker)
                self._on_joined(worker, answers["control"])

        if "control" not in answers:
            self.ask(worker, HELLO, {}, lambda content: answer("control", content))
        if "shell" not in answers or "iopub" not in answers:
            sent = self._send(self._registered[worker], "pass", {}, lambda *_: None, silent=True)
            sent.add_done_callback(lambda _: answer("shell", True))
            # the engine responds with "idle", which arrives as output
            sent.output.add_done_callback(lambda _: answer("iopub", True))
        self.call_later(_PROBE_AGAIN_S, lambda: self._probe(worker, answers))

    # -- cells and signals

    def send_cell(self, worker: int, code: str, metadata: Mapping[str, Any], on_message: OnMessage) -> None:
        """Run a cell on a worker; call `on_message` with its output, then with ``execute_reply``.

        Do nothing for a worker that has just been lost.
        """
        ident = self._registered.get(worker)
        if ident is None:
            return
        sent = self._send(ident, code, metadata, on_message, silent=False)
        sent.add_done_callback(lambda _: on_message("execute_reply", {}))

    def _send(
        self, ident: bytes, code: str, metadata: Mapping[str, Any], on_message: OnMessage, *, silent: bool
    ) -> Any:
        def listen(future: Any) -> None:
            def take(message: Mapping[str, Any]) -> None:
                kind = message["header"]["msg_type"]
                on_message(kind, message["content"])
                if kind == ENDED and not future.output.done():
                    future.output.set_result(None)  # so that the client forgets the cell

            future.iopub_callbacks.append(take)

        content = {
            "code": code,
            "silent": silent,
            "store_history": not silent,
            "user_expressions": {},
            "allow_stdin": False,
            # otherwise the engine would drop a cell that arrives just after an error
            "stop_on_error": False,
        }
        return self._client._send(
            self._client._mux_stream,  # use the stream: after sending on the socket directly, it could miss a reply
            "execute_request",
            content=content,
            metadata=dict(metadata),
            ident=ident,
            track_outstanding=True,
            # Listen before sending, so that no output is missed.
            message_future_hook=listen,
        )

    def ask(
        self,
        worker: int,
        message_type: str,
        content: Mapping[str, Any],
        answered: Callable[[Mapping[str, Any]], None] = lambda _: None,
    ) -> None:
        """Send a request on the control channel, from which even a busy engine reads."""
        ident = self._registered.get(worker)
        if ident is None:
            return
        sent = self._client._send(self._client._control_stream, message_type, content=dict(content), ident=ident)
        sent.add_done_callback(lambda future: None if future.exception() else answered(future.result()["content"]))

    def interrupt(self, workers: Iterable[int]) -> None:
        """Send SIGINT to workers."""
        for worker in workers:
            self.ask(worker, "signal_request", {"sig": "SIGINT"})

    # -- methods for the client's thread

    def call(self, function: Callable[[], None]) -> None:
        """Run a function in the client's thread, after all requests that were sent earlier."""
        self._client._io_loop.add_callback(function)

    def call_later(self, delay_s: float, function: Callable[[], None]) -> None:
        """Run a function in the client's thread after a delay; do nothing if there is no connection yet."""
        if self._client is None:
            return
        loop = self._client._io_loop
        loop.add_callback(lambda: loop.call_later(delay_s, function))


def _connection_in(file: Path) -> Mapping[str, Any]:
    """Wait until the controller has written its file completely, and return the content."""
    while True:
        with suppress(FileNotFoundError, ValueError):
            return dict(json.loads(file.read_text()))
        time.sleep(_FILE_POLL_S)
