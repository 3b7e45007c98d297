"""The route for the audit log."""

from __future__ import annotations

import asyncio

from jupyter_server.auth.decorator import authorized
from tornado import web

from jupyter_tpu.errors import BadInput, Text
from jupyter_tpu.server.routes.nodes import TpuHandler

_MOST = 1000  # entries per response: the log grows without bound


class AuditHandler(TpuHandler):
    """``audit``: actions that affected cost or access, newest first."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Return the newest entries."""
        limit = self._limit()
        entries = await asyncio.to_thread((await self.audit()).newest, limit)
        self.write_json({"entries": [entry.to_json() for entry in entries]})

    def _limit(self) -> int:
        text = self.get_query_argument("limit", "100")
        if not (text.isascii() and text.isdecimal() and len(text) <= 4 and 1 <= int(text) <= _MOST):
            raise BadInput(
                "The parameter 'limit' is not valid.", hint=Text("Send a whole number from 1 to {most}.", most=_MOST)
            )
        return int(text)


AUDIT_ROUTES: tuple[tuple[str, type[TpuHandler]], ...] = ((r"/jupyter-tpu/v1/audit", AuditHandler),)
