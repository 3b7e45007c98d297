"""Translate requests and responses between the API versions and the core, which uses v2.

The versions number their fields differently, so messages are converted through JSON and never as bytes. Fields that
v2's protobufs lack are passed separately as *extras*: in camelCase, nested as in REST, lists aligned by index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from google.cloud.location import locations_pb2
from google.longrunning import operations_pb2
from google.protobuf import any_pb2, descriptor_pool, field_mask_pb2, json_format, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.rpc import code_pb2

from jupyter_tpu.emulator.resources import errors
from jupyter_tpu.emulator.resources.behaviours import assumed, recorded
from jupyter_tpu.emulator.resources.message_types import PACKAGES
from jupyter_tpu.emulator.resources.request import V2, V2ALPHA1, ApiRequest

Fields = dict[str, Any]
"""A message in JSON: names in camelCase, enums by name."""

NewMessage = Callable[[str, str], Any]
"""A function that creates an empty message of a version and name, from the classes that gRPC or REST uses."""

OPERATIONS = ("GetOperation", "ListOperations", "CancelOperation", "DeleteOperation")
LOCATIONS = ("GetLocation", "ListLocations")
RESOURCES = {"CreateNode": "node", "UpdateNode": "node", "CreateQueuedResource": "queuedResource"}
"""The field that contains the resource in a method's request."""

_V2_PREFIX = f"google.cloud.tpu.{V2}."


# -- requests


def request_class(version: str, method: str) -> Any:
    """Return the protobuf class of a method's request, from the API version's package or a mixin service."""
    if method in OPERATIONS:
        return getattr(operations_pb2, f"{method}Request")
    if method in LOCATIONS:
        return getattr(locations_pb2, f"{method}Request")
    name = "GetQueuedResource" if method == "GetMaintenanceInfo" else method
    return getattr(PACKAGES[version], f"{name}Request").pb()


def methods_of(version: str) -> list[str]:
    """Return the methods of the version's Tpu service, found by the package's naming rule."""
    return [name.removesuffix("Request") for name in dir(PACKAGES[version]) if name.endswith("Request")]


def request_from_json(version: str, method: str, fields: Fields) -> ApiRequest:
    """Build the call from a request's `fields`, which the caller has checked against the API version's message.

    In `fields`, ``updateMask`` is a list.
    """
    paths = fields.pop("updateMask", None)
    # rename the fields first, because the core knows only v2's names
    _old_names(fields)
    version_of_class = V2 if _is_of_v2(method) else V2ALPHA1
    request = request_class(version_of_class, method)()
    known, extras = split(fields, request.DESCRIPTOR)
    json_format.ParseDict(known, request)
    if paths is not None:
        request.update_mask.CopyFrom(field_mask_pb2.FieldMask(paths=paths))
    # store only the resource's extras; the request's own extras are read here
    of_resource = extras.get(RESOURCES.get(method, ""), {})
    request_id = fields.get("requestId", "")
    return ApiRequest(method=method, request=request, version=version, extras=of_resource, request_id=request_id)


@assumed("grpc-bad-time", "gRPC also refuses a time or duration that is out of range, with INVALID_ARGUMENT.")
def request_from_protobuf(version: str, method: str, request: Any) -> ApiRequest:
    """Return the call for a gRPC request."""
    mask = request.update_mask if "update_mask" in request.DESCRIPTOR.fields_by_name else field_mask_pb2.FieldMask()
    paths = list(mask.paths)
    # MessageToDict rejects a mask whose paths are not snake_case, so remove the mask first
    mask.Clear()
    try:
        fields = json_format.MessageToDict(request) if method in RESOURCES or version != V2 else {}
    except (ValueError, json_format.Error) as error:
        raise errors.Refusal(errors.status_of(code_pb2.INVALID_ARGUMENT, f"Invalid value: {error}")) from error
    mask.paths.extend(paths)
    if version != V2:
        return request_from_json(version, method, {**fields, "updateMask": paths} if paths else fields)
    return ApiRequest(method=method, request=request, request_id=getattr(request, "request_id", ""))


def _is_of_v2(method: str) -> bool:
    return method in (*OPERATIONS, *LOCATIONS, "GetMaintenanceInfo") or hasattr(PACKAGES[V2], f"{method}Request")


@assumed("multi-node-names", "multiNodeParams of v2alpha1 corresponds to multisliceParams of v2.")
def _old_names(fields: Fields) -> None:
    """Translate v2alpha1's names to v2's; names that v2 lacks stay unchanged."""
    for spec in _specs(fields.get("queuedResource", {})):
        params = spec.pop("multiNodeParams", None)
        if params is not None:
            if "nodeId" in spec:
                raise errors.bad_field("queued_resource.tpu.node_spec", "node_id excludes multi_node_params")
            if "workloadType" in params:
                spec["multiNodeParams"] = {"workloadType": params.pop("workloadType")}
            spec["multisliceParams"] = params


def _specs(queued_resource: Fields) -> list[Fields]:
    specs: list[Fields] = queued_resource.get("tpu", {}).get("nodeSpec", [])
    return specs


def split(fields: Mapping[str, Any], kind: Descriptor) -> tuple[Fields, Fields]:
    """Split `fields` into the fields that the message type defines and all other fields."""
    known: Fields = {}
    extras: Fields = {}
    names = {each.json_name: each for each in kind.fields}
    for name, value in fields.items():
        mine, rest = _split_value(names.get(name), value)
        if mine is not None:
            known[name] = mine
        # store these fields separately, so that REST clients get back what they sent
        if rest:
            extras[name] = rest
        elif name not in names:
            extras[name] = value
    return known, extras


