"""Reads the chips of a worker while a process uses them: the same runtime metrics that ``tpu-info`` reads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import grpc

from jupyter_tpu.emulator.runtime_metrics.protos import SERVICE, message_class
from jupyter_tpu.emulator.workers.chips import LOOPBACK, is_in_use, read_chips

PATIENCE_S = 2.0  # real seconds for one metric; bounds a service that a test lets hang
_METRICS = {
    "duty_percent": "tpu.runtime.tensorcore.dutycycle.percent",
    "idle_s": "tpu.runtime.tensorcore.idle_duration.seconds",
    "hbm_used_bytes": "tpu.runtime.hbm.memory.usage.bytes",
    "hbm_total_bytes": "tpu.runtime.hbm.memory.total.bytes",
}


def accelerator_reading(folder: Path) -> dict[str, Mapping[str, float]]:
    """Return values by device, under the names that `Sample` has for them.

    Empty if no process uses the chips. Blocks.
    """
    # no service runs then, and a call would only time out
    if not is_in_use(folder):
        return {}
    _, port = read_chips(folder)
    try:
        with grpc.secure_channel(f"{LOOPBACK}:{port}", grpc.local_channel_credentials()) as channel:
            return {name: _values(channel, metric) for name, metric in _METRICS.items()}
    except grpc.RpcError:
        return {}  # the process has just ended, or is still starting its service


def _values(channel: grpc.Channel, metric: str) -> Mapping[str, float]:
    call = channel.unary_unary(
        f"/{SERVICE}/GetRuntimeMetric",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=message_class("MetricResponse").FromString,
    )
    answer: Any = call(message_class("MetricRequest")(metric_name=metric), timeout=PATIENCE_S)
    return {str(each.attribute.value.int_attr): _value(each.gauge) for each in answer.metric.metrics}


def _value(gauge: Any) -> float:
    return float(getattr(gauge, gauge.WhichOneof("value") or "as_int"))
