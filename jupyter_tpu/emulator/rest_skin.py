"""The REST/JSON face of the core: the same methods by the HTTP rules of the real endpoint.

Routes come from google-cloud-tpu's own rules, so they are those of its REST transport and of the discovery document.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from aiohttp import web
from google.cloud.tpu_v2.services.tpu.transports import rest_base
from google.longrunning import operations_pb2
from google.protobuf import field_mask_pb2, json_format
from google.protobuf.message import Message
from google.rpc import code_pb2, status_pb2

from jupyter_tpu.emulator import errors
from jupyter_tpu.emulator.behaviours import recorded
from jupyter_tpu.emulator.core import Cloud
from jupyter_tpu.emulator.grpc_skin import all_requests
from jupyter_tpu.emulator.nodes import snake_case
from jupyter_tpu.emulator.wire_faults import rest_answer

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_VARIABLE = re.compile(r"\{([\w.]+)=([^}]+)\}")
_SYSTEM_PARAMETERS = frozenset(
    ["alt", "key", "prettyPrint", "fields", "access_token", "oauth_token", "quotaUser", "uploadType", "callback"]
)
_BOOLEANS = {"True": "true", "False": "false"}
_MASKS = ("updateMask", "update_mask")

HTTP_STATUS = {
    code_pb2.CANCELLED: 499,
    code_pb2.INVALID_ARGUMENT: 400,
    code_pb2.DEADLINE_EXCEEDED: 504,
    code_pb2.NOT_FOUND: 404,
    code_pb2.ALREADY_EXISTS: 409,
    code_pb2.PERMISSION_DENIED: 403,
    code_pb2.UNAUTHENTICATED: 401,
    code_pb2.RESOURCE_EXHAUSTED: 429,
    code_pb2.FAILED_PRECONDITION: 400,
    code_pb2.ABORTED: 409,
    code_pb2.OUT_OF_RANGE: 400,
    code_pb2.UNIMPLEMENTED: 501,
    code_pb2.UNAVAILABLE: 503,
}


@dataclass(frozen=True, slots=True)
class Rule:
    """One HTTP rule: the path's single variable becomes `variable` of the request, the body its field `body`."""

    method: str
    verb: str
    path: re.Pattern[str]
    variable: str
    body: str


def http_rules() -> list[Rule]:
    """All rules of google-cloud-tpu's REST transport."""
    found = []
    for name, stub in vars(rest_base._BaseTpuRestTransport).items():
        options: list[dict[str, str]] = getattr(stub, "_get_http_options", list)()
        found += [_rule(name.removeprefix("_Base"), option) for option in options]
    return found


def _rule(method: str, option: Mapping[str, str]) -> Rule:
    uri = option["uri"]
    variable = _VARIABLE.search(uri)
    if variable is None:
        raise ValueError(f"an HTTP rule without a variable: {uri}")
    inner = variable[2].replace("*", "[^/:]+")
    path = f"{re.escape(uri[: variable.start()])}({inner}){re.escape(uri[variable.end() :])}"
    return Rule(method, option["method"].upper(), re.compile(path), variable[1], option.get("body", ""))