def _split_value(found: FieldDescriptor | None, value: Any) -> tuple[Any, Any]:
    if found is None:
        return None, value
    if not isinstance(value, dict | list) or found.message_type is None or found.message_type.GetOptions().map_entry:
        return value, None
    if isinstance(value, dict):
        return split(value, found.message_type)
    if not all(isinstance(each, dict) for each in value):
        return value, None
    parts = [split(each, found.message_type) for each in value]
    # one entry per item, empty if the item has no extras, so that extras can be merged by index
    rest = [extra for _, extra in parts]
    return [mine for mine, _ in parts], rest if any(rest) else None


# -- responses


@dataclass(frozen=True, slots=True)
class View:
    """The form in which a client receives the core's responses.

    Attributes:
        version: the client's API version.
        new: a function that creates an empty message of a given API version and type.
        extras_of: a function that returns a resource's extras; its argument is the resource's name.
    """

    version: str
    new: NewMessage
    extras_of: Callable[[str], Mapping[str, Any]]

    def shown(self, answer: Message) -> Message:
        """Return the response in the client's API version. Operations keep the version with which they started."""
        if isinstance(answer, operations_pb2.Operation):
            return self._operation(answer)
        if isinstance(answer, operations_pb2.ListOperationsResponse):
            return self._operations(answer)
        return self.in_version(answer, self.version)

    def in_version(self, answer: Any, version: str) -> Message:
        """Convert a v2 message to an API version; return a message of any other package unchanged."""
        name = str(answer.DESCRIPTOR.full_name)
        if not name.startswith(_V2_PREFIX):
            return answer
        extras = [self.extras_of(each.name) for each in _resources(answer)]
        # fast path for most responses, because the conversion through JSON is slow for long lists
        if version == V2 and not any(extras):
            return answer
        fields = json_format.MessageToDict(answer)
        for each, extra in zip(_resource_fields(fields, answer), extras, strict=True):
            merge(each, extra)
        if version != V2:
            _new_names(fields)
        shown = self.new(version, name.removeprefix(_V2_PREFIX))
        return json_format.ParseDict(fields, shown, ignore_unknown_fields=True)

    def unpacked(self, wrapper: any_pb2.Any, version: str) -> Message:
        """Unpack an operation's response or metadata, and return it as a message of `version`."""
        kind = descriptor_pool.Default().FindMessageTypeByName(wrapper.TypeName())
        return self.in_version(message_factory.GetMessageClass(kind).FromString(wrapper.value), version)

    @recorded(
        "operation-version",
        "An operation's metadata and response use the API version in which the operation was started.",
        source="java-docs-samples#9613 (v2alpha1); gcloud's output in public issues (v2)",
    )
    def _operation(self, operation: operations_pb2.Operation) -> operations_pb2.Operation:
        version = version_of(operation)
        if version == V2:
            return operation
        shown = operations_pb2.Operation()
        shown.CopyFrom(operation)
        # the type URLs must match the version, so pack metadata and response again
        shown.metadata.Pack(self.unpacked(operation.metadata, version))
        if operation.HasField("response"):
            shown.response.Pack(self.unpacked(operation.response, version))
        return shown

    def _operations(self, answer: operations_pb2.ListOperationsResponse) -> operations_pb2.ListOperationsResponse:
        shown = [self._operation(each) for each in answer.operations]
        return operations_pb2.ListOperationsResponse(operations=shown, next_page_token=answer.next_page_token)


def version_of(operation: operations_pb2.Operation) -> str:
    """Return the API version that started an operation, from its metadata."""
    metadata = PACKAGES[V2].OperationMetadata.pb().FromString(operation.metadata.value)
    return metadata.api_version or V2


def _resources(answer: Any) -> Iterable[Any]:
    """Return the nodes or queued resources in a response."""
    kind = answer.DESCRIPTOR.name
    if kind in ("Node", "QueuedResource"):
        return [answer]
    if kind == "ListNodesResponse":
        return answer.nodes  # type: ignore[no-any-return]
    return answer.queued_resources if kind == "ListQueuedResourcesResponse" else []


def _resource_fields(fields: Fields, answer: Any) -> Iterable[Fields]:
    if answer.DESCRIPTOR.name in ("Node", "QueuedResource"):
        return [fields]
    return [*fields.get("nodes", []), *fields.get("queuedResources", [])]


def merge(fields: Fields, extras: Mapping[str, Any]) -> None:
    """Add extras to the fields of a message, in place."""
    for name, value in extras.items():
        present = fields.get(name)
        if isinstance(present, dict) and isinstance(value, dict):
            merge(present, value)
        # lists are aligned by index: extras belong to the disk at the same index
        elif isinstance(present, list) and isinstance(value, list) and all(isinstance(each, dict) for each in present):
            for mine, extra in zip(present, value, strict=False):
                merge(mine, extra)
        else:
            fields[name] = value


@assumed("alpha-api-version", "v2alpha1 shows the apiVersion V2_ALPHA1 for every node, because its enum has no V2.")
def _new_names(fields: Any) -> None:
    """Translate v2's names to v2alpha1's in all nodes and queued resources, including nested ones."""
    for each in fields if isinstance(fields, list) else [fields]:
        if not isinstance(each, dict):
            return
        if each.get("apiVersion") == "V2":
            each["apiVersion"] = "V2_ALPHA1"
        if "multisliceParams" in each:
            each["multiNodeParams"] = {**each.pop("multisliceParams"), **each.get("multiNodeParams", {})}
        for name in ("nodes", "queuedResources", "tpu", "nodeSpec", "node"):
            if name in each:
                _new_names(each[name])
