"""The part of Compute Engine v1 that gcloud reads before it opens an SSH connection: the project and its metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jupyter_tpu.emulator.core import PROJECT_NUMBER, Cloud
from jupyter_tpu.emulator.resources.behaviours import assumed, recorded
from jupyter_tpu.emulator.services.requests.errors import ComputeRefusal
from jupyter_tpu.emulator.services.requests.service_calls import GoogleService, Method, ServiceCall

BASE = "https://www.googleapis.com/compute/v1"
_FINGERPRINT = "AAAAAAAAAAA="
"""The fingerprint of metadata without items; gcloud expects eight bytes in URL-safe base64."""


def compute_service(cloud: Cloud) -> GoogleService:
    """Return the Compute Engine service, which has a single method."""
    return GoogleService(
        name="compute",
        owns=r"compute/v1/.*",
        methods=(
            Method(
                verb="GET",
                path="compute/v1/projects/{project}",
                answer=Compute(cloud).get,
                permission="compute.projects.get",
            ),
        ),
        # Compute Engine's method IDs omit projects and locations: compute.instances.list
        unnamed=r"v1/(?:projects/[^/]+/)?(?:(?:global|aggregated|locations/global|(?:zones|regions)/[^/]+)/)?",
        makes="insert",
        has_actions=True,
        denial=_denied,
    )


class Compute:
    """The Compute Engine API of one project. The project's metadata is empty and can't be changed."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud

    @recorded(
        "compute-project",
        "A project shows kind, id, creationTimestamp, name, commonInstanceMetadata (kind, fingerprint, items), quotas, "
        "selfLink, defaultServiceAccount, xpnProjectStatus and defaultNetworkTier.",
        source="responses of compute.projects.get in public repositories",
    )
    @assumed("os-login", "OS Login is disabled, and its API is not served.")
    @assumed("project-metadata", "The project's metadata is empty: SSH keys are in the metadata of each node.")
    def get(self, call: ServiceCall) -> Mapping[str, Any]:
        """Handle ``projects.get``: return the project."""
        if call.parts["project"] not in (self._cloud.project, PROJECT_NUMBER):
            raise _missing(f"projects/{call.parts['project']}")
        return {
            "kind": "compute#project",
            "id": PROJECT_NUMBER,
            "creationTimestamp": "2026-01-01T00:00:00.000-08:00",
            "name": self._cloud.project,
            "commonInstanceMetadata": {"kind": "compute#metadata", "fingerprint": _FINGERPRINT},
            "quotas": [],
            "selfLink": f"{BASE}/projects/{self._cloud.project}",
            "defaultServiceAccount": f"{PROJECT_NUMBER}-compute@developer.gserviceaccount.com",
            "xpnProjectStatus": "UNSPECIFIED_XPN_PROJECT_STATUS",
            "defaultNetworkTier": "PREMIUM",
            "vmDnsSetting": "ZONAL_ONLY",
        }


@recorded(
    "compute-missing",
    "If a resource does not exist, Compute Engine returns 404 notFound: The resource 'projects/…' was not found.",
    source="error bodies in public repositories",
)
def _missing(name: str) -> ComputeRefusal:
    return ComputeRefusal(404, f"The resource '{name[:200]}' was not found", "notFound")


@recorded(
    "compute-denied",
    "If a permission is missing, Compute Engine returns 403 forbidden: Required 'compute.projects.get' "
    "permission for …",
    source="error bodies in many public issues",
)
def _denied(permission: str, project: str) -> ComputeRefusal:
    return ComputeRefusal(403, f"Required '{permission}' permission for 'projects/{project}'", "forbidden")