class RestSkin:
    """An aiohttp handler for every path below ``/v2``."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._rules = http_rules()
        self._requests = {name: made for service in all_requests().values() for name, made in service.items()}

    def add_to(self, app: web.Application) -> None:
        app.router.add_route("*", "/{path:.*}", self.handle)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        try:
            answer = await self._call(request)
        except errors.Refusal as refusal:
            return refused(refusal.status)
        except errors.WireFault as fault:
            return rest_answer(fault, request, lambda answer: _rendered(answer, request))
        return web.json_response(_rendered(answer, request))

    async def _call(self, request: web.Request) -> Message:
        path = unquote(request.path)
        for rule in self._rules:
            match = rule.path.fullmatch(path) if rule.verb == request.method else None
            if match:
                message = await self._message(rule, match[1], request)
                return await self._cloud.call(rule.method, message)
        raise _unrouted(request.method, path)

    async def _message(self, rule: Rule, value: str, request: web.Request) -> Message:
        message = self._requests[rule.method]()
        body = await json_object(request)
        try:
            json_format.ParseDict(_query_fields(request), message, ignore_unknown_fields=True)
            if rule.body:
                part = message if rule.body == "*" else getattr(message, rule.body)
                json_format.ParseDict(body, part, ignore_unknown_fields=True)
        except json_format.ParseError as error:
            raise _bad_payload(str(error)) from error
        _set_mask(message, request.query)
        _set(message, rule.variable, value)
        return message


@web.middleware
async def refuse_browsers(request: web.Request, handler: Handler) -> web.StreamResponse:
    """No web page may drive the emulator, neither across origins nor through a name that points to loopback."""
    host = request.host.rpartition(":")[0] or request.host
    if "Origin" in request.headers or host not in ("127.0.0.1", "localhost"):
        return refused(errors.status_of(code_pb2.PERMISSION_DENIED, "The emulator does not serve web pages."))
    return await handler(request)


@recorded(
    "json",
    "JSON has camelCase names, int64 as text, enum names, no fields with default values; but done:false is printed.",
    source="google.protobuf.json_format; SkyPilot 0.14.1 reads result['done']",
)
def as_json(message: Message, enums_as_numbers: bool = False) -> dict[str, Any]:
    shown: dict[str, Any] = json_format.MessageToDict(message, use_integers_for_enums=enums_as_numbers)
    for operation in [shown] if isinstance(message, operations_pb2.Operation) else shown.get("operations", []):
        operation.setdefault("done", False)
    return shown


def refused(status: status_pb2.Status) -> web.Response:
    """Google's error envelope."""
    number = HTTP_STATUS.get(status.code, 500)
    error: dict[str, Any] = {
        "code": number,
        "message": status.message,
        "status": code_pb2.Code.Name(status.code),
    }
    if status.details:
        error["details"] = [json_format.MessageToDict(detail) for detail in status.details]
    return web.json_response({"error": error}, status=number)


def _rendered(answer: Message, request: web.Request) -> dict[str, Any]:
    return as_json(answer, "enum-encoding=int" in request.query.get("$alt", ""))


async def json_object(request: web.Request) -> dict[str, Any]:
    """The body, empty when nothing was sent; refuses whatever is not an object in JSON."""
    content = await request.read()
    try:
        body = json.loads(content) if content.strip() else {}
    except (ValueError, RecursionError) as error:  # no JSON, no text, or too deep to be taken apart
        raise _bad_payload(str(error)) from error
    if not isinstance(body, dict):
        raise _bad_payload("the body must be an object")
    return body


@recorded(
    "query-booleans", "Booleans in queries may be written True or true.", source="gcloud 528.0.0 sends force=True"
)
def _query_fields(request: web.Request) -> dict[str, Any]:
    """Query parameters that are fields of the request message."""
    names = [name for name in dict.fromkeys(request.query) if _is_field(name)]
    return {name: _values(request.query.getall(name)) for name in names}


def _is_field(name: str) -> bool:
    return not name.startswith("$") and name not in _SYSTEM_PARAMETERS and name not in _MASKS


def _values(texts: list[str]) -> Any:
    values = [_BOOLEANS.get(text, text) for text in texts]
    return values if len(values) > 1 else values[0]


def _set_mask(message: Any, query: Mapping[str, str]) -> None:
    """Masks in camelCase or snake_case; protobuf's own parser takes only the first."""
    text = query.get("updateMask") or query.get("update_mask")
    if text and "update_mask" in message.DESCRIPTOR.fields_by_name:
        paths = [snake_case(path.strip()) for path in text.split(",")]
        message.update_mask.CopyFrom(field_mask_pb2.FieldMask(paths=paths))


def _set(message: Any, variable: str, value: str) -> None:
    *parents, leaf = variable.split(".")
    for parent in parents:
        message = getattr(message, parent)
    setattr(message, leaf, value)


def _bad_payload(reason: str) -> errors.Refusal:
    return errors.Refusal(errors.status_of(code_pb2.INVALID_ARGUMENT, f"Invalid JSON payload received. {reason[:500]}"))


def _unrouted(verb: str, path: str) -> errors.Refusal:
    if re.fullmatch(r"/v2(alpha1)?/projects/.*", path):
        return errors.unimplemented(f"{verb} {path[:200]}")
    return errors.Refusal(errors.status_of(code_pb2.NOT_FOUND, f"The emulator has no route {verb} {path[:200]}"))
