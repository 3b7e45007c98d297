"""The messages of libtpu's runtime metric service, built here so that tpu-info is not required at run time.

Names, numbers and types are those of ``tpu_metric_service.proto`` and ``tpu_telemetry.proto`` (tpu-info 0.14.2);
messages that the emulator never sends are omitted, which the wire format allows. The messages are in a separate pool,
so that a program can also load tpu-info's.
"""

from __future__ import annotations

import functools
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

PACKAGE = "tpu.monitoring.runtime"
SERVICE = f"{PACKAGE}.RuntimeMetricService"
TELEMETRY = "tpu_telemetry"
# enum values of tpu_telemetry.proto
TENSOR_CORE = 1
TENSOR_CORE_SEQUENCER = 1

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "double": _Field.TYPE_DOUBLE,
    "int64": _Field.TYPE_INT64,
    "int32": _Field.TYPE_INT32,
    "bool": _Field.TYPE_BOOL,
    "string": _Field.TYPE_STRING,
    "bytes": _Field.TYPE_BYTES,
}

# message → "number name type", with * for repeated and ? for a member of the message's oneof
_TELEMETRY_MESSAGES = {
    "TpuCoreOnChipProto": ["1 type int32", "2 index int32"],
    "TpuCoreIdentifier": ["1 global_core_id int32", "2 chip_id int32", "3 core_on_chip TpuCoreOnChipProto"],
    "SequencerInfo": ["1 sequencer_type int32", "2 sequencer_index int32", "3 pc int64", "6 program_id int64"],
    "CurrentCoreStateSummary": [
        "1 core_id TpuCoreIdentifier",
        "2 sequencer_info SequencerInfo*",
        "3 xdb_server_running bool",
        "4 program_fingerprint bytes",
    ],
}
_METRIC_MESSAGES = {
    "Distribution": ["1 count int64", "2 mean double", "6 bucket_options BucketOptions", "7 bucket_counts int64*"],
    "BucketOptions": ["2 exponential_buckets Exponential"],
    "Exponential": ["1 num_finite_buckets int32", "2 growth_factor double", "3 scale double"],
    "Gauge": ["1 as_double double?", "2 as_int int64?"],
    "KeyValueList": ["1 attributes Attribute*"],
    "AttrValue": ["1 string_attr string?", "3 int_attr int64?", "6 kvlist_attr KeyValueList?"],
    "Attribute": ["1 key string", "2 value AttrValue"],
    "Metric": [
        "1 attribute Attribute",
        "2 timestamp google.protobuf.Timestamp",
        "3 gauge Gauge?",
        "5 distribution Distribution?",
    ],
    "TPUMetric": ["1 name string", "2 description string", "3 metrics Metric*"],
    "MetricRequest": ["1 metric_name string", "2 skip_node_aggregation bool"],
    "MetricResponse": ["1 metric TPUMetric"],
    "ListSupportedMetricsRequest": ["1 filter string"],
    "SupportedMetric": ["1 metric_name string"],
    "ListSupportedMetricsResponse": ["1 supported_metric SupportedMetric*"],
    "GetTpuRuntimeStatusRequest": ["1 include_hlo_info bool"],
    # on the wire, a map<int32, CurrentCoreStateSummary> is a list of pairs
    "CoreStatesEntry": ["1 key int32", f"2 value {TELEMETRY}.CurrentCoreStateSummary"],
    "GetTpuRuntimeStatusResponse": ["1 host_name string", "2 core_states CoreStatesEntry*"],
}


def new(message: str, /, **fields: Any) -> Any:
    """Create a message of the metric service, or of the telemetry if its name begins with ``tpu_telemetry.``."""
    return message_class(message)(**fields)


@functools.cache
def message_class(name: str) -> Any:
    """Return the class of a message; `name` is as in `new`."""
    full_name = name if "." in name else f"{PACKAGE}.{name}"
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(full_name))


@functools.cache
def _pool() -> Any:
    pool = descriptor_pool.DescriptorPool()
    # the pool is empty, so even protobuf's own types must be added
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(_file("tpu_telemetry.proto", TELEMETRY, _TELEMETRY_MESSAGES, []))
    needed = ["google/protobuf/timestamp.proto", "tpu_telemetry.proto"]
    pool.Add(_file("tpu_metric_service.proto", PACKAGE, _METRIC_MESSAGES, needed))
    return pool


def _file(name: str, package: str, messages: dict[str, list[str]], needed: list[str]) -> Any:
    file = descriptor_pb2.FileDescriptorProto(name=name, package=package, syntax="proto3", dependency=needed)
    for title, lines in messages.items():
        message = file.message_type.add(name=title)
        if any(line.endswith("?") for line in lines):
            message.oneof_decl.add(name="value")
        message.field.extend(_field(line, package) for line in lines)
    return file


def _field(line: str, package: str) -> Any:
    number, name, kind = line.split()
    label = _Field.LABEL_REPEATED if kind.endswith("*") else _Field.LABEL_OPTIONAL
    field = _Field(number=int(number), name=name, label=label)
    # every message here has at most one oneof
    if kind.endswith("?"):
        field.oneof_index = 0
    kind = kind.rstrip("*?")
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type = _Field.TYPE_MESSAGE
        field.type_name = f".{kind}" if "." in kind else f".{package}.{kind}"
    return field
