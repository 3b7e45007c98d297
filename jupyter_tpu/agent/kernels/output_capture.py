"""Number all of an ipykernel's messages and route them to the agent (see `output_protocol`).

This module runs in the kernel's process. The `adapt_…` functions change ipykernel's classes before they are used, and
raise AttributeError if the installed version is too different. XPUB_NODROP must never be set, because a full pipe would
freeze the control thread and block all interrupts. Only the thread that prints waits for a slow agent, because that
thread can be interrupted.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import zmq
from zmq.eventloop.zmqstream import ZMQStream

from jupyter_tpu.agent.recording.output_protocol import ACKNOWLEDGE, ATTACH, ResendBuffer, parse_number
from jupyter_tpu.wire.multipart import Channel

# How long a printing thread waits for an agent that doesn't acknowledge output, for example while it restarts. After
# that, the kernel continues without waiting and may drop output (`output_protocol.MOST_BYTES`).
_PATIENCE_S = 10.0
# If this much printed text is waiting, send it now instead of at ipykernel's next flush (there are five per second).
# Bounds memory.
_UNSENT_CHARACTERS = 256 * 1024
# Names of ipykernel's own threads. They handle interrupts and requests, so they must never wait.
_NEVER_WAIT = ("IOPub", "Control", "Shell channel")
_DELIMITER = b"<IDS|MSG>"
# Number of requests whose digests are remembered to drop duplicates; an agent repeats only its latest requests.
_REMEMBERED = 10_000


class OutputCapture:
    """The sender of the kernel's messages to the agent; it resends unacknowledged messages. Each process has one.

    Args:
        pipe: Unix socket over which forked processes send their output; it may be replaced later.
    """

    def __init__(self, pipe: str) -> None:
        self.buffer = ResendBuffer()
        self.pipe = pipe
        self._thread: Any = None
        self._stream: Any = None
        self._requests: dict[bytes, None] = {}

    def publishes_through(self, thread: Any) -> bool:
        """Whether `thread` is the kernel's own publishing thread, not a thread of a forked process."""
        return thread is self._thread and thread is not None and bool(thread._is_master_process())

    def begin(self, thread: Any) -> None:
        """Capture the output of the first publishing thread, and read the agent's frames from its socket."""
        if self._thread is not None:
            return
        self._thread = thread
        self._stream = getattr(thread, "_xpub_stream", None) or ZMQStream(thread.socket, thread.io_loop)
        self._stream.on_recv(self._receive)

    def reset(self) -> None:
        """Drop all messages and restart the numbering from 1; call this only while no agent is attached."""
        self._thread.schedule(self.buffer.reset)

    def send_soon(self, channel: Channel, parts: Sequence[Any]) -> None:
        """Send a message to the agent, from any thread."""
        self._thread.schedule(lambda: self.send(channel, parts))

    def send(self, channel: Channel, parts: Sequence[Any]) -> None:
        """Number a message, store it until it is acknowledged, and send it; call this only in the publishing thread."""
        parts = [part if isinstance(part, bytes) else bytes(part) for part in parts]
        is_output = channel == Channel.IOPUB and parts[0].startswith(b"stream.")
        frames = self.buffer.add(channel, parts, is_output=is_output)
        with suppress(AttributeError, zmq.ZMQError):  # the socket is closed when the kernel exits
            self._thread.socket.send_multipart(frames)
            self._listen_again()

    def _listen_again(self) -> None:
        """Read the messages that arrived during a send, because the send consumed the notification of them.

        ZMQ's notifications are edge-triggered, so it does not notify again.
        """
        if self._thread.socket.get(zmq.EVENTS) & zmq.POLLIN:
            self._stream.io_loop.add_callback(self._stream.flush, zmq.POLLIN)

    def _receive(self, frames: list[bytes]) -> None:
        if frames[0].startswith(ACKNOWLEDGE):
            number, _ = parse_number(frames[0])
            self.buffer.acknowledged(number)
        elif frames[0].startswith(ATTACH):
            self._thread.socket.send_multipart(frames)
            for missed in self.buffer.attached(*parse_number(frames[0])):
                self._thread.socket.send_multipart(missed)
            self._listen_again()

    def is_repeated(self, parts: Sequence[Any]) -> bool:
        """Whether the request is a duplicate: a new agent resends requests that its predecessor may not have sent.

        Jupyter's own check for duplicates works only with a key. The comparison ignores routing identities, because
        they differ on a new connection.
        """
        frames = [bytes(part) for part in parts]
        if _DELIMITER not in frames:
            return False
        digest = hashlib.blake2b(digest_size=16)
        for frame in frames[frames.index(_DELIMITER) :]:
            digest.update(b"%d:" % len(frame))
            digest.update(frame)
        request = digest.digest()
        if request in self._requests:
            return True
        self._requests[request] = None
        if len(self._requests) > _REMEMBERED:
            del self._requests[next(iter(self._requests))]
        return False

    def wait_for_room(self) -> None:
        """Wait for the agent to catch up before printing more; never wait in ipykernel's own threads."""
        if not self.buffer.has_room and threading.current_thread().name not in _NEVER_WAIT:
            self.buffer.wait_for_room(_PATIENCE_S)


