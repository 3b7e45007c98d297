"""The routes for auto-stop: read and change the rules of nodes, and keep a node running for longer."""

from __future__ import annotations

import sys
import time
from typing import Any

from jupyter_server.auth.decorator import authorized
from tornado import web

from jupyter_tpu.autostop import ACTIONS, DURATION_FIELDS, LONGEST_S, NO_KEEP_RUNNING, KeepRunning
from jupyter_tpu.errors import BadInput, NodeNotFound, Text
from jupyter_tpu.fleet.assembly import OpenFleet
from jupyter_tpu.fleet.autostop.views import autostop_status_view, autostop_view
from jupyter_tpu.models import Node
from jupyter_tpu.server.routes.bodies import json_object
from jupyter_tpu.server.routes.nodes import TpuHandler

_RULES = (*DURATION_FIELDS, "action")
_KEEP = ("for_s", "until", "while_busy")


class AutostopHandler(TpuHandler):
    """``autostop``: all nodes with their activity and auto-stop rules."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Return all nodes with their auto-stop state."""
        opened = await self.app.fleet.get()
        snapshot = opened.fleet.snapshot()
        if not snapshot.as_of and snapshot.error is None:  # the server has just started: wait for the first list
            snapshot = await opened.fleet.refresh()
        brakes = await opened.autostop.evaluate(snapshot.nodes)
        self.write_json(autostop_view(brakes, as_of=snapshot.as_of_here))


class NodeAutostopHandler(TpuHandler):
    """``nodes/{zone}/{node_id}/autostop``: the rules of one node."""

    @web.authenticated
    @authorized
    async def put(self, zone: str, node_id: str) -> None:
        """Change the rules that are in the body; leave all other rules unchanged."""
        changes = rules_from_body(self.request.body)
        opened = await self.app.fleet.get()
        node = await _node(self, opened, zone, node_id)
        self.write_json(autostop_status_view(await opened.autostop.set_rules(node, changes)))


class AutostopHistoryHandler(TpuHandler):
    """``…/autostop/history``: the activity of a node in the last hour, as recorded by its guard.

    A request does not count as activity and opens no connection to a node.
    """

    @web.authenticated
    @authorized
    async def get(self, zone: str, node_id: str) -> None:
        """Return the activity of the last hour."""
        opened = await self.app.fleet.get()
        node = await _node(self, opened, zone, node_id)
        self.write_json(await opened.autostop.history(node))


class ExtendHandler(TpuHandler):
    """``…/extend``: keep one node running for longer, or cancel an extension."""

    @web.authenticated
    @authorized
    async def post(self, zone: str, node_id: str) -> None:
        """Keep the node running as the body specifies; an empty object cancels the extension."""
        keep = extension_from_body(self.request.body, time.time())
        opened = await self.app.fleet.get()
        node = await _node(self, opened, zone, node_id)
        self.write_json(autostop_status_view(await opened.autostop.extend(node, keep)))


async def _node(handler: TpuHandler, opened: OpenFleet, zone: str, node_id: str) -> Node:
    name = await handler.node_name(zone, node_id)
    node = opened.fleet.snapshot().node(name) or (await opened.fleet.refresh()).node(name)
    if node is None:
        raise NodeNotFound(
            Text("There is no node {node} in {zone}.", node=name.node_id, zone=name.zone),
            hint="Refresh the list of nodes, and try again.",
        )
    return node


def rules_from_body(body: bytes) -> dict[str, Any]:
    """Parse the body of ``PUT …/autostop``: the rules that change.

    Raises:
        BadInput: the body is not the JSON object described in rest-api.yml.
    """
    data = _object(body, _RULES)
    for name in DURATION_FIELDS:
        if data.get(name) is not None:
            data[name] = _number(data, name)
    if "action" in data and data["action"] not in ACTIONS:
        raise BadInput(
            "The field 'action' is not valid.", hint=Text("Set 'action' to {actions}.", actions=" or ".join(ACTIONS))
        )
    return data


def extension_from_body(body: bytes, now: float) -> KeepRunning:
    """Parse the body of ``POST …/extend``: a duration, an end time or ``while_busy``; an empty object cancels.

    Args:
        now: the current time in Unix seconds.

    Raises:
        BadInput: the body is not the JSON object described in rest-api.yml.
    """
    data = _object(body, _KEEP)
    if len(data) > 1:
        raise BadInput(
            "Only one kind of extension can be used at a time.",
            hint=Text("Send one of {fields}.", fields=", ".join(_KEEP)),
        )
    if "while_busy" in data:
        if data["while_busy"] is not True:
            raise BadInput(
                "The field 'while_busy' can only be true.", hint="To cancel “keep running”, send an empty object."
            )
        return KeepRunning(while_busy=True)
    if not data:
        return NO_KEEP_RUNNING
    until = now + _number(data, "for_s") if "for_s" in data else _number(data, "until")
    if not now < until <= now + LONGEST_S:
        raise BadInput(
            "A node can only be extended to a time in the future.", hint="Send a time within the next 400 days."
        )
    return KeepRunning(until=until)


def _object(body: bytes, fields: tuple[str, ...]) -> dict[str, Any]:
    data = json_object(body, ", ".join(fields))
    unknown = sorted(set(data) - set(fields))
    if unknown:
        raise BadInput(
            Text("The request body has unknown fields: {unknown}.", unknown=repr(unknown[0][:40])),
            hint=Text("Send only {fields}.", fields=", ".join(fields)),
        )
    return data


def _number(data: dict[str, Any], name: str) -> float:
    value = data[name]
    # the comparison rejects NaN, infinities and integers beyond any float, which Python's JSON parser accepts
    if type(value) not in (int, float) or not abs(value) <= sys.float_info.max:
        raise BadInput(
            Text("The field {field} is not a number.", field=repr(name)),
            hint=Text("Send {field} as a number, in seconds.", field=repr(name)),
        )
    return float(value)


AUTOSTOP_ROUTES: tuple[tuple[str, type[TpuHandler]], ...] = (
    (r"/jupyter-tpu/v1/autostop", AutostopHandler),
    (r"/jupyter-tpu/v1/nodes/(?P<zone>[^/]+)/(?P<node_id>[^/]+)/autostop", NodeAutostopHandler),
    (r"/jupyter-tpu/v1/nodes/(?P<zone>[^/]+)/(?P<node_id>[^/]+)/autostop/history", AutostopHistoryHandler),
    (r"/jupyter-tpu/v1/nodes/(?P<zone>[^/]+)/(?P<node_id>[^/]+)/extend", ExtendHandler),
)
"""The path pattern (under the server's base URL) and handler of each route."""
