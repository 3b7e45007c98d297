"""Sentences about what exists and what it costs, for the messages of intents."""

from __future__ import annotations

from jupyter_tpu.accelerators import find_accelerator, price_on_terms, zones_for_type
from jupyter_tpu.models import Node, NodeName, NodeSpec
from jupyter_tpu.provisioning import Provisioning

NOTHING_CREATED = "No node was created; nothing is billed."

# charges accrue while a node is READY, its disk is billed apart (cloud.google.com/tpu/pricing)
_NOT_READY = "it is not billed until it is READY"
_ONLY_DISK = "only its disk is billed"
_IN_QUOTA = "it is not billed, but counts towards your quota until it is deleted"
_NOT_BILLED = {
    "CREATING": _NOT_READY,
    "STARTING": _NOT_READY,
    "RESTARTING": _NOT_READY,
    "REIMAGING": _NOT_READY,
    "REPAIRING": _NOT_READY,
    "STOPPING": _ONLY_DISK,
    "STOPPED": _ONLY_DISK,
    "PREEMPTED": _IN_QUOTA,
    "TERMINATED": _IN_QUOTA,
    "DELETING": "it is no longer billed",
}


def cost(accelerator_type: str, zone: str, provisioning: Provisioning) -> str:
    """``$9.60 per hour``, or that nobody knows."""
    if provisioning == "reserved":
        return "what its reservation costs (no list tells)"
    price = price_on_terms(accelerator_type, zone, provisioning)
    return f"${price.usd_per_hour:,.2f} per hour" if price else "an unknown amount per hour (no list price is known)"


def terms(spec: NodeSpec) -> str:
    """``a spot v6e-8 in us-east1-d``."""
    article = "an" if spec.provisioning == "on-demand" else "a"
    return f"{article} {spec.provisioning} {spec.accelerator_type[:70]} in {spec.name.zone}"


def billing(node: Node) -> str:
    """Whether the node as it is now is billed: a clause that needs no price."""
    return "it is billed now" if node.state == "READY" else _NOT_BILLED.get(node.state, "it may be billed")


def node_exists(node: Node) -> str:
    """What exists, and what it costs now."""
    if node.state == "READY":
        state = f"and costs {cost(node.accelerator_type, node.name.zone, node.provisioning)}"
    else:
        state = f"and is {node.state}: {billing(node)}"
    return f"The node {node.name.node_id} exists {state}."


def command(verb: str, name: NodeName) -> str:
    """The command line that does it; names are safe in a shell by the API's own rules."""
    return f"`jupyter tpu {verb} {name.node_id} --zone {name.zone}`"


def delete_hint(name: NodeName) -> str:
    """How to get rid of a node."""
    return f"Delete it with {command('delete', name)} if you do not need it."


def elsewhere_hint(spec: NodeSpec) -> str:
    """What to do when a zone has run out: try other zones, or wait in the cloud's queue."""
    kind, node_id = find_accelerator(spec.accelerator_type), spec.name.node_id
    model = "" if spec.provisioning == "on-demand" else f" --provisioning {spec.provisioning}"
    queue = f"`jupyter tpu queue add {node_id} --type {spec.accelerator_type} --zone {spec.name.zone}{model}`"
    if kind is None:
        return f"Try again later, choose another zone, or wait in the cloud's queue: {queue}."
    search = f"`jupyter tpu search {node_id} --types {kind.type}{model}`"
    others = [zone for zone in zones_for_type(kind.type) if zone != spec.name.zone]
    choice = f"Try the other zones that offer it ({', '.join(others)}): {search}." if others else "Try again later."
    return f"{choice} Or wait in the cloud's queue: {queue}."
