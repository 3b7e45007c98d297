"""The resource that a request names, and its zone."""

from __future__ import annotations

from typing import Any


def target_of(request: Any) -> str:
    """Return the name of the resource in a request."""
    fields = request.DESCRIPTOR.fields_by_name
    if "parent" in fields:
        return str(request.parent)
    # UpdateNode has its node's name only in the body
    return str(request.name if "name" in fields else request.node.name)


def zone_of(target: str) -> str:
    """Return the zone of a resource; empty if its name has none."""
    parts = target.split("/")
    return parts[3] if len(parts) > 3 else ""
