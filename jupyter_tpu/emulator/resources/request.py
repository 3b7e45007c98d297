"""An API call as a transport passes it to the core."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from jupyter_tpu.emulator.resources.behaviours import documented

V2 = "v2"
V2ALPHA1 = "v2alpha1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest:
    """An API call, converted to v2's messages if the client uses another version.

    Attributes:
        method: the name of the API method, such as ``CreateNode``.
        request: the v2 request message; a v2alpha1 message for methods that exist only there.
        version: ``v2`` or ``v2alpha1``: the API version of the client.
        extras: fields of the resource in the body that v2's messages lack, in camelCase, nested as in REST.
        request_id: the client's id of the request, by which a repeated request is recognised; empty if there is none.
    """

    method: str
    request: Any
    version: str = V2
    extras: Mapping[str, Any] = field(default_factory=dict)
    request_id: str = ""


@documented(
    "project-number",
    "In all resource names, the project's number can be used instead of its id.",
    source="cloud.google.com/resource-manager/docs/creating-managing-projects",
)
def with_project_id(call: ApiRequest, project: str, number: str) -> ApiRequest:
    """Return the call with the project's id instead of its number in all names; the store uses the id."""
    prefix = f"projects/{number}/"
    # nearly every call has nothing to replace
    if not any(text.startswith(prefix) for _, _, text in _names_in(call.request)):
        return call
    request = type(call.request)()
    request.CopyFrom(call.request)
    for message, field_name, text in _names_in(request):
        if text.startswith(prefix):
            setattr(message, field_name, f"projects/{project}/{text.removeprefix(prefix)}")
    return replace(call, request=request)


def _names_in(request: Any) -> Iterator[tuple[Any, str, str]]:
    """Yield each resource name in a request: the message, its field and the name."""
    fields = request.DESCRIPTOR.fields_by_name
    yield from ((request, word, getattr(request, word)) for word in ("name", "parent") if word in fields)
    if "node" in fields:
        yield request.node, "name", request.node.name
    if "queued_resource" in fields:
        for spec in request.queued_resource.tpu.node_spec:
            yield spec, "parent", spec.parent
