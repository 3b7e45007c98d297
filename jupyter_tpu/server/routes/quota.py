"""The routes for quotas: the limits, their usage, and the amounts that remain after a node is created."""

from __future__ import annotations

from jupyter_server.auth.decorator import authorized
from tornado import web

from jupyter_tpu.errors import TpuError
from jupyter_tpu.fleet.assembly import OpenFleet
from jupyter_tpu.fleet.spend.quota_report import QuotaReport, QuotaService, after_view, no_quota_view, quota_view
from jupyter_tpu.models import NodeName
from jupyter_tpu.server.routes.bodies import provisioning_parameters
from jupyter_tpu.server.routes.nodes import TpuHandler

_DESK = "jupyter_tpu_quota_desk"


class QuotaRoute(TpuHandler):
    """Base class of the quota handlers. All handlers share one `QuotaService`, whose cache makes polls fast."""

    async def report(self) -> QuotaReport:
        """Return the limits and the usage of the project's quota.

        Raises:
            TpuError: the cloud can't be reached.
        """
        opened = await self.app.fleet.get()
        nodes = opened.fleet.snapshot().nodes
        return await self.quota_service(opened).report(tuple((node.name, node.state, node.uid) for node in nodes))

    def quota_service(self, opened: OpenFleet) -> QuotaService:
        """Return the server's `QuotaService`."""
        desk: QuotaService = self.app.shown.caches.setdefault(_DESK, QuotaService(opened.cloud))
        return desk


class QuotaHandler(QuotaRoute):
    """``quota``: all quotas that are in use or could be used."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Return all quotas."""
        try:
            report = await self.report()
        except TpuError as error:  # panels poll this: the error is part of the response, not a failed request
            self.write_json(no_quota_view(error))
            return
        self.write_json(quota_view(report))


class QuotaAfterHandler(QuotaRoute):
    """``quota/after``: the remaining amount of each quota after a node is created."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Return the quotas that the node would use, with the remaining amounts after its creation."""
        zone = self.get_query_argument("zone", "")
        provisioning = provisioning_parameters(
            self.get_query_argument("provisioning", ""), self.get_query_argument("spot", "")
        )
        NodeName(project=await self.project(), zone=zone, node_id="a")  # raises for an invalid zone
        report = await self.report()
        accelerator_type = self.get_query_argument("accelerator_type", "")
        rows = report.after(zone=zone, accelerator_type=accelerator_type, provisioning=provisioning)
        self.write_json(after_view(report, rows))


QUOTA_ROUTES: tuple[tuple[str, type[TpuHandler]], ...] = (
    (r"/jupyter-tpu/v1/quota", QuotaHandler),
    (r"/jupyter-tpu/v1/quota/after", QuotaAfterHandler),
)
