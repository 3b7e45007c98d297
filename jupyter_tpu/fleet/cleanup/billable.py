"""List everything in the project that costs money or uses quota, no matter who created it; delete selected items."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from jupyter_tpu.error_actions import clean_up
from jupyter_tpu.errors import BadInput, Text, TpuError
from jupyter_tpu.fleet.reconciler.inventory import Holdings
from jupyter_tpu.fleet.reconciler.views import node_price
from jupyter_tpu.fleet.termination.termination_executor import Opened, Result, TerminationExecutor, ignore_result
from jupyter_tpu.models import Node, NodeName, QueuedResource
from jupyter_tpu.money.quota import LEFTOVER_NODE_STATES, LEFTOVER_QUEUED_STATES, Kind, without_nodes

JSON = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A node or a queued resource.

    Attributes:
        name: the full name.
        short_id: node id or queued resource id.
        usd_per_hour: list price of a READY node; None if the price is unknown or the item is a queued resource.
        is_billed: whether the item is currently billed by the hour.
        is_leftover: whether the item can only be deleted; until it is deleted, it counts towards the quota.
        is_ours: whether jupyter_tpu created the item.
        nodes: for a queued resource, the nodes that are deleted with it.
    """

    kind: Kind
    name: str
    short_id: str
    zone: str
    state: str
    accelerator_type: str
    usd_per_hour: float | None
    is_billed: bool
    holds_quota: bool
    is_leftover: bool
    is_ours: bool
    create_time: str
    description: str
    nodes: tuple[NodeName, ...] = ()

    def to_json(self) -> JSON:
        """Return the item as JSON, for the REST API and the CLI."""
        return {
            "kind": self.kind,
            "name": self.name,
            "node_id": self.short_id,
            "zone": self.zone,
            "state": self.state,
            "accelerator_type": self.accelerator_type,
            "usd_per_hour": self.usd_per_hour,
            "is_billed": self.is_billed,
            "holds_quota": self.holds_quota,
            "is_leftover": self.is_leftover,
            "is_ours": self.is_ours,
            "create_time": self.create_time,
            "description": self.description,
        }


def items_of(holdings: Holdings) -> tuple[Item, ...]:
    """Return the items: billed items first, then leftovers, then all other items."""
    # a queued resource and its node share their chips, so count only one of them
    counting = {each.name for each in without_nodes(holdings.queued, holdings.nodes)}
    found = [_node_item(node) for node in holdings.nodes]
    found += [_queued_item(queued, holds_quota=queued.name in counting) for queued in holdings.queued]
    return tuple(sorted(found, key=lambda item: (not item.is_billed, not item.is_leftover, item.zone, item.name)))


def _node_item(node: Node) -> Item:
    price = node_price(node)
    return Item(
        kind="node",
        name=str(node.name),
        short_id=node.name.node_id,
        zone=node.name.zone,
        state=node.state,
        accelerator_type=node.accelerator_type,
        usd_per_hour=price.usd_per_hour if price else None,
        is_billed=node.is_billed,
        holds_quota=not node.reserved,  # a reservation has no quota ID
        is_leftover=node.state in LEFTOVER_NODE_STATES,
        is_ours=bool(node.intent_id),
        create_time=node.create_time,
        description=node.description,
    )


def _queued_item(queued: QueuedResource, *, holds_quota: bool) -> Item:
    return Item(
        kind="queued_resource",
        name=str(queued.name),
        short_id=queued.name.queued_id,
        zone=queued.name.zone,
        state=queued.state,
        accelerator_type=queued.accelerator_type,
        usd_per_hour=None,
        is_billed=False,
        holds_quota=holds_quota and not queued.reserved,
        is_leftover=queued.state in LEFTOVER_QUEUED_STATES,
        is_ours=bool(queued.intent_id),
        create_time=queued.create_time,
        description=queued.error.message if queued.error else "",
        nodes=queued.nodes,
    )


