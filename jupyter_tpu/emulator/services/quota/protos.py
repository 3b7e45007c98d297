"""The messages of Cloud Quotas over gRPC, built here so that google-cloud-quotas is not required at run time.

Names, numbers and types are those of google-cloud-quotas 0.6.3, the same in v1 and v1beta. They are in a pool of their
own, so that a program may load Google's beside them.
"""

from __future__ import annotations

import functools
from typing import Any

from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    field_mask_pb2,
    message_factory,
    timestamp_pb2,
    wrappers_pb2,
)

VERSIONS = ("v1", "v1beta")

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "int64": _Field.TYPE_INT64,
    "int32": _Field.TYPE_INT32,
    "bool": _Field.TYPE_BOOL,
    "string": _Field.TYPE_STRING,
}
_ENUMS = {
    "ContainerType": ("CONTAINER_TYPE_UNSPECIFIED", "PROJECT", "FOLDER", "ORGANIZATION"),
    "QuotaSafetyCheck": (
        "QUOTA_SAFETY_CHECK_UNSPECIFIED",
        "QUOTA_DECREASE_BELOW_USAGE",
        "QUOTA_DECREASE_PERCENTAGE_TOO_HIGH",
    ),
    "IneligibilityReason": (
        "INELIGIBILITY_REASON_UNSPECIFIED",
        "NO_VALID_BILLING_ACCOUNT",
        "OTHER",
        "NOT_ENOUGH_USAGE_HISTORY",
    ),
}
# message → "number name type", with * for repeated; texts is map<string, string>
_MESSAGES = {
    "QuotaDetails": ["1 value int64"],
    "DimensionsInfo": ["1 dimensions texts", "2 details QuotaDetails", "3 applicable_locations string*"],
    "QuotaIncreaseEligibility": ["1 is_eligible bool", "2 ineligibility_reason IneligibilityReason"],
    "QuotaInfo": [
        *("1 name string", "2 quota_id string", "3 metric string", "4 service string", "5 is_precise bool"),
        *("7 container_type ContainerType", "8 dimensions string*", "9 metric_display_name string"),
        *("10 quota_display_name string", "11 metric_unit string"),
        *("12 quota_increase_eligibility QuotaIncreaseEligibility", "14 dimensions_infos DimensionsInfo*"),
    ],
    "QuotaConfig": [
        *("1 preferred_value int64", "2 state_detail string", "3 granted_value google.protobuf.Int64Value"),
        *("4 trace_id string", "5 annotations texts"),
    ],
    "QuotaPreference": [
        *("1 name string", "2 dimensions texts", "3 quota_config QuotaConfig", "4 etag string"),
        *("5 create_time google.protobuf.Timestamp", "6 update_time google.protobuf.Timestamp"),
        *("7 service string", "8 quota_id string", "10 reconciling bool", "11 justification string"),
        "12 contact_email string",
    ],
    "ListQuotaInfosRequest": ["1 parent string", "2 page_size int32", "3 page_token string"],
    "ListQuotaInfosResponse": ["1 quota_infos QuotaInfo*", "2 next_page_token string"],
    "GetQuotaInfoRequest": ["1 name string"],
    "ListQuotaPreferencesRequest": [
        *("1 parent string", "2 page_size int32", "3 page_token string"),
        "4 filter string",
        "5 order_by string",
    ],
    "ListQuotaPreferencesResponse": ["1 quota_preferences QuotaPreference*", "2 next_page_token string"],
    "GetQuotaPreferenceRequest": ["1 name string"],
    "CreateQuotaPreferenceRequest": [
        *("1 parent string", "2 quota_preference_id string", "3 quota_preference QuotaPreference"),
        "4 ignore_safety_checks QuotaSafetyCheck*",
    ],
    "UpdateQuotaPreferenceRequest": [
        *("1 update_mask google.protobuf.FieldMask", "2 quota_preference QuotaPreference", "3 allow_missing bool"),
        *("4 validate_only bool", "5 ignore_safety_checks QuotaSafetyCheck*"),
    ],
}


def package(version: str) -> str:
    """Return the proto package of a version."""
    return f"google.api.cloudquotas.{version}"


def message_class(version: str, name: str) -> Any:
    """Return the class of a message."""
    return message_factory.GetMessageClass(_pool(version).FindMessageTypeByName(f"{package(version)}.{name}"))


@functools.cache
def _pool(version: str) -> Any:
    pool = descriptor_pool.DescriptorPool()
    file = descriptor_pb2.FileDescriptorProto(name="cloudquotas.proto", package=package(version), syntax="proto3")
    # the pool is empty: even protobuf's own types must be added
    for known in (timestamp_pb2, wrappers_pb2, field_mask_pb2):
        pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
        file.dependency.append(known.DESCRIPTOR.name)
    for name, words in _ENUMS.items():
        enum = file.enum_type.add(name=name)
        for number, word in enumerate(words):
            enum.value.add(name=word, number=number)
    for name, lines in _MESSAGES.items():
        _add_fields(file.message_type.add(name=name), lines, f".{package(version)}")
    pool.Add(file)
    return pool


def _add_fields(message: Any, lines: list[str], scope: str) -> None:
    for line in lines:
        number, name, kind = line.split()
        # a map is a list of entries in a descriptor
        is_map = kind == "texts"
        label = _Field.LABEL_REPEATED if kind.endswith("*") or is_map else _Field.LABEL_OPTIONAL
        field = message.field.add(name=name, number=int(number), label=label)
        if is_map:
            field.type, field.type_name = _Field.TYPE_MESSAGE, f"{scope}.{message.name}.{_add_entry(message, name)}"
        else:
            _set_type(field, kind.rstrip("*"), scope)


def _set_type(field: Any, kind: str, scope: str) -> None:
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
        return
    field.type = _Field.TYPE_ENUM if kind in _ENUMS else _Field.TYPE_MESSAGE
    field.type_name = f".{kind}" if "." in kind else f"{scope}.{kind}"


def _add_entry(message: Any, name: str) -> str:
    """Add the entry of a map, which is a list of pairs on the wire; return its name."""
    entry = message.nested_type.add(name=f"{name.title().replace('_', '')}Entry")
    entry.options.map_entry = True
    for number, part in enumerate(("key", "value"), 1):
        entry.field.add(name=part, number=number, type=_Field.TYPE_STRING, label=_Field.LABEL_OPTIONAL)
    return str(entry.name)
