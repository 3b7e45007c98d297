"""Partial responses: the parameter ``fields`` of Google's REST APIs, such as ``nodes(name,state),nextPageToken``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from jupyter_tpu.emulator.resources.behaviours import documented
from jupyter_tpu.emulator.resources.errors import Refusal, bad_field

Mask = dict[str, Any]
"""A tree of field names; an empty tree selects everything below."""

LONGEST = 10_000
"""Maximum length of a mask in characters: our choice, which bounds the time for parsing it."""
_TOKEN = re.compile(r"[A-Za-z0-9_@*-]+|[(),/]")
_OPEN_KINDS = ("google.protobuf.Any", "google.protobuf.Struct")


@documented(
    "fields",
    "The fields parameter, as in nodes(name,state/x),nextPageToken, limits the response to the given fields. A "
    "value that cannot be parsed, or that contains an unknown field, is refused with 400.",
    source="developers.google.com/drive/api/guides/fields-parameter (Google's system parameter); discovery documents",
)
def parse_mask(text: str) -> Mask:
    """Parse the parameter.

    Raises:
        Refusal: the parameter is not a mask.
    """
    words = _TOKEN.findall(text) if len(text) <= LONGEST else []
    # findall skips text that is not a token; the comparison with the whole text detects that
    if not words or "".join(words) != re.sub(r"\s", "", text):
        raise _wrong(text)
    try:
        mask, rest = _list_of(words, 0)
    except (IndexError, RecursionError) as error:
        raise _wrong(text) from error
    if rest != len(words):
        raise _wrong(text)
    return mask


def _list_of(words: list[str], at: int) -> tuple[Mask, int]:
    found: Mask = {}
    while True:
        at = _path_of(words, at, found)
        if at >= len(words) or words[at] != ",":
            return found, at
        at += 1


def _path_of(words: list[str], at: int, into: Mask) -> int:
    """Parse ``a``, ``a/b`` or ``a(b,c)``; raise IndexError for anything else."""
    if words[at] in "(),/":
        raise IndexError
    # a(b),a(c) selects b and c in a
    below: Mask = into.setdefault(words[at], {})
    at += 1
    if at < len(words) and words[at] == "/":
        return _path_of(words, at + 1, below)
    if at < len(words) and words[at] == "(":
        inner, at = _list_of(words, at + 1)
        if words[at] != ")":
            raise IndexError
        below.update(inner)
        at += 1
    return at


def masked(value: Any, mask: Mask) -> Any:
    """Return the JSON with only the fields in the mask; in a list, the mask applies to each item."""
    if not mask:
        return value
    if isinstance(value, list):
        return [masked(each, mask) for each in value]
    # a submask of a scalar selects the scalar
    if not isinstance(value, Mapping):
        return value
    return {
        name: masked(each, mask[name] if name in mask else mask["*"])
        for name, each in value.items()
        if _names(mask, name)
    }


def _names(mask: Mask, name: str) -> bool:
    return name in mask or "*" in mask


def check_mask(mask: Mask, kind: Descriptor, text: str) -> None:
    """Raise an error if the mask contains a field that messages of this kind don't have."""
    # the fields of these messages are unknown until there is a response
    if kind.full_name in _OPEN_KINDS:
        return
    fields = {field.json_name: field for field in kind.fields}
    for name, below in mask.items():
        if name == "*":
            continue
        if name not in fields:
            raise _wrong(text, name)
        field = fields[name]
        if field.type == FieldDescriptor.TYPE_MESSAGE and not field.message_type.GetOptions().map_entry:
            check_mask(below, field.message_type, text)


def _wrong(text: str, name: str = "") -> Refusal:
    place = f": there is no field {name[:60]}" if name else ""
    return bad_field("fields", f"Invalid field selection {text[:200]}{place}")