def billable_view(holdings: Holdings) -> JSON:
    """Return the list of billable items as JSON."""
    return {
        "as_of": holdings.as_of,
        "is_complete": holdings.is_complete,
        "unreachable": list(holdings.unreachable),
        "error": holdings.error.to_json() if holdings.error else None,
        "items": [item.to_json() for item in items_of(holdings)],
    }


def no_billable_view(error: TpuError) -> JSON:
    """Return the JSON for a fleet that could not start: an empty list, with the reason."""
    return {"as_of": None, "is_complete": False, "unreachable": [], "error": error.to_json(), "items": []}


def results_view(results: Iterable[Result]) -> JSON:
    """Return the results of deletions as JSON."""
    return {"results": [result.to_json() for result in results]}


def marked(holdings: Holdings, names: Sequence[str]) -> tuple[Item, ...]:
    """Return the items with these full names or unique ids.

    Raises:
        BadInput: a name matches no item, or several items; nothing was deleted.
    """
    items = items_of(holdings)
    chosen = [_only(holdings, items, name) for name in dict.fromkeys(names)]
    return tuple({item.name: item for item in chosen}.values())


def _only(holdings: Holdings, items: Iterable[Item], name: str) -> Item:
    # accept the ID only if it is unique, so that only the intended item is deleted
    found = [item for item in items if name in (item.name, item.short_id)]
    if len(found) == 1:
        return found[0]
    if found:
        several = ", ".join(item.name for item in found)
        raise BadInput(
            Text("{name} matches {count} items.", name=repr(name[:100]), count=len(found)),
            exists="Nothing was deleted.",
            hint=Text("Use one of these full names: {names}.", names=several),
        )
    raise BadInput(
        _no_such(repr(name[:200]), holdings),
        exists="Nothing was deleted.",
        hint="Name each item as `jupyter tpu cleanup` lists it.",
        actions=(clean_up(),),
    )


def _no_such(name: str, holdings: Holdings) -> Text:
    if holdings.is_complete:
        return Text("Nothing in the project is named {name}.", name=name)
    if not holdings.unreachable:
        return Text("Nothing listed is named {name}, but the list is incomplete.", name=name)
    return Text(
        "Nothing listed is named {name}, but the list is incomplete (no response from {zones}).",
        name=name,
        zones=", ".join(holdings.unreachable),
    )


def all_leftovers(holdings: Holdings) -> tuple[Item, ...]:
    """Return every leftover.

    Raises:
        BadInput: the list is incomplete, so only items named by the user may be deleted.
    """
    if not holdings.is_complete:
        raise BadInput(
            Text(
                "The list is incomplete (no response from {zones}), so only items that you name can be deleted.",
                zones=", ".join(holdings.unreachable),
            )
            if holdings.unreachable
            else "The list is incomplete, so only items that you name can be deleted.",
            exists="Nothing was deleted.",
            hint="Name the items to delete, or try again when all zones respond.",
            raw=holdings.error.message if holdings.error else "",
        )
    return tuple(item for item in items_of(holdings) if item.is_leftover)


async def delete_items(
    opened: Opened,
    items: Sequence[Item],
    *,
    reason: str,
    wait: bool,
    on_result: Callable[[Result], None] = ignore_result,
) -> tuple[Result, ...]:
    """Delete the items; a failure with one item does not affect the others.

    Args:
        reason: the reason that is written to the audit log.
        wait: whether to wait until the items are deleted, not only until the cloud has accepted the requests.
        on_result: a function that is called with each result when it arrives.
    """
    executor = TerminationExecutor(opened, reason=reason, wait=wait, on_result=on_result)
    # an item that is already being deleted counts as done
    waiting = [item for item in items if item.state != "DELETING"]
    done = await executor.each([executor.delete(item.kind, item.name, item.nodes) for item in waiting])
    under_way = tuple(Result(name=item.name, action="delete") for item in items if item.state == "DELETING")
    for result in under_way:
        on_result(result)
    return (*done, *under_way)
