"""Golden requests and answers (golden/*.yaml): each word for word, but for its named placeholders.

A case has a `name`, the behaviours that it `shows`, its `standing` and `source`, what is `given`, a `request` with its
`body`, the `status` and the `answer`. `given` is a list of steps: `ask` a request (and `keep` the last part of a field
of its answer as a placeholder), ask the `control` API, `advance_s` in virtual time, which stands still otherwise.
A case plays over REST, and over gRPC unless it says `grpc: false`.
"""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import grpc
import pytest
import yaml
from google.cloud import tpu_v2, tpu_v2alpha1
from google.cloud.location import locations_pb2
from google.longrunning import operations_pb2
from google.protobuf import empty_pb2, json_format
from google.rpc import code_pb2
from grpc_status import rpc_status

from jupyter_tpu.emulator.recording.wildcards import Bindings, differences, filled_in
from jupyter_tpu.emulator.resources.behaviours import Standing

FOLDER = Path(__file__).parent / "golden"
PAGES = [yaml.load(path.read_text(), yaml.CSafeLoader) for path in sorted(FOLDER.glob("*.yaml"))]
CASES = [case for page in PAGES for case in page["cases"]]

ROUTES = (
    ("POST", "nodes", "CreateNode", "parent", "node"),
    ("GET", "nodes", "ListNodes", "parent", ""),
    ("GET", "nodes/*", "GetNode", "name", ""),
    ("DELETE", "nodes/*", "DeleteNode", "name", ""),
    ("PATCH", "nodes/*", "UpdateNode", "node.name", "node"),
    ("POST", "nodes/*:stop", "StopNode", "name", "*"),
    ("POST", "nodes/*:start", "StartNode", "name", "*"),
    ("POST", "nodes/*:getGuestAttributes", "GetGuestAttributes", "name", "*"),
    ("POST", "nodes/*:simulateMaintenanceEvent", "SimulateMaintenanceEvent", "name", "*"),
    ("POST", "nodes/*:performMaintenance", "PerformMaintenance", "name", "*"),
    ("POST", "queuedResources", "CreateQueuedResource", "parent", "queued_resource"),
    ("GET", "queuedResources", "ListQueuedResources", "parent", ""),
    ("GET", "queuedResources/*", "GetQueuedResource", "name", ""),
    ("DELETE", "queuedResources/*", "DeleteQueuedResource", "name", ""),
    ("POST", "queuedResources/*:reset", "ResetQueuedResource", "name", "*"),
    ("GET", "acceleratorTypes", "ListAcceleratorTypes", "parent", ""),
    ("GET", "acceleratorTypes/*", "GetAcceleratorType", "name", ""),
    ("GET", "runtimeVersions", "ListRuntimeVersions", "parent", ""),
    ("GET", "runtimeVersions/*", "GetRuntimeVersion", "name", ""),
    ("GET", "reservations", "ListReservations", "parent", ""),
    ("GET", "operations", "ListOperations", "name", ""),
    ("GET", "operations/*", "GetOperation", "name", ""),
    ("DELETE", "operations/*", "DeleteOperation", "name", ""),
    ("POST", "operations/*:cancel", "CancelOperation", "name", "*"),
)
"""HTTP rules of the API: verb, path below the location, method, field of the name, field of the body."""

SERVICES = {"v2": tpu_v2, "v2alpha1": tpu_v2alpha1}


class Player:
    """Sends the requests of a case; what its answers bound is filled into those that follow."""

    def __init__(self, emulator: Any) -> None:
        self._emulator = emulator
        self.bound: Bindings = {}
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self._control("POST clock", {"paused": True})

    def prepare(self, case: dict[str, Any]) -> None:
        for step in case.get("given", []):
            if "control" in step:
                self._control(step["control"], step["body"])
            elif "advance_s" in step:
                self._control("POST clock", {"advance_s": step["advance_s"]})
            else:
                status, answer = self.ask(step["ask"], step.get("body"))
                assert status == 200, (step["ask"], answer)
                kept = {name: str(answer[field]) for name, field in step.get("keep", {}).items()}
                self.bound.update({name: value.rpartition("/")[2] for name, value in kept.items()})

    def ask(self, request: str, body: Any) -> tuple[int, Any]:
        verb, path = filled_in(request, self.bound).split(" ", 1)
        asked = urllib.request.Request(self._emulator.rest + path, method=verb)
        if body is not None:
            asked.data = (body if isinstance(body, str) else json.dumps(self._sent(body))).encode()
            asked.add_header("Content-Type", "application/json")
        try:
            with self._opener.open(asked, timeout=120) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def call(self, request: str, body: Any) -> tuple[int, Any]:
        """The same over gRPC, through Google's stubs; an error as its HTTP envelope would show it."""
        verb, path = filled_in(request, self.bound).split(" ", 1)
        version, method, message = message_of(verb, path, self._sent(body or {}))
        with grpc.insecure_channel(self._emulator.grpc) as channel:
            package = SERVICES[version]
            client = package.TpuClient(
                transport=package.services.tpu.transports.TpuGrpcTransport(channel=channel, host=self._emulator.grpc)
            )
            stub = getattr(client.transport, re.sub(r"(?<=[a-z])([A-Z])", r"_\1", method).lower())
            try:
                return code_pb2.OK, shown(stub(message))
            except grpc.RpcError as error:
                return refusal(error)

    def _sent(self, body: Any) -> Any:
        return filled_in(body, self.bound)

    def _control(self, request: str, body: Any) -> None:
        verb, path = request.split(" ")
        status, answer = self.ask(f"{verb} /emulator/v1/{path}", body)
        assert status == 200, (request, answer)


