"""A ZMQ socket for an asyncio loop. Sending never blocks.

ZMQ's file descriptor is edge-triggered and signals *any* change. The socket must therefore be checked again after every
send and every batch of reads. Otherwise, messages would be stuck until the next change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import zmq

Parts = list[bytes]

_BATCH = 100  # messages per turn of the loop, so that a flood of requests doesn't delay other sockets
_LINGER_MS = 200  # enough time for a last reply to reach a client on this machine


class LoopSocket:
    """A bound ZMQ `socket` in the running loop.

    Args:
        on_message: called with each message that arrives.
        on_writable: called when a full queue may have space again.
    """

    def __init__(
        self,
        socket: zmq.Socket[bytes],
        on_message: Callable[[Parts], None],
        on_writable: Callable[[], None] = lambda: None,
    ) -> None:
        self._socket = socket
        self._on_message = on_message
        self._on_writable = on_writable
        self._loop = asyncio.get_running_loop()
        self._check_handle: asyncio.Handle | None = None
        self._loop.add_reader(socket.FD, self._check)
        self._schedule()

    def send(self, parts: Parts) -> bool:
        """Send a message immediately. If a reader's queue is full, send nothing and return False."""
        try:
            self._socket.send_multipart(parts, zmq.NOBLOCK)
        except zmq.Again:
            return False
        self._schedule()
        return True

    def read_now(self) -> None:
        """Read the messages that have already arrived, without waiting for the loop's next iteration."""
        if self._socket.closed:
            return
        if int(self._socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
            self._read()
        self._schedule()  # reading EVENTS has consumed the descriptor's edge

    def set_option(self, option: int, value: int) -> None:
        """Set an option of the socket."""
        self._socket.setsockopt(option, value)

    def close(self) -> None:
        """Close the socket. ZMQ has 200 ms to deliver sent messages."""
        if self._socket.closed:
            return
        self._loop.remove_reader(self._socket.FD)
        if self._check_handle:
            self._check_handle.cancel()
        self._socket.close(_LINGER_MS)

    def _schedule(self) -> None:
        if self._check_handle is None and not self._socket.closed:
            self._check_handle = self._loop.call_soon(self._check)

    def _check(self) -> None:
        if self._check_handle:
            self._check_handle.cancel()
            self._check_handle = None
        self._read()  # read first: reading also lets ZMQ notice which queues have room again
        if not self._socket.closed:
            self._on_writable()

    def _read(self) -> None:
        for _ in range(_BATCH):
            if self._socket.closed:
                return
            try:
                parts = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            self._handle(parts)
        self._schedule()

    def _handle(self, parts: Parts) -> None:
        try:
            self._on_message(parts)
        except BaseException:
            self._schedule()  # read messages that have arrived in the meantime
            raise
