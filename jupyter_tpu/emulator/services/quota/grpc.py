"""Cloud Quotas over gRPC: translates each call to its REST method, and the answer to protobuf."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf import json_format
from google.protobuf.message import Message
from grpc_status import rpc_status

from jupyter_tpu.emulator.core import Cloud
from jupyter_tpu.emulator.resources.errors import Refusal
from jupyter_tpu.emulator.services.quota.infos import quotas_service
from jupyter_tpu.emulator.services.quota.protos import VERSIONS, message_class, package
from jupyter_tpu.emulator.services.requests.calls import GoogleService, ServiceCall
from jupyter_tpu.emulator.transport.grpc_requests import message_in

CheckToken = Callable[[Any, str], None]
"""Checks a call's token, given the call's context and the method's full name. Raises Refusal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The REST form of a method; `{…}` in the path is a field of the request."""

    verb: str
    path: str
    answer: str
    body: str = ""


ROUTES = {
    "ListQuotaInfos": Route(verb="GET", path="{parent}/quotaInfos", answer="ListQuotaInfosResponse"),
    "GetQuotaInfo": Route(verb="GET", path="{name}", answer="QuotaInfo"),
    "ListQuotaPreferences": Route(verb="GET", path="{parent}/quotaPreferences", answer="ListQuotaPreferencesResponse"),
    "GetQuotaPreference": Route(verb="GET", path="{name}", answer="QuotaPreference"),
    "CreateQuotaPreference": Route(
        verb="POST", path="{parent}/quotaPreferences", answer="QuotaPreference", body="quotaPreference"
    ),
    "UpdateQuotaPreference": Route(verb="PATCH", path="{name}", answer="QuotaPreference", body="quotaPreference"),
}


def quota_handlers(cloud: Cloud, check: Callable[[GoogleService, str], None], token: CheckToken) -> Iterator[Any]:
    """Yield generic handlers of the service in both versions; `check` raises for a denied permission."""
    service = quotas_service(cloud)
    for version in VERSIONS:
        name = f"{package(version)}.CloudQuotas"
        methods = {method: _handler(service, version, method, check, token) for method in ROUTES}
        yield grpc.method_handlers_generic_handler(name, methods)


def _handler(
    service: GoogleService, version: str, name: str, check: Callable[[GoogleService, str], None], token: CheckToken
) -> Any:
    kind = message_class(version, f"{name}Request")

    async def answer(sent: bytes, context: Any) -> Message:
        try:
            token(context, f"{package(version)}.CloudQuotas.{name}")
            request = message_in(sent, kind)
            # through the REST form, so that both transports have one implementation
            method, call = call_of(service, version, ROUTES[name], request)
            check(service, method.permission)
            return as_message(version, ROUTES[name].answer, method.answer(call))
        except Refusal as refusal:
            await context.abort_with_status(rpc_status.to_status(refusal.status))
            raise AssertionError("abort_with_status raises") from refusal

    return grpc.unary_unary_rpc_method_handler(
        answer,
        request_deserializer=None,
        response_serializer=lambda message: message.SerializeToString(),
    )


def call_of(service: GoogleService, version: str, route: Route, request: Any) -> tuple[Any, ServiceCall]:
    """Return the method, and the call as it would have come over REST."""
    fields = json_format.MessageToDict(request)
    body = fields.pop(route.body, {}) if route.body else {}
    path = route.path.format(name=fields.get("name", body.get("name", "")), parent=fields.get("parent", ""))
    method, parts = service.find(route.verb, f"{version}/{path}")
    if "quotaConfig" in body:
        # protobuf does not send 0, so over gRPC a missing value is one of 0 (behaviour `preferred-value-zero`)
        body["quotaConfig"].setdefault("preferredValue", "0")
    # as a client of REST would have written them
    query = {name: _as_text(value) for name, value in fields.items()}
    lists = {name: list(map(_as_text, value)) for name, value in fields.items() if isinstance(value, list)}
    return method, ServiceCall(parts=parts, query=query, lists=lists, body=body)


def _as_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def as_message(version: str, name: str, answer: Mapping[str, Any]) -> Message:
    """Return a JSON answer as the message of this name."""
    message: Message = json_format.ParseDict(dict(answer), message_class(version, name)())
    return message
