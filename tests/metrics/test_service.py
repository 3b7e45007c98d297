"""What the processes that hold chips say is read from their own gRPC servers, whatever they say."""

from __future__ import annotations

import math
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_tpu.agent.metrics.libtpu import metric_ports, read_metrics
from jupyter_tpu.agent.metrics.validate import (
    DUTY_CYCLE,
    HBM_TOTAL,
    HBM_USED,
    SERVED,
    RawMetrics,
    validated,
)

GIB = 2**30
HBM_BANDWIDTH = "tpu.runtime.hbm.utilization.percent"
IDLE_TIME = "tpu.runtime.tensorcore.idle_duration.seconds"
QUEUE_SIZE = "hlo.queue.size.gauge"
ALL = {
    **{metric: [(core, 1) for core in range(8, 16)] for metric in SERVED},
    HBM_TOTAL: [(core, 16 * GIB) for core in range(8, 16)],
    HBM_USED: [(core, core * GIB) for core in range(8, 16)],
    DUTY_CYCLE: [(chip, 78.75) for chip in range(4, 8)],
    HBM_BANDWIDTH: [(core, 12.5) for core in range(8, 16)],
    IDLE_TIME: [(core, 0.25) for core in range(8, 16)],
    QUEUE_SIZE: [(core, 3) for core in range(8, 16)],
}


def told_by(*ports: int, answer_s: float = 30.0) -> RawMetrics:
    told = read_metrics(ports, SERVED, answer_s)
    assert told is not None
    return told


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_all_metrics_are_read_as_they_were_served(serve: Any) -> None:
    runtime = serve(ALL)

    told = told_by(runtime.port)

    assert (told.values, told.why_not) == (ALL, {})
    assert sorted(runtime.asked) == sorted(SERVED)


def test_a_metric_that_this_libtpu_lacks_does_not_hide_the_others(serve: Any) -> None:
    told = told_by(serve({name: pairs for name, pairs in ALL.items() if name != HBM_BANDWIDTH}).port)

    assert set(told.values) == set(ALL) - {HBM_BANDWIDTH}
    assert "too old" in told.why_not[HBM_BANDWIDTH]


def test_several_processes_are_read_together(serve: Any) -> None:
    ports = [serve({HBM_USED: [(core, core)]}).port for core in range(4)]

    assert sorted(told_by(*ports).values[HBM_USED]) == [(0, 0), (1, 1), (2, 2), (3, 3)]


def test_nobody_serves_while_nothing_listens() -> None:
    assert read_metrics([free_port()], SERVED) is None


def test_a_process_that_hangs_is_given_up_and_the_others_are_read(serve: Any) -> None:
    hanging = serve(ALL, hangs=threading.Event())
    answering = serve({HBM_USED: [(5, 7)]})

    told = told_by(hanging.port, answering.port, answer_s=5.0)

    assert told.values == {HBM_USED: [(5, 7)]}
    assert "is not responding" in told.why_not[DUTY_CYCLE]
    assert "is not responding" in told.why_not[HBM_USED]


@pytest.mark.parametrize("lie", [math.nan, -1.0, math.inf, -math.inf, 1e300, 101.0])
def test_numbers_arrive_as_they_are_and_lies_are_not_believed(serve: Any, lie: float) -> None:
    told = told_by(serve({HBM_TOTAL: [(0, 16 * GIB)], HBM_USED: [(0, -5)], DUTY_CYCLE: [(0, lie)]}).port)
    found = validated(told, cores_per_chip=1, expected_cores=8)

    assert (found.chips[0].duty_percent, found.cores[0].hbm_used_bytes) == (None, None)
    assert {"duty_percent", "hbm_used_bytes", "cores"} <= set(found.unknown)


def test_a_process_that_is_gone_is_gone(serve: Any) -> None:
    runtime = serve(ALL)
    told_by(runtime.port)

    runtime.server.stop(grace=None).wait()

    assert read_metrics([runtime.port], SERVED) is None


# -- servers that are none


