"""Google's discovery documents of the TPU API, as googleapiclient ships them, and their schemas as JSON Schema."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from typing import Any

FORMATS = {
    "int64": {"type": "string", "pattern": "^-?[0-9]+$"},
    "int32": {"type": "integer"},
    "google-datetime": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$"},
    "google-duration": {"type": "string", "pattern": r"^-?\d+(\.\d+)?s$"},
}
ENVELOPE = {
    "type": "object",
    "required": ["error"],
    "additionalProperties": False,
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message", "status"],
            "additionalProperties": False,
            "properties": {
                "code": {"type": "integer"},
                "message": {"type": "string", "minLength": 1},
                "status": {"type": "string", "pattern": "^[A-Z_]+$"},
                "details": {"type": "array", "items": {"type": "object", "required": ["@type"]}},
            },
        }
    },
}
FILLED = {
    "projectsId": "demo-project",
    "locationsId": "us-central1-a",
    "nodesId": "n1",
    "operationsId": "operation-1",
    "acceleratorTypesId": "v5litepod-8",
    "runtimeVersionsId": "v2-alpha-tpuv5-lite",
    "queuedResourcesId": "q1",
    "tensorflowVersionsId": "2.15.0",
}


@dataclass(frozen=True)
class Method:
    """One method of a document."""

    version: str
    document: Any

    @property
    def id(self) -> str:
        return f"{self.version}:{self.document['id'].removeprefix('tpu.projects.locations.')}"

    @property
    def verb(self) -> str:
        return str(self.document["httpMethod"])

    @property
    def parameters(self) -> dict[str, Any]:
        """Query parameters, by name."""
        return {name: each for name, each in self.document["parameters"].items() if each["location"] == "query"}

    @property
    def request(self) -> str:
        """The schema of the body; empty for none."""
        return str(self.document.get("request", {}).get("$ref", ""))

    @property
    def response(self) -> str:
        return str(self.document["response"]["$ref"])

    def path(self, **parts: str) -> str:
        return "/" + str(self.document["flatPath"]).format(**{**FILLED, **parts})


@functools.cache
def document(version: str) -> dict[str, Any]:
    """Of a version of the TPU API, or of another API such as ``monitoring.v3``."""
    name = version if "." in version else f"tpu.{version}"
    folder = resources.files("googleapiclient") / "discovery_cache" / "documents"
    return dict(json.loads((folder / f"{name}.json").read_text()))


@functools.cache
def methods(version: str) -> tuple[Method, ...]:
    return tuple(Method(version, each) for each in _methods_of(document(version)))


def _methods_of(resource: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from resource.get("methods", {}).values()
    for child in resource.get("resources", {}).values():
        yield from _methods_of(child)


@functools.cache
def validator(version: str, schema: str) -> Any:
    """Checks values strictly: no property that the document does not list."""
    definitions = {name: _converted(each) for name, each in document(version)["schemas"].items()}
    whole = {"$ref": f"#/$defs/{schema}", "$defs": definitions}
    import jsonschema  # not at the top: this takes a second of each process that collects the tests

    jsonschema.Draft202012Validator.check_schema(whole)
    return jsonschema.Draft202012Validator(whole)


def _converted(schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        return {"$ref": f"#/$defs/{schema['$ref']}"}
    if schema.get("type") == "any":
        return {}
    if schema.get("format") in FORMATS:
        return dict(FORMATS[schema["format"]])
    kept = {word: schema[word] for word in ("type", "enum") if word in schema}
    if schema.get("type") == "array":
        kept["items"] = _converted(schema["items"])
    if schema.get("type") == "object":
        kept["properties"] = {name: _converted(each) for name, each in schema.get("properties", {}).items()}
        others = schema.get("additionalProperties")
        kept["additionalProperties"] = _converted(others) if others else False
    return kept


def complaints(version: str, schema: str, value: Any) -> list[str]:
    """What is wrong with an answer, its operation's metadata and response included."""
    found = [f"{error.json_path}: {error.message}" for error in validator(version, schema).iter_errors(value)]
    for operation in [value] if schema == "Operation" else value.get("operations", []):
        for part in ("metadata", "response"):
            found += _complaints_of_any(operation.get(part, {}), part)
    return found


def _complaints_of_any(packed: dict[str, Any], part: str) -> list[str]:
    name = packed.get("@type", "").rpartition("/")[2]
    if not name.startswith("google.cloud.tpu."):
        return []
    version, _, schema = name.removeprefix("google.cloud.tpu.").partition(".")
    plain = {key: value for key, value in packed.items() if key != "@type"}
    return [f"{part}.{each}" for each in complaints(version, schema, plain)]


def full_body(version: str, schema: str, depth: int = 4) -> dict[str, Any]:
    """A body with every property that the document lists."""
    properties = document(version)["schemas"][schema].get("properties", {})
    return {name: _sample(version, each, depth) for name, each in properties.items()} if depth else {}


def _sample(version: str, schema: dict[str, Any], depth: int) -> Any:
    if "$ref" in schema:
        return full_body(version, schema["$ref"], depth - 1)
    if schema["type"] == "array":
        return [_sample(version, schema["items"], depth)]
    if schema["type"] == "object":
        return {} if schema["additionalProperties"].get("type") == "any" else {"key": "value"}
    words = {"int64": "5", "int32": 1, "google-datetime": "2026-01-02T03:04:05Z", "google-duration": "3.500s"}
    if schema.get("format") in words:
        return words[schema["format"]]
    return schema["enum"][-1] if "enum" in schema else {"boolean": True, "string": "text"}[schema["type"]]
