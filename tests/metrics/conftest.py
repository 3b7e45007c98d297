"""A process that serves libtpu's runtime metrics and says what it is told to say, true or not: real gRPC."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from dataclasses import dataclass, field

import grpc
import pytest
from tpu_info.proto import tpu_metric_service_pb2 as messages
from tpu_info.proto import tpu_metric_service_pb2_grpc as stubs

Values = dict[str, list[tuple[int, float]]]


@dataclass
class Runtime(stubs.RuntimeMetricServiceServicer):
    """What it says: ids and numbers by metric; those that it lacks do not exist."""

    values: Values = field(default_factory=dict)
    port: int = 0
    asked: list[str] = field(default_factory=list)
    hangs: threading.Event | None = None
    server: grpc.Server | None = None

    def GetRuntimeMetric(self, request: messages.MetricRequest, context: grpc.ServicerContext) -> object:
        self.asked.append(request.metric_name)
        if self.hangs is not None:
            self.hangs.wait()
        if request.metric_name not in self.values:
            context.abort(grpc.StatusCode.NOT_FOUND, f"{request.metric_name} not found")
        rows = [self._row(request.metric_name, *pair) for pair in self.values[request.metric_name]]
        return messages.MetricResponse(metric=messages.TPUMetric(name=request.metric_name, metrics=rows))

    def _row(self, name: str, device: int, value: float) -> object:
        gauge = messages.Gauge(as_int=value) if isinstance(value, int) else messages.Gauge(as_double=value)
        if name != "hlo.queue.size.gauge":
            number = messages.Attribute(key="device-id", value=messages.AttrValue(int_attr=device))
            return messages.Metric(attribute=number, gauge=gauge)
        pairs = [
            messages.Attribute(key="device_ordinal", value=messages.AttrValue(string_attr=str(device))),
            messages.Attribute(key="core_type", value=messages.AttrValue(string_attr="tensor_core")),
        ]
        words = messages.AttrValue(kvlist_attr=messages.KeyValueList(attributes=pairs))
        return messages.Metric(attribute=messages.Attribute(key="attributes", value=words), gauge=gauge)


@pytest.fixture
def serve() -> Iterator[Callable[..., Runtime]]:
    """Starts such processes' services, each on a port of its own."""
    started: list[Runtime] = []

    def start(values: Values, **options: object) -> Runtime:
        runtime = Runtime(values, **options)  # type: ignore[arg-type]
        runtime.server = grpc.server(futures.ThreadPoolExecutor(8))
        stubs.add_RuntimeMetricServiceServicer_to_server(runtime, runtime.server)
        runtime.port = runtime.server.add_secure_port("127.0.0.1:0", grpc.local_server_credentials())
        runtime.server.start()
        started.append(runtime)
        return runtime

    yield start
    for runtime in started:
        if runtime.hangs is not None:
            runtime.hangs.set()
        assert runtime.server is not None
        runtime.server.stop(grace=None).wait()
