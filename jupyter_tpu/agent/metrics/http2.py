"""A minimal gRPC client for libtpu's services on loopback, because the agent's environment has no gRPC.

It implements only the subset of HTTP/2 (RFC 9113, without TLS) and HPACK (RFC 7541) needed for a few short calls on one
connection. All requests are sent at once, and responses are read in any order. Everything here blocks, so call it in a
thread.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

LOOPBACK = "127.0.0.1"
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY, _WINDOW = 0, 1, 3, 4, 6, 7, 8
_ACK = _END_STREAM = 1
_END_HEADERS = 4
_PADDED = 8
# Maximum size of a response. Bounds memory; a metric of all cores takes only a few KiB. This is also the size of the
# flow-control window, which is set only once, at the start.
_LONGEST_ANSWER = 1024 * 1024
# Extra time after the timeout, to read the data that has already arrived.
_LAST_MOMENT_S = 0.05
_GREETING = (
    _PREFACE,
    struct.pack("!HI", 4, _LONGEST_ANSWER),  # SETTINGS_INITIAL_WINDOW_SIZE
    struct.pack("!I", _LONGEST_ANSWER),
)


class Unreadable(Exception):
    """The error raised when the service sends an invalid response; the message gives the reason."""


class NotServed(Exception):
    """The error raised when no process listens on this port. This is normal while no process uses the chips."""


class GrpcCalls:
    """Several calls to one method, on a separate connection.

    Args:
        path: ``/SERVICE/METHOD``.
        messages: the request message of each call.
        deadline: time limit for all calls, on the clock of `time.monotonic`.

    Raises:
        NotServed: no process listens on the port.
        Unreadable: the port can't be reached.
    """

    def __init__(self, port: int, path: str, messages: Sequence[bytes], deadline: float) -> None:
        self._deadline = deadline
        # A client's streams have odd numbers.
        self._bodies: dict[int, bytes] = {2 * index + 1: b"" for index in range(len(messages))}
        self._open = set(self._bodies)
        self._waiting = b""
        try:
            left_s = max(_LAST_MOMENT_S, deadline - time.monotonic())
            self._socket = socket.create_connection((LOOPBACK, port), timeout=left_s)
        except ConnectionRefusedError:
            raise NotServed from None
        except OSError as error:
            raise Unreadable(_reason(error)) from error
        with suppress(OSError):  # a failure appears when the responses are read
            self._socket.sendall(_questions(port, path, dict(zip(self._bodies, messages, strict=True))))

    def answers(self) -> list[bytes | Unreadable | None]:
        """Return the message of each response, in the order of the requests.

        The entry for a call is None if the service refused the call, and an `Unreadable` with the reason if the call
        timed out or failed.
        """
        self._deadline = max(self._deadline, time.monotonic() + _LAST_MOMENT_S)
        failure = None
        try:
            while self._open:
                self._take(*self._next_frame())
        except (OSError, ValueError, IndexError, struct.error) as error:
            failure = Unreadable(_reason(error))
        return [failure if stream in self._open else _message_or_reason(body) for stream, body in self._bodies.items()]

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == _DATA and stream in self._open:
            self._bodies[stream] += payload[1 : len(payload) - payload[0]] if flags & _PADDED else payload
        elif kind in (_SETTINGS, _PING) and not flags & _ACK:
            self._socket.sendall(_frame(kind, _ACK, 0, payload if kind == _PING else b""))
        elif kind == _GOAWAY:
            raise ValueError("the server refused the calls")
        if kind == _RESET or (kind in (_DATA, _HEADERS) and flags & _END_STREAM):
            self._open.discard(stream)
        if sum(map(len, self._bodies.values())) > _LONGEST_ANSWER:
            raise ValueError("the response is too long")

    def _next_frame(self) -> tuple[int, int, int, bytes]:
        head = self._exactly(9)
        length = int.from_bytes(head[:3], "big")
        if length > _LONGEST_ANSWER:
            raise ValueError("a frame is too long")
        return head[3], head[4], int.from_bytes(head[5:], "big") & 0x7FFFFFFF, self._exactly(length)

    def _exactly(self, size: int) -> bytes:
        while len(self._waiting) < size:
            left_s = self._deadline - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            self._socket.settimeout(left_s)
            piece = self._socket.recv(65536)
            if not piece:
                raise ValueError("the connection was closed")
            self._waiting += piece
        found, self._waiting = self._waiting[:size], self._waiting[size:]
        return found


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "the process that uses the chips is not responding"
    return f"the runtime metrics cannot be read: {error}"


def _questions(port: int, path: str, messages: Mapping[int, bytes]) -> bytes:
    headers = {
        ":method": "POST",
        ":scheme": "http",
        ":path": path,
        ":authority": f"localhost:{port}",
        "te": "trailers",
        "content-type": "application/grpc",
    }
    # Use HPACK literals without indexing: the simplest form, which needs no table.
    block = b"".join(b"\0" + _text(name) + _text(value) for name, value in headers.items())
    preface, settings, window = _GREETING
    parts = [preface, _frame(_SETTINGS, 0, 0, settings), _frame(_WINDOW, 0, 0, window)]
    for stream, message in messages.items():
        parts.append(_frame(_HEADERS, _END_HEADERS, stream, block))
        parts.append(_frame(_DATA, _END_STREAM, stream, struct.pack("!BI", 0, len(message)) + message))
    return b"".join(parts)


def _text(text: str) -> bytes:
    return bytes([len(text)]) + text.encode()


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack("!I", len(payload))[1:] + struct.pack("!BBI", kind, flags, stream) + payload


def _message_or_reason(body: bytes) -> bytes | Unreadable | None:
    try:
        return _message(body)
    except (ValueError, struct.error) as error:
        return Unreadable(_reason(error))


def _message(body: bytes) -> bytes | None:
    """Return the message in a gRPC frame, after the flag and length. None if there is no message, as for errors."""
    if not body:
        return None
    is_compressed, length = struct.unpack_from("!BI", body)
    if is_compressed or length != len(body) - 5:
        raise ValueError("the response is not a gRPC message")
    return body[5:]
