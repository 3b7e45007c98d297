"""The routes for a node's terminals: the REST API of jupyter_server_terminals, below the node's path.

`websocket.terminal_socket` connects a page to a terminal.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from jupyter_server.auth.decorator import authorized
from tornado import web

from jupyter_tpu.errors import plain
from jupyter_tpu.kernels.agents.agent_calls import call_worker, first_worker
from jupyter_tpu.kernels.agents.open_links import LinkedAgents
from jupyter_tpu.kernels.connections.worker import WorkerKey
from jupyter_tpu.server.routes.nodes import TpuHandler


class TerminalApiHandler(TpuHandler):
    """Base class of the handlers of a node's terminals."""

    # use Jupyter's own resource: a user who may not use terminals on this server may not use a node's either
    auth_resource = "terminals"

    async def worker(self, zone: str, node_id: str) -> WorkerKey:
        """Return the first worker of a node."""
        name = await self.node_name(zone, node_id)
        return first_worker(str(name), (await self.app.fleet.get()).settings.endpoint)


class TerminalsHandler(TerminalApiHandler):
    """``nodes/{zone}/{node_id}/api/terminals``: list a node's terminals or open one."""

    @web.authenticated
    @authorized
    async def get(self, zone: str, node_id: str) -> None:
        """Return the terminals; none if this server isn't connected to the node, because listing must not connect."""
        name = await self.node_name(zone, node_id)
        agents = LinkedAgents((await self.app.fleet.get()).settings.endpoint)
        found = (await agents.call(name, "list_terminals", {}) or {}).get("terminals", [])
        self.write_json([_model(row) for row in found])

    @web.authenticated
    @authorized
    async def post(self, zone: str, node_id: str) -> None:
        """Start a shell in a new terminal."""
        # The name is chosen here, so that a repeated call after a disconnect doesn't start a second shell.
        params = {"terminal_id": secrets.token_hex(4)}
        self.write_json(_model(await call_worker(await self.worker(zone, node_id), "start_terminal", params)))


class TerminalHandler(TerminalApiHandler):
    """``nodes/{zone}/{node_id}/api/terminals/{terminal_id}``: shut down a terminal."""

    @web.authenticated
    @authorized
    async def delete(self, zone: str, node_id: str, terminal_id: str) -> None:
        """End the terminal's shell and its jobs."""
        await call_worker(await self.worker(zone, node_id), "end_terminal", {"terminal_id": terminal_id})
        self.set_status(204)
        self.finish()


def _model(row: Mapping[str, Any]) -> dict[str, Any]:
    started_at = row.get("started_at")
    return {
        "name": plain(row.get("terminal_id")),
        "command": plain(row.get("command") or ""),
        "started_at": started_at if isinstance(started_at, float) else None,
    }


TERMINALS = r"/jupyter-tpu/v1/nodes/(?P<zone>[^/]+)/(?P<node_id>[^/]+)/api/terminals"

TERMINAL_ROUTES: tuple[tuple[str, type[TpuHandler]], ...] = (
    (TERMINALS, TerminalsHandler),
    (TERMINALS + r"/(?P<terminal_id>\w+)", TerminalHandler),
)
"""The path pattern and handler of each route, as in `nodes.NODE_ROUTES`."""
