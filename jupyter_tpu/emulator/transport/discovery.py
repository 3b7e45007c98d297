"""Generate the discovery document of the Cloud TPU API (``/$discovery/rest?version=v2``) from the emulator's routes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from aiohttp import web
from google.cloud.location import locations_pb2
from google.longrunning import operations_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from jupyter_tpu.emulator.resources import errors
from jupyter_tpu.emulator.resources.behaviours import documented
from jupyter_tpu.emulator.resources.message_types import rest_types
from jupyter_tpu.emulator.resources.request import V2, V2ALPHA1
from jupyter_tpu.emulator.transport.http_rules import Rule, http_rules
from jupyter_tpu.emulator.transport.json_answers import printed, refused
from jupyter_tpu.emulator.transport.rest_server import request_kind

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_RULE = re.compile(r"/(?P<version>\w+)/\((?P<inner>[^)]+)\)(?P<rest>.*)")
_ANY_PART = "[^/:]+"
_WORDS = {"POST": "create", "PATCH": "patch", "DELETE": "delete"}
_TYPES = {
    FieldDescriptor.CPPTYPE_BOOL: {"type": "boolean"},
    FieldDescriptor.CPPTYPE_INT32: {"type": "integer", "format": "int32"},
    FieldDescriptor.CPPTYPE_INT64: {"type": "string", "format": "int64"},
    FieldDescriptor.CPPTYPE_DOUBLE: {"type": "number", "format": "double"},
    FieldDescriptor.CPPTYPE_FLOAT: {"type": "number", "format": "float"},
}
_WELL_KNOWN: dict[str, dict[str, Any]] = {
    "google.protobuf.Any": {"type": "object", "additionalProperties": {"type": "any"}},
    "google.protobuf.Duration": {"type": "string", "format": "google-duration"},
    "google.protobuf.FieldMask": {"type": "string", "format": "google-fieldmask"},
    "google.protobuf.Timestamp": {"type": "string", "format": "google-datetime"},
}
_SHARED: dict[str, Descriptor] = {
    "GetOperation": operations_pb2.Operation.DESCRIPTOR,
    "ListOperations": operations_pb2.ListOperationsResponse.DESCRIPTOR,
    "GetLocation": locations_pb2.Location.DESCRIPTOR,
    "ListLocations": locations_pb2.ListLocationsResponse.DESCRIPTOR,
}
_EMPTY = ("DeleteOperation", "CancelOperation")


def add_to(app: web.Application) -> None:
    """Add the route that serves the document."""
    app.router.add_get("/$discovery/rest", _answer)


async def _answer(request: web.Request) -> web.Response:
    version = request.query.get("version", V2)
    if version not in (V2, V2ALPHA1):
        return refused(errors.not_found(f"discovery document {version[:40]}").status)
    return printed(discovery_document(version, f"http://{request.host}/"))


@documented(
    "discovery",
    "/$discovery/rest?version=v2 (or v2alpha1) describes the available methods. Client libraries can be "
    "built from this document. It has no field descriptions.",
    source="developers.google.com/discovery/v1/reference/apis; google-api-python-client 2.202.0, discovery.py",
)
def discovery_document(version: str, root: str) -> dict[str, Any]:
    """Return the document of a version of the API; `root` is the URL of this server."""
    schemas: dict[str, Any] = {"Empty": {"id": "Empty", "type": "object", "properties": {}}}
    resources: dict[str, Any] = {}
    for rule in http_rules():
        if rule.version == version:
            _add_method(resources, schemas, rule)
    return {
        "kind": "discovery#restDescription",
        "discoveryVersion": "v1",
        "id": f"tpu:{version}",
        "name": "tpu",
        "version": version,
        "title": "Cloud TPU API (emulated)",
        "protocol": "rest",
        "rootUrl": root,
        "baseUrl": root,
        "servicePath": "",
        "basePath": "",
        "batchPath": "batch",
        "auth": {"oauth2": {"scopes": {_SCOPE: {"description": "All of Google Cloud"}}}},
        "parameters": {name: {"type": "string", "location": "query"} for name in ("alt", "fields", "prettyPrint")},
        "schemas": schemas,
        "resources": resources,
    }


def _add_method(resources: dict[str, Any], schemas: dict[str, Any], rule: Rule) -> None:
    # convert the route's regular expression back to Google's template: v2/{+name}/…
    found = _RULE.fullmatch(rule.path.pattern.replace("\\", "").replace(_ANY_PART, "*"))
    assert found is not None, rule.path.pattern
    rest, _, action = found["rest"].partition(":")
    # every second part is a collection: projects/*/locations/*/nodes/*
    collections = [*found["inner"].split("/")[::2], *filter(None, [rest.strip("/")])]
    # the method's name in the document: its custom verb, or the meaning of its HTTP verb
    word = action or _WORDS.get(rule.verb) or ("list" if rest else "get")
    at: dict[str, Any] = {"resources": resources}
    for collection in collections:
        at = at.setdefault("resources", {}).setdefault(collection, {})
    # parameters are all scalar fields of the request that are in neither the path nor the body
    kind = request_kind(rule.version, rule.method)
    variable = rule.variable.rpartition(".")[2]
    pattern = f"^{found['inner'].replace('*', '[^/]+')}$"
    method: dict[str, Any] = {
        "id": ".".join(["tpu", *collections, word]),
        "httpMethod": rule.verb,
        "path": f"{found['version']}/{{+{variable}}}{found['rest']}",
        "parameterOrder": [variable],
        "parameters": {
            variable: {"type": "string", "location": "path", "required": True, "pattern": pattern},
            **dict(_query(rule, kind, variable)),
        },
        "response": {"$ref": _schema(schemas, _answer_kind(rule))},
        "scopes": [_SCOPE],
    }
    if rule.body:
        body = kind if rule.body == "*" else kind.fields_by_name[rule.body].message_type
        method["request"] = {"$ref": _schema(schemas, body)}
    at.setdefault("methods", {})[word] = method


def _query(rule: Rule, kind: Descriptor, variable: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for field in kind.fields:
        message = field.message_type.full_name if field.message_type is not None else ""
        is_elsewhere = rule.body == "*" or field.name in (variable, rule.body, rule.variable)
        if not is_elsewhere and (not message or message in _WELL_KNOWN):
            repeated = {"repeated": True} if field.is_repeated else {}
            yield field.json_name, {**_plain_type(field), "location": "query", **repeated}


def _answer_kind(rule: Rule) -> Descriptor | None:
    """Return the type of a method's response, or None if the response is empty."""
    method = rule.method
    if method in _EMPTY:
        return None
    if method in _SHARED:
        return _SHARED[method]
    types = rest_types(rule.version)
    if method.startswith(("List", "GetGuestAttributes", "GetMaintenanceInfo", "GenerateServiceIdentity")):
        return types.descriptor(f"{method}Response")
    return types.descriptor(method.removeprefix("Get")) if method.startswith("Get") else _SHARED["GetOperation"]


