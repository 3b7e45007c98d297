"""The errors of the other Google services, in Google's envelope and, where recorded, in Google's words.

This module does not depend on routes or on the project's state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.rpc import code_pb2, error_details_pb2

from jupyter_tpu.emulator.resources.behaviours import assumed, recorded
from jupyter_tpu.emulator.resources.errors import Refusal, status_of


class ComputeRefusal(Exception):
    """An error of Compute Engine, which has its own HTTP codes and error envelope."""

    def __init__(self, code: int, message: str, reason: str, **places: str) -> None:
        super().__init__(message)
        self.code = code
        self._entry = {"message": message, "domain": "global", "reason": reason, **places}

    def to_json(self) -> Mapping[str, Any]:
        """Return the body of the response."""
        return {"error": {"code": self.code, "message": self._entry["message"], "errors": [self._entry]}}


@recorded(
    "json-payload",
    "A request body with an unknown field is refused: Invalid JSON payload received. Unknown name …",
    source="error bodies of Google APIs in many public issues",
)
def unknown_name(name: str, place: str) -> Refusal:
    """Return the error for a field that the API does not know."""
    where = f" at '{place}'" if place else ""
    message = f'Invalid JSON payload received. Unknown name "{name[:80]}"{where}: Cannot find field.'
    return invalid_argument(message, place or name)


@recorded(
    "json-value",
    "A value of the wrong kind is refused: Invalid value at 'field' (TYPE_…), value.",
    source="error bodies of Google APIs in many public issues",
)
def invalid_value(place: str, kind: str, value: object) -> Refusal:
    """Return the error for a value of the wrong type."""
    return invalid_argument(f"Invalid value at '{place}' ({kind}), {str(value)[:80]!r}", place)


def invalid_argument(message: str, field: str = "") -> Refusal:
    """Return 400 INVALID_ARGUMENT, with a BadRequest that names the field."""
    violation = error_details_pb2.BadRequest.FieldViolation(field=field, description=message)
    details = [error_details_pb2.BadRequest(field_violations=[violation])] if field else []
    return Refusal(status_of(code_pb2.INVALID_ARGUMENT, message, details))


@assumed(
    "side-missing",
    "If one of Google's other services does not find a resource, it returns 404 NOT_FOUND; the wording is invented.",
)
def missing(name: str) -> Refusal:
    """Return the 404 for an entity that does not exist."""
    return Refusal(status_of(code_pb2.NOT_FOUND, f"Requested entity '{name[:200]}' was not found."))


@assumed(
    "side-foreign",
    "Reading any project or billing account other than the emulator's own is refused; the wording is invented.",
)
def foreign(permission: str, resource: str) -> Refusal:
    """Return the 403 for a resource of another owner."""
    info = error_details_pb2.ErrorInfo(
        reason="IAM_PERMISSION_DENIED",
        domain="iam.googleapis.com",
        metadata={"permission": permission, "resource": resource},
    )
    message = f"Permission '{permission}' denied on resource '//{resource[:200]}' (or it may not exist)."
    return Refusal(status_of(code_pb2.PERMISSION_DENIED, message, [info]))


def denied_on_project(permission: str, project: str) -> Refusal:
    """Return the 403 for a permission that is missing on a project."""
    return foreign(permission, f"cloudresourcemanager.googleapis.com/projects/{project}")
