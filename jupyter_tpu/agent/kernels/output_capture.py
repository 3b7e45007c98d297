"""Makes an ipykernel say everything on the line to the agent; runs inside the kernel's process.

ipykernel's classes are changed before they are used, and only where the installed version has what is changed. Never
XPUB_NODROP: a full pipe would freeze the control thread and with it every interrupt. Who waits for a slow agent is the
thread that prints, where an interrupt reaches it.
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

from jupyter_tpu.agent.recording.output_protocol import ACKNOWLEDGE, ATTACH, Line, parse_number
from jupyter_tpu.wire.messages import Channel

_PATIENCE_S = 10.0
_UNSENT_CHARACTERS = 256 * 1024
_NEVER_WAIT = ("IOPub", "Control", "Shell channel")
_DELIMITER = b"<IDS|MSG>"
_REMEMBERED = 10_000


class OutputCapture:
    """All that the kernel says to the agent; one for the process.

    Args:
        pipe: the Unix socket on which forked processes pass on their output; it may be moved later.
    """

    def __init__(self, pipe: str) -> None:
        self.line = Line()
        self.pipe = pipe
        self._thread: Any = None
        self._stream: Any = None
        self._requests: dict[bytes, None] = {}

    def speaks_through(self, thread: Any) -> bool:
        """Whether this is the kernel's own publishing thread, and not that of a forked process."""
        return thread is self._thread and thread is not None and bool(thread._is_master_process())

    def begin(self, thread: Any) -> None:
        """Speak through the first publishing thread there is, and listen to what the agent answers there."""
        if self._thread is not None:
            return
        self._thread = thread
        self._stream = getattr(thread, "_xpub_stream", None) or ZMQStream(thread.socket, thread.io_loop)
        self._stream.on_recv(self._hear)

    def forget(self) -> None:
        """Begin anew, as if nothing had been said so far; while no agent is attached."""
        self._thread.schedule(self.line.forget)

    def say(self, channel: Channel, parts: Sequence[Any]) -> None:
        """Send a message on the line, from any thread."""
        self._thread.schedule(lambda: self.send(channel, parts))

    def send(self, channel: Channel, parts: Sequence[Any]) -> None:
        """Send a message on the line; in the publishing thread."""
        parts = [part if isinstance(part, bytes) else bytes(part) for part in parts]
        is_output = channel == Channel.IOPUB and parts[0].startswith(b"stream.")
        frames = self.line.add(channel, parts, is_output=is_output)
        with suppress(AttributeError, zmq.ZMQError):  # the socket is closed as the kernel ends
            self._thread.socket.send_multipart(frames)
            self._listen_again()

    def _listen_again(self) -> None:
        """ZMQ's descriptor is edge-triggered, and a send uses the edge up: what came meanwhile would never be heard."""
        if self._thread.socket.get(zmq.EVENTS) & zmq.POLLIN:
            self._stream.io_loop.add_callback(self._stream.flush, zmq.POLLIN)

    def _hear(self, frames: list[bytes]) -> None:
        if frames[0].startswith(ACKNOWLEDGE):
            number, _ = parse_number(frames[0])
            self.line.acknowledged(number)
        elif frames[0].startswith(ATTACH):
            self._thread.socket.send_multipart(frames)
            for missed in self.line.attached(*parse_number(frames[0])):
                self._thread.socket.send_multipart(missed)
            self._listen_again()

    def is_repeated(self, parts: Sequence[Any]) -> bool:
        """Whether this very request came before: an agent repeats what its predecessor may not have passed on.

        Jupyter's own check needs a key, and other kernels have none. Routing identities are left out, because a
        connection that was replaced gets another.
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
        """Called by whoever is about to say more."""
        if not self.line.has_room and threading.current_thread().name not in _NEVER_WAIT:
            self.line.wait_for_room(_PATIENCE_S)


class Router(zmq.Socket):  # type: ignore[type-arg]
    """A kernel's end of shell, control or stdin.

    What goes to the agent goes on the line, except control: that must not wait behind output, and takes the line only
    while there is no agent.
    """

    voice: Any = None
    channel = Channel.SHELL

    def recv_multipart(self, flags: int = 0, copy: bool = True, track: bool = False) -> Any:
        """A request that came before is dropped, as if there was nothing to read."""
        parts = super().recv_multipart(flags, copy, track)
        if self.channel == Channel.SHELL and self.voice.is_repeated(parts):
            raise zmq.Again
        return parts

    def send_multipart(
        self, msg_parts: Any, flags: int = 0, copy: bool = True, track: bool = False, **kwargs: Any
    ) -> Any:
        is_for_agent = bytes(msg_parts[0]) == self.voice.line.identity
        if not is_for_agent or self.channel == Channel.CONTROL:
            try:
                return super().send_multipart(msg_parts, flags, copy, track, **kwargs)
            except zmq.ZMQError as error:
                if error.errno != zmq.EHOSTUNREACH:
                    raise
        if is_for_agent:
            self.voice.say(self.channel, msg_parts[1:])
        return zmq.MessageTracker() if track else None


_ROUTERS = {"shell_socket": Channel.SHELL, "control_socket": Channel.CONTROL, "stdin_socket": Channel.STDIN}


def adapt_sockets(app_class: Any, voice: OutputCapture) -> None:
    """Change what must be changed before a socket is bound: the publisher's mark and type, and where replies go."""
    bind, init_iopub = app_class._bind_socket, app_class.init_iopub

    def bind_adapted(self: Any, socket: Any, port: int) -> Any:
        if socket.socket_type in (zmq.PUB, zmq.XPUB):
            socket.sndhwm = 0
        for name, channel in _ROUTERS.items():
            if getattr(self, name, None) is socket and type(socket) is zmq.Socket:
                socket.__class__ = Router
                socket.voice, socket.channel = voice, channel
                socket.router_mandatory = 1
        return bind(self, socket, port)

    app_class._bind_socket = bind_adapted
    app_class.init_iopub = lambda self, context: init_iopub(self, _ListeningContext(context))


