"""The routes that manage grants and show whether a grant covers a node."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from jupyter_server.auth.decorator import authorized
from tornado import web

from jupyter_tpu.accelerators import canonical_type
from jupyter_tpu.errors import BadInput, Text
from jupyter_tpu.fleet.assembly import OpenFleet
from jupyter_tpu.fleet.autostop.autostop_settings import default_rules
from jupyter_tpu.fleet.spend.grant_usage import GrantUsage, read_grant_usage
from jupyter_tpu.journal.grant_store import Grants
from jupyter_tpu.models import Node, NodeName
from jupyter_tpu.money.coverage import NodeRequest
from jupyter_tpu.money.grants import grant_from_json
from jupyter_tpu.provisioning import flags_of
from jupyter_tpu.server.routes.bodies import json_object, provisioning_parameters
from jupyter_tpu.server.routes.nodes import TpuHandler


class GrantRoute(TpuHandler):
    """Base class of the handlers of grants."""

    def stored_grants(self, opened: OpenFleet) -> Grants:
        """Return the stored grants of the project."""
        settings = opened.settings
        return Grants(opened.journal, endpoint=settings.endpoint, project=settings.project)

    async def grant_usage(self) -> GrantUsage:
        """Return the grants and how much of them the nodes use, according to the last list of nodes."""
        opened = await self.app.fleet.get()
        snapshot = opened.fleet.snapshot()
        if not snapshot.as_of and snapshot.error is None:  # the server has just started: wait for the first list
            snapshot = await opened.fleet.refresh()
        return await read_grant_usage(opened.journal, opened.settings, snapshot)


class GrantsHandler(GrantRoute):
    """``grants``: all grants and credits."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Return all grants with the remaining amount of each grant."""
        self.write_json((await self.grant_usage()).to_json())


class GrantMailHandler(GrantRoute):
    """``grants/parse``: parse a pasted email without saving anything."""

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Parse the email in the body and return its grants."""
        from jupyter_tpu.money.trc_mail import read_trc_mail  # slow to import and rarely used

        text = json_object(self.request.body, "text").get("text")
        if not isinstance(text, str):
            raise BadInput("The field 'text' is missing or is not text.", hint="Send the text of the email.")
        self.write_json((await asyncio.to_thread(read_trc_mail, text)).to_json())


class GrantHandler(GrantRoute):
    """``grants/{name}``: set or remove one grant."""

    @web.authenticated
    @authorized
    async def put(self, name: str) -> None:
        """Set the grant."""
        body = json_object(self.request.body, "kind, starts_on, days or ends_on, and rows or usd")
        grant = grant_from_json(name, body)
        stored = self.stored_grants(await self.app.fleet.get())
        await asyncio.to_thread(stored.put, grant, now=time.time())
        self.write_json((await self.grant_usage()).view_of(name))

    @web.authenticated
    @authorized
    async def delete(self, name: str) -> None:
        """Remove the grant."""
        books = await self.ledger()
        await asyncio.to_thread(books.remove_grant, name, now=await self.cloud_now())
        self.set_status(204)
        self.finish()


class CoverageHandler(GrantRoute):
    """``coverage``: who would pay for a node if it were created."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Return who would pay for a node."""
        provisioning = provisioning_parameters(
            self.get_query_argument("provisioning", ""), self.get_query_argument("spot", "")
        )
        request = NodeRequest(
            accelerator_type=canonical_type(self._text("accelerator_type")),
            zone=self._text("zone"),
            provisioning=provisioning,
        )
        covered = (await self.grant_usage()).coverage(request).to_json()
        self.write_json({**covered, "autostop": _autostop_of(request)})

    def _text(self, name: str) -> str:
        value = self.get_query_argument(name, "")
        if not value or len(value) > 128 or not value.isprintable():
            raise BadInput(
                Text("The parameter {parameter} is missing, too long or not plain text.", parameter=repr(name)),
                hint="Send at most 128 printable characters.",
            )
        return value


def _autostop_of(request: NodeRequest) -> dict[str, Any]:
    """Return the auto-stop rules of a new node, and after how many idle seconds the node is stopped."""
    node = Node(
        name=NodeName(project="any-project", zone=request.zone, node_id="new"),
        state="CREATING",
        accelerator_type=request.accelerator_type,
        **flags_of(request.provisioning),
    )
    rules = default_rules(node)
    idle_s = rules.idle_after_s
    longest = None if idle_s is None or rules.unattended_after_s is None else max(idle_s, rules.unattended_after_s)
    return {"action": rules.action, "idle_after_s": idle_s, "idle_at_most_s": longest}


GRANT_ROUTES: tuple[tuple[str, type[TpuHandler]], ...] = (
    (r"/jupyter-tpu/v1/grants", GrantsHandler),
    (r"/jupyter-tpu/v1/grants/parse", GrantMailHandler),
    (r"/jupyter-tpu/v1/grants/(?P<name>[^/]+)", GrantHandler),
    (r"/jupyter-tpu/v1/coverage", CoverageHandler),
)
