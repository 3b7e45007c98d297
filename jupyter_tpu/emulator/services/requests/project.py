"""Checks that a call of another Google service concerns the emulated project."""

from __future__ import annotations

from jupyter_tpu.emulator.core import PROJECT_NUMBER, Cloud
from jupyter_tpu.emulator.services.requests.calls import ServiceCall
from jupyter_tpu.emulator.services.requests.errors import denied_on_project, invalid_argument

GLOBAL = "locations/{location}"


def check_project(cloud: Cloud, call: ServiceCall, permission: str) -> str:
    """Return the project as the call names it (id or number).

    Raises:
        Refusal: 403, for any project but the emulator's own.
    """
    project = call.parts["project"]
    if project not in (cloud.project, PROJECT_NUMBER):
        raise denied_on_project(permission, project)
    return project


def check_global(call: ServiceCall) -> None:
    """Raise for a location other than global."""
    if call.parts["location"] != "global":
        raise invalid_argument(f"Location {call.parts['location'][:40]!r} must be global.", "parent")
