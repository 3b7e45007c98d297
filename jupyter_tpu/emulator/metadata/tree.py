"""The content of a worker's metadata server as a tree of directories and values. Pure; `query` reads it."""

from __future__ import annotations

from typing import Any

from jupyter_tpu import accelerators
from jupyter_tpu.emulator.metadata.facts import WorkerFacts
from jupyter_tpu.emulator.metadata.vm_attributes import is_preemptible_node, tpu_attributes
from jupyter_tpu.emulator.resources.behaviours import assumed, documented


class Named(dict[str, Any]):
    """A directory whose entries have names chosen by users. In JSON, these names are not changed to camelCase."""


class Numbered(dict[str, Any]):
    """A directory whose entries are numbered; in JSON, it is a list."""


class Announcement(dict[str, str]):
    """A value that is returned as JSON even if text is requested."""


class OnDemand:
    """A value that is generated for each request. Its folder lists it, but recursive replies omit it."""


NO_MAINTENANCE = Announcement(error="no notifications have been received yet, try again later")


@documented(
    "metadata-tree",
    "The metadata server has project and instance entries with the same names as on Compute Engine.",
    source="cloud.google.com/compute/docs/metadata/predefined-metadata-keys",
)
def metadata_tree(facts: WorkerFacts) -> dict[str, Any]:
    """Return everything below ``/computeMetadata/v1/``."""
    return {
        "instance": _instance(facts),
        "oslogin": {"authenticate": {"sessions": Named()}},
        "project": {
            "attributes": Named(),
            "numeric-project-id": int(facts.project_number),
            "project-id": facts.project,
        },
        "universe": {"universe-domain": "googleapis.com"},
    }


def _instance(facts: WorkerFacts) -> dict[str, Any]:
    return {
        # the user's own metadata overrides Cloud TPU's
        "attributes": Named({**tpu_attributes(facts), **facts.node.metadata}),
        "description": str(facts.node.description),
        "guest-attributes": Named({space: Named(items) for space, items in facts.guest_attributes.items()}),
        "hostname": f"{facts.hostname}.{facts.zone}.c.{facts.project}.internal",
        # each worker has its own ID, although the API shows one for the node
        "id": facts.instance_id,
        "machine-type": f"projects/{facts.project_number}/machineTypes/{_machine_type(facts)}",
        "maintenance-event": _maintenance_event(facts),
        "name": facts.hostname,
        "network-interfaces": Numbered({"0": _network_interface(facts)}),
        "preempted": _word(facts.is_preempted),
        "scheduling": _scheduling(facts),
        # the same account appears twice, as on Compute Engine: under its alias and under its email address
        "service-accounts": Named({"default": _service_account(facts), facts.email: _service_account(facts)}),
        "tags": list(facts.node.tags),
        "upcoming-maintenance": _upcoming_maintenance(facts),
        "zone": f"projects/{facts.project_number}/zones/{facts.zone}",
    }


def _service_account(facts: WorkerFacts) -> dict[str, Any]:
    return {
        "aliases": ["default"],
        "email": facts.email,
        "identity": OnDemand(),
        "scopes": facts.scopes,
        "token": OnDemand(),
    }


def _network_interface(facts: WorkerFacts) -> dict[str, Any]:
    endpoints = facts.node.network_endpoints
    # a node has no endpoints before it is READY
    mine = endpoints[facts.worker_id] if facts.worker_id < len(endpoints) else None
    external = str(mine.access_config.external_ip) if mine is not None else ""
    access = {"0": {"external-ip": external, "type": "ONE_TO_ONE_NAT"}} if external else {}
    network = str(facts.node.network_config.network).rpartition("/")[2] or "default"
    return {
        "access-configs": Numbered(access),
        "ip": str(mine.ip_address) if mine is not None else "",
        "network": f"projects/{facts.project_number}/networks/{network}",
    }


def _scheduling(facts: WorkerFacts) -> dict[str, str]:
    return {
        "automatic-restart": _word(not is_preemptible_node(facts)),
        "on-host-maintenance": "TERMINATE",
        "preemptible": _word(is_preemptible_node(facts)),
    }


@documented(
    "maintenance-notices",
    "upcoming-maintenance shows scheduled maintenance in snake_case. If none is scheduled, it contains "
    "the text that no notifications have been received.",
    source="cloud.google.com/tpu/docs/view-maintenance-notifications; GoogleCloudPlatform/sapagent (the text)",
)
def _upcoming_maintenance(facts: WorkerFacts) -> Announcement:
    announced = facts.upcoming_maintenance
    if not announced:
        return NO_MAINTENANCE
    return Announcement({_snake(name): _plain(value) for name, value in sorted(announced.items())})


@documented(
    "maintenance-event",
    "maintenance-event is TERMINATE_ON_HOST_MAINTENANCE during maintenance of the host, otherwise NONE.",
    source="cloud.google.com/compute/docs/metadata/getting-live-migration-notice",
)
def _maintenance_event(facts: WorkerFacts) -> str:
    is_ongoing = (facts.upcoming_maintenance or {}).get("maintenanceStatus") == "ONGOING"
    return "TERMINATE_ON_HOST_MAINTENANCE" if is_ongoing else "NONE"


@assumed(
    "machine-type", "A TPU VM has the machine type of Compute Engine's TPUs, which for v2 and v3 is n1-standard-96."
)
def _machine_type(facts: WorkerFacts) -> str:
    kind = accelerators.accelerator(facts.node.accelerator_type)
    template = accelerators.generation_facts(kind.generation).gce_machine_type
    return template.format(chips=kind.chips_per_worker)


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def _plain(value: object) -> str:
    return _word(value) if isinstance(value, bool) else str(value)


def _word(value: bool) -> str:
    return "TRUE" if value else "FALSE"
