"""Placeholders in recorded responses, for parts that depend on the project or the time.

``<time>`` stands for any time, ``<time-1>`` for a time that is the same wherever ``<time-1>`` occurs. `differences`
compares a response with a recorded one and binds numbered placeholders to the actual values; `filled_in` inserts these
values into later requests. Every other character must be the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

KINDS: Mapping[str, str] = {
    "eid": r"0x[0-9a-f]{15,16}",
    "email": r"[^@\s]+@[^@\s]+",
    "host": r"[\w.-]+",
    "ip": r"[0-9A-Fa-f.:]+",
    "key": r"[A-Za-z0-9+/=]+",
    "metadata": r"(?s:.*)",
    "number": r"-?[0-9]+(?:\.[0-9]+)?",
    "operation": r"operation-[0-9]{13}-[0-9a-f]{13}-[0-9a-f]{8}-[0-9a-f]{8}",
    "project": r"[a-z0-9.:-]+",
    "project-number": r"[0-9]+",
    "secret": r"\S+",
    "text": r"(?s:.*)",
    "time": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z",
    "token": r"[\w+/=%-]+",
    "uid": r"[0-9]+",
}
"""Regular expressions of the texts that a placeholder matches, by the first part of the placeholder's name."""

OPEN = "..."
"""A key in a recorded object that allows additional fields."""

ANY_NUMBER = "<number>"
"""A placeholder that matches a number or a text of digits."""

_PLACEHOLDER = re.compile(rf"<((?:{'|'.join(sorted(KINDS, key=len, reverse=True))})(?:-[0-9]+)?)>")

Bindings = dict[str, str]
"""The texts that numbered placeholders, such as ``operation-1``, have matched."""


def placeholders(text: str) -> list[str]:
    """Return the names of the placeholders in a text, in order."""
    return _PLACEHOLDER.findall(text)


def differences(expected: Any, got: Any, bound: Bindings, where: str = "answer") -> Iterator[str]:
    """Yield a line for each difference in `got`; the line starts with the place of the difference.

    Where texts match, bind the placeholders to the actual values.
    """
    if isinstance(expected, dict) and isinstance(got, dict):
        yield from _of_objects(expected, got, bound, where)
    elif isinstance(expected, list) and isinstance(got, list):
        yield from _of_lists(expected, got, bound, where)
    elif isinstance(expected, str) and isinstance(got, str):
        if not _is_match(expected, got, bound):
            yield f"{where}: expected {filled_in(expected, bound)!r}, got {got!r}"
    # JSON numbers can't contain a placeholder, so the recorded case has a string there
    elif expected == ANY_NUMBER and isinstance(got, int | float) and not isinstance(got, bool):
        return
    elif type(expected) is not type(got) or expected != got:
        yield f"{where}: expected {expected!r}, got {got!r}"


def _of_objects(expected: dict[str, Any], got: dict[str, Any], bound: Bindings, where: str) -> Iterator[str]:
    for key, value in expected.items():
        if key in got:
            yield from differences(value, got[key], bound, f"{where}.{key}")
        elif key != OPEN:
            yield f"{where}.{key}: expected {value!r}, got nothing"
    for key in got.keys() - expected.keys():
        if OPEN not in expected:
            yield f"{where}.{key}: expected nothing, got {got[key]!r}"


def _of_lists(expected: list[Any], got: list[Any], bound: Bindings, where: str) -> Iterator[str]:
    if len(expected) != len(got):
        yield f"{where}: expected {len(expected)} items, got {len(got)}"
    for index, (one, other) in enumerate(zip(expected, got, strict=False)):
        yield from differences(one, other, bound, f"{where}[{index}]")


def _is_match(expected: str, got: str, bound: Bindings) -> bool:
    groups: dict[str, str] = {}
    match = re.fullmatch(_pattern(expected, bound, groups), got)
    if match:
        bound.update({name: match[group] for name, group in groups.items()})
    return match is not None


def _pattern(text: str, bound: Bindings, groups: dict[str, str]) -> str:
    """Return the regular expression for a recorded text; add the groups of unbound placeholders to `groups`."""
    literals = _PLACEHOLDER.split(text)
    parts = [re.escape(part) if index % 2 == 0 else _part(part, bound, groups) for index, part in enumerate(literals)]
    return "".join(parts)


def _part(name: str, bound: Bindings, groups: dict[str, str]) -> str:
    if name in bound:
        return re.escape(bound[name])
    if name in groups:
        return f"(?P={groups[name]})"
    if name in KINDS:
        return f"(?:{KINDS[name]})"
    # group names can't contain hyphens, but placeholders do
    groups[name] = f"p{len(groups)}"
    return f"(?P<{groups[name]}>{KINDS[kind_of(name)]})"


def kind_of(placeholder: str) -> str:
    """Return the kind of a placeholder, such as ``project-number`` for ``project-number-2``."""
    return re.sub(r"-[0-9]+$", "", placeholder)


def filled_in(value: Any, bound: Mapping[str, str]) -> Any:
    """Return a copy with every bound placeholder replaced with its value."""
    if isinstance(value, str):
        return _PLACEHOLDER.sub(lambda match: bound.get(match[1], match[0]), value)
    if isinstance(value, dict):
        return {filled_in(key, bound): filled_in(each, bound) for key, each in value.items()}
    if isinstance(value, list):
        return [filled_in(each, bound) for each in value]
    return value