class Router(zmq.Socket):  # type: ignore[type-arg]
    """A kernel's socket for shell, control or stdin.

    Messages to the agent go through the capture. Control replies are sent directly, because they must not wait behind
    output; they go through the capture only while no agent is connected.
    """

    capture: Any = None
    channel = Channel.SHELL

    def recv_multipart(self, flags: int = 0, copy: bool = True, track: bool = False) -> Any:
        """Receive a message; drop a duplicate request, as if there were nothing to read."""
        parts = super().recv_multipart(flags, copy, track)
        if self.channel == Channel.SHELL and self.capture.is_repeated(parts):
            raise zmq.Again
        return parts

    def send_multipart(
        self, msg_parts: Any, flags: int = 0, copy: bool = True, track: bool = False, **kwargs: Any
    ) -> Any:
        """Send a message through the agent, or directly if it is for another client."""
        is_for_agent = bytes(msg_parts[0]) == self.capture.buffer.identity
        if not is_for_agent or self.channel == Channel.CONTROL:
            try:
                return super().send_multipart(msg_parts, flags, copy, track, **kwargs)
            except zmq.ZMQError as error:
                if error.errno != zmq.EHOSTUNREACH:  # this error means that no agent is connected
                    raise
        if is_for_agent:
            self.capture.send_soon(self.channel, msg_parts[1:])
        return zmq.MessageTracker() if track else None


_ROUTERS = {"shell_socket": Channel.SHELL, "control_socket": Channel.CONTROL, "stdin_socket": Channel.STDIN}


def adapt_sockets(app_class: Any, capture: OutputCapture) -> None:
    """Change the publisher's high-water mark and type, and the routers' class, before the sockets are bound."""
    bind, init_iopub = app_class._bind_socket, app_class.init_iopub

    def bind_adapted(self: Any, socket: Any, port: int) -> Any:
        # Disable ZMQ's own limit, which would drop messages silently. The capture bounds unacknowledged output instead.
        if socket.socket_type in (zmq.PUB, zmq.XPUB):
            socket.sndhwm = 0
        for name, channel in _ROUTERS.items():
            if getattr(self, name, None) is socket and type(socket) is zmq.Socket:
                socket.__class__ = Router
                socket.capture, socket.channel = capture, channel
                socket.router_mandatory = 1
        return bind(self, socket, port)

    app_class._bind_socket = bind_adapted
    app_class.init_iopub = lambda self, context: init_iopub(self, _ListeningContext(context))


class _ListeningContext:
    """A ZMQ context that makes XPUB sockets in place of ipykernel 6's PUB sockets, to receive the agent's frames."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def socket(self, kind: int, *args: Any, **kwargs: Any) -> Any:
        return self._context.socket(zmq.XPUB if kind == zmq.PUB else kind, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


def adapt_publisher(thread_class: Any, capture: OutputCapture) -> None:
    """Send all published messages through `capture`; forked processes publish through this process."""
    make, send, send_multipart = thread_class.__init__, thread_class._really_send, thread_class.send_multipart

    def make_and_listen(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        capture.begin(self)

    def send_on_the_line(self: Any, message: Any, *args: Any, **kwargs: Any) -> None:
        if capture.publishes_through(self):
            capture.send(Channel.IOPUB, message)
        else:
            send(self, message, *args, **kwargs)

    def send_when_there_is_room(self: Any, *args: Any, **kwargs: Any) -> None:
        if capture.publishes_through(self):
            capture.wait_for_room()
        send_multipart(self, *args, **kwargs)

    thread_class.__init__, thread_class._really_send = make_and_listen, send_on_the_line
    thread_class.send_multipart = send_when_there_is_room


def adapt_text(stream_class: Any, capture: OutputCapture) -> None:
    """Limit the amount of printed but unsent text, because ipykernel flushes only five times a second."""
    write, flush = stream_class.write, stream_class._flush

    def write_and_send_much(self: Any, text: str) -> Any:
        if capture.publishes_through(self.pub_thread):
            capture.wait_for_room()
        written = write(self, text)
        self._unsent = getattr(self, "_unsent", 0) + len(text)
        if self._unsent > _UNSENT_CHARACTERS and capture.publishes_through(self.pub_thread):
            self.flush()
        return written

    def flush_and_count(self: Any) -> None:
        self._unsent = 0
        flush(self)

    stream_class.write, stream_class._flush = write_and_send_much, flush_and_count


def adapt_pipe(thread_class: Any, capture: OutputCapture) -> None:
    """Let forked processes send output over a Unix socket, because ipykernel's TCP port is open to every user."""

    def set_up_inner_end(self: Any) -> None:
        self._pipe_uuid = os.urandom(16)
        socket = self.socket.context.socket(zmq.PULL)
        socket.linger = 0
        socket.bind(f"ipc://{capture.pipe}")
        self._pipe_in = ZMQStream(socket, self.io_loop)
        self._pipe_in.on_recv(self._handle_pipe_msg)

    def set_up_outer_end(_self: Any) -> tuple[Any, Any]:
        context = zmq.Context()
        socket = context.socket(zmq.PUSH)
        socket.linger = 3000  # in ms, so that a forked process can send its last output
        socket.connect(f"ipc://{capture.pipe}")
        return context, socket

    if hasattr(thread_class, "_setup_pipe_in") and hasattr(thread_class, "_setup_pipe_out"):
        thread_class._setup_pipe_in, thread_class._setup_pipe_out = set_up_inner_end, set_up_outer_end
