"""The base class of all handlers under ``/jupyter-tpu/v1``, and the routes of nodes; see ``rest-api.yml``.

Handlers parse the request, call the fleet and write a view. A `TpuError` becomes a JSON body in one place,
`TpuHandler.write_error`; no handler writes HTML.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from jupyter_server.extension.handler import ExtensionHandlerMixin
from tornado import web

from jupyter_tpu.errors import IntentNotFound, JournalUnwritable, NodeNotFound, Text, TpuError
from jupyter_tpu.fleet.reconciler.views import intent_view, no_nodes_view, node_view, nodes_view
from jupyter_tpu.fleet.spend.spend_ledger import SpendLedger, observation_of_fleet
from jupyter_tpu.fleet.termination.termination_executor import DirectEnds
from jupyter_tpu.journal.audit import Audit
from jupyter_tpu.models import NodeName
from jupyter_tpu.money.accrual import NodesObservation
from jupyter_tpu.money.spending import NodeCosts
from jupyter_tpu.server.routes.bodies import accepts_unknown_price, node_spec_from_body

if TYPE_CHECKING:
    from jupyter_tpu.fleet import Fleet, FleetSnapshot
    from jupyter_tpu.fleet.assembly import OpenFleet
    from jupyter_tpu.kernels.connections.metrics_pool import MetricsPool
    from jupyter_tpu.kernels.connections.node_files import NodeFilesPool
    from jupyter_tpu.lifecycle.intents import Intent
    from jupyter_tpu.server.kernelspec_sync import KernelspecSync
    from jupyter_tpu.server.lazy_fleet import LazyFleet
    from jupyter_tpu.server.ports.tunnels import PortTunnels
    from jupyter_tpu.server.served_cloud import ServedCloud

_SAFE_VERBS = ("GET", "HEAD", "OPTIONS")


class App(Protocol):
    """The part of the extension (`server.app.TPUApp`) that the routes need."""

    metrics_pool: MetricsPool
    node_files: NodeFilesPool
    port_tunnels: PortTunnels
    port_timeout: float
    billing_export: str

    @property
    def shown(self) -> ServedCloud:
        """The cloud that the panel shows."""
        ...

    @property
    def fleet(self) -> LazyFleet:
        """The fleet of the cloud that the panel shows."""
        ...

    @property
    def kernelspecs(self) -> KernelspecSync:
        """The kernelspecs of the cloud that the panel shows."""
        ...

    async def status(self) -> dict[str, Any]:
        """Return the body of ``GET status``."""
        ...


class TpuHandler(ExtensionHandlerMixin, APIHandler):
    """Base class of all handlers: authorization, user activity, and the format of errors."""

    auth_resource = "tpu"
    _track_activity = False

    def initialize(self, name: str, renamed_to: str = "") -> None:
        """Store the arguments of the route.

        Args:
            name: the extension's name.
            renamed_to: for an old path, the last part of the new path; empty for other paths. Responses for an old path
                have a deprecation header.
        """
        super().initialize(name=name)
        if renamed_to:
            self.set_header("Deprecation", "true")
            self.set_header("Warning", f'299 - "this path was renamed to end in {renamed_to}"')

    async def prepare(self) -> None:  # type: ignore[override]
        """Authenticate the user, and decide whether the request counts as activity."""
        # Count only user actions as activity: otherwise the polls of an open panel would prevent idle culling.
        self._track_activity = self.request.method not in _SAFE_VERBS
        await super().prepare()

    @property
    def app(self) -> App:
        """The running server extension."""
        return cast(App, self.extensionapp)

    async def fleet(self) -> Fleet:
        """Return the running fleet.

        Raises:
            TpuError: the fleet can't be opened.
        """
        return (await self.app.fleet.get()).fleet

    async def ledger(self) -> SpendLedger:
        """Return the ledger and the budgets of the project."""
        opened = await self.app.fleet.get()
        return SpendLedger(opened.journal, opened.settings)

    async def list_view(self, snapshot: FleetSnapshot) -> dict[str, Any]:
        """Return the list of nodes with their kernelspecs and costs."""
        return nodes_view(
            snapshot, self.app.kernelspecs.names(), await self.costs(), await self._creation_seconds(snapshot)
        )

    async def _creation_seconds(self, snapshot: FleetSnapshot) -> Mapping[tuple[str, str], float]:
        """Return the seconds that creating earlier nodes took, by type and zone; {} if no node is being created."""
        if not any(intent.verb == "create" and not intent.settled for intent in snapshot.intents):
            return {}
        opened = await self.app.fleet.get()
        try:
            return await asyncio.to_thread(opened.journal.creation_seconds, endpoint=opened.settings.endpoint)
        except TpuError:  # omit the estimate: the list already reports the journal's problem
            return {}

    async def costs(self) -> NodeCosts:
        """Return the cost of each node."""
        books, now, seen = await self.ledger(), await self.cloud_now(), await self.seen()
        return await asyncio.to_thread(lambda: books.node_costs(now, unwritten=seen))

    async def seen(self) -> NodesObservation:
        """Return the last known nodes. The ledger records them up to a second later, or never if the disk is full.

        Costs that are computed from these nodes match the nodes that the panel lists.
        """
        snapshot = (await self.fleet()).snapshot()
        # don't add earlier unobserved time: only the recording determines whether the nodes were READY then
        before = NodesObservation(as_of=snapshot.as_of, read_at=snapshot.node_read_at)
        return replace(observation_of_fleet(snapshot, before=before), now=await self.cloud_now())

    async def end(self, verb: Literal["stop", "delete"], zone: str, node_id: str) -> None:
        """Begin to stop or delete a node, and send the intent as the response."""
        name = await self.node_name(zone, node_id)
        opened = await self.app.fleet.get()
        try:
            intent = await (opened.fleet.stop(name) if verb == "stop" else opened.fleet.delete(name))
        except JournalUnwritable as unwritable:  # a full disk must not keep a node billed
            intent = await _end_directly(opened, verb, name, unwritable)
        await self.write_request(intent)

    async def write_request(self, intent: Intent) -> None:
        """Respond with the intent that the user requested, and add the intent to the audit log."""
        await asyncio.to_thread((await self.audit()).record_user_request, intent)
        self.write_json(intent_view(intent), status=202)

    async def audit(self) -> Audit:
        """Return the audit log of the project."""
        opened = await self.app.fleet.get()
        return Audit(opened.journal, endpoint=opened.settings.endpoint, project=opened.settings.project)

    async def cloud_now(self) -> float:
        """Return the time by the cloud's clock, in Unix seconds. All costs are computed with this clock."""
        return (await self.app.fleet.get()).cloud.clock.now()

    async def project(self) -> str:
        """Return the id of the project."""
        return (await self.app.fleet.get()).settings.project

    async def node_name(self, zone: str, node_id: str) -> NodeName:
        """Return the full name of a node in the project.

        Raises:
            BadInput: zone or id is not valid.
        """
        return NodeName(project=await self.project(), zone=zone, node_id=node_id)

    def write_json(self, body: Any, *, status: int = 200) -> None:
        """Finish the response with a JSON body."""
        self.set_status(status)
        self.finish(json.dumps(body))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Write a `TpuError` as the error body in rest-api.yml; write any other error as Jupyter Server does."""
        error = _tpu_error(kwargs)
        if error is None:
            super().write_error(status_code, **kwargs)
            return
        self.set_header("Content-Type", "application/json")
        self.write_json({"message": str(error), "reason": error.code, "error": error.to_json()}, status=error.status)

    def log_exception(
        self, typ: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Log a `TpuError` as one line without traceback, because it is for the user and not a bug."""
        if isinstance(value, TpuError):
            self.log.warning("%s %s: %r", self.request.method, self.request.path, _shortened(value))
            return
        super().log_exception(typ, value, tb)