class _ListeningContext:
    """A context whose publishers hear what subscribers say; ipykernel before 7 makes deaf ones."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def socket(self, kind: int, *args: Any, **kwargs: Any) -> Any:
        return self._context.socket(zmq.XPUB if kind == zmq.PUB else kind, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


def adapt_publisher(thread_class: Any, voice: OutputCapture) -> None:
    """Let everything that is published go on the line; forked processes publish through this one."""
    make, send, send_multipart = thread_class.__init__, thread_class._really_send, thread_class.send_multipart

    def make_and_listen(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        voice.begin(self)

    def send_on_the_line(self: Any, message: Any, *args: Any, **kwargs: Any) -> None:
        if voice.speaks_through(self):
            voice.send(Channel.IOPUB, message)
        else:
            send(self, message, *args, **kwargs)

    def send_when_there_is_room(self: Any, *args: Any, **kwargs: Any) -> None:
        if voice.speaks_through(self):
            voice.wait_for_room()
        send_multipart(self, *args, **kwargs)

    thread_class.__init__, thread_class._really_send = make_and_listen, send_on_the_line
    thread_class.send_multipart = send_when_there_is_room


def adapt_text(stream_class: Any, voice: OutputCapture) -> None:
    """Bound what is printed but not yet sent; ipykernel sends five times a second, however much there is."""
    write, flush = stream_class.write, stream_class._flush

    def write_and_send_much(self: Any, text: str) -> Any:
        if voice.speaks_through(self.pub_thread):
            voice.wait_for_room()
        written = write(self, text)
        self._unsent = getattr(self, "_unsent", 0) + len(text)
        if self._unsent > _UNSENT_CHARACTERS and voice.speaks_through(self.pub_thread):
            self.flush()
        return written

    def flush_and_count(self: Any) -> None:
        self._unsent = 0
        flush(self)

    stream_class.write, stream_class._flush = write_and_send_much, flush_and_count


def adapt_pipe(thread_class: Any, voice: OutputCapture) -> None:
    """Forked processes pass their output to the kernel; by default over a TCP port that every user can reach."""

    def set_up_inner_end(self: Any) -> None:
        self._pipe_uuid = os.urandom(16)
        socket = self.socket.context.socket(zmq.PULL)
        socket.linger = 0
        socket.bind(f"ipc://{voice.pipe}")
        self._pipe_in = ZMQStream(socket, self.io_loop)
        self._pipe_in.on_recv(self._handle_pipe_msg)

    def set_up_outer_end(_self: Any) -> tuple[Any, Any]:
        context = zmq.Context()
        socket = context.socket(zmq.PUSH)
        socket.linger = 3000
        socket.connect(f"ipc://{voice.pipe}")
        return context, socket

    if hasattr(thread_class, "_setup_pipe_in") and hasattr(thread_class, "_setup_pipe_out"):
        thread_class._setup_pipe_in, thread_class._setup_pipe_out = set_up_inner_end, set_up_outer_end
