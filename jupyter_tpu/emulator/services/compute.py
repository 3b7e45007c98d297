"""Compute Engine v1 for SSH clients: the project and its metadata, with the SSH keys of the project."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from jupyter_tpu.emulator.core import PROJECT_NUMBER, Cloud
from jupyter_tpu.emulator.resources.behaviours import assumed, documented, recorded
from jupyter_tpu.emulator.services.requests import shapes as shapes
from jupyter_tpu.emulator.services.requests.calls import GoogleService, Method, ServiceCall
from jupyter_tpu.emulator.services.requests.errors import ComputeRefusal
from jupyter_tpu.emulator.store.documents import timestamp
from jupyter_tpu.emulator.workers.project_metadata import ProjectMetadata

BASE = "https://www.googleapis.com/compute/v1"
_SHAPE = {
    "kind": shapes.anything,
    "fingerprint": shapes.text,
    "items": [{"key": shapes.text, "value": shapes.text}],
}
_KEY = re.compile(r"[-_a-zA-Z0-9]{1,127}")
_LONGEST_VALUE, _LONGEST_METADATA = 262_144, 524_288  # documented (behaviour `metadata-limits`)


def compute_service(cloud: Cloud) -> GoogleService:
    """Return the service with its methods."""
    return GoogleService(
        name="compute",
        owns=r"compute/v1/.*",
        methods=tuple(Compute(cloud).methods()),
        # Compute Engine's method ids leave out projects and places: compute.instances.list
        unnamed=r"v1/(?:projects/[^/]+/)?(?:(?:global|aggregated|locations/global|(?:zones|regions)/[^/]+)/)?",
        makes="insert",
        has_actions=True,
        denial=_denied,
    )


class Compute:
    """One project, whose metadata changes at once; operations are done when they are answered."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._metadata = ProjectMetadata(cloud.store)
        self._operations: dict[str, dict[str, Any]] = {}

    def methods(self) -> list[Method]:
        """Return the methods."""
        project = "compute/v1/projects/{project}"
        operation = project + "/global/operations/{operation}"
        see, change = "compute.projects.get", "compute.projects.setCommonInstanceMetadata"
        set_metadata = project + "/setCommonInstanceMetadata"
        return [
            Method(verb="GET", path=project, answer=self.get, permission=see),
            Method(verb="POST", path=set_metadata, answer=self.set_metadata, permission=change),
            Method(verb="GET", path=operation, answer=self.operation, permission="compute.globalOperations.get"),
            Method(verb="POST", path=operation + "/wait", answer=self.operation),
        ]

    @recorded(
        "compute-project",
        "A project shows kind, id, creationTimestamp, name, commonInstanceMetadata (kind, fingerprint, items), quotas, "
        "selfLink, defaultServiceAccount, xpnProjectStatus and defaultNetworkTier.",
        source="answers of compute.projects.get in public repositories",
    )
    @assumed("os-login", "OS Login is off: no metadata item turns it on, and its API is not served.")
    def get(self, call: ServiceCall) -> Mapping[str, Any]:
        """Answer ``projects.get``."""
        self._check_project(call)
        return {
            "kind": "compute#project",
            "id": PROJECT_NUMBER,
            "creationTimestamp": "2026-01-01T00:00:00.000-08:00",
            "name": self._cloud.project,
            "commonInstanceMetadata": self._metadata.to_json(),
            "quotas": [],
            "selfLink": f"{BASE}/projects/{self._cloud.project}",
            "defaultServiceAccount": f"{PROJECT_NUMBER}-compute@developer.gserviceaccount.com",
            "xpnProjectStatus": "UNSPECIFIED_XPN_PROJECT_STATUS",
            "defaultNetworkTier": "PREMIUM",
            "vmDnsSetting": "ZONAL_ONLY",
        }

    @recorded(
        "stale-fingerprint",
        "A fingerprint that is not the current one is refused with 412 conditionNotMet: Supplied fingerprint does not "
        "match current metadata fingerprint.",
        source="terraform-provider-google error_retry_predicates.go",
    )
    @documented(
        "metadata-whole",
        "The items are replaced as a whole.",
        source="Compute Engine API, projects.setCommonInstanceMetadata",
    )
    @assumed("metadata-without-fingerprint", "A request without a fingerprint is refused like one with a stale one.")
    def set_metadata(self, call: ServiceCall) -> Mapping[str, Any]:
        """Answer ``projects.setCommonInstanceMetadata``; workers accept the new SSH keys at once."""
        self._check_project(call)
        shapes.check_shape(call.body, _SHAPE, "metadata")
        items = {item.get("key", ""): item.get("value", "") for item in call.body.get("items") or ()}
        check_items(items, len(call.body.get("items") or ()))
        # last: a malformed request is refused as such, even with a stale fingerprint
        if call.body.get("fingerprint") != self._metadata.fingerprint:
            message = "Supplied fingerprint does not match current metadata fingerprint."
            raise ComputeRefusal(412, message, "conditionNotMet", location="If-Match", locationType="header")
        self._metadata.replace(items)
        # every worker accepts the project's keys, so all of them read again
        for node in self._cloud.store.nodes():
            self._cloud.workers.update_keys(node)
        return self._done("setMetadata")

    def operation(self, call: ServiceCall) -> Mapping[str, Any]:
        """Answer ``globalOperations.get`` and ``wait``."""
        self._check_project(call)
        name = call.parts["operation"]
        if name not in self._operations:
            raise _missing(f"projects/{call.parts['project']}/global/operations/{name}")
        return self._operations[name]

    @recorded(
        "compute-operation",
        "setCommonInstanceMetadata answers an operation of type setMetadata (in a public log: "
        "compute.projects.setCommonInstanceMetadata), with id, name, times, selfLink, targetLink and status.",
        source="answers in public repositories",
    )
    @assumed("compute-done", "The operation is DONE in its first answer.")
    def _done(self, kind: str) -> Mapping[str, Any]:
        now = timestamp(self._cloud.clock.now())
        target = f"{BASE}/projects/{self._cloud.project}"
        # only the last operation is stored: clients ask for it once, right after the call
        name = f"operation-{int(self._cloud.clock.now() * 1000)}-{secrets.token_hex(7)[:13]}-{secrets.token_hex(4)}"
        self._operations = {
            name: {
                "kind": "compute#operation",
                "id": str(secrets.randbits(62)),
                "name": name,
                "operationType": kind,
                "targetLink": target,
                "targetId": PROJECT_NUMBER,
                "status": "DONE",
                "user": "emulator",
                "progress": 100,
                "insertTime": now,
                "startTime": now,
                "endTime": now,
                "selfLink": f"{target}/global/operations/{name}",
            }
        }
        return self._operations[name]

    def _check_project(self, call: ServiceCall) -> None:
        if call.parts["project"] not in (self._cloud.project, PROJECT_NUMBER):
            raise _missing(f"projects/{call.parts['project']}")


