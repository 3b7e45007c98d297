"""Routes for a node's TPU metrics and for releasing its chips."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from jupyter_server.auth.decorator import authorized
from tornado import web

from jupyter_tpu.errors import BadInput, NodeNotFound, Text, TpuError, WorkerUnreachable, WrongState
from jupyter_tpu.fleet.assembly import OpenFleet
from jupyter_tpu.kernels.agents.agent_calls import workers_of
from jupyter_tpu.kernels.agents.open_links import was_reached
from jupyter_tpu.kernels.connections.metrics_pool import Answer
from jupyter_tpu.kernels.connections.worker import WorkerKey
from jupyter_tpu.kernels.metrics_views import metrics_view, release_view
from jupyter_tpu.models import Node
from jupyter_tpu.server.routes.bodies import json_object, refuse_unknown_fields
from jupyter_tpu.server.routes.nodes import TpuHandler

_FIELDS = ("worker_id", "pid", "force")
_RELEASE_S = 20.0  # the agent gives each process a few seconds to exit before killing it
_LONGEST_HISTORY_S = 3600  # the agent stores one sample per second for an hour
_MOST_POINTS = 600  # the agent's own limit; a chart in the panel is narrower


class ChipsRoute(TpuHandler):
    """Base class of the handlers for requests about a node's chips."""

    async def node(self, zone: str, node_id: str) -> tuple[OpenFleet, Node]:
        """Return the node from the last list of nodes; query the cloud only if that list lacks the node.

        Raises:
            NodeNotFound: the cloud has no such node either.
        """
        opened = await self.app.fleet.get()
        name = await self.node_name(zone, node_id)
        node = opened.fleet.snapshot().node(name) or (await opened.fleet.refresh()).node(name)
        if node is None:
            raise NodeNotFound(
                Text("There is no node {node} in {zone}.", node=name.node_id, zone=name.zone),
                hint="Refresh the list of nodes, and try again.",
            )
        return opened, node


class MetricsHandler(ChipsRoute):
    """``nodes/{zone}/{node_id}/metrics``: the newest samples of all workers; does not count as activity."""

    @web.authenticated
    @authorized
    async def get(self, zone: str, node_id: str) -> None:
        """Return the newest samples, with history if requested."""
        params = {
            "history_s": _whole(self.get_query_argument("history_s", "0"), "history_s", 0, _LONGEST_HISTORY_S),
            "points": _whole(self.get_query_argument("points", str(_MOST_POINTS)), "points", 1, _MOST_POINTS),
        }
        opened, node = await self.node(zone, node_id)
        answers = await self._answers(node, opened.settings.endpoint, params)
        view = await asyncio.to_thread(metrics_view, answers, node.accelerator_type, time.time())
        self.write_json(view)

    async def _answers(self, node: Node, endpoint: str, params: Mapping[str, Any]) -> list[Answer]:
        try:
            keys = await asyncio.to_thread(workers_to_query, node, endpoint)
        except TpuError as error:  # show the reason instead of each worker's chart
            return [Answer(worker_id=worker_id, error=error) for worker_id in range(max(1, len(node.workers)))]
        return await self.app.metrics_pool.call(keys, "metrics", params, uid=node.uid)


class ReleaseHandler(ChipsRoute):
    """``nodes/{zone}/{node_id}/release``: kill the processes that use the chips of a worker."""

    @web.authenticated
    @authorized
    async def post(self, zone: str, node_id: str) -> None:
        """Kill processes; return which of them released the chips."""
        worker_id, params = release_from_body(self.request.body)
        opened, node = await self.node(zone, node_id)
        keys = await asyncio.to_thread(workers_to_query, node, opened.settings.endpoint)
        if worker_id >= len(keys):
            raise BadInput(
                Text(
                    "The node {node} has no worker {worker_id}; its workers are 0 to {last}.",
                    node=node_id,
                    worker_id=worker_id,
                    last=len(keys) - 1,
                )
            )
        (answer,) = await self.app.metrics_pool.call(
            [keys[worker_id]], "free", params, uid=node.uid, patience_s=_RELEASE_S
        )
        if answer.error is not None or answer.content is None:
            raise answer.error or WorkerUnreachable(
                Text("Worker {worker_id} of {node} did not respond.", worker_id=worker_id, node=node_id)
            )
        self.write_json(release_view(answer.content))


def workers_to_query(node: Node, endpoint: str) -> tuple[WorkerKey, ...]:
    """Return all workers of a node to which this machine has connected before. Blocks on disk I/O.

    Raises:
        WrongState: the node is not READY.
        WorkerUnreachable: this machine has never connected to the node, and does not connect only to show metrics.
    """
    name = node.name.node_id
    if node.state != "READY":
        raise WrongState(
            Text("The node {node} is {state}, not READY.", node=name, state=node.state),
            exists="No program is running on the node.",
        )
    if not was_reached(node):
        raise WorkerUnreachable(
            Text("This machine has not been connected to {node} yet.", node=name),
            exists="Metrics appear after the first connection.",
            hint="Start a kernel on the node.",
        )
    return workers_of(node, endpoint)


def release_from_body(body: bytes) -> tuple[int, dict[str, Any]]:
    """Parse the body of ``POST …/release`` into the worker's id and the parameters of the agent's call.

    Raises:
        BadInput: the body is not the JSON object described in rest-api.yml.
    """
    data = json_object(body, ", ".join(_FIELDS))
    refuse_unknown_fields(data, _FIELDS)
    worker_id, pid, force = data.get("worker_id", 0), data.get("pid"), data.get("force", False)
    if type(worker_id) is not int or worker_id < 0:
        raise BadInput(
            "The field 'worker_id' is not a worker number.", hint="Send a whole number; 0 is the first worker."
        )
    if pid is not None and (type(pid) is not int or pid < 1):
        raise BadInput(
            "The field 'pid' is not a process ID.",
            hint="Send a process ID, or omit 'pid' to end all of your own processes.",
        )
    if type(force) is not bool:
        raise BadInput("The field 'force' must be true or false.")
    params = {"force": force, "by": "the TPU panel"}
    return worker_id, params if pid is None else {**params, "pid": pid}


def _whole(text: str, name: str, least: int, most: int) -> int:
    # nine digits are enough for any limit, so that int() never parses millions of digits
    if not text.isdecimal() or not least <= int(text[:9]) <= most:
        raise BadInput(
            Text(
                "The parameter {parameter} must be a whole number from {least} to {most}.",
                parameter=repr(name),
                least=least,
                most=most,
            )
        )
    return int(text[:9])


_NODE = r"/jupyter-tpu/v1/nodes/(?P<zone>[^/]+)/(?P<node_id>[^/]+)"

METRICS_ROUTES: tuple[tuple[str, type[TpuHandler]], ...] = (
    (_NODE + "/metrics", MetricsHandler),
    (_NODE + "/release", ReleaseHandler),
)
"""The path pattern (under the server's base URL) and handler of each route."""
