"""The routes for the failure simulator. They forward requests to an emulated cloud and reject them for other clouds."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Protocol, cast

from jupyter_server.auth.decorator import authorized
from tornado import web

from jupyter_tpu.errors import BadInput, templates_of
from jupyter_tpu.money.quota_ids import quotas_by_id
from jupyter_tpu.server.emulator_client import ALLOWED
from jupyter_tpu.server.routes.bodies import json_object
from jupyter_tpu.server.routes.nodes import TpuHandler

if TYPE_CHECKING:
    from jupyter_tpu.server.served_cloud import ServedCloud

_CHANGES_NODES = frozenset(["clock", "maintenance", "preempt", "project", "reset"])


class EmulatedApp(Protocol):
    """The attributes of the extension that the failure simulator needs in addition to those of `nodes.App`."""

    shown: ServedCloud

    def refresh_nodes(self) -> None:
        """List the nodes now, in the background."""
        ...


class FailureSimulatorHandler(TpuHandler):
    """``emulator/{part}``: read or change one part of the emulated cloud."""

    @web.authenticated
    @authorized
    async def get(self, part: str) -> None:
        """Return the state of one part of the emulated cloud."""
        await self._pass_on(part)

    @web.authenticated
    @authorized
    async def post(self, part: str) -> None:
        """Forward the request body to the emulator's control API, to change one part of the emulator's state."""
        await self._pass_on(part, json_object(self.request.body, "the fields of the control API"))

    @web.authenticated
    @authorized
    async def delete(self, part: str) -> None:
        """Remove all entries of one part of the emulated cloud, or only the entry whose id is in the query."""
        item = self.get_argument("id", "")
        if not re.fullmatch(r"\d{0,12}", item, re.ASCII):
            raise BadInput("The ID is not a number.", hint="Use an ID from `GET emulator/state`.")
        await self._pass_on(part, item=item)

    async def _pass_on(self, part: str, body: dict[str, Any] | None = None, *, item: str = "") -> None:
        verb = str(self.request.method)
        if part not in ALLOWED[verb]:
            raise web.HTTPError(404 if not any(part in parts for parts in ALLOWED.values()) else 405)
        app = cast(EmulatedApp, self.app)
        emulator = app.shown.emulator
        if emulator is None:
            raise web.HTTPError(404)
        answer = await emulator.call(verb, part, body, item=item)
        if part in _CHANGES_NODES:  # show the change in the panel now, not after the next poll
            app.refresh_nodes()
        self.write_json({**answer, "quotas": list(map(_labelled, answer["quotas"]))} if "quotas" in answer else answer)


def _labelled(quota: dict[str, Any]) -> dict[str, Any]:
    known = quotas_by_id().get(quota["quota_id"])
    label = known.label if known else quota["quota_id"]
    return {**quota, "label": label, **templates_of({"label": label})}


SIMULATOR_ROUTES: tuple[tuple[str, type[TpuHandler]], ...] = (
    (r"/jupyter-tpu/v1/emulator/(?P<part>[a-z]+)", FailureSimulatorHandler),
)
"""The path pattern and handler of each route, as in `nodes.NODE_ROUTES`.

If the cloud is not emulated, the routes return 404.
"""
