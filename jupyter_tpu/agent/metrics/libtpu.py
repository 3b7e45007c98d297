"""Read libtpu's runtime metrics, which libtpu serves on a loopback port in each TPU process.

Names and field numbers are from tpu-info 0.14.2. If a worker has several TPU processes, each serves its own port,
starting at 8431 or as set in ``TPU_RUNTIME_METRICS_PORTS``. Everything here blocks, so call it in a thread.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from typing import TypeAlias

from jupyter_tpu.agent.metrics.http2 import GrpcCalls, NotServed, Unreadable
from jupyter_tpu.agent.metrics.validate import RawMetrics

PORTS_VARIABLE = "TPU_RUNTIME_METRICS_PORTS"
# Time limit of a call. A call takes about a millisecond, unless the process hangs.
ANSWER_S = 2.0
_FIRST_PORT = 8431  # the first port that tpu-info uses
_PATH = "/tpu.monitoring.runtime.RuntimeMetricService/GetRuntimeMetric"
_NOT_SERVED = "libtpu does not serve it for these chips, or is too old"

Pairs: TypeAlias = "list[tuple[int, float]]"


def metric_ports(environ: Mapping[str, str], chips: int) -> tuple[int, ...]:
    """Return the ports on which a worker's processes may serve metrics: one for all chips, or one per chip."""
    named = [int(word) for word in environ.get(PORTS_VARIABLE, "").split(",") if word.strip().isdecimal()]
    return tuple(named) or tuple(range(_FIRST_PORT, _FIRST_PORT + max(chips, 1)))


def read_metrics(ports: Iterable[int], names: Sequence[str], answer_s: float = ANSWER_S) -> RawMetrics | None:
    """Read the metrics in `names` from all ports within `answer_s` seconds; return None if nothing serves metrics."""
    deadline = time.monotonic() + answer_s
    # MetricRequest.metric_name (1), in protobuf.
    messages = [b"\x0a" + bytes([len(name)]) + name.encode() for name in names]
    values: dict[str, Pairs] = {}
    why_not: dict[str, str] = {}
    opened = list(_opened(ports, messages, deadline, why_not))
    for calls in opened:
        with closing(calls):
            answers = calls.answers()
        for name, answer in zip(names, answers, strict=True):
            _add(name, answer, values, why_not)
    if not opened and not why_not:
        return None
    # A port that can't be read makes every metric at least partly unknown.
    refused = why_not.pop("", None)
    unsaid = {name: why_not.get(name) or refused or _NOT_SERVED for name in names if refused or name not in values}
    return RawMetrics(values=values, why_not=unsaid | why_not)


def _add(name: str, answer: bytes | Unreadable | None, values: dict[str, Pairs], why_not: dict[str, str]) -> None:
    """Add all values of a response, or the reason why there are none."""
    if isinstance(answer, Unreadable):
        why_not[name] = str(answer)
    elif answer is not None:
        try:
            pairs = list(_pairs(answer))
        except (ValueError, IndexError, struct.error) as error:
            why_not[name] = f"libtpu's answer can't be read: {error}"
        else:
            values.setdefault(name, []).extend(pairs)


def _opened(
    ports: Iterable[int], messages: list[bytes], deadline: float, why_not: dict[str, str]
) -> Iterator[GrpcCalls]:
    """Send the calls to each open port; yield a `GrpcCalls` per port. The caller reads responses after all are sent."""
    for port in ports:
        with suppress(NotServed):
            try:
                yield GrpcCalls(port, _PATH, messages, deadline)
            except Unreadable as error:
                why_not[""] = str(error)


# -- protobuf: MetricResponse.metric (1) → TPUMetric.metrics (3) → Metric


def _pairs(message: bytes) -> Iterator[tuple[int, float]]:
    """Yield the id and value of each gauge."""
    for tpu_metric in _messages(message, 1):
        for metric in _messages(tpu_metric, 3):
            device = [number for attribute in _messages(metric, 1) for number in _device(attribute)]
            value = [number for gauge in _messages(metric, 3) for number in _number(gauge)]
            if device and value:
                yield device[0], value[0]


def _device(attribute: bytes) -> Iterator[int]:
    """Yield the device's number in an encoded Attribute.

    The fields of an Attribute are a key (1) and an AttrValue (2). The AttrValue has the number itself in int_attr (3),
    or in a list of key and value in kvlist_attr (6).
    """
    key = b"".join(_messages(attribute, 1))
    for value in _messages(attribute, 2):
        for number, content in _fields(value):
            if number == 3 and isinstance(content, int):
                yield content
            elif number == 1 and isinstance(content, bytes) and key == b"device_ordinal":
                yield int(content)
            elif number == 6 and isinstance(content, bytes):
                yield from _ordinal(content)


def _ordinal(pairs: bytes) -> Iterator[int]:
    for attribute in _messages(pairs, 1):
        if b"".join(_messages(attribute, 1)) == b"device_ordinal":
            yield from _device(attribute)


def _number(gauge: bytes) -> Iterator[float]:
    """Yield the number in a Gauge: as_double (1) or as_int (2)."""
    for number, content in _fields(gauge):
        if number == 1 and isinstance(content, bytes):
            yield struct.unpack("<d", content)[0]
        elif number == 2 and isinstance(content, int):
            yield content


def _messages(message: bytes, wanted: int) -> Iterator[bytes]:
    """Yield the bytes of each protobuf field with this number."""
    return (content for number, content in _fields(message) if number == wanted and isinstance(content, bytes))


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and content of each protobuf field: an integer for varints, otherwise bytes."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind, start = tag & 7, at
        if kind == 0:
            value, at = _varint(message, at)
            yield tag >> 3, value - (1 << 64) if value >> 63 else value
            continue
        if kind == 2:
            size, start = _varint(message, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError("the response is not a protobuf")
        at = start + size
        if at > len(message):
            raise ValueError("the response is truncated")
        yield tag >> 3, message[start:at]


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:  # ten bytes with seven bits each are enough for 64 bits
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
    raise ValueError("a number is too long")
