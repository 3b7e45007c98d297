"""The events fit their schemas, so that none is dropped on its way to a front end."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import ValidationError
from jupyter_events.schema import EventSchema

from jupyter_tpu.fleet import FleetChange
from jupyter_tpu.server.events import SCHEMA_FILES

FLEET, KERNEL, LINK = (EventSchema(path) for path in SCHEMA_FILES)
PROGRESS: dict[str, Any] = {
    "kernel_id": "k",
    "kernel_name": "tpu-my-node-us-central1-a",
    "node_name": "projects/p-1/locations/us-central1-a/nodes/my-node",
    "phase": "connecting",
    "message": "Connecting …",
    "fraction": 0.5,
    "error_code": "",
}


@pytest.mark.parametrize("kind", ["node", "intent", "list"])
def test_every_change_of_the_fleet_is_an_event(kind: Any) -> None:
    FLEET.validate(FleetChange(kind=kind, node_name="n", state="READY", message="<b>\x1b").to_json())


@pytest.mark.parametrize("fraction", [None, 0, 0.5, 1])
def test_progress_of_a_kernel_is_an_event(fraction: float | None) -> None:
    KERNEL.validate({**PROGRESS, "fraction": fraction})


@pytest.mark.parametrize("state", ["live", "down", "resuming", "lost"])
def test_a_state_of_a_kernels_link_is_an_event(state: str) -> None:
    names = {name: PROGRESS[name] for name in ("kernel_id", "kernel_name", "node_name")}
    LINK.validate({**names, "state": state, "since": 1.5, "message": "Cut.", "error_code": "worker_unreachable"})


@pytest.mark.parametrize("wrong", [{"fraction": 2}, {"secret": "x"}, {"phase": None}])
def test_anything_else_is_not(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        KERNEL.validate({**PROGRESS, **wrong})
