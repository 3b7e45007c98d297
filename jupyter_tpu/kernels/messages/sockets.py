"""A ZMQ socket in an asyncio loop, sending without waiting.

ZMQ's file descriptor is edge-triggered and tells of *any* change: after every send and every batch of reads the socket
is looked at again, or messages would hang until the next change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import zmq

Parts = list[bytes]

_BATCH = 100
_LINGER_MS = 200


class LoopSocket:
    """Joins a bound `socket` to the running loop.

    `on_message` gets what arrives; `on_writable` is called when the socket may take more than it did.
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
        self._look_again: asyncio.Handle | None = None
        self._loop.add_reader(socket.FD, self._look)
        self._schedule()

    def send(self, parts: Parts) -> bool:
        """Send now; False if a reader's queue is full and nothing was sent."""
        try:
            self._socket.send_multipart(parts, zmq.NOBLOCK)
        except zmq.Again:
            return False
        self._schedule()
        return True

    def read_now(self) -> None:
        """Take what has arrived already, ahead of the loop's turn."""
        if self._socket.closed:
            return
        if int(self._socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
            self._read()
        self._schedule()  # asking has taken the edge away

    def set_option(self, option: int, value: int) -> None:
        self._socket.setsockopt(option, value)

    def close(self) -> None:
        """Close; what was sent has a moment to be read."""
        if self._socket.closed:
            return
        self._loop.remove_reader(self._socket.FD)
        if self._look_again:
            self._look_again.cancel()
        self._socket.close(_LINGER_MS)

    def _schedule(self) -> None:
        if self._look_again is None and not self._socket.closed:
            self._look_again = self._loop.call_soon(self._look)

    def _look(self) -> None:
        if self._look_again:
            self._look_again.cancel()
            self._look_again = None
        self._read()  # first: reading also tells ZMQ which queues have room again
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
            self._take(parts)
        self._schedule()

    def _take(self, parts: Parts) -> None:
        try:
            self._on_message(parts)
        except BaseException:
            self._schedule()  # for what came behind it
            raise
