"""What rest-api.yml says of the server's answers."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

import yaml
from openapi_schema_validator import OAS31Validator


def assert_fits(body: Any, schema: str) -> None:
    """The body has the form that rest-api.yml gives this schema, or this response."""
    _validator(schema).validate(body)


@cache
def _validator(schema: str) -> Any:
    components = _components()
    found = (
        components["schemas"].get(schema) or components["responses"][schema]["content"]["application/json"]["schema"]
    )
    return OAS31Validator({**found, "components": components})


@cache
def _components() -> dict[str, Any]:
    text = resources.files("jupyter_tpu.server").joinpath("rest-api.yml").read_bytes()
    return dict(yaml.load(text, yaml.CSafeLoader)["components"])
