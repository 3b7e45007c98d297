"""Check request bodies against the API's fields before they are used.

A shape maps field names to kinds; a kind is a check function of this module, a nested shape, or a list with one kind.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from jupyter_tpu.emulator.services.requests.errors import invalid_value, unknown_name

Kind = Any
"""A check function of this module, a mapping of field names to kinds, or a list with the kind of its items."""

_CAMEL = re.compile(r"(?<=[a-z0-9])([A-Z])")
_INT64 = re.compile(r"-?[0-9]{1,19}")


def check_shape(body: object, shape: Kind, place: str = "") -> None:
    """Raise an error for the first field that is unknown or has a value of the wrong kind."""
    if isinstance(shape, Mapping):
        _check_object(body, shape, place)
    elif isinstance(shape, list):
        _check_items(body, shape[0], place)
    else:
        shape(body, place)


def _check_object(body: object, shape: Mapping[str, Kind], place: str) -> None:
    if not isinstance(body, Mapping):
        raise invalid_value(place or "body", "TYPE_MESSAGE", body)
    for name, value in body.items():
        if name not in shape:
            raise unknown_name(str(name), place)
        # null means not set, in any field
        if value is not None:
            check_shape(value, shape[name], _below(place, name))


def _check_items(body: object, kind: Kind, place: str) -> None:
    if not isinstance(body, list):
        raise invalid_value(place, "TYPE_REPEATED", body)
    for number, item in enumerate(body):
        check_shape(item, kind, f"{place}[{number}]")


def _below(place: str, name: str) -> str:
    """Return the field's path in snake_case, as in Google's error messages."""
    last = _CAMEL.sub(lambda match: f"_{match[1].lower()}", name)
    return f"{place}.{last}" if place else last


# -- checks of single values


def text(value: object, place: str) -> None:
    """Check that a value is a string."""
    if not isinstance(value, str):
        raise invalid_value(place, "TYPE_STRING", value)


def boolean(value: object, place: str) -> None:
    """Check that a value is a boolean."""
    if not isinstance(value, bool):
        raise invalid_value(place, "TYPE_BOOL", value)


def int64(value: object, place: str) -> None:
    """Check that a value is a 64-bit whole number, or a string that contains one, as in Google's JSON."""
    # True is an int in Python but not in JSON
    is_number = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
    if not is_number and not (isinstance(value, str) and _INT64.fullmatch(value) and abs(int(value)) < 2**63):
        raise invalid_value(place, "TYPE_INT64", value)


def anything(value: object, place: str) -> None:
    """Accept a field that the API sets itself and ignores in requests."""