@recorded(
    "compute-missing",
    "What Compute Engine does not find is a 404 notFound: The resource 'projects/…' was not found.",
    source="error bodies in public repositories",
)
def _missing(name: str) -> ComputeRefusal:
    return ComputeRefusal(404, f"The resource '{name[:200]}' was not found", "notFound")


@recorded(
    "compute-denied",
    "A missing permission is a 403 forbidden of Compute Engine: Required 'compute.projects.get' permission for …",
    source="error bodies in many public issues",
)
def _denied(permission: str, project: str) -> ComputeRefusal:
    return ComputeRefusal(403, f"Required '{permission}' permission for 'projects/{project}'", "forbidden")


@documented(
    "metadata-limits",
    "Keys of metadata have 1 to 127 letters, digits, hyphens and underscores, values at most 256 KiB, all of it at "
    "most 512 KiB; no key comes twice.",
    source="Compute Engine API, Metadata",
)
def check_items(items: Mapping[str, str], count: int) -> None:
    """Raise for metadata that breaks a rule; `count` is the number of items as they were sent."""
    # functions, so that the first broken rule is the one that is named
    rules: tuple[tuple[Callable[[], bool], str], ...] = (
        (lambda: all(_KEY.fullmatch(key) for key in items), "Metadata keys must match [-_a-zA-Z0-9]{1,127}."),
        (lambda: len(items) == count, "Metadata has duplicate keys."),
        (lambda: all(len(value) <= _LONGEST_VALUE for value in items.values()), "A metadata value is too large."),
        (lambda: sum(map(len, [*items, *items.values()])) <= _LONGEST_METADATA, "The metadata is too large."),
    )
    for holds, message in rules:
        if not holds():
            raise ComputeRefusal(400, f"Invalid value for field 'resource.items': {message}", "invalid")
