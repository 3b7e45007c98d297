"""How busy the chips are, from libtpu's runtime metrics: one gRPC call by hand, since the agent brings no gRPC.

The service lives inside the process that holds the chips and speaks HTTP/2 in clear text on loopback. Only what this
one call needs of HTTP/2, HPACK and protobuf is here; names and field numbers are those of tpu-info 0.14.2.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

LOOPBACK = "127.0.0.1"
_PATH = "/tpu.monitoring.runtime.RuntimeMetricService/GetRuntimeMetric"
_METRIC = b"tpu.runtime.tensorcore.dutycycle.percent"
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY = 0, 1, 3, 4, 6, 7
_ACK = _END_STREAM = 1
_END_HEADERS = 4
_PADDED = 8
_LONGEST_ANSWER = 1024 * 1024


class MetricsUnreadable(Exception):
    """The chips are held, but how busy they are is not told; the text says why."""


class NobodyServes(Exception):
    """No process serves metrics on this port, as is so while nobody holds the chips."""


def duty_cycles(port: int, timeout_s: float = 3.0) -> list[float]:
    """Percent of each chip, by the process that serves this port. Blocks for `timeout_s` a step at most.

    Raises:
        NobodyServes: nothing listens.
        MetricsUnreadable: what listens does not tell.
    """
    try:
        connection = socket.create_connection((LOOPBACK, port), timeout=timeout_s)
    except ConnectionRefusedError:
        raise NobodyServes from None
    except OSError as error:
        raise MetricsUnreadable(f"the runtime metrics cannot be reached: {error}") from error
    with connection:
        try:
            connection.sendall(_question(port))
            return list(_percents(_answer(connection)))
        except (OSError, ValueError, IndexError, struct.error) as error:
            raise MetricsUnreadable(f"the runtime metrics cannot be read: {error}") from error


# -- HTTP/2


def _question(port: int) -> bytes:
    headers = {
        ":method": "POST",
        ":scheme": "http",
        ":path": _PATH,
        ":authority": f"localhost:{port}",
        "te": "trailers",
        "content-type": "application/grpc",
    }
    block = b"".join(b"\0" + _text(name) + _text(value) for name, value in headers.items())
    request = b"\x0a" + bytes([len(_METRIC)]) + _METRIC
    message = struct.pack("!BI", 0, len(request)) + request
    return (
        _PREFACE
        + _frame(_SETTINGS, 0, 0, b"")
        + _frame(_HEADERS, _END_HEADERS, 1, block)
        + _frame(_DATA, _END_STREAM, 1, message)
    )


def _text(text: str) -> bytes:
    return bytes([len(text)]) + text.encode()


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack("!I", len(payload))[1:] + struct.pack("!BBI", kind, flags, stream) + payload


def _answer(connection: socket.socket) -> bytes:
    """The message of the reply."""
    body = b""
    while True:
        kind, flags, payload = _next_frame(connection)
        if kind == _DATA:
            body += payload[1 : len(payload) - payload[0]] if flags & _PADDED else payload
        elif kind in (_SETTINGS, _PING) and not flags & _ACK:
            connection.sendall(_frame(kind, _ACK, 0, payload if kind == _PING else b""))
        elif kind in (_RESET, _GOAWAY):
            raise ValueError("the call was refused")
        if kind in (_DATA, _HEADERS) and flags & _END_STREAM:
            break
        if len(body) > _LONGEST_ANSWER:
            raise ValueError("the answer is too long")
    if len(body) < 5:
        raise ValueError("the metric is not available")
    return body[5:]


def _next_frame(connection: socket.socket) -> tuple[int, int, bytes]:
    head = _exactly(connection, 9)
    length = int.from_bytes(head[:3], "big")
    if length > _LONGEST_ANSWER:
        raise ValueError("a frame is too long")
    return head[3], head[4], _exactly(connection, length)


def _exactly(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        piece = connection.recv(size - len(found))
        if not piece:
            raise ValueError("the connection was closed")
        found += piece
    return found


# -- protobuf: MetricResponse.metric (1) → TPUMetric.metrics (3) → Metric.gauge (3) → Gauge.as_double (1)


def _percents(message: bytes) -> Iterator[float]:
    for tpu_metric in _within(message, 1):
        for metric in _within(tpu_metric, 3):
            for gauge in _within(metric, 3):
                yield from (struct.unpack("<d", value)[0] for value in _within(gauge, 1))


def _within(message: bytes, wanted: int) -> Iterator[bytes]:
    """The bytes of each field of this number."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        start, at = _extent(message, at, tag & 7)
        if tag >> 3 == wanted:
            yield message[start:at]


def _extent(message: bytes, at: int, kind: int) -> tuple[int, int]:
    """Where a field's value begins and ends."""
    if kind == 0:
        return at, _varint(message, at)[1]
    if kind in (1, 5):
        return at, at + (8 if kind == 1 else 4)
    if kind == 2:
        size, start = _varint(message, at)
        return start, start + size
    raise ValueError("the answer is no protobuf")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
