"""The whole state of the emulated cloud in one response, for a web page that shows the state."""

from __future__ import annotations

from typing import Any

from jupyter_tpu.emulator.core import Cloud
from jupyter_tpu.emulator.resources.names import last_part
from jupyter_tpu.emulator.resources.protos import NodePb, QueuedState, state_name
from jupyter_tpu.emulator.resources.records import QueuedRecord
from jupyter_tpu.emulator.ssh.proxied_server import WorkerLink, worker_links
from jupyter_tpu.emulator.store.ledger import SPOT, totals_json

MOST = 500
"""Maximum number of nodes and queued resources in a response, newest first. A page reads it every few seconds."""


def state_of(cloud: Cloud) -> dict[str, Any]:
    """Return the project's resources, settings, faults, links and costs."""
    now = cloud.store_now()
    # read the nodes once for both lists, because this is slow if there are thousands of nodes
    nodes = cloud.store.nodes()
    bills = cloud.ledger.bills(now)
    return {
        "project": cloud.project,
        "clock": {**cloud.time.to_json(), "now": now},
        "node_count": len(nodes),
        "nodes": [node_json(cloud, node) for node in sorted(nodes, key=_created)[-MOST:]],
        "queued_resources": queued_json(cloud, nodes),
        "faults": faults_json(cloud),
        "links": [link.to_json() for link in links_to(cloud)],
        "workers": [worker for node in nodes for worker in workers_json(cloud, node)],
        "capacity": cloud.rules.capacity.uses(cloud.store.occupying_nodes()),
        "quotas": [use.to_json() for use in cloud.rules.quotas.uses(cloud.held())],
        "switches": cloud.rules.project.switches.to_json(),
        "reservations": cloud.rules.reservations.to_json(),
        "maintenance": [event.to_json() for event in cloud.maintenance.events()],
        "ledger": totals_json(bills),
    }


def _created(node: NodePb) -> int:
    return int(node.create_time.ToNanoseconds())


def node_json(cloud: Cloud, node: NodePb) -> dict[str, Any]:
    """Return a node in the form that the page shows."""
    return {
        "name": node.name,
        "state": state_name(node),
        "accelerator_type": node.accelerator_type,
        "spot": cloud.ledger.mode_of(node) == SPOT,
        "queued_resource": node.queued_resource,
    }


def queued_json(cloud: Cloud, nodes: list[NodePb]) -> list[dict[str, Any]]:
    """Return the newest queued resources as JSON for the page that shows the state."""
    names: dict[str, list[str]] = {}
    for node in nodes:
        names.setdefault(last_part(node.queued_resource), []).append(node.name)
    queued = sorted(cloud.store.queued_resources(), key=lambda each: each.created)
    return [_queued_json(each, names.get(last_part(each.name), [])) for each in queued[-MOST:]]


def _queued_json(queued: QueuedRecord, nodes: list[str]) -> dict[str, Any]:
    return {"name": queued.name, "state": QueuedState(queued.state).name, "nodes": nodes}


def faults_json(cloud: Cloud) -> list[dict[str, Any]]:
    """Return the scripted faults that are waiting for calls."""
    return [fault.to_json() for fault in cloud.scripted.table.waiting]


def workers_json(cloud: Cloud, node: NodePb) -> list[dict[str, Any]]:
    """Return the running workers of a node with their lasting faults."""
    faults = cloud.workers.faults
    return [
        {"node": node.name, "worker_id": each.worker_id, "faults": faults.of(each)}
        for each in cloud.workers.machines(node)
    ]


def links_to(cloud: Cloud, name: str = "") -> list[WorkerLink]:
    """Return the links to the nodes with this full name or id, or to all nodes if no name is given."""
    nodes = [node for node in cloud.store.nodes() if name in ("", node.name, last_part(node.name))]
    return [link for node in nodes for link in worker_links(node.name, cloud.workers.ssh_servers(node))]
