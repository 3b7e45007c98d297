"""Parse resource names of the API and generate names of operations."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass

from jupyter_tpu.emulator.resources.behaviours import recorded
from jupyter_tpu.emulator.resources.errors import bad_field

_LOCATION = re.compile(r"projects/([^/]+)/locations/([^/]+)")
_CHILD = re.compile(r"projects/([^/]+)/locations/([^/]+)/([a-zA-Z]+)/([^/]+)")

EVERY_ZONE = "-"


@dataclass(frozen=True, slots=True)
class Location:
    """A location, ``projects/{project}/locations/{zone}``; in list requests, the zone may be ``-`` (all zones)."""

    project: str
    zone: str

    def __str__(self) -> str:
        return f"projects/{self.project}/locations/{self.zone}"

    @property
    def is_wildcard(self) -> bool:
        """Whether the location means all zones."""
        return self.zone == EVERY_ZONE


def parse_location(name: str, field: str) -> Location:
    """Parse a location; raises `Refusal` for `field` if it is invalid."""
    match = _LOCATION.fullmatch(name)
    if not match:
        raise bad_field(field, f"{name!r} is not of the form projects/*/locations/*")
    return Location(match[1], match[2])


def location_of(name: str, field: str = "name") -> Location:
    """Return the location in the name of a node, operation, type or version."""
    match = _CHILD.fullmatch(name)
    if not match:
        raise bad_field(field, f"{name!r} is not of the form projects/*/locations/*/*/*")
    return Location(match[1], match[2])


def last_part(name: str) -> str:
    """Return the last part of a resource name, its id."""
    return name.rpartition("/")[2]


@recorded(
    "operation-names",
    "Operations are named operation-<ms>-<13 hex>-<8 hex>-<8 hex> under the location of their target.",
    source="gcloud's output in public issues",
)
def new_operation_name(location: Location, now: float) -> str:
    """Generate the name of a new operation; `now` is virtual time."""
    # cut to 13 digits, because token_hex returns only an even number of digits
    middle = secrets.token_hex(7)[:13]
    return f"{location}/operations/operation-{int(now * 1000)}-{middle}-{secrets.token_hex(4)}-{secrets.token_hex(4)}"


_CAMEL = re.compile(r"(?<=[a-z0-9])([A-Z])")


def snake_case(path: str) -> str:
    """Return ``data_disks`` for ``dataDisks``; a path in snake_case stays unchanged."""
    return _CAMEL.sub(lambda match: f"_{match[1].lower()}", path)
