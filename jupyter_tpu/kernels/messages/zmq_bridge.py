"""Open local ZMQ sockets that behave like the kernel's sockets, and connect them to the kernel's stream.

Requests are forwarded to the worker unchanged, with the routing identities that identify the client for each reply. The
bridge itself replies to heartbeats, so a heartbeat reply shows that this process is running, not that the network
works. Messages are not parsed, with two exceptions: a new subscriber gets iopub_welcome, as from ipykernel, and notices
are shown in the cell that last produced output.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import zmq
from jupyter_client.session import DELIM, Session

from jupyter_tpu.agent.recording.jupyter_messages import json_object
from jupyter_tpu.kernels.messages.event_notices import event_notice
from jupyter_tpu.kernels.messages.local_ports import Addresses
from jupyter_tpu.kernels.messages.loop_socket import LoopSocket, Parts
from jupyter_tpu.kernels.messages.not_run import NODE_ENDED, NOT_RUN, answers, routing_identities
from jupyter_tpu.kernels.messages.publisher import Publisher

_IOPUB_QUEUE = 200  # in messages, a few MiB during a flood of output; ZMQ doesn't count bytes
# How long to wait for the first subscriber. Jupyter's clients subscribe at once; if no page is open, nobody subscribes,
# and the caller must not wait longer.
_READER_COMES_S = 2.0
_STATUS_BYTES = 64  # a status such as {"execution_state": "starting"} is shorter; longer content needs no parsing
PATIENCE_S = 10.0
"""Seconds that a client may read no output before other clients stop waiting for it."""
ROUTED = ("shell", "control", "stdin")
"""The channels on which each message is for one client, identified by its routing identity."""


class Stream(Protocol):
    """The kernel behind the bridge: it receives requests and sends messages."""

    def send(self, channel: Any, parts: Sequence[bytes]) -> None:
        """Send a client's request to the kernel."""

    def hold(self) -> None:
        """Pause the delivery of the kernel's messages to the bridge."""

    def resume(self) -> None:
        """Continue the delivery of the kernel's messages."""

    def let_replies_pass(self) -> None:
        """Deliver replies even while the delivery of output is paused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Secrets:
    """The keys of a connection file.

    Attributes:
        key: the HMAC key; empty if messages are not signed.
        curve: the sockets' public and secret keys, if the sockets are encrypted (CurveZMQ).
    """

    key: bytes
    signature_scheme: str = "hmac-sha256"
    curve: tuple[bytes, bytes] | None = None


class Bridge:
    """A kernel's five local sockets, at `addresses`; `open` binds them in the running loop.

    Requests that arrive before `join` are queued, so clients may connect before the kernel runs.

    Args:
        patience_s: time in seconds after which other clients no longer wait for a client that doesn't read its output.
    """

    def __init__(
        self,
        addresses: Addresses,
        secrets: Secrets,
        context: zmq.Context[zmq.Socket[bytes]],
        *,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._addresses = addresses
        self._secrets = secrets
        self._context = context
        # This session signs only messages that are created here: replies to kernel_info, notices, and replies for cells
        # that were not run.
        self._session = Session(key=secrets.key, signature_scheme=secrets.signature_scheme, username="kernel")
        self._sockets: dict[str, LoopSocket] = {}
        self._waiting: list[tuple[str, Parts]] = []  # requests that arrived before `join`
        self._last_parent = b""  # parent header of the last output: notices are shown in its cell
        self._stream: Stream | None = None
        self._expected_info: Mapping[str, Any] | None = None
        self._has_reader = asyncio.Event()
        self._iopub = Publisher(self._hold, self._resume, self._starve, patience_s)

    def open(self) -> None:
        """Bind and publish the sockets.

        Raises:
            PortTaken: another process uses a port. In this case, no socket is open, and the caller may try again.
        """
        try:
            for channel in ROUTED:
                self._open(channel, zmq.ROUTER, self._receiver_of(channel))
            self._open("hb", zmq.ROUTER, lambda parts: self._deliver_to("hb", parts))
            self._open("iopub", zmq.XPUB, self._subscribed)
        except BaseException:
            self.close()
            raise
        self._iopub.socket = self._sockets["iopub"]
        self.publish()

    def publish(self) -> None:
        """Recreate the file names under which clients find the sockets."""
        self._addresses.publish()

    def join(self, stream: Stream, expected_info: Mapping[str, Any] | None = None) -> None:
        """Start sending requests to `stream`, beginning with the waiting requests.

        Args:
            expected_info: the kernel's expected reply to a kernel_info_request, if known. Until another request arrives
                or the kernel sends a message, the bridge sends this reply, which saves waiting clients a round trip.
        """
        self._stream, self._expected_info = stream, expected_info
        waiting, self._waiting = self._waiting, []
        for channel, parts in waiting:
            self._pass_on(stream, channel, parts)

    async def wait_for_reader(self) -> None:
        """Wait up to 2 s until a client subscribes to output."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_READER_COMES_S):
                await self._has_reader.wait()

    def deliver(self, _seq: int, channel: str, parts: Parts) -> None:
        """Deliver a message from the kernel to the clients."""
        if channel in ("iopub", *ROUTED):
            self._expected_info = None
        if channel == "iopub":
            self._last_parent = _parent_header(parts)
            self._sockets["iopub"].read_now()  # a new subscriber must get its welcome before any output
            self._iopub.send(parts)
            if _is_starting(parts):
                self._publish("status", {"execution_state": "idle"})
        elif channel in ROUTED:
            self._deliver_to(channel, parts)
        elif channel == "event":
            self._learn(json_object(parts[0]))

    def _learn(self, event: Mapping[str, Any]) -> None:
        if event.get("event") in (NOT_RUN, NODE_ENDED):
            for answer in answers(event):
                if answer.channel == "iopub":
                    self._publish(answer.msg_type, answer.content, parent=event["header"])
                else:
                    reply = self._session.msg(answer.msg_type, answer.content, parent=event["header"])
                    self._deliver_to(answer.channel, [*routing_identities(event), *self._session.serialize(reply)])
        elif notice := event_notice(event):
            self.print_notice(notice)

    def print_notice(self, text: str) -> None:
        """Print `text` for all subscribers.

        The text appears in the cell that last produced output, because front ends ignore output for other cells.
        """
        self._publish("stream", {"name": "stderr", "text": text + "\n"}, parent=json_object(self._last_parent))

    def close(self) -> None:
        """Close the sockets and remove their addresses. May be called repeatedly."""
        self._iopub.close()
        for socket in self._sockets.values():
            socket.close()
        self._addresses.remove()

    def _open(self, channel: str, kind: int, on_message: Callable[[Parts], None]) -> None:
        socket: zmq.Socket[bytes] = self._context.socket(kind)
        try:
            _set_options(socket, kind, self._secrets.curve)
            self._addresses.bind(socket, channel)
        except BaseException:
            socket.close(0)
            raise
        on_writable = self._iopub.flush if channel == "iopub" else lambda: None
        self._sockets[channel] = LoopSocket(socket, on_message, on_writable)

    def _receiver_of(self, channel: str) -> Callable[[Parts], None]:
        def receive(parts: Parts) -> None:
            if self._stream:
                self._pass_on(self._stream, channel, parts)
            else:
                self._waiting.append((channel, parts))

        return receive

    def _pass_on(self, stream: Stream, channel: str, parts: Parts) -> None:
        if self._expected_info is not None and self._answer(channel, parts, self._expected_info):
            return
        self._expected_info = None
        stream.send(channel, parts)

    def _answer(self, channel: str, parts: Parts, kernel_info: Mapping[str, Any]) -> bool:
        """Reply to a kernel_info_request as the kernel would; return whether the message was such a request."""
        try:
            identities, rest = self._session.feed_identities(parts)
            request = self._session.deserialize(rest)
        except (ValueError, TypeError, KeyError, RecursionError):  # let the kernel handle invalid requests
            return False
        if request["msg_type"] != "kernel_info_request":
            return False
        header = request["header"]
        self._publish("status", {"execution_state": "busy"}, parent=header)
        reply = self._session.msg("kernel_info_reply", dict(kernel_info), parent=header)
        self._deliver_to(channel, [*identities, *self._session.serialize(reply)])
        self._publish("status", {"execution_state": "idle"}, parent=header)
        return True

    def _deliver_to(self, channel: str, parts: Parts) -> None:
        self._sockets[channel].send(parts)

    def _subscribed(self, parts: Parts) -> None:
        is_new, topic = parts[0][:1] == b"\x01", parts[0][1:]  # XPUB's format: 1 or 0 for off, then the topic
        self._iopub.subscriptions += 1 if is_new else -1
        if is_new:
            self._has_reader.set()
            self._publish("iopub_welcome", {"subscription": topic.decode(errors="replace")}, topic=topic)

    def _publish(
        self, kind: str, content: dict[str, Any], *, topic: bytes = b"", parent: dict[str, Any] | None = None
    ) -> None:
        message = self._session.msg(kind, content, parent=parent)
        parts = self._session.serialize(message)
        self._iopub.send([topic, *parts] if topic else parts)

    def _hold(self) -> None:
        if self._stream:
            self._stream.hold()

    def _starve(self) -> None:
        if self._stream:
            self._stream.let_replies_pass()

    def _resume(self) -> None:
        if self._stream:
            self._stream.resume()


