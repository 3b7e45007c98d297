"""The attributes that Cloud TPU adds to a node's own metadata; programs on its VMs use them to find their slice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from jupyter_tpu import accelerators
from jupyter_tpu.emulator.metadata.facts import WorkerFacts
from jupyter_tpu.emulator.resources.behaviours import assumed, recorded

_HOST_BOUNDS = {1: (1, 1, 1), 4: (2, 2, 1), 8: (2, 4, 1)}
"""Grid of the chips of one VM, by the number of chips (libtpu's CHIPS_PER_HOST_BOUNDS)."""


@recorded(
    "tpu-vm-attributes",
    "TPU VMs have the attributes accelerator-type, agent-worker-number, instance-id (the node id), tpu-env (lines of "
    "KEY: 'value') and worker-network-endpoints (unknown:unknown:address of every worker).",
    source="jax cloud_tpu_cluster.py; ray _private/accelerators/tpu.py; levanter cloud_utils.py; a tpu-env of a v4-256 "
    "in penghao-wu/cambrian test_tpu.py",
)
def tpu_attributes(facts: WorkerFacts) -> dict[str, str]:
    """Return the texts of the TPU VM's metadata attributes, by name."""
    addresses = [str(endpoint.ip_address) for endpoint in facts.node.network_endpoints]
    return {
        "accelerator-type": str(facts.node.accelerator_type),
        "agent-node-name": facts.node_id,
        "agent-worker-number": str(facts.worker_id),
        # the node's ID; the VM's Compute Engine ID is in the metadata tree
        "instance-id": facts.node_id,
        "tpu-env": "".join(f"{name}: '{value}'\n" for name, value in tpu_env(facts).items()),
        "worker-network-endpoints": ",".join(f"unknown:unknown:{address}" for address in addresses),
    }


@assumed(
    "tpu-env",
    "tpu-env contains the recorded lines about the slice, node and project, but not those about agent images. "
    "The axes of a v4 or v5p slice are wrapped if their length is a multiple of 4.",
)
def tpu_env(facts: WorkerFacts) -> Mapping[str, str]:
    """Return the names and values of the lines in the attribute ``tpu-env``, sorted by name."""
    kind = accelerators.accelerator(facts.node.accelerator_type)
    # in each dimension, a slice's topology is the product of one VM's bounds and the number of VMs
    per_host = _HOST_BOUNDS[kind.chips_per_worker]
    shape = _three(kind.topology)
    hosts = [max(1, length // own) for length, own in zip(shape, per_host, strict=True)]
    return {
        "ACCELERATOR_TYPE": kind.type,
        "ALT": "false",
        "CHIPS_PER_HOST_BOUNDS": _joined(per_host),
        "CONSUMER_PROJECT_ID": facts.project,
        "CONSUMER_PROJECT_NUMBER": facts.project_number,
        "HOST_BOUNDS": _joined(hosts),
        "INFERENCE_MODE": "false",
        "MAINTENANCE_ACTION_FLAG": "unhealthy-maintenance",
        "NODE_ID": facts.node_id,
        "PREEMPTIBLE": _word(is_preemptible_node(facts)),
        "RUNTIME_VERSION": str(facts.node.runtime_version),
        "SERVICE_NAME": "tpu.googleapis.com",
        "TOPOLOGY": kind.topology,
        # the recorded data has each of these two values under two names
        "TPU_CHIPS_PER_PROCESS_BOUNDS": _joined(per_host),
        "TPU_PROCESS_BOUNDS": _joined(hosts),
        "TPU_RUNTIME_METRICS_PORTS": str(facts.metrics_port),
        "TPU_TOPOLOGY_ALT": "false",
        "TPU_TOPOLOGY_WRAP": _wrapped(kind.generation, shape),
        "TYPE": accelerators.generation_facts(kind.generation).api_type,
        "UID": str(facts.node.id),
        "WORKER_ID": str(facts.worker_id),
        "WRAP": _wrapped(kind.generation, shape),
        "ZONE": facts.zone,
    }


def is_preemptible_node(facts: WorkerFacts) -> bool:
    """Return whether the node can be pre-empted."""
    scheduling = facts.node.scheduling_config
    return bool(scheduling.preemptible or scheduling.spot)


def _wrapped(generation: str, shape: tuple[int, ...]) -> str:
    is_wrapped = accelerators.generation_facts(generation).is_wrapped
    return ",".join(_word(is_wrapped and length % 4 == 0) for length in shape)


def _three(topology: str) -> tuple[int, ...]:
    """Parse ``2x4`` to (2, 4, 1)."""
    lengths = [int(word) for word in topology.split("x")]
    return tuple([*lengths, 1, 1][:3])


def _joined(lengths: Iterable[int]) -> str:
    return ",".join(map(str, lengths))


def _word(value: bool) -> str:
    return "true" if value else "false"
