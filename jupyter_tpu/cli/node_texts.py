"""Texts about nodes and costs that several commands print. This module does no I/O."""

from __future__ import annotations

import re

from jupyter_tpu.accelerators import price_on_terms
from jupyter_tpu.errors import Text
from jupyter_tpu.fleet.reconciler.views import node_price
from jupyter_tpu.i18n import _
from jupyter_tpu.lifecycle.intent_texts import billing
from jupyter_tpu.models import Node, Price
from jupyter_tpu.provisioning import Provisioning, can_start_again

EMULATED = Text("Costs are simulated: the cloud is emulated.")

_EMULATED_AT_RATE = Text("Costs are simulated: the cloud is emulated, and its clock runs at {rate} × real time.")

_FULL_NAME = re.compile(r"projects/[^/]+/locations/(?P<zone>[^/]+)/(?:nodes|queuedResources)/(?P<id>[^/]+)")


def emulated_text(clock_rate: float) -> str:
    """Return a sentence about costs that an emulated cloud has counted by its clock, which may run faster."""
    return EMULATED if clock_rate == 1 else _(_EMULATED_AT_RATE, rate=f"{clock_rate:g}")


def price_text(price: Price | None) -> str:
    """Format a price as ``$9.60/h``, or as ``price unknown``."""
    return f"${price.usd_per_hour:.2f}/h" if price else _("price unknown")


def terms_text(accelerator_type: str, zone: str, provisioning: Provisioning) -> str:
    """Format a new node's price as ``$9.60/h``; for a reserved node, mention that its reservation is billed."""
    if provisioning == "reserved":
        return _("billed with its reservation, price unknown")
    return price_text(price_on_terms(accelerator_type, zone, provisioning))


def costs_text(accelerator_type: str, zone: str, provisioning: Provisioning) -> str:
    """Return the end of a sentence about a node: ``costs $9.60/h``, or how its reservation is billed."""
    price = terms_text(accelerator_type, zone, provisioning)
    return _("is {price}", price=price) if provisioning == "reserved" else _("costs {price}", price=price)


def dollars_text(usd: float | None) -> str:
    """Format an amount as ``$9.60``, with four decimals below 10 cents, or as ``unknown``."""
    if usd is None:
        return _("unknown")
    # show amounts below a cent with four digits, so that they don't look free
    return f"${usd:,.2f}" if usd >= 0.1 or not usd else f"${usd:.4f}"


def node_text(node: Node) -> str:
    """Describe a node as ``my-node in us-central1-a (v5litepod-8, READY, $9.60/h)``."""
    facts = (node.accelerator_type or _("type unknown"), node.state, price_text(node_price(node)))
    return _("{node} in {zone} ({facts})", node=node.name.node_id, zone=node.name.zone, facts=", ".join(facts))


def resource_text(name: str) -> str:
    """Shorten a full resource name to ``my-node (us-central1-a)``; return any other text unchanged."""
    found = _FULL_NAME.fullmatch(name)
    return f"{found['id']} ({found['zone']})" if found else name


def charge_text(node: Node, *, emulated: bool) -> str:
    """Return a sentence about the node's cost in its current state."""
    price = _("It is {state}: {billing}.", state=node.state, billing=_(billing(node)))
    if node.state == "READY":
        price = _("It is billed now ({price}).", price=price_text(node_price(node)))
    return f"{price} {_(EMULATED)}" if emulated else price


def no_start_text(node: Node) -> str:
    """Return a warning if the node can't be restarted once stopped, otherwise an empty text."""
    if can_start_again(node.provisioning):
        return ""
    kept = _("Its disk is kept and billed until you delete the node.")
    return _("A {provisioning} node can't be started again. {kept}", provisioning=node.provisioning, kept=kept)


def total_text(nodes: tuple[Node, ...]) -> str:
    """Total the costs of all nodes that are or may be billed, and count those with an unknown price."""
    billed = [node for node in nodes if node.is_billed]
    if not billed:
        return _("No node is READY, so none is billed by the hour.")
    prices = [node_price(node) for node in billed]
    known = sum(price.usd_per_hour for price in prices if price)
    unknown = prices.count(None)
    ready = sum(node.state == "READY" for node in billed)
    # a state unknown to this version counts as billed, so it must be named
    strange = len(billed) - ready
    counted = [_("{count} READY", count=ready)] if ready else []
    counted += [_("{count} in unknown state (may be billed)", count=strange)] if strange else []
    summary, usd = ", ".join(counted), f"{known:.2f}"
    if unknown:
        template = Text("{nodes}: ${usd}/h at list price, and {count} of unknown price.")
        return _(template, nodes=summary, usd=usd, count=unknown)
    return _("{nodes}: ${usd}/h at list price.", nodes=summary, usd=usd)
