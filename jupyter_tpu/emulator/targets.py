"""What a request is about: the resource that it names, its zone, and the permission that it takes."""

from __future__ import annotations

from typing import Any

_VERBS = ("List", "Get", "Create", "Delete", "Stop", "Start", "Update", "Cancel")


def target_of(request: Any) -> str:
    """The resource that a request names."""
    fields = request.DESCRIPTOR.fields_by_name
    if "parent" in fields:
        return str(request.parent)
    return str(request.name if "name" in fields else request.node.name)


def zone_of(target: str) -> str:
    """Empty when the target has none."""
    parts = target.split("/")
    return parts[3] if len(parts) > 3 else ""


def permission_of(method: str) -> str:
    """``CreateNode`` → ``tpu.nodes.create``, as IAM names permissions."""
    for verb in _VERBS:
        if method.startswith(verb):
            noun = method.removeprefix(verb).rstrip("s")
            return f"tpu.{noun[0].lower()}{noun[1:]}s.{verb.lower()}"
    return f"tpu.{method}"