@contextmanager
def saying(answer: bytes, *, in_pieces: bool = False) -> Iterator[int]:
    """A port on which somebody says this to each who connects, and hangs up."""
    listener = socket.create_server(("127.0.0.1", 0))

    def talk() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(1)
            for piece in [answer[at : at + 1] for at in range(len(answer))] if in_pieces else [answer]:
                connection.sendall(piece)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass

    thread = threading.Thread(target=talk)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        thread.join()
        listener.close()


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack("!I", len(payload))[1:] + struct.pack("!BBI", kind, flags, stream) + payload


def answer_of(message: bytes, stream: int = 1) -> bytes:
    return frame(0, 0, stream, struct.pack("!BI", 0, len(message)) + message) + frame(1, 5, stream, b"")


def message_of(device: int, value: float) -> bytes:
    gauge = b"\x09" + struct.pack("<d", value)
    number = b"\x0a\x09device-id\x12\x02\x18" + bytes([device])
    metric = b"\x0a" + bytes([len(number)]) + number + b"\x1a" + bytes([len(gauge)]) + gauge
    tpu_metric = b"\x1a" + bytes([len(metric)]) + metric
    return b"\x0a" + bytes([len(tpu_metric)]) + tpu_metric


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\xff" * 40,
        frame(7, 0, 0, b"\0" * 8),
        answer_of(b"\x0a\xff\xff\xff\xff\x0f"),
        answer_of(b"\x0a\x05abc"),
        answer_of(b"\xff" * 30),
        frame(0, 1, 1, b"\1\0\0\0\1x"),
        frame(0, 9, 1, b""),
    ],
)
def test_who_talks_nonsense_is_told_so(answer: bytes) -> None:
    with saying(answer) as port:
        told = read_metrics([port], [DUTY_CYCLE], 30.0)

    assert told is not None
    assert not told.values.get(DUTY_CYCLE)
    assert told.why_not[DUTY_CYCLE]


@pytest.mark.parametrize(
    ("garbled", "reason"),
    [
        (answer_of(b"\xff\xff\xff", stream=3), "can't be read"),
        (answer_of(message_of(3, 1.0)[:-1], stream=3), "can't be read"),
        (frame(0, 1, 3, b"\1\0\0\0\1x"), "not a gRPC message"),
        (frame(0, 1, 3, b"x"), "cannot be read"),
        (b"", "closed"),
    ],
)
def test_a_garbled_metric_does_not_hide_the_others(garbled: bytes, reason: str) -> None:
    sound = answer_of(message_of(0, 1.0)), answer_of(message_of(0, 2.0), stream=5)
    with saying(sound[0] + sound[1] + garbled) as port:
        told = read_metrics([port], [HBM_USED, DUTY_CYCLE, HBM_TOTAL], 30.0)

    assert told is not None
    assert told.values == {HBM_USED: [(0, 1.0)], HBM_TOTAL: [(0, 2.0)]}
    assert list(told.why_not) == [DUTY_CYCLE]
    assert reason in told.why_not[DUTY_CYCLE]


def test_an_answer_in_single_bytes_is_read() -> None:
    with saying(answer_of(message_of(3, 42.5)), in_pieces=True) as port:
        told = read_metrics([port], [DUTY_CYCLE], 30.0)

    assert told == RawMetrics(values={DUTY_CYCLE: [(3, 42.5)]})


@settings(max_examples=50)
@given(st.binary(max_size=200))
def test_no_bytes_make_the_reader_fail(answer: bytes) -> None:
    with saying(answer) as port:
        assert read_metrics([port], [DUTY_CYCLE], 30.0) is not None


@pytest.mark.parametrize(
    ("environ", "chips", "ports"),
    [
        ({}, 4, (8431, 8432, 8433, 8434)),
        ({}, 0, (8431,)),
        ({"TPU_RUNTIME_METRICS_PORTS": "9000, 9001,x"}, 4, (9000, 9001)),
        ({"TPU_RUNTIME_METRICS_PORTS": ""}, 1, (8431,)),
    ],
)
def test_ports_are_those_of_the_environment_or_one_for_each_chip(
    environ: dict[str, str], chips: int, ports: tuple[int, ...]
) -> None:
    assert metric_ports(environ, chips) == ports
