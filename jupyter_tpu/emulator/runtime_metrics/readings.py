"""The metrics that libtpu reports while a process uses its chips, computed from a reading of that process.

This module does no I/O: `load` takes the readings, and `service` sends the responses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jupyter_tpu.emulator.resources.behaviours import assumed, recorded
from jupyter_tpu.emulator.runtime_metrics.metrics_script import Script
from jupyter_tpu.emulator.runtime_metrics.protos import TELEMETRY, TENSOR_CORE, TENSOR_CORE_SEQUENCER, new
from jupyter_tpu.emulator.workers.chips import Chips


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The activity of the processes that use the chips.

    Attributes:
        moment: seconds since the epoch.
        memory_bytes: resident memory of all processes.
        busy_percent: their CPU time as a percentage of one core, at most 100.
        idle_s: seconds for which the processes have been idle.
        script: values that a test has set instead of measured ones, or None.
    """

    moment: float
    memory_bytes: int
    busy_percent: float
    idle_s: float
    script: Script | None = None


Measure = Callable[[Chips, Reading], Iterator[Any]]


@dataclass(frozen=True, slots=True)
class Series:
    """A metric: its description and the function that computes its values."""

    description: str
    measure: Measure


def _total_memory(chips: Chips, reading: Reading) -> Iterator[Any]:
    for device in _reported_devices(chips, reading):
        yield _gauge(device, reading, as_int=chips.hbm_bytes_per_device)


