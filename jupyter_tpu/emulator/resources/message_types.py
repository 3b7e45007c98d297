"""The messages of each API version, as in REST.

google-cloud-tpu's protobufs lack fields that Google added to the discovery documents later. Here, each version gets a
copy of its protobufs with those fields, in a separate pool. The copies are for JSON only: the numbers of the added
fields are made up, and no bytes of these messages leave the process.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from google.cloud import tpu_v2, tpu_v2alpha1
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FileDescriptor

from jupyter_tpu.emulator.resources.behaviours import documented
from jupyter_tpu.emulator.resources.request import V2, V2ALPHA1

FieldProto = descriptor_pb2.FieldDescriptorProto

PACKAGES: Mapping[str, Any] = {V2: tpu_v2, V2ALPHA1: tpu_v2alpha1}

_FIRST_NUMBER = 1000  # for the added fields: higher than any real field number
_SCALARS = {"string": FieldProto.TYPE_STRING, "int64": FieldProto.TYPE_INT64, "bool": FieldProto.TYPE_BOOL}
_MAINTENANCE = {
    "type": "enum Type UNKNOWN_TYPE SCHEDULED UNSCHEDULED",
    "can_reschedule": "bool",
    "window_start_time": "string",
    "window_end_time": "string",
    "latest_window_start_time": "string",
    "maintenance_status": "enum MaintenanceStatus UNKNOWN PENDING ONGOING",
}
_MODELS = "enum ProvisioningModel PROVISIONING_MODEL_UNSPECIFIED STANDARD SPOT RESERVATION_BOUND"


@documented(
    "discovery-fields",
    "REST has fields that are missing from the protobuf packages: provisioningModel, runDuration, "
    "bootDiskConfig and others.",
    source="discovery documents of tpu v2 and v2alpha1, revision 20261001; google-cloud-tpu 1.28.0",
)
def added_fields() -> Mapping[str, Mapping[str, Mapping[str, str]]]:
    """Return the types of the fields that only the discovery documents have, by version and message.

    A type is a scalar's name, ``enum Name VALUE…``, the full name of a message (with a leading dot) or the name of a
    message of this version, optionally after ``repeated``.
    """
    return {
        V2: {
            "UpcomingMaintenance": _MAINTENANCE,
            "CustomerEncryptionKey": {"kms_key_name": "string"},
            "BootDiskConfig": {"customer_encryption_key": "CustomerEncryptionKey"},
            "Node": {
                "upcoming_maintenance": "UpcomingMaintenance",
                "boot_disk_config": "BootDiskConfig",
                "protection_tier": "enum ProtectionTier PROTECTION_TIER_UNSPECIFIED STANDARD CAPACITY_OPTIMIZED",
            },
        },
        V2ALPHA1: {
            "AttachedDisk": {"worker_ids": "repeated string"},
            "BootDiskConfig": {
                "storage_pool": "string",
                "provisioned_iops": "int64",
                "disk_size_gb": "int64",
                "provisioned_throughput": "int64",
                "source_image": "string",
            },
            "RunDuration": {
                "max_run_duration": ".google.protobuf.Duration",
                "termination_time": ".google.protobuf.Timestamp",
            },
            "QueuedResource": {"run_duration": "RunDuration", "provisioning_model": f"{_MODELS} FLEX_START"},
            "SchedulingConfig": {
                "reservation_name": "string",
                "termination_timestamp": ".google.protobuf.Timestamp",
                "provisioning_model": _MODELS,
            },
            "NodeUpcomingMaintenanceInfo": {
                "node_name": "string",
                "node_uid": "int64",
                "upcoming_maintenance": "UpcomingMaintenance",
            },
            "GetMaintenanceInfoResponse": {"node_upcoming_maintenances": "repeated NodeUpcomingMaintenanceInfo"},
        },
    }


@dataclass(frozen=True, slots=True)
class RestTypes:
    """The message classes of one API version."""

    version: str
    pool: descriptor_pool.DescriptorPool = field(repr=False)

    def descriptor(self, name: str) -> Descriptor:
        """Return the type of a message by its name within the version, such as ``Node`` or ``QueuedResource.Spot``."""
        return self.pool.FindMessageTypeByName(f"google.cloud.tpu.{self.version}.{name}")

    def new(self, name: str, **fields: Any) -> Any:
        """Create a message of the type with this name."""
        return message_factory.GetMessageClass(self.descriptor(name))(**fields)


def new(version: str, name: str, **fields: Any) -> Any:
    """Create a message of the type with this name in `version`, with the fields that only REST has."""
    return rest_types(version).new(name, **fields)


@functools.cache
def rest_types(version: str) -> RestTypes:
    """Return the message classes of an API version."""
    pool = descriptor_pool.DescriptorPool()
    original = PACKAGES[version].Node.pb().DESCRIPTOR.file
    # a separate pool needs its own copy of all files that this file imports
    for dependency in original.dependencies:
        _copy(dependency, pool)
    file = _proto_of(original)
    for message, fields in added_fields()[version].items():
        _extend(file, message, fields)
    # add the file after its fields: a pool can't change a file later
    pool.Add(file)
    return RestTypes(version, pool)


def _copy(file: FileDescriptor, pool: descriptor_pool.DescriptorPool) -> None:
    for dependency in file.dependencies:
        _copy(dependency, pool)
    pool.Add(_proto_of(file))


def _proto_of(file: FileDescriptor) -> descriptor_pb2.FileDescriptorProto:
    proto = descriptor_pb2.FileDescriptorProto()
    file.CopyToProto(proto)
    return proto


def _extend(file: descriptor_pb2.FileDescriptorProto, name: str, fields: Mapping[str, str]) -> None:
    message = next((each for each in file.message_type if each.name == name), None) or file.message_type.add(name=name)
    for number, (field_name, kind) in enumerate(fields.items(), start=_FIRST_NUMBER):
        _add_field(message, file.package, field_name, number, kind)


def _add_field(message: descriptor_pb2.DescriptorProto, package: str, name: str, number: int, kind: str) -> None:
    last = kind.removeprefix("repeated ")
    label = FieldProto.LABEL_OPTIONAL if last == kind else FieldProto.LABEL_REPEATED
    added = message.field.add(name=name, number=number, label=label)
    if last.startswith("enum "):
        added.type = FieldProto.TYPE_ENUM
        added.type_name = f".{package}.{message.name}.{_add_enum(message, last.split()[1:])}"
    elif last in _SCALARS:
        added.type = _SCALARS[last]
    else:
        added.type = FieldProto.TYPE_MESSAGE
        added.type_name = last if last.startswith(".") else f".{package}.{last}"


def _add_enum(message: descriptor_pb2.DescriptorProto, words: list[str]) -> str:
    name, *values = words
    enum = message.enum_type.add(name=name)
    for number, value in enumerate(values):
        enum.value.add(name=value, number=number)
    return name
