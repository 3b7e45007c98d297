"""Texts about nodes and money that several commands print. Pure."""

from __future__ import annotations

import re

from jupyter_tpu.accelerators import price_on_terms
from jupyter_tpu.fleet.reconciler.views import node_price
from jupyter_tpu.lifecycle.intent_texts import billing
from jupyter_tpu.models import Node, Price
from jupyter_tpu.provisioning import Provisioning, can_start_again

EMULATED = "Costs are simulated: the cloud is emulated."

_FULL_NAME = re.compile(r"projects/[^/]+/locations/(?P<zone>[^/]+)/(?:nodes|queuedResources)/(?P<id>[^/]+)")


def price_text(price: Price | None) -> str:
    """Format a price as ``$9.60/h``, or as ``price unknown``."""
    return f"${price.usd_per_hour:.2f}/h" if price else "price unknown"


def terms_text(accelerator_type: str, zone: str, provisioning: Provisioning) -> str:
    """Format the price of a node to be created, as ``$9.60/h``; for a reserved node, that its reservation is billed."""
    if provisioning == "reserved":
        return "billed by its reservation, price unknown"
    return price_text(price_on_terms(accelerator_type, zone, provisioning))


def costs_text(accelerator_type: str, zone: str, provisioning: Provisioning) -> str:
    """Return the predicate of a sentence about a node: ``costs $9.60/h``, or how its reservation is billed."""
    price = terms_text(accelerator_type, zone, provisioning)
    return f"is {price}" if provisioning == "reserved" else f"costs {price}"


def dollars_text(usd: float | None) -> str:
    """Format an amount as ``$9.60``, below 10 cents with four decimals, or as ``unknown``."""
    if usd is None:
        return "unknown"
    # an amount below a cent must not look free
    return f"${usd:,.2f}" if usd >= 0.1 or not usd else f"${usd:.4f}"


def node_text(node: Node) -> str:
    """Describe a node as ``my-node in us-central1-a (v5litepod-8, READY, $9.60/h)``."""
    facts = (node.accelerator_type or "type unknown", node.state, price_text(node_price(node)))
    return f"{node.name.node_id} in {node.name.zone} ({', '.join(facts)})"


def resource_text(name: str) -> str:
    """Shorten a full resource name to ``my-node (us-central1-a)``; return any other text unchanged."""
    found = _FULL_NAME.fullmatch(name)
    return f"{found['id']} ({found['zone']})" if found else name


def charge_text(node: Node, *, emulated: bool) -> str:
    """Return what the node costs in its current state."""
    price = f"It is {node.state}: {billing(node)}."
    if node.state == "READY":
        price = f"It is billed now ({price_text(node_price(node))})."
    return f"{price} {EMULATED}" if emulated else price


def no_start_text(node: Node) -> str:
    """Warn that the node cannot be started again once it is stopped; empty if it can."""
    if can_start_again(node.provisioning):
        return ""
    kept = "Its disk is kept and billed until you delete the node."
    return f"A {node.provisioning} node can't be started again. {kept}"


def total_text(nodes: tuple[Node, ...]) -> str:
    """Sum up the costs of all nodes that are or may be billed, and count those without a known price."""
    billed = [node for node in nodes if node.is_billed]
    if not billed:
        return "No node is READY, so none is billed by the hour."
    prices = [node_price(node) for node in billed]
    known = sum(price.usd_per_hour for price in prices if price)
    unknown = prices.count(None)
    rest = f", and {unknown} of unknown price" if unknown else ""
    ready = sum(node.state == "READY" for node in billed)
    # a state unknown to this version counts as billed, so it must be named
    strange = len(billed) - ready
    counted = [f"{ready} READY"] if ready else []
    counted += [f"{strange} in an unknown state, which may be billed"] if strange else []
    return f"{', '.join(counted)}: ${known:.2f}/h at list price{rest}."