@assumed(
    "emulated-memory",
    "The memory in use is the resident memory of the processes that use the chips, spread evenly over the "
    "devices and limited to the memory of the type.",
)
def _used_memory(chips: Chips, reading: Reading) -> Iterator[Any]:
    used = min(reading.memory_bytes // chips.device_count, chips.hbm_bytes_per_device)
    scripted = dict(_scripted(reading, "memory_percent", _devices(chips)))
    for device in _reported_devices(chips, reading):
        is_scripted = device in scripted
        percent = scripted.get(device, 0.0)
        yield _gauge(device, reading, as_int=int(chips.hbm_bytes_per_device * percent / 100) if is_scripted else used)


@assumed(
    "emulated-duty-cycle",
    "The duty cycle is derived from the CPU time of the processes that use the chips: one busy core counts as "
    "100 percent of every chip.",
)
def _duty_cycle(chips: Chips, reading: Reading) -> Iterator[Any]:
    numbers = range(chips.first_chip, chips.first_chip + chips.count)
    scripted = dict(_scripted(reading, "duty_percent", numbers))
    for chip in numbers:
        yield _gauge(chip, reading, as_double=scripted.get(chip, reading.busy_percent))


def _idle_time(chips: Chips, reading: Reading) -> Iterator[Any]:
    scripted = dict(_scripted(reading, "idle_s", _devices(chips)))
    for device in _reported_devices(chips, reading):
        yield _gauge(device, reading, as_double=scripted.get(device, reading.idle_s))


@assumed(
    "unmeasured-metrics",
    "The emulator does not invent metrics that ordinary processes lack: HBM bandwidth has no values unless a "
    "test sets them, distributions of execution times are empty, and queues have length 0.",
)
def _bandwidth(chips: Chips, reading: Reading) -> Iterator[Any]:
    for device, value in _scripted(reading, "bandwidth_percent", _devices(chips)):
        yield _gauge(device, reading, as_double=value)


def _queues(chips: Chips, reading: Reading) -> Iterator[Any]:
    for device in _reported_devices(chips, reading):
        yield _of_core(device, reading, gauge=new("Gauge", as_int=0))


def _execution_times(chips: Chips, reading: Reading) -> Iterator[Any]:
    for device in _devices(chips):
        yield _of_core(device, reading, distribution=new("Distribution", count=0))


SERIES: Mapping[str, Series] = {
    "tpu.runtime.hbm.memory.total.bytes": Series("Emulated: memory of each device of this type.", _total_memory),
    "tpu.runtime.hbm.memory.usage.bytes": Series("Emulated: memory of the processes that use them.", _used_memory),
    "tpu.runtime.tensorcore.dutycycle.percent": Series(
        "Emulated: CPU time of the processes that use them.", _duty_cycle
    ),
    "tpu.runtime.hbm.utilization.percent": Series("Emulated: cannot be measured, so it has no values.", _bandwidth),
    "tpu.runtime.tensorcore.idle_duration.seconds": Series("Emulated: since the last CPU time seen.", _idle_time),
    "hlo.queue.size.gauge": Series("Emulated: nothing is ever queued.", _queues),
    "hlo.execution.timing.distribution.microseconds": Series("Emulated: nothing is timed.", _execution_times),
}
# tpu-info shows HBM bandwidth use for v4 and later (behaviour `metric-names`)
_WITHOUT_BANDWIDTH = ("v2", "v3")


@recorded(
    "metric-names",
    "The runtime metrics have the names that clients use. They contain memory per device (a TensorCore "
    "of v2 and v3, otherwise a chip), duty cycle per chip and, from v4 on, the use of HBM bandwidth. "
    "Without a multislice, there are no megascale metrics.",
    source="tpu-info 0.14.2, tpu_info/metrics.py; libtpu 0.0.51's SDK as a client",
)
def supported(chips: Chips) -> list[str]:
    """Return the names of the metrics for these chips."""
    bandwidth = "tpu.runtime.hbm.utilization.percent"
    return [name for name in SERIES if name != bandwidth or chips.generation not in _WITHOUT_BANDWIDTH]


def metric(name: str, chips: Chips, reading: Reading) -> Any:
    """Return the ``MetricResponse`` for a supported metric."""
    series = SERIES[name]
    values = list(series.measure(chips, reading))
    return new("MetricResponse", metric=new("TPUMetric", name=name, description=series.description, metrics=values))


@assumed("metric-filter", "A filter for the supported metrics matches substrings of their names.")
def supported_metrics(chips: Chips, part: str) -> Any:
    """Return the ``ListSupportedMetricsResponse`` for names that match a filter."""
    found = [new("SupportedMetric", metric_name=name) for name in supported(chips) if part in name]
    return new("ListSupportedMetricsResponse", supported_metric=found)


@assumed("runtime-status", "The runtime status shows no program on any core, and every sequencer at 0.")
def runtime_status(chips: Chips) -> Any:
    """Return the ``GetTpuRuntimeStatusResponse``."""
    states = [new("CoreStatesEntry", key=core, value=_core_state(core, chips)) for core in _devices(chips)]
    return new("GetTpuRuntimeStatusResponse", host_name=chips.hostname, core_states=states)


def _core_state(core: int, chips: Chips) -> Any:
    on_chip = new(f"{TELEMETRY}.TpuCoreOnChipProto", type=TENSOR_CORE, index=core % chips.devices_per_chip)
    chip = core // chips.devices_per_chip
    identifier = new(f"{TELEMETRY}.TpuCoreIdentifier", global_core_id=core, chip_id=chip, core_on_chip=on_chip)
    sequencer = new(f"{TELEMETRY}.SequencerInfo", sequencer_type=TENSOR_CORE_SEQUENCER)
    return new(f"{TELEMETRY}.CurrentCoreStateSummary", core_id=identifier, sequencer_info=[sequencer])


@recorded(
    "device-ids",
    "Device ids are numbered across all workers of a slice.",
    source="Google's example output of tpu-info on a slice (chips 8, 9, …)",
)
def _devices(chips: Chips) -> range:
    return range(chips.first_device, chips.first_device + chips.device_count)


def _reported_devices(chips: Chips, reading: Reading) -> range:
    """Return all devices except the devices that the script omits."""
    devices = _devices(chips)
    return devices[::2] if reading.script is not None and reading.script.lie == "missing" else devices


def _scripted(reading: Reading, name: str, devices: range) -> Iterator[tuple[int, float]]:
    """Yield the scripted values of a metric; yield nothing if the metric is measured."""
    script = reading.script
    if script is not None and (getattr(script, name) or (script.lie == "nan" and name == "duty_percent")):
        yield from script.of(name, devices)


def _gauge(device: int, reading: Reading, **value: float) -> Any:
    identifier = new("Attribute", key="device-id", value=new("AttrValue", int_attr=device))
    return _dated(new("Metric", attribute=identifier, gauge=new("Gauge", **value)), reading)


def _of_core(device: int, reading: Reading, **measure: Any) -> Any:
    values = {"device_ordinal": str(device), "core_type": "tensor_core"}
    pairs = [new("Attribute", key=key, value=new("AttrValue", string_attr=text)) for key, text in values.items()]
    attributes = new("AttrValue", kvlist_attr=new("KeyValueList", attributes=pairs))
    return _dated(new("Metric", attribute=new("Attribute", key="attributes", value=attributes), **measure), reading)


def _dated(made: Any, reading: Reading) -> Any:
    made.timestamp.FromNanoseconds(int(reading.moment * 1e9))
    return made
