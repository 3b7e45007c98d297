"""The read-only commands `list` and `describe`."""

from __future__ import annotations

import argparse
import asyncio
import time
from typing import TYPE_CHECKING, Any

from jupyter_tpu import accelerators
from jupyter_tpu.cli.node_texts import dollars_text, emulated_text, price_text, total_text
from jupyter_tpu.cli.options import cloud_settings
from jupyter_tpu.cli.spend.ledger_access import costs_of_list, costs_of_nodes, reminders_of, warn_of_clock
from jupyter_tpu.cli.terminal import echo, echo_json, echo_table, note, plain
from jupyter_tpu.errors import Text
from jupyter_tpu.fleet.reconciler.views import node_price, node_view
from jupyter_tpu.i18n import _, padded
from jupyter_tpu.lifecycle.intent_texts import billing
from jupyter_tpu.money.spending import NodeCosts, node_cost

if TYPE_CHECKING:
    from jupyter_tpu.autostop import Reminder
    from jupyter_tpu.cloud.settings import CloudSettings
    from jupyter_tpu.models import Node, NodeList, NodeName


_HEADER = ("NAME", "ZONE", "TYPE", "STATE", "HEALTH", "PRICE", "COST", "KERNEL")


def run_list(options: argparse.Namespace) -> int:
    """Print the nodes with their prices and costs, and the reminders about idle nodes."""
    from jupyter_tpu.kernels.kernelspecs import kernelspec_names

    settings = cloud_settings(options)
    listed, costs, reminders, clock_rate = asyncio.run(_list_nodes(options))
    specs = kernelspec_names(settings)
    if options.json:
        reminded = [{"name": str(name), **each.to_json(name.node_id)} for name, each in reminders.items()]
        echo_json({**_list_view(listed, specs, costs), "reminders": reminded, "emulated": settings.is_emulated})
    else:
        _show_list(listed, specs, costs)
        # print to standard error, so that a pipe gets only the table
        for node in listed.nodes:
            if node.name in reminders:
                note(_reminder_text(node, reminders[node.name]))
        _note_emulated(settings, clock_rate)
    return 0


def _reminder_text(node: Node, reminder: Reminder) -> str:
    from jupyter_tpu.fleet.spend.enforcer import can_stop

    node_id = node.name.node_id
    template = (
        Text("{reminder} Keep it running: `jupyter tpu extend {node}`. Stop it: `jupyter tpu stop {node}`.")
        if can_stop(node)
        else Text("{reminder} Keep it running: `jupyter tpu extend {node}`. Delete it: `jupyter tpu delete {node}`.")
    )
    return plain(_(template, reminder=reminder.text(node_id), node=node_id))


def _note_emulated(settings: CloudSettings, clock_rate: float) -> None:
    if settings.is_emulated:
        note(emulated_text(clock_rate))


async def _list_nodes(options: argparse.Namespace) -> tuple[NodeList, NodeCosts, dict[NodeName, Reminder], float]:
    from jupyter_tpu.fleet.assembly import open_cloud

    async with open_cloud(cloud_settings(options)) as cloud:
        # the ledger uses the cloud's clock, which is known only after a response, so convert the time of the request
        # afterwards
        asked = cloud.clock.steady()
        listed = await cloud.list_nodes(options.zone or "-")
        warn_of_clock(cloud)
        requested_at = cloud.clock.moment(asked).wall
        costs = await costs_of_list(cloud, listed, requested_at, zone=options.zone)
        return listed, costs, reminders_of(cloud, listed.nodes, costs, requested_at), cloud.clock.rate


def _list_view(listed: NodeList, specs: dict[str, str], costs: NodeCosts) -> dict[str, Any]:
    return {
        "as_of": time.time(),
        "nodes": [node_view(node, kernelspec=specs.get(str(node.name)), costs=costs) for node in listed.nodes],
        "unreachable": list(listed.unreachable),
    }


def _show_list(listed: NodeList, specs: dict[str, str], costs: NodeCosts) -> None:
    if listed.nodes:
        echo_table(_HEADER, (_row(node, specs, costs) for node in listed.nodes))
    note(total_text(listed.nodes))
    for zone in listed.unreachable:
        note(_("{zone} did not respond: its nodes are not listed.", zone=plain(zone)))


def _row(node: Node, specs: dict[str, str], costs: NodeCosts) -> tuple[str, ...]:
    name = node.name
    price = price_text(node_price(node))
    cost = dollars_text(node_cost(costs, node).usd)
    kernel = specs.get(str(name), "")
    return (name.node_id, name.zone, node.accelerator_type, node.state, node.health, price, cost, kernel)


def run_describe(options: argparse.Namespace) -> int:
    """Print all details of one node."""
    from jupyter_tpu.kernels.kernelspecs import kernelspec_names

    settings = cloud_settings(options)
    node, costs, clock_rate = asyncio.run(_get_node(options))
    view = node_view(node, kernelspec=kernelspec_names(settings).get(str(node.name)), costs=costs)
    if options.json:
        echo_json({**view, "emulated": settings.is_emulated})
    else:
        _show_node(node, view)
        _note_emulated(settings, clock_rate)
    return 0


async def _get_node(options: argparse.Namespace) -> tuple[Node, NodeCosts, float]:
    from jupyter_tpu.cli.nodes.find import find_node
    from jupyter_tpu.fleet.assembly import open_cloud

    async with open_cloud(cloud_settings(options)) as cloud:
        asked = cloud.clock.steady()
        node = await find_node(cloud, options.node, options.zone)
        requested_at = cloud.clock.moment(asked).wall
        return node, await costs_of_nodes(cloud, (node,), requested_at), cloud.clock.rate


def _show_node(node: Node, view: dict[str, Any]) -> None:
    price = node_price(node)
    dated = f" ({_('list price of {date}', date=price.as_of)})" if price else ""
    facts = {
        _("name"): view["name"],
        _("state"): view["state"],
        _("health"): f"{view['health']} {view['health_description']}",
        _("type"): f"{view['accelerator_type']}  {_(accelerators.describe(node.accelerator_type))}",
        _("runtime version"): view["runtime_version"],
        _("provisioning"): view["provisioning"],
        _("created"): view["create_time"],
        _("price"): price_text(price) + f"{dated}; {_('covered by a grant') if view['covered'] else _(billing(node))}",
        _("cost so far"): dollars_text(view["cost_usd"]),
        _("kernel"): view["kernelspec"] or "",
        _("description"): view["description"],
    }
    for label, text in facts.items():
        if text.strip():
            echo(padded(f"{label}:", 17) + plain(text.strip()))
    for worker in node.workers:
        label = _("worker {worker}", worker=worker.worker_id)
        echo(padded(f"{label}:", 17) + plain(f"{worker.ip_address}  {worker.external_ip}".strip()))
