"""Google's other services on the REST port, for the same project as the TPU API.

Each service is a table of methods (`requests.service_calls.Method`); this module routes calls to them and formats their
errors.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aiohttp import web
from google.rpc import code_pb2

from jupyter_tpu.emulator.access.permissions import is_denied
from jupyter_tpu.emulator.core import Cloud
from jupyter_tpu.emulator.resources import errors
from jupyter_tpu.emulator.resources.behaviours import assumed
from jupyter_tpu.emulator.services.billing.bigquery import bigquery_service
from jupyter_tpu.emulator.services.billing.catalogue import billing_service
from jupyter_tpu.emulator.services.compute import compute_service
from jupyter_tpu.emulator.services.quota.infos import quotas_service
from jupyter_tpu.emulator.services.quota.service_usage import service_usage_services
from jupyter_tpu.emulator.services.requests.errors import ComputeRefusal
from jupyter_tpu.emulator.services.requests.service_calls import GoogleService, ServiceCall
from jupyter_tpu.emulator.transport.json_answers import printed, refused
from jupyter_tpu.emulator.transport.json_text import json_object

_log = logging.getLogger(__name__)

_SYSTEM = "$"
"""Prefix of parameters that are not fields of a request, such as ``$alt``."""


def google_services(cloud: Cloud) -> tuple[GoogleService, ...]:
    """Return all services. If two services match a path, the first one receives the call."""
    return (
        compute_service(cloud),
        quotas_service(cloud),
        *service_usage_services(cloud),
        billing_service(cloud),
        bigquery_service(cloud),
    )


def add_to(app: web.Application, cloud: Cloud) -> None:
    """Add the routes of these services. Call this before you add a catch-all route."""
    for service in google_services(cloud):
        app.router.add_route("*", f"/{{path:{service.owns}}}", _handler(cloud, service))


def _handler(cloud: Cloud, service: GoogleService) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handle(request: web.Request) -> web.StreamResponse:
        try:
            answer = await _answer(cloud, service, request)
            return printed(answer, is_pretty=request.query.get("prettyPrint") != "false")
        except errors.Refusal as refusal:
            return refused(refusal.status)
        except ComputeRefusal as refusal:
            return printed(refusal.to_json(), status=refusal.code)
        except web.HTTPException:
            raise
        except Exception:  # noqa: BLE001 - the top of a handler: a bug of ours answers as Google's own do
            _log.exception("%s %s failed", request.method, request.path)
            return refused(errors.status_of(code_pb2.INTERNAL, "Internal error encountered."))

    return handle


async def _answer(cloud: Cloud, service: GoogleService, request: web.Request) -> Mapping[str, Any]:
    method, parts = service.find(request.method, request.rel_url.raw_path.removeprefix("/"))
    # check before reading the body, so that a caller without permission gets no other error
    check_allowed(cloud, service, method.permission)
    fields = [name for name in request.query if not name.startswith(_SYSTEM)]
    call = ServiceCall(
        parts=parts,
        query={name: request.query.getall(name)[-1] for name in fields},
        body=without_nulls(await json_object(request)),
    )
    return method.answer(call)


def without_nulls(value: Any) -> Any:
    """Return JSON without null fields, which are equivalent to missing ones."""
    if isinstance(value, dict):
        return {name: without_nulls(each) for name, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value


@assumed("side-permissions", "The switch for denied permissions also applies to Google's other services.")
def check_allowed(cloud: Cloud, service: GoogleService, permission: str) -> None:
    """Raise the service's 403 error if the permission is denied."""
    if permission and is_denied(permission, cloud.rules.project.switches.denied_permissions):
        raise service.denial(permission, cloud.project)
