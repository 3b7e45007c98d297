"""Serve the core over REST: the methods of v1, v2 and v2alpha1 according to their HTTP rules."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from aiohttp.http import HttpProcessingError
from google.longrunning.operations_pb2 import Operation
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor
from google.rpc import code_pb2

from jupyter_tpu.emulator.access.authentication import CHALLENGE, check_token
from jupyter_tpu.emulator.access.callers import Callers
from jupyter_tpu.emulator.access.peers import Address
from jupyter_tpu.emulator.api_faults.wire_faults import rest_answer
from jupyter_tpu.emulator.core import PROJECT_NUMBER, READING, Cloud
from jupyter_tpu.emulator.queued_resources.quirks import QueuedResourceQuirks
from jupyter_tpu.emulator.resources import errors, message_types
from jupyter_tpu.emulator.resources.behaviours import assumed, documented, recorded
from jupyter_tpu.emulator.resources.names import snake_case
from jupyter_tpu.emulator.resources.request import V2, ApiRequest
from jupyter_tpu.emulator.transport import http_rules, versions
from jupyter_tpu.emulator.transport.field_masks import check_mask, parse_mask
from jupyter_tpu.emulator.transport.http_rules import V1, Match, Rule
from jupyter_tpu.emulator.transport.json_answers import Printer, envelope, printed, refused
from jupyter_tpu.emulator.transport.json_text import RECEIVED, json_object
from jupyter_tpu.emulator.transport.request_json import Reading
from jupyter_tpu.emulator.transport.versions import Fields, View

__all__ = ["RestServer", "caller_check", "google_errors", "http_log", "json_object", "refuse_browsers", "token_check"]

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_log = logging.getLogger(__name__)

# parameters of every method, according to Google's discovery documents
_SYSTEM_PARAMETERS = {
    *("access_token", "alt", "callback", "fields", "key", "oauth_token", "prettyPrint", "quotaUser"),
    *("upload_protocol", "uploadType", "userIp"),
}
_OF_NO_OTHER_SITE = ("none", "same-origin")
"""Values of ``Sec-Fetch-Site`` for an address typed by the user, or requested by a page of the emulator itself."""
_ONLY_IN_DISCOVERY = {"ListLocations": {"extraLocationTypes"}, "ListOperations": {"returnPartialSuccess"}}
"""Parameters that are in the discovery documents but not in the packages' requests; they have no effect here."""


class RestServer:
    """The handler of all requests to the REST APIs; it gets every path that has no other handler."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud

    def add_to(self, app: web.Application) -> None:
        """Serve all paths; call this after adding all other routes."""
        app.router.add_route("*", "/{path:.*}", self.handle)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Handle a request; report errors in Google's envelope."""
        try:
            answer = await self._answer(request, _match(request))
        except errors.Refusal as refusal:
            answer = refused(refusal.status)
        answer.headers["Date"] = self._cloud.scripted.date()
        return answer

    async def _answer(self, request: web.Request, found: Match) -> web.StreamResponse:
        printer = self._printer(request, found.rule)
        call = await api_request_of(request, found)
        fields = request.query.get("fields", "")
        if fields and not call.method.startswith(READING):
            # check the mask before the call changes anything; the response to a change is an operation
            check_mask(parse_mask(fields), Operation.DESCRIPTOR, fields)
        try:
            answer = await self._cloud.call(call)
            if fields and call.method.startswith(READING):
                check_mask(parse_mask(fields), printer.view.shown(answer).DESCRIPTOR, fields)
        except errors.WireFault as fault:
            return rest_answer(fault, request, lambda answer: self._shown(answer, printer, found.rule))
        is_pretty = request.query.get("prettyPrint", "true").lower() != "false"
        return printed(self._shown(answer, printer, found.rule), is_pretty=is_pretty)

    def _printer(self, request: web.Request, rule: Rule) -> Printer:
        version = V2 if rule.version == V1 else rule.version
        view = View(version, message_types.new, self._cloud.extras_of)
        return Printer(view, "enum-encoding=int" in request.query.get("$alt", ""))

    def _shown(self, answer: Any, printer: Printer, rule: Rule) -> Fields:
        fields = printer.fields(answer)
        if rule.version == V1:
            _without_configurations(fields)
        # change the JSON, because no protobuf message has these fields
        QueuedResourceQuirks(self._cloud.switches, self._cloud.project, PROJECT_NUMBER).show(fields)
        return fields


