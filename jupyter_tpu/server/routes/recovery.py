"""The routes for auto-recovery: whether nodes are recreated after pre-emption."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from jupyter_server.auth.decorator import authorized
from tornado import web

from jupyter_tpu.errors import BadInput, Text
from jupyter_tpu.fleet.capacity.recreate import recovery_view, set_recovery
from jupyter_tpu.journal.recovery_store import Recoveries
from jupyter_tpu.lifecycle.recovery_state import DEFAULT_ATTEMPTS
from jupyter_tpu.server.routes.bodies import json_object
from jupyter_tpu.server.routes.nodes import TpuHandler

_FIELDS = ("is_on", "max_attempts", "max_usd")


class RecoveriesHandler(TpuHandler):
    """``recovery``: the auto-recovery settings of all nodes, and the progress of recreating lost nodes."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Return all auto-recovery settings."""
        opened = await self.app.fleet.get()
        settings = opened.settings
        known = Recoveries(opened.journal, endpoint=settings.endpoint, project=settings.project)
        choices = await asyncio.to_thread(known.all)
        self.write_json({"choices": [recovery_view(each) for each in choices]})


class RecoveryHandler(TpuHandler):
    """``nodes/{zone}/{node_id}/recovery``: the auto-recovery setting of one node."""

    @web.authenticated
    @authorized
    async def put(self, zone: str, node_id: str) -> None:
        """Change the auto-recovery setting, and return it."""
        choice = choice_from_body(self.request.body)
        name = await self.node_name(zone, node_id)
        opened = await self.app.fleet.get()
        chosen = await set_recovery(opened.cloud, opened.journal, name, now=time.time(), **choice)
        self.write_json(recovery_view(chosen))


def choice_from_body(body: bytes) -> dict[str, Any]:
    """Parse the body of ``PUT …/recovery``.

    Raises:
        BadInput: the body is not the JSON object described in rest-api.yml.
    """
    data = json_object(body, ", ".join(_FIELDS))
    unknown = sorted(set(data) - set(_FIELDS))
    if unknown:
        raise BadInput(
            Text("The request body has unknown fields: {unknown}.", unknown=repr(unknown[0][:40])),
            hint=Text("Send only {fields}.", fields=", ".join(_FIELDS)),
        )
    if not isinstance(data.get("is_on"), bool):
        raise BadInput("The field 'is_on' must be true or false.", hint="Send 'is_on' as true or false.")
    attempts, usd = data.get("max_attempts", DEFAULT_ATTEMPTS), data.get("max_usd")
    if type(attempts) is not int:
        raise BadInput("The field 'max_attempts' is not a whole number.", hint="Send a whole number, 1 or more.")
    if usd is not None and type(usd) not in (int, float):
        raise BadInput("The field 'max_usd' is not a number.", hint="Send an amount in US dollars, or null for no cap.")
    return {"is_on": data["is_on"], "max_attempts": attempts, "max_usd": usd}


RECOVERY_ROUTES: tuple[tuple[str, type[TpuHandler]], ...] = (
    (r"/jupyter-tpu/v1/recovery", RecoveriesHandler),
    (r"/jupyter-tpu/v1/nodes/(?P<zone>[^/]+)/(?P<node_id>[^/]+)/recovery", RecoveryHandler),
)
