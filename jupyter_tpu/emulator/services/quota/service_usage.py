"""Service Usage v1 and v1beta1: which APIs are enabled, and consumer quota by metric (v1beta1)."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from jupyter_tpu.emulator.core import PROJECT_NUMBER, Cloud
from jupyter_tpu.emulator.resources.behaviours import assumed, documented
from jupyter_tpu.emulator.services.quota.consumer_quota import ConsumerQuota
from jupyter_tpu.emulator.services.quota.limits import SERVICE
from jupyter_tpu.emulator.services.requests.errors import invalid_argument, missing
from jupyter_tpu.emulator.services.requests.service_calls import GoogleService, Method, ServiceCall, check_project, page

SERVICES = {
    "cloudbilling.googleapis.com": "Cloud Billing API",
    "cloudquotas.googleapis.com": "Cloud Quotas API",
    "compute.googleapis.com": "Compute Engine API",
    "serviceusage.googleapis.com": "Service Usage API",
    SERVICE: "Cloud TPU API",
}
_OWNS = {
    "v1": r"v1/(?:(?:projects|folders|organizations)/[^/]+/services(?:[:/].*)?|operations(?:/.*)?)",
    "v1beta1": r"v1beta1/(?:(?:projects|folders|organizations)/[^/]+/services(?:[:/].*)?|operations(?:/.*)?)",
}
_UNNAMED = "(?:projects|folders|organizations)/[^/]+/"
_STATE = re.compile(r'\s*state\s*[:=]\s*"?(ENABLED|DISABLED)"?\s*')


def service_usage_services(cloud: Cloud) -> tuple[GoogleService, ...]:
    """Return the Service Usage API in its versions v1 and v1beta1."""
    switches, quota = ServiceSwitches(cloud), ConsumerQuota(cloud)
    return tuple(
        GoogleService(
            name="serviceusage",
            owns=owns,
            methods=tuple(switches.methods(version) + (quota.methods() if version == "v1beta1" else [])),
            unnamed=_UNNAMED,
        )
        # only v1beta1 serves consumer quota, as in the real service
        for version, owns in _OWNS.items()
    )


class ServiceSwitches:
    """The API methods that enable and disable tpu.googleapis.com; the emulator's other services are always enabled."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._operations: dict[str, dict[str, Any]] = {}

    def methods(self, version: str) -> list[Method]:
        """Return the supported methods of an API version."""
        parent = f"{version}/projects/{{project}}/services"
        name = parent + "/{service}"
        see = "serviceusage.services.get"
        return [
            Method(verb="GET", path=parent, answer=self.list, permission="serviceusage.services.list"),
            Method(verb="GET", path=name, answer=self.get, permission=see),
            Method(verb="POST", path=name + ":enable", answer=self._switch(True), permission=_permission(True)),
            Method(verb="POST", path=name + ":disable", answer=self._switch(False), permission=_permission(False)),
            Method(verb="GET", path=f"{version}/operations/{{operation}}", answer=self.operation),
        ]

    @assumed("service-filter", "The list of services accepts the filters state:ENABLED and state:DISABLED.")
    def list(self, call: ServiceCall) -> Mapping[str, Any]:
        """Handle ``services.list``: return one page of APIs, with the state of each."""
        project = check_project(self._cloud, call, "serviceusage.services.list")
        wanted = _wanted_state(call.query.get("filter", ""))
        found = [self._shown(project, name) for name in sorted(SERVICES)]
        return page(call, "services", [each for each in found if wanted in ("", each["state"])])

    def get(self, call: ServiceCall) -> Mapping[str, Any]:
        """Handle ``services.get``: return an API and whether it is enabled."""
        project = check_project(self._cloud, call, "serviceusage.services.get")
        return self._shown(project, _known(call.parts["service"]))

    def operation(self, call: ServiceCall) -> Mapping[str, Any]:
        """Handle ``operations.get``: return an operation."""
        name = f"operations/{call.parts['operation']}"
        if name not in self._operations:
            raise missing(name)
        return self._operations[name]

    @assumed(
        "service-at-once",
        "Enabling or disabling an API takes effect before the response is sent; the returned operation is already "
        "done.",
    )
    def _switch(self, is_on: bool) -> Callable[[ServiceCall], Mapping[str, Any]]:
        def answer(call: ServiceCall) -> Mapping[str, Any]:
            project = check_project(self._cloud, call, _permission(is_on))
            service = _known(call.parts["service"])
            # this switch also makes the core reject calls (behaviour `E9-api-disabled`)
            if service == SERVICE:
                with self._cloud.store.transaction():
                    self._cloud.rules.project.change({"api_enabled": is_on})
                self._cloud.timeline.arm()
            # reject this, because the emulator would have to stop the service
            elif not is_on:
                raise invalid_argument(f"The emulator cannot turn {service} off.", "name")
            return self._done(is_on, self._shown(project, service))

        return answer

    def _done(self, is_on: bool, service: Mapping[str, Any]) -> Mapping[str, Any]:
        api = "google.api.serviceusage.v1"
        kind = "EnableServiceResponse" if is_on else "DisableServiceResponse"
        name = f"operations/{'acat' if is_on else 'acds'}.p2-{PROJECT_NUMBER}-{secrets.token_hex(16)}"
        # store only the last operation, because clients read it right after the call
        self._operations = {
            name: {
                "name": name,
                "metadata": {
                    "@type": f"type.googleapis.com/{api}.OperationMetadata",
                    "resourceNames": [service["name"]],
                },
                "done": True,
                "response": {"@type": f"type.googleapis.com/{api}.{kind}", "service": service},
            }
        }
        return self._operations[name]

    @documented(
        "service-state",
        "A service in a project is either ENABLED or DISABLED; the disabled Cloud TPU API refuses every call.",
        source="Service Usage API; error body of a disabled API in a public log",
    )
    def _shown(self, project: str, service: str) -> dict[str, Any]:
        is_on = service != SERVICE or self._cloud.rules.project.switches.api_enabled
        return {
            "name": f"projects/{project}/services/{service}",
            "parent": f"projects/{project}",
            "config": {"name": service, "title": SERVICES[service]},
            "state": "ENABLED" if is_on else "DISABLED",
        }


def _permission(is_on: bool) -> str:
    return f"serviceusage.services.{'enable' if is_on else 'disable'}"


def _known(service: str) -> str:
    if service not in SERVICES:
        raise missing(f"services/{service}")
    return service


def _wanted_state(expression: str) -> str:
    match = _STATE.fullmatch(expression) if expression else None
    if expression and match is None:
        raise invalid_argument(f"The filter {expression[:80]!r} is not supported.", "filter")
    return match[1] if match else ""