def _match(request: web.Request) -> Match:
    found = http_rules.match(request.method, request.rel_url.raw_path)
    if found is None:
        raise _unrouted(request.method, request.path)
    if found.rule.method.startswith(f"{V1}."):
        raise errors.unimplemented(f"{found.rule.method.removeprefix(f'{V1}.')} of {V1}")
    return found


async def api_request_of(request: web.Request, found: Match) -> ApiRequest:
    """Parse the call in a request.

    Raises:
        Refusal: the request is invalid; the error lists all violations.
    """
    rule = found.rule
    version = V2 if rule.version == V1 else rule.version
    kind = request_kind(version, rule.method)
    body = await json_object(request) if rule.body else {}
    # read path, query and body first, so that one error response lists all violations
    reading = Reading()
    fields = reading.parameters(_parameters(request, rule.method), kind)
    _add_body(fields, reading, rule, body, kind)
    reading.check()
    # protobuf's FieldMask rejects snake_case, which gcloud sends
    mask = fields.pop("updateMask", None)
    fields = canonical(fields, version, rule.method)
    if mask is not None:
        fields["updateMask"] = mask_paths(mask)
    # set the path last, so that it overrides a name in the body
    _set(fields, rule.variable, found.value)
    return versions.request_from_json(version, rule.method, fields)


def request_kind(version: str, method: str) -> Descriptor:
    """Return the REST message type of a method's request."""
    if method in (*versions.OPERATIONS, *versions.LOCATIONS):
        return versions.request_class(version, method).DESCRIPTOR
    name = "GetQueuedResource" if method == "GetMaintenanceInfo" else method
    return message_types.rest_types(version).descriptor(f"{name}Request")


def canonical(fields: Fields, version: str, method: str) -> Fields:
    """Return the same fields with enums by name, int64 as strings and times in one format."""
    if method in (*versions.OPERATIONS, *versions.LOCATIONS):
        return fields
    message = message_types.new(version, request_kind(version, method).name)
    try:
        json_format.ParseDict(fields, message)
        return dict(json_format.MessageToDict(message))
    except (ValueError, json_format.Error) as error:
        raise errors.Refusal(errors.status_of(code_pb2.INVALID_ARGUMENT, f"{RECEIVED}{str(error)[:500]}")) from error


def _add_body(fields: Fields, reading: Reading, rule: Rule, body: Fields, kind: Descriptor) -> None:
    if rule.body == "*":
        fields.update(reading.message(body, kind))
    elif rule.body:
        found = kind.fields_by_name[rule.body]
        fields[found.json_name] = reading.message(body, found.message_type, rule.body)


def _parameters(request: web.Request, method: str) -> dict[str, list[str]]:
    """Return the query parameters that are fields of the request message."""
    ignored = _SYSTEM_PARAMETERS | _ONLY_IN_DISCOVERY.get(method, set())
    names = [name for name in dict.fromkeys(request.query) if not name.startswith("$") and name not in ignored]
    return {name: request.query.getall(name) for name in names}


@recorded(
    "mask-case",
    "A mask contains field names in camelCase or snake_case.",
    source="gcloud 528.0.0 sends data_disks and network_config.enable_external_ips; dstack sends dataDisks",
)
def mask_paths(text: str) -> list[str]:
    """Return the paths of a mask in snake_case."""
    return [snake_case(path.strip()) for path in text.split(",") if path.strip()]


def _set(fields: Fields, variable: str, value: str) -> None:
    *parents, leaf = variable.split(".")
    for parent in parents:
        fields = fields.setdefault(parent, {})
    fields[leaf] = value


