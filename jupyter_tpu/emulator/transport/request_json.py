"""Check JSON against the fields of a message; report every violation with the error text of Google's API server."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from google.protobuf import duration_pb2, timestamp_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from jupyter_tpu.emulator.resources.behaviours import assumed, recorded
from jupyter_tpu.emulator.transport.json_text import (
    RECEIVED,
    Violation,
    bad_payload,
    unknown_parameter,
    whole_characters,
)

# the spellings that protobuf's parser accepts (datapiece.cc), also in a query
_TRUE, _FALSE = frozenset({"true", "t", "yes", "y", "1"}), frozenset({"false", "f", "no", "n", "0"})
_INTEGERS = {
    FieldDescriptor.TYPE_INT32: ("TYPE_INT32", -(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_INT64: ("TYPE_INT64", -(2**63), 2**63 - 1),
}
_URL = "type.googleapis.com/"
_ANY, _DURATION, _MASK, _TIMESTAMP = (
    f"google.protobuf.{name}" for name in ("Any", "Duration", "FieldMask", "Timestamp")
)
_WRITTEN_AS_TEXT = (_DURATION, _MASK, _TIMESTAMP)
_OFFSET = re.compile(r".*(Z|[+-]\d\d:\d\d)", re.DOTALL)


class _Wrong(Exception):
    """The error for a value that is invalid for its field. Its argument is the value as the message quotes it."""


@dataclass(slots=True)
class Reading:
    """A reader of a request's fields, which records each invalid field as a violation."""

    violations: list[Violation] = field(default_factory=list)

    @recorded(
        "unknown-field",
        "An unknown field in a request body is refused with 400; the message names the field as sent, and its "
        "location in proto names.",
        source="google-marketing-solutions/dv360-api-appsscript-samples#7; decolua/9router#1876",
    )
    def unknown_name(self, at: str, name: str, why: str = "Cannot find field.") -> None:
        """Record a field that the message does not have."""
        self.violations.append((at, f'{RECEIVED}Unknown name "{name}"{_at(at)}: {why}'))

    @recorded(
        "invalid-value",
        "A value that is invalid for its field is refused with 400; the message names the field, the type and the "
        "value.",
        source="errors of Google's Docs and Tasks APIs and of Gemini in public repositories",
    )
    def invalid_value(self, at: str, kind: str, quoted: str) -> None:
        """Record a value that its field can't have."""
        self.violations.append((at, f"Invalid value{_at(at)} ({kind}), {quoted}"))

    def check(self) -> None:
        """Raise one error for all recorded violations; return if there are none."""
        if self.violations:
            raise bad_payload(self.violations)

    def message(self, body: Mapping[str, Any], kind: Descriptor, at: str = "") -> dict[str, Any]:
        """Return the body with camelCase names and values that protobuf's parser accepts; record violations."""
        fields = names_of(kind)
        read: dict[str, Any] = {}
        chosen: dict[str, str] = {}
        for name, value in body.items():
            found = fields.get(name)
            if found is None:
                self.unknown_name(at, whole_characters(name))
            # null means not set, in every field (protobuf's JSON mapping)
            elif value is not None and self._is_first(found, name, chosen, at):
                self._read(found, name, value, at, read)
        return read

    def _is_first(self, found: FieldDescriptor, name: str, chosen: dict[str, str], at: str) -> bool:
        oneof = found.containing_oneof
        if oneof is None or chosen.setdefault(oneof.name, name) == name:
            return True
        self.invalid_value(at, "oneof", f"oneof field '{oneof.name}' is already set. Cannot set '{name}'")
        return False

    def _read(self, found: FieldDescriptor, name: str, value: Any, at: str, read: dict[str, Any]) -> None:
        # Google's errors use proto names, whichever spelling was sent
        place = f"{at}.{proto_name(found)}" if at else proto_name(found)
        if _is_map(found):
            read[found.json_name] = self._map(found, value, place)
        elif found.is_repeated:
            read[found.json_name] = self._list(found, value, place)
        elif isinstance(value, list):
            self.unknown_name(at, name, "Proto field is not repeating, cannot start list.")
        else:
            self._put(read, found.json_name, self._value(found, value, place))

    def _put(self, read: dict[str, Any], key: str, value: Any) -> None:
        if value is not None:
            read[key] = value

    def _list(self, found: FieldDescriptor, value: Any, at: str) -> list[Any]:
        """Read a list; a single value counts as a list of one."""
        if not isinstance(value, list):
            return [each for each in [self._value(found, value, at)] if each is not None]
        read = [self._value(found, each, f"{at}[{index}]") for index, each in enumerate(value)]
        return [each for each in read if each is not None]

    def _map(self, found: FieldDescriptor, value: Any, at: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            self.invalid_value(at, f"{_URL}{found.message_type.full_name}", quoted(value))
            return {}
        item = found.message_type.fields_by_name["value"]
        read: dict[str, Any] = {}
        for index, (key, each) in enumerate(value.items()):
            self._put(read, whole_characters(key), self._value(item, each, f"{at}[{index}].value"))
        return read

    def _value(self, found: FieldDescriptor, value: Any, at: str) -> Any:
        """Read one value. Return None if the value is null or invalid; record an invalid value as a violation."""
        if value is None:
            return None
        if not _is_leaf(found):
            return self._nested(found.message_type, value, at)
        # unlike for a wrong scalar, Google's parser names the field's parent in this error
        if isinstance(value, dict | list):
            self.invalid_value(at.rpartition(".")[0], proto_name(found), "Starting an object on a scalar field")
            return None
        try:
            return _scalar(found, value)
        except _Wrong as wrong:
            self.invalid_value(at, _type_name(found), str(wrong))
            return None

    def _nested(self, kind: Descriptor, value: Any, at: str) -> dict[str, Any] | None:
        if not isinstance(value, dict):
            self.invalid_value(at, f"{_URL}{kind.full_name}", quoted(value))
            return None
        if kind.full_name == _ANY:  # only in fields that the server sets and ignores in a request
            return None
        return self.message(value, kind, at)

    @recorded(
        "unknown-parameter",
        "An unknown query parameter is refused with 400; the message names the parameter.",
        source="errors of Google's Docs, Jules and Identity Toolkit APIs in public repositories",
    )
    def parameters(self, query: Mapping[str, list[str]], kind: Descriptor) -> dict[str, Any]:
        """Return query parameters as fields of the message; dots separate the names of nested fields."""
        read: dict[str, Any] = {}
        for name, texts in query.items():
            if not self._bind(name, texts, kind, read):
                self.violations.append(("", unknown_parameter(whole_characters(name))))
        return read

    @assumed("repeated-parameter", "If a query parameter occurs twice, the last value applies.")
    def _bind(self, name: str, texts: list[str], kind: Descriptor, read: dict[str, Any]) -> bool:
        head, dot, rest = name.partition(".")
        found = names_of(kind).get(head)
        if found is None or _is_leaf(found) == bool(dot) or (dot and found.is_repeated):
            return False
        if dot:
            return self._bind(rest, texts, found.message_type, read.setdefault(found.json_name, {}))
        # a query doesn't show whether a parameter is a list
        value = texts if found.is_repeated else texts[-1]
        self._read(found, name, value, "", read)
        return True


def names_of(kind: Descriptor) -> dict[str, FieldDescriptor]:
    """Map the field names of a message to its fields. Each field has two names: one in the proto and one in JSON."""
    by_proto = {proto_name(each): each for each in kind.fields}
    return {**by_proto, **{each.json_name: each for each in kind.fields}}


def proto_name(found: FieldDescriptor) -> str:
    """Return a field's name in the proto, such as ``type`` for the field ``type_`` of Google's Python packages."""
    return str(found.name).removesuffix("_")


def quoted(value: Any) -> str:
    """Format a value as quoted in error messages: a string in quotes, unescaped, and a number as its digits."""
    if isinstance(value, str):
        return f'"{whole_characters(value)[:500]}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)[:500]


def _at(place: str) -> str:
    return f" at '{place}'" if place else ""


def _is_leaf(found: FieldDescriptor) -> bool:
    return found.message_type is None or found.message_type.full_name in _WRITTEN_AS_TEXT


def _is_map(found: FieldDescriptor) -> bool:
    return found.message_type is not None and bool(found.message_type.GetOptions().map_entry)


def _type_name(found: FieldDescriptor) -> str:
    kind = found.enum_type or found.message_type
    if kind is not None:
        return f"{_URL}{kind.full_name}"
    words = {FieldDescriptor.TYPE_STRING: "TYPE_STRING", FieldDescriptor.TYPE_BOOL: "TYPE_BOOL"}
    return words.get(found.type) or _INTEGERS[found.type][0]


def _scalar(found: FieldDescriptor, value: Any) -> Any:
    if found.message_type is not None:
        return _time(found, value)
    if found.enum_type is not None:
        return _enum(found, value)
    # check bools before integers, because True is an int in Python
    if found.type == FieldDescriptor.TYPE_BOOL:
        return _boolean(value)
    if found.type in _INTEGERS:
        return _integer(found, value)
    if not isinstance(value, str):
        raise _Wrong(quoted(value))
    return whole_characters(value)


@recorded(
    "booleans",
    "A boolean can be written as True, true, 1 or yes, including in a query.",
    source="gcloud 528.0.0 sends force=True; protobuf datapiece.cc",
)
def _boolean(value: Any) -> bool:
    word = value.lower() if isinstance(value, str) else str(value).lower().removesuffix(".0")
    if word not in _TRUE | _FALSE:
        raise _Wrong(quoted(value))
    return word in _TRUE


def _integer(found: FieldDescriptor, value: Any) -> int:
    _, least, most = _INTEGERS[found.type]
    is_text = isinstance(value, str) and re.fullmatch(r"[+-]?[0-9]{1,20}", value) is not None
    # 1.0 is a whole number in JSON
    is_whole = isinstance(value, int | float) and not isinstance(value, bool) and value == value // 1
    if not (is_text or is_whole) or not least <= int(value) <= most:
        raise _Wrong(quoted(value))
    return int(value)


def _enum(found: FieldDescriptor, value: Any) -> int:
    """Return the number of an enum's value, given by number or by name in any case."""
    numbers = {each.name: each.number for each in found.enum_type.values}
    if isinstance(value, str):
        # protobuf's parser accepts names in any case, with hyphens
        name = value.upper().replace("-", "_")
        if name in numbers:
            return int(numbers[name])
        if value.isascii() and value.isdigit() and int(value[:20]) in numbers.values():
            return int(value[:20])
    elif isinstance(value, int) and not isinstance(value, bool) and value in numbers.values():
        return value
    raise _Wrong(quoted(value))


@recorded(
    "times",
    "A timestamp requires an offset, and a duration requires the suffix s. The error message names the "
    "JSON field and the problem.",
    source="YouTube, Job and Pub/Sub APIs in public repositories (published_before, messageRetentionDuration)",
)
def _time(found: FieldDescriptor, value: Any) -> str:
    reason = _WRONG[found.message_type.full_name](value)
    if reason:
        raise _Wrong(f"Field '{found.json_name}', {reason}")
    return whole_characters(str(value))


def _wrong_duration(value: Any) -> str:
    if not isinstance(value, str):
        return f"Invalid data type for duration, value is {quoted(value)}"
    if not value.endswith("s"):
        return "Illegal duration format; duration must end with 's'"
    try:
        duration_pb2.Duration().FromJsonString(value)
    except (ValueError, OverflowError):
        return "Invalid duration format, failed to parse seconds"
    return ""


def _wrong_timestamp(value: Any) -> str:
    if not isinstance(value, str):
        return f"Invalid data type for timestamp, value is {quoted(value)}"
    # for this error, protobuf's own message differs from the front end's message
    if not _OFFSET.fullmatch(value):
        return "Illegal timestamp format; timestamps must end with 'Z' or have a valid timezone offset."
    try:
        timestamp_pb2.Timestamp().FromJsonString(value)
    except (ValueError, OverflowError):
        return f"Invalid time format: {whole_characters(value)[:80]}"
    return ""


def _wrong_mask(value: Any) -> str:
    return "" if isinstance(value, str) else f"Invalid data type for field mask, value is {quoted(value)}"


_WRONG = {_DURATION: _wrong_duration, _MASK: _wrong_mask, _TIMESTAMP: _wrong_timestamp}
"""Functions that return the error in a value given as text, by type; they return an empty string for a valid value."""
