"""User-facing sentences about existing nodes, their costs and possible actions."""

from __future__ import annotations

from jupyter_tpu.accelerators import find_accelerator, price_on_terms, zones_for_type
from jupyter_tpu.errors import Text
from jupyter_tpu.models import Node, NodeName, NodeSpec
from jupyter_tpu.provisioning import Provisioning

NOTHING_CREATED = "No node was created; nothing is billed."

# charges accrue while a node is READY; its disk is billed separately (cloud.google.com/tpu/pricing)
_NOT_READY = Text("it is not billed until it is READY")
_ONLY_DISK = Text("only its disk is billed")
_IN_QUOTA = Text("it is not billed, but counts towards your quota until it is deleted")
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
    "DELETING": Text("it is no longer billed"),
}


def cost(accelerator_type: str, zone: str, provisioning: Provisioning) -> str:
    """Return the price, such as ``$9.60 per hour``, or text saying that the price is unknown."""
    if provisioning == "reserved":
        return Text("an amount that its reservation specifies (not in the price list)")
    price = price_on_terms(accelerator_type, zone, provisioning)
    return (
        Text("${usd} per hour", usd=f"{price.usd_per_hour:,.2f}")
        if price
        else Text("an unknown amount per hour (no list price is known)")
    )


def terms(spec: NodeSpec) -> str:
    """Return a description such as ``a spot v6e-8 in us-east1-d``."""
    # show at most 70 characters, because a mistyped type may have any length
    kind, zone = spec.accelerator_type[:70], spec.name.zone
    if spec.provisioning == "on-demand":
        return Text("an on-demand {type} in {zone}", type=kind, zone=zone)
    return Text("a {provisioning} {type} in {zone}", provisioning=spec.provisioning, type=kind, zone=zone)


def billing(node: Node) -> str:
    """Return a clause that states whether the node is billed in its current state, without a price."""
    return Text("it is billed now") if node.state == "READY" else _NOT_BILLED.get(node.state, Text("it may be billed"))


def node_exists(node: Node) -> str:
    """Return a sentence saying that the node exists, with its state and current cost."""
    if node.state == "READY":
        usd = cost(node.accelerator_type, node.name.zone, node.provisioning)
        return Text("The node {node} exists and costs {cost}.", node=node.name.node_id, cost=usd)
    return Text(
        "The node {node} exists and is {state}: {billing}.",
        node=node.name.node_id,
        state=node.state,
        billing=billing(node),
    )


def command(verb: str, name: NodeName) -> str:
    """Return the command line for a verb.

    Names need no quoting, because the API allows only letters, digits and hyphens.
    """
    return f"`jupyter tpu {verb} {name.node_id} --zone {name.zone}`"


def delete_hint(name: NodeName) -> str:
    """Return a hint on how to delete the node."""
    return Text("If you don't need the node, delete it with {command}.", command=command("delete", name))


def elsewhere_hint(spec: NodeSpec) -> str:
    """Return a hint for when a zone has no capacity: search other zones, or wait in the cloud's queue."""
    kind, node_id = find_accelerator(spec.accelerator_type), spec.name.node_id
    model = "" if spec.provisioning == "on-demand" else f" --provisioning {spec.provisioning}"
    queue = f"`jupyter tpu queue add {node_id} --type {spec.accelerator_type} --zone {spec.name.zone}{model}`"
    if kind is None:
        return Text("Try again later, choose another zone, or use the cloud's queue: {queue}.", queue=queue)
    search = f"`jupyter tpu search {node_id} --types {kind.type}{model}`"
    others = [zone for zone in zones_for_type(kind.type) if zone != spec.name.zone]
    if not others:
        return Text("Try again later, or use the cloud's queue: {queue}.", queue=queue)
    return Text(
        "Try the other zones that offer this type ({zones}): {search}. Or use the cloud's queue: {queue}.",
        zones=", ".join(others),
        search=search,
        queue=queue,
    )