def _schema(schemas: dict[str, Any], kind: Descriptor | None) -> str:
    """Add the schema of a type and of all types that it refers to; return its name."""
    if kind is None:
        return "Empty"
    name = str(kind.name)
    if name not in schemas:
        # add the schema before its fields, because messages may refer to themselves
        schemas[name] = {"id": name, "type": "object", "properties": {}}
        schemas[name]["properties"] = {field.json_name: _property(schemas, field) for field in kind.fields}
    return name


def _property(schemas: dict[str, Any], field: FieldDescriptor) -> dict[str, Any]:
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        return {"type": "object", "additionalProperties": _property(schemas, message.fields_by_name["value"])}
    # well-known types are strings or objects in JSON
    is_own = message is not None and message.full_name not in _WELL_KNOWN
    one: dict[str, Any] = {"$ref": _schema(schemas, message)} if is_own else _plain_type(field)
    return {"type": "array", "items": one} if field.is_repeated else one


def _plain_type(field: FieldDescriptor) -> dict[str, Any]:
    if field.message_type is not None:
        return _WELL_KNOWN[field.message_type.full_name]
    if field.enum_type is not None:
        return {"type": "string", "enum": [value.name for value in field.enum_type.values]}
    return _TYPES.get(field.cpp_type, {"type": "string"})
