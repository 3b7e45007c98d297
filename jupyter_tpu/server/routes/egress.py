"""The route for egress costs: the buckets that a notebook uses, and the cost of reading them."""

from __future__ import annotations

import json
from typing import Any

from jupyter_core.utils import ensure_async
from jupyter_server.auth.decorator import authorized
from tornado import web

from jupyter_tpu.cloud.services.buckets import read_egress
from jupyter_tpu.models import NodeName
from jupyter_tpu.money.egress import buckets_in, gibibytes
from jupyter_tpu.server.routes.nodes import TpuHandler


class EgressHandler(TpuHandler):
    """``egress``: the cost of reading a notebook's buckets from a node in a zone."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Return the buckets of a notebook with the cost of reading each bucket."""
        zone, path = self.get_query_argument("zone"), self.get_query_argument("path")
        opened = await self.app.fleet.get()
        NodeName(project=opened.settings.project, zone=zone, node_id="any")  # raises for an invalid zone
        buckets = buckets_in(await self._text(path))
        found = await read_egress(opened.settings, buckets, zone, epoch_gib=self._epoch_gib())
        self.write_json({"buckets": [each.to_json() for each in found]})

    def _epoch_gib(self) -> float | None:
        text = self.get_query_argument("epoch_gib", "")
        return gibibytes(text) if text else None

    async def _text(self, path: str) -> str:
        """Return the text of a file from the server's contents manager.

        Raises:
            web.HTTPError: the user may not read files.
        """
        if not await ensure_async(self.authorizer.is_authorized(self, self.current_user, "read", "contents")):
            raise web.HTTPError(403)
        manager: Any = self.contents_manager  # the methods of this class have no types
        content = (await ensure_async(manager.get(path, content=True))).get("content")
        return content if isinstance(content, str) else json.dumps(content, default=str)


EGRESS_ROUTES: tuple[tuple[str, type[TpuHandler]], ...] = ((r"/jupyter-tpu/v1/egress", EgressHandler),)
