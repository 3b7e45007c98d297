"""rest-api.yml and the handlers say the same."""

from __future__ import annotations

import re
from importlib import resources
from typing import Any

import pytest
import yaml
from openapi_spec_validator import validate

from jupyter_tpu.kernels.progress import KERNEL_SCHEMA, LINK_SCHEMA
from jupyter_tpu.server.events import FLEET_EVENT, SCHEMA_FILES
from jupyter_tpu.server.routes.nodes import TpuHandler
from jupyter_tpu.server.routes.table import ROUTES, SIMULATOR_ROUTES

ALL_ROUTES = (*ROUTES, *SIMULATOR_ROUTES)
VERBS = ("get", "post", "put", "patch", "delete")


def described() -> dict[str, Any]:
    text = resources.files("jupyter_tpu.server").joinpath("rest-api.yml").read_text()
    data: dict[str, Any] = yaml.load(text, yaml.CSafeLoader)
    return data


def path_of(pattern: str) -> str:
    return re.sub(r"\(\?P<(\w+)>[^)]*\)", r"{\1}", pattern).removeprefix("/jupyter-tpu/v1")


def served_verbs(handler: type[TpuHandler]) -> set[str]:
    return {verb for verb in VERBS if verb in vars(handler)}


def test_the_file_is_valid_openapi() -> None:
    validate(described())


def test_the_file_describes_exactly_the_verbs_that_are_served() -> None:
    paths = described()["paths"]

    in_file = {path: {verb for verb in VERBS if verb in item} for path, item in paths.items()}

    assert in_file == {path_of(pattern): served_verbs(handler) for pattern, handler in ALL_ROUTES}


@pytest.mark.parametrize("handler", [handler for _, handler in ALL_ROUTES])
def test_every_verb_wants_authentication_and_authorisation(handler: type[TpuHandler]) -> None:
    for verb in served_verbs(handler):
        method = getattr(handler, verb)
        assert method.__wrapped__.__wrapped__, f"{handler.__name__}.{verb} lacks a decorator"


def test_the_event_schemas_have_the_ids_that_are_emitted() -> None:
    ids = {yaml.safe_load(path.read_text())["$id"] for path in SCHEMA_FILES}

    assert ids == {FLEET_EVENT, KERNEL_SCHEMA, LINK_SCHEMA}
