"""Nodes, intents and offers as JSON, for the REST API and the CLI's ``--json``.

This module is pure: it converts values to JSON-ready dictionaries. Text from the cloud is not escaped; callers must
escape it before they show it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from jupyter_tpu import accelerators
from jupyter_tpu.accelerators import Accelerator
from jupyter_tpu.errors import TpuError, templates_of
from jupyter_tpu.models import Node, Price
from jupyter_tpu.money.spending import NO_COSTS, NodeCosts, node_cost

if TYPE_CHECKING:
    from jupyter_tpu.fleet import FleetSnapshot, Intent

JSON = dict[str, Any]

# our default for the create form: the largest v5e on one worker
DEFAULT_TYPE = "v5litepod-8"
DEFAULT_ZONE = "us-central1-a"


def error_view(error: TpuError | None) -> JSON | None:
    """Return the error as JSON, or None if there is no error."""
    return None if error is None else error.to_json()


def node_price(node: Node) -> Price | None:
    """Return a node's list price per hour, or None if unknown. An unknown price doesn't mean "free"."""
    return accelerators.price_on_terms(node.accelerator_type, node.name.zone, node.provisioning)


def node_view(node: Node, *, kernelspec: str | None = None, costs: NodeCosts = NO_COSTS) -> JSON:
    """Return a node as JSON.

    Args:
        kernelspec: name of the kernelspec for this node, or None.
        costs: costs according to the ledger.
    """
    price, spent = node_price(node), node_cost(costs, node)
    return {
        "name": str(node.name),
        "project": node.name.project,
        "zone": node.name.zone,
        "node_id": node.name.node_id,
        "state": node.state,
        "health": node.health,
        "health_description": node.health_description,
        "accelerator_type": node.accelerator_type,
        "accelerator": _accelerator_view(accelerators.find_accelerator(node.accelerator_type)),
        "runtime_version": node.runtime_version,
        "spot": node.spot or node.preemptible,  # front ends need no distinction: both can be pre-empted
        "provisioning": node.provisioning,
        "create_time": node.create_time,
        "workers": [worker.to_json() for worker in node.workers],
        "managed": bool(node.intent_id),
        "billing": node.is_billed,
        "price": price.to_json() if price else None,
        "covered": spent.is_covered,
        "cost_usd": spent.usd,
        "kernelspec": kernelspec,
        "description": node.description,
    }


def _accelerator_view(kind: Accelerator | None) -> JSON | None:
    if kind is None:
        return None
    return {
        "generation": kind.generation,
        "chips": kind.chips,
        "tensorcores": kind.tensorcores,
        "workers": kind.workers,
        "topology": kind.topology,
        "jax_devices": kind.jax_devices,
    }


def intent_view(intent: Intent, *, usual_s: float | None = None) -> JSON:
    """Return an intent as JSON, without its spec and internal fields.

    Args:
        usual_s: the usual duration of similar intents, in seconds; None if unknown.
    """
    return {
        "intent_id": intent.intent_id,
        "verb": intent.verb,
        "node_name": str(intent.node_name),
        "zone": intent.node_name.zone,
        "node_id": intent.node_name.node_id,
        "phase": intent.phase,
        "message": intent.message,
        "error": error_view(intent.error),
        "settled": intent.settled,
        "created_at": intent.created_at,
        "updated_at": intent.updated_at,
        "usual_s": usual_s,
    }


def nodes_view(
    snapshot: FleetSnapshot,
    kernelspecs: Mapping[str, str],
    costs: NodeCosts = NO_COSTS,
    creation_seconds: Mapping[tuple[str, str], float] = MappingProxyType({}),
) -> JSON:
    """Return the nodes, intents and notices of the fleet as JSON.

    Args:
        kernelspecs: kernelspec names by the node's full name.
        creation_seconds: duration of earlier creations in seconds, by accelerator type and zone.
    """
    return {
        "as_of": snapshot.as_of_here,
        "clock_ahead_s": snapshot.clock_ahead_s,
        "nodes": [node_view(node, kernelspec=kernelspecs.get(str(node.name)), costs=costs) for node in snapshot.nodes],
        "unreachable": list(snapshot.unreachable),
        "intents": [intent_view(intent, usual_s=_usual_s(intent, creation_seconds)) for intent in snapshot.intents],
        "notices": [{"message": str(notice), **templates_of({"message": notice})} for notice in snapshot.notices],
        "error": error_view(snapshot.error),
    }


def _usual_s(intent: Intent, creation_seconds: Mapping[tuple[str, str], float]) -> float | None:
    if intent.verb != "create" or intent.spec is None:
        return None
    return creation_seconds.get((intent.spec.accelerator_type, intent.node_name.zone))


def no_nodes_view(error: TpuError) -> JSON:
    """Return an empty list of nodes, with the reason why the fleet could not start."""
    nothing: JSON = {"nodes": [], "unreachable": [], "intents": [], "notices": []}
    return {"as_of": None, "clock_ahead_s": 0.0, **nothing, "error": error.to_json()}


def offers_view(zones: Iterable[str] | None = None) -> JSON:
    """Return the accelerator types that each zone offers, with list prices but without quota or free capacity.

    Grants and past creations are not included: see `capacity.offers.annotated_offers`.
    """
    names = accelerators.zones() if zones is None else zones
    return {"zones": {zone: _zone_offers(zone) for zone in names}, "default": _default_offer()}


def _zone_offers(zone: str) -> list[JSON]:
    return [_offer(accelerators.accelerator(name), zone) for name in accelerators.types_in_zone(zone)]


def _offer(kind: Accelerator, zone: str) -> JSON:
    price = accelerators.list_price(kind.type, zone, spot=False)
    spot_price = accelerators.list_price(kind.type, zone, spot=True)
    flex_start_price = accelerators.price_on_terms(kind.type, zone, "flex-start")
    dated = price or spot_price
    return {
        "accelerator_type": kind.type,
        "generation": kind.generation,
        "chips": kind.chips,
        "workers": kind.workers,
        "topology": kind.topology,
        "hbm_gib": kind.hbm_gib_total,
        "description": accelerators.describe(kind.type),
        "usd_per_hour": price.usd_per_hour if price else None,
        "usd_per_hour_spot": spot_price.usd_per_hour if spot_price else None,
        "usd_per_hour_flex_start": flex_start_price.usd_per_hour if flex_start_price else None,
        "price_as_of": dated.as_of if dated else None,
        "price_source": dated.source if dated else None,
        "runtime_versions": list(accelerators.runtime_versions(kind.generation)),
        "covered": [],
        "created": 0,
        "out_of_capacity": 0,
        "last_created_at": None,
    }


def _default_offer() -> JSON:
    generation = accelerators.accelerator(DEFAULT_TYPE).generation
    return {
        "zone": DEFAULT_ZONE,
        "accelerator_type": DEFAULT_TYPE,
        "runtime_version": accelerators.runtime_versions(generation)[0],
    }
