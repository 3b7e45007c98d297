"""Byte streams: connections to the agent's socket that carry raw bytes instead of calls, both ways.

The client's first frame is OPEN and says what to connect to: ``{"files": folder}`` or ``{"port": n}``. Only an agent
whose hello lists "open" supports it. The client sends nothing else until the worker has sent OPENED. After that, both
sides send the same two kinds of frames: DATA [offset of its first byte], where an empty frame ends this direction, and
ACK [offset up to which the bytes were read by the program, not only received].

So the bytes in flight are limited in both directions. Otherwise, they would fill the queues of the SSH connection, and
an interrupt on the same connection would wait behind them. A connection that is lost before the empty frame is never
mistaken for the end of the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jupyter_tpu.wire.flow import Window
from jupyter_tpu.wire.frames import FrameDecoder, Kind, ProtocolError, encode_frame

LEAST_WINDOW_BYTES = 256 * 1024
"""The smallest window: at 1 MB/s, an interrupt waits for at most 0.26 s behind the bytes in flight."""
MOST_WINDOW_BYTES = {"files": 8 * 1024 * 1024, "port": 1024 * 1024}
"""The largest window by kind of stream.

8 MiB fill a path of 80 MB/s at a round trip of 50 ms. The window also limits the memory for received bytes, and the
bytes that a resumed transfer sends again. A page may open dozens of connections to a port, so their windows are
smaller.
"""
# The largest piece of data in one frame: a frame is sent as a whole, and other frames of the connection wait for it.
_PIECE_BYTES = 64 * 1024
# Acknowledge after this many bytes, or when everything that has arrived was read. An acknowledgement per read would
# cost a packet per read.
_ACK_BYTES = 32 * 1024

_LONGEST_PATH = 4096  # Linux's PATH_MAX


def checked_target(content: Mapping[str, Any]) -> tuple[str, str | int]:
    """Return what an OPEN frame asks for: ``("files", folder)`` or ``("port", number)``.

    Raises:
        ProtocolError: the frame asks for neither.
    """
    folder, port = content.get("files"), content.get("port")
    if isinstance(folder, str) and 0 < len(folder) < _LONGEST_PATH and "\0" not in folder:
        return "files", folder
    if type(port) is int and 0 < port < 65536:
        return "port", port
    raise ProtocolError(f"cannot open {str(dict(content))[:100]}")


class FlowControl:
    """One end of an open byte stream: frames in, bytes out, and back. `now` is monotonic time in seconds.

    Args:
        most: the largest window in bytes, the same at both ends: see `MOST_WINDOW_BYTES`.
    """

    def __init__(self, most: int) -> None:
        self._decoder = FrameDecoder(frozenset({Kind.DATA, Kind.ACK}))
        self._most = most
        self._window = Window(LEAST_WINDOW_BYTES, most)
        self._outgoing = bytearray()
        self._sent = self._confirmed = 0
        self._closing = self._closed = False
        self._incoming = bytearray()
        self._received = self._acknowledged = 0
        self._has_ended = False

    @property
    def queued(self) -> int:
        """Number of bytes to send that the window doesn't allow yet."""
        return len(self._outgoing)

    @property
    def is_delivered(self) -> bool:
        """Whether the peer has read everything that was sent, up to the end of our direction."""
        return self._closed and self._confirmed == self._sent

    # -- sending

    def send(self, data: bytes) -> None:
        """Queue bytes for the peer."""
        if not self._closing:
            self._outgoing += data

    def end(self) -> None:
        """End our direction after the queued bytes."""
        self._closing = True

    def frames(self, now: float) -> bytes:
        """Return the frames to send now: an acknowledgement, and as many queued bytes as the window allows."""
        frames = []
        read = self._received - len(self._incoming)
        if read - self._acknowledged >= _ACK_BYTES or (read > self._acknowledged and not self._incoming):
            self._acknowledged = read
            frames.append(encode_frame(Kind.ACK, number=read))
        while self._outgoing and self._window.room >= min(_PIECE_BYTES, len(self._outgoing)):
            piece = bytes(self._outgoing[:_PIECE_BYTES])
            del self._outgoing[:_PIECE_BYTES]
            frames.append(encode_frame(Kind.DATA, number=self._sent, payload=piece))
            self._sent += len(piece)
            self._window.sent(len(piece), now, starved=not self._outgoing)
        if self._closing and not self._outgoing and not self._closed:
            self._closed = True
            frames.append(encode_frame(Kind.DATA, number=self._sent))
        return b"".join(frames)

    # -- receiving

    def feed(self, data: bytes, now: float) -> None:
        """Accept bytes from the connection.

        Raises:
            ProtocolError: the peer violated the protocol, or sent more than the window allows.
        """
        for frame in self._decoder.feed(data):
            if frame.kind == Kind.ACK:
                self._confirm(frame.number, now)
            else:
                self._receive(frame.number, frame.payload)

    def take(self, size: int) -> bytes | None:
        """Return up to `size` received bytes, ``b""`` at the end of the peer's direction, or None if none arrived."""
        if not self._incoming:
            return b"" if self._has_ended else None
        piece = bytes(self._incoming[:size])
        del self._incoming[:size]
        return piece

    def _confirm(self, offset: int, now: float) -> None:
        if not self._confirmed <= offset <= self._sent:
            raise ProtocolError(f"byte {offset} was acknowledged, but {self._sent} were sent")
        self._window.received(offset - self._confirmed, now)
        self._confirmed = offset

    def _receive(self, offset: int, payload: bytes) -> None:
        if offset != self._received or self._has_ended:
            raise ProtocolError(f"byte {offset} of a stream follows byte {self._received}")
        self._has_ended = not payload
        self._received += len(payload)
        self._incoming += payload
        if self._received - self._acknowledged > self._most:
            raise ProtocolError("a stream carries more bytes than its window allows")