def _is_starting(parts: Parts) -> bool:
    """Return whether the message is the status "starting".

    From this status on, a kernel accepts requests, but it sends no other status before the first request. Without a
    request, for example after a restart with no open page, the kernel would be listed as starting forever.
    """
    return len(parts[-1]) < _STATUS_BYTES and json_object(parts[-1]).get("execution_state") == "starting"


def _parent_header(parts: Parts) -> bytes:
    """Return the JSON header of a message's parent request, or an empty header if it has no parent."""
    place = parts.index(DELIM) + 3 if DELIM in parts else len(parts)
    return parts[place] if place < len(parts) else b""


def _set_options(socket: zmq.Socket[bytes], kind: int, curve: tuple[bytes, bytes] | None) -> None:
    if kind == zmq.XPUB:
        socket.set(zmq.XPUB_VERBOSER, 1)  # report each subscription, even a second one to the same topic
        socket.set(zmq.XPUB_NODROP, 1)
        socket.set(zmq.SNDHWM, _IOPUB_QUEUE)
    else:
        socket.set(zmq.ROUTER_HANDOVER, 1)  # a client that reconnects replaces its old connection
        socket.set(zmq.SNDHWM, 0)
    if curve:
        socket.set(zmq.CURVE_SERVER, 1)
        socket.set(zmq.CURVE_PUBLICKEY, curve[0])
        socket.set(zmq.CURVE_SECRETKEY, curve[1])