async def _end_directly(
    opened: OpenFleet, verb: Literal["stop", "delete"], name: NodeName, unwritable: JournalUnwritable
) -> Intent:
    """Stop or delete the node without the journal. The returned intent's message says why the journal is not used."""
    intent = await DirectEnds(opened.cloud, opened.journal).end(verb, name)
    await opened.fleet.refresh()  # update the list with the node's new state
    return replace(intent, message=str(Text("{message} The request is sent anyway.", message=unwritable.message)))


def _tpu_error(kwargs: dict[str, Any]) -> TpuError | None:
    value = kwargs.get("exc_info", (None, None, None))[1]
    return value if isinstance(value, TpuError) else None


def _shortened(error: TpuError, longest: int = 500) -> str:
    text = f"{error.code}: {error}"
    return text if len(text) <= longest else text[:longest] + "…"


class StatusHandler(TpuHandler):
    """``status``: the cloud that this server uses and whether it can be reached."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Return the status."""
        self.write_json(await self.app.status())


class NodesHandler(TpuHandler):
    """``nodes``: list all nodes or create a node."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Return all nodes."""
        try:
            fleet = await self.fleet()
        except TpuError as error:  # panels poll this: the error is part of the response, not a failed request
            self.write_json(no_nodes_view(error))
            return
        snapshot = fleet.snapshot()
        if not snapshot.as_of and snapshot.error is None:  # the server has just started: wait for the first list
            snapshot = await fleet.refresh()
        self.write_json(await self.list_view(snapshot))

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Start creating a node; return the intent."""
        spec = node_spec_from_body(self.request.body, await self.project())
        accepts = accepts_unknown_price(self.request.body)
        intent = await (await self.fleet()).create(spec, accept_unknown_price=accepts)
        await self.write_request(intent)


class RefreshHandler(TpuHandler):
    """``refresh``: list all nodes in the cloud now."""

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Read the list from the cloud; return all nodes."""
        self.write_json(await self.list_view(await (await self.fleet()).refresh()))