def message_of(verb: str, path: str, body: dict[str, Any]) -> tuple[str, str, Any]:
    """Version, method and request message of an HTTP request."""
    parts = urlsplit(path)
    _, version, name = parts.path.split("/", 2)
    method, variable, body_field = method_of(verb, name)
    message = request_class(version, method)()
    query = dict(parse_qsl(parts.query))
    mask = query.pop("updateMask", None)
    for field in ("alt", "$alt", "prettyPrint"):
        query.pop(field, None)
    fields = {field: value == "True" if value in ("True", "False") else value for field, value in query.items()}
    json_format.ParseDict(fields, message)
    if body_field:
        part = message if body_field == "*" else getattr(message, body_field)
        json_format.ParseDict(body, part, ignore_unknown_fields=True)
    if mask is not None:
        message.update_mask.paths.extend(each for each in mask.split(",") if each)
    owner = message.node if variable == "node.name" else message
    is_collection = method.startswith(("Create", "List"))
    resource = name.partition(":")[0]
    setattr(owner, variable.rpartition(".")[2], resource.rpartition("/")[0] if is_collection else resource)
    return version, method, message


def method_of(verb: str, name: str) -> tuple[str, str, str]:
    if name.endswith(":generateServiceIdentity"):
        return "GenerateServiceIdentity", "parent", "*"
    if re.fullmatch(r"projects/[^/]+/locations(/[^/]+)?", name):
        return ("ListLocations" if name.endswith("/locations") else "GetLocation"), "name", ""
    rest = name.split("/", 4)[4]
    for rule_verb, form, method, variable, body_field in ROUTES:
        if verb == rule_verb and re.fullmatch(form.replace("*", "[^/:]+"), rest):
            return method, variable, body_field
    raise LookupError(f"{verb} {name}")


def request_class(version: str, method: str) -> Any:
    for module in (operations_pb2, locations_pb2):
        if hasattr(module, f"{method}Request"):
            return getattr(module, f"{method}Request")
    return getattr(SERVICES[version], f"{method}Request").pb()


def shown(answer: Any) -> Any:
    message = type(answer).pb(answer) if hasattr(type(answer), "pb") else answer
    if isinstance(message, bytes):  # the package leaves empty answers as they came
        message = empty_pb2.Empty.FromString(message)
    data = json_format.MessageToDict(message)
    for operation in [data] if isinstance(message, operations_pb2.Operation) else data.get("operations", []):
        operation.setdefault("done", False)
    return data


def refusal(error: grpc.RpcError) -> tuple[int, Any]:
    status = rpc_status.from_call(error)
    if status is None:
        return error.code().value[0], {"error": {"status": error.code().name, "message": error.details()}}
    details = [json_format.MessageToDict(each) for each in status.details]
    envelope = {"status": code_pb2.Code.Name(status.code), "message": status.message}
    return status.code, {"error": {**envelope, **({"details": details} if details else {})}}


def without_http_code(answer: Any) -> Any:
    if isinstance(answer, dict) and "error" in answer and "status" in answer["error"]:
        return {"error": {key: value for key, value in answer["error"].items() if key != "code"}}
    return answer


@pytest.fixture
def player(emulator: Any) -> Player:
    return Player(emulator)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_rest_answers_as_written(player: Player, case: dict[str, Any]) -> None:
    player.prepare(case)

    status, answer = player.ask(case["request"], case.get("body"))

    assert "\n".join(differences(case["answer"], answer, player.bound)) == ""
    assert status == case["status"]


@pytest.mark.parametrize("case", [case for case in CASES if case.get("grpc", True)], ids=lambda case: case["name"])
def test_grpc_answers_as_written(player: Player, case: dict[str, Any]) -> None:
    player.prepare(case)

    _, answer = player.call(case["request"], case.get("body"))

    assert "\n".join(differences(without_http_code(case["answer"]), answer, player.bound)) == ""


def test_every_case_has_a_name_of_its_own_a_standing_a_source_and_known_behaviours(emulator: Any) -> None:
    known = {each["name"] for each in emulator.control.behaviours()}
    names = [case["name"] for case in CASES]

    assert len(set(names)) == len(names) >= 100
    assert {case["standing"] for case in CASES} <= set(Standing)
    assert [case["name"] for case in CASES if not case["source"]] == []
    assert {name for case in CASES for name in case["shows"]} - known == set()