def _without_configurations(fields: Fields) -> None:
    for each in [fields, *fields.get("acceleratorTypes", [])]:
        each.pop("acceleratorConfigs", None)


@assumed("unrouted", "A request for an unknown path or verb gets 404 NOT_FOUND; the text is invented.")
def _unrouted(verb: str, path: str) -> errors.Refusal:
    return errors.Refusal(errors.status_of(code_pb2.NOT_FOUND, f"The emulator has no route {verb} {path[:200]}"))


@web.middleware
async def refuse_browsers(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Reject requests from web pages: from other origins, or to host names that resolve to loopback (DNS rebinding)."""
    # a web page can resolve its own host name to 127.0.0.1 but can't forge the Host header
    host = request.host.rpartition(":")[0] or request.host
    is_of_page = "Origin" in request.headers or request.headers.get("Sec-Fetch-Site", "none") not in _OF_NO_OTHER_SITE
    if is_of_page or host not in ("127.0.0.1", "localhost"):
        return refused(errors.status_of(code_pb2.PERMISSION_DENIED, "The emulator does not serve web pages."))
    return await handler(request)


def caller_check(callers: Callers) -> Any:
    """Return a middleware that rejects callers not admitted by `callers`."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            callers.check(_ends(request), request.headers.get("Authorization", ""), _full_method(request))
        except errors.Refusal as refusal:
            return _challenged(refused(refusal.status))
        return await handler(request)

    return check


def _ends(request: web.Request) -> tuple[Address, Address] | None:
    """Return the addresses of the client and of the server, or None if the connection is closed."""
    if request.transport is None:
        return None
    return request.transport.get_extra_info("peername"), request.transport.get_extra_info("sockname")


def _challenged(answer: web.Response) -> web.Response:
    if answer.status == 401:
        answer.headers["WWW-Authenticate"] = CHALLENGE
    return answer


def token_check(cloud: Cloud, is_asked: Callable[[], bool]) -> Any:
    """Return a middleware that checks the token of each call to Google's services, but not to the control API.

    `is_asked` returns whether a token is required. Even if not, an expired token of one of this cloud's workers is
    rejected.
    """

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        # check a worker's token even if no token is required: an expired token must fail, as with the real API
        header, method = request.headers.get("Authorization", ""), _full_method(request)
        try:
            if is_asked() and not _needs_none(request):
                check_token(header, method)
            cloud.workers.tokens.check(header, method)
        except errors.Refusal as refusal:
            return _challenged(refused(refusal.status))
        return await handler(request)

    return check


@documented(
    "catalogue-key",
    "The price catalogue can be read with an API key or with a token.",
    source="cloud.google.com/billing/v1/how-tos/catalog-api",
)
def _needs_none(request: web.Request) -> bool:
    has_key = request.path.startswith("/v1/services") and bool(request.query.get("key"))
    return has_key or request.path.startswith("/emulator/")


def _full_method(request: web.Request) -> str:
    """Return a method's full name, such as ``google.cloud.tpu.v2.Tpu.ListNodes``; empty for other services."""
    found = http_rules.match(request.method, request.rel_url.raw_path)
    return f"google.cloud.tpu.{found.rule.version}.Tpu.{found.rule.method}" if found else ""


class NotOfClients(logging.Filter):
    """A log filter that drops the log records of client errors: requests that are not HTTP and get a 400 response."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return False for a log record about a client's error, so that it is not logged."""
        return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError | web.RequestPayloadError))


_NOT_OF_CLIENTS = NotOfClients()


def http_log() -> logging.Logger:
    """Return the log of the HTTP server."""
    log = logging.getLogger(f"{__name__}.http")
    log.addFilter(_NOT_OF_CLIENTS)
    return log


@web.middleware
async def google_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Convert any exception in a handler to Google's error envelope; log bugs of the emulator."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        if error.status < 400:
            raise
        return printed({"error": envelope(error.status, error.reason)}, status=error.status)
    except Exception:  # noqa: BLE001 - the top of every handler
        _log.exception("%s %s failed", request.method, request.path)
        return refused(errors.internal_error())