class NodeHandler(TpuHandler):
    """``nodes/{zone}/{node_id}``: read or delete one node."""

    @web.authenticated
    @authorized
    async def get(self, zone: str, node_id: str) -> None:
        """Return the node."""
        name = await self.node_name(zone, node_id)
        fleet = await self.fleet()
        node = fleet.snapshot().node(name) or (await fleet.refresh()).node(name)
        if node is None:
            raise NodeNotFound(
                Text("There is no node {node} in {zone}.", node=name.node_id, zone=name.zone),
                hint="Refresh the list of nodes, and try again.",
            )
        kernelspec = self.app.kernelspecs.names().get(str(name))
        self.write_json(node_view(node, kernelspec=kernelspec, costs=await self.costs()))

    @web.authenticated
    @authorized
    async def delete(self, zone: str, node_id: str) -> None:
        """Start deleting the node; return the intent."""
        await self.end("delete", zone, node_id)


class StopHandler(TpuHandler):
    """``…/stop``: stop a node; its disk is kept, and billing of the node stops."""

    @web.authenticated
    @authorized
    async def post(self, zone: str, node_id: str) -> None:
        """Begin to stop the node; return the intent."""
        await self.end("stop", zone, node_id)


class StartHandler(TpuHandler):
    """``…/start``: start a stopped node; billing starts when it is READY."""

    @web.authenticated
    @authorized
    async def post(self, zone: str, node_id: str) -> None:
        """Request the start of the node; return the intent."""
        name = await self.node_name(zone, node_id)
        intent = await (await self.fleet()).start_node(name)
        await self.write_request(intent)


class IntentHandler(TpuHandler):
    """``intents/{intent_id}``: read an intent's progress or dismiss a failed intent."""

    @web.authenticated
    @authorized
    async def get(self, intent_id: str) -> None:
        """Return the intent."""
        intent = await (await self.fleet()).intent(intent_id)
        if intent is None:
            raise IntentNotFound("There is no such request.", hint="The list of nodes shows all requests.")
        self.write_json(intent_view(intent))

    @web.authenticated
    @authorized
    async def delete(self, intent_id: str) -> None:
        """Dismiss the intent."""
        await (await self.fleet()).dismiss(intent_id)
        self.set_status(204)
        self.finish()


_NODE = r"/nodes/(?P<zone>[^/]+)/(?P<node_id>[^/]+)"

NODE_ROUTES: tuple[tuple[str, type[TpuHandler]], ...] = (
    (r"/jupyter-tpu/v1/status", StatusHandler),
    (r"/jupyter-tpu/v1/nodes", NodesHandler),
    (r"/jupyter-tpu/v1/refresh", RefreshHandler),
    (r"/jupyter-tpu/v1" + _NODE, NodeHandler),
    (r"/jupyter-tpu/v1" + _NODE + "/stop", StopHandler),
    (r"/jupyter-tpu/v1" + _NODE + "/start", StartHandler),
    (r"/jupyter-tpu/v1/intents/(?P<intent_id>[^/]+)", IntentHandler),
)
"""The path pattern (under the server's base URL) and handler of each route; the path contains the API's version."""
