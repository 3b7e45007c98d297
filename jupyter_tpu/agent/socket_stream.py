"""An open byte stream in a program that the agent has started with its socket; see `wire.byte_streams`.

The agent isn't in the path of the data. The program's methods block, and it needs no threads: while it writes, it also
receives acknowledgements.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time

from jupyter_tpu.wire.byte_streams import MOST_WINDOW_BYTES, FlowControl
from jupyter_tpu.wire.frames import Kind, ProtocolError, encode_json

_READ_BYTES = 256 * 1024


class SocketStream:
    """The worker's end of a byte stream.

    Args:
        connection: a connected, blocking socket.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._flow = FlowControl(MOST_WINDOW_BYTES["files"])

    @classmethod
    def accept(cls, descriptor: int) -> SocketStream:
        """Open the stream on the socket that the agent passed to this program, and tell the client."""
        connection = socket.socket(fileno=descriptor)
        connection.setblocking(True)
        connection.sendall(encode_json(Kind.OPENED, {}))
        return cls(connection)

    def read(self, n: int) -> bytes:
        """Wait for bytes and return up to `n` of them, or ``b""`` once the client has ended the stream.

        Raises:
            ConnectionError: the connection was lost before that, or the client violated the protocol.
        """
        while (data := self._flow.take(n)) is None:
            self._receive()
        self._flush()
        return data

    def write(self, data: bytes) -> None:
        """Send bytes; wait while the client reads too slowly. Raises the same error as `read`."""
        self._flow.send(data)
        self._flush()
        while self._flow.queued:
            self._receive()

    def close(self) -> None:
        """End the stream, and wait until the client has read everything or is gone."""
        try:
            self._flow.end()
            self._flush()
            while not self._flow.is_delivered:
                self._receive()
        except ConnectionError:
            pass
        finally:
            self._socket.close()

    def _receive(self) -> None:
        data = self._socket.recv(_READ_BYTES)
        if not data:
            raise ConnectionResetError("the client closed the connection")
        try:
            self._flow.feed(data, time.monotonic())
        except ProtocolError as error:
            raise ConnectionAbortedError(str(error)) from error
        self._flush()

    def _flush(self) -> None:
        if frames := self._flow.frames(time.monotonic()):
            self._socket.sendall(frames)


def exit_with_agent() -> None:
    """Exit this process when the agent does: its end of our standard input is then closed.

    The connection that the process serves ends with the agent too, and the client opens a new one. An old process must
    not work on the same folder as the new one.
    """
    threading.Thread(target=_wait_for_agent, daemon=True).start()


def _wait_for_agent() -> None:
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os._exit(0)
