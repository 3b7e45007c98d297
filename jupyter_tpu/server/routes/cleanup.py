"""The routes for clean-up (resources that are billed or use quota) and for stopping all spending."""

from __future__ import annotations

from typing import Any

from jupyter_server.auth.decorator import authorized
from tornado import web

from jupyter_tpu.errors import BadInput, Text, TpuError
from jupyter_tpu.fleet.cleanup.billable import billable_view, delete_items, marked, no_billable_view, results_view
from jupyter_tpu.fleet.cleanup.stop_all import stop_all
from jupyter_tpu.fleet.reconciler.inventory import list_holdings
from jupyter_tpu.server.routes.bodies import json_object
from jupyter_tpu.server.routes.nodes import TpuHandler
from jupyter_tpu.server.routes.quota import QuotaRoute

_REASON = Text("The user cleaned up the project in the panel.")
_MOST_NAMES = 500  # as in rest-api.yml; each is a call to the cloud


class CleanupHandler(QuotaRoute):
    """``cleanup``: list everything in the project that costs money or uses quota, or delete items by name."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Return a list of everything in the project that costs money or uses quota."""
        try:
            opened = await self.app.fleet.get()
        except TpuError as error:  # panels poll this: the error is part of the response, not a failed request
            self.write_json(no_billable_view(error))
            return
        self.write_json(billable_view(await list_holdings(opened.cloud)))

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Delete the items in the body."""
        names = names_from_body(self.request.body)
        opened = await self.app.fleet.get()
        chosen = marked(await list_holdings(opened.cloud), names)
        results = await delete_items(opened, chosen, reason=_REASON, wait=False)
        self.quota_service(opened).forget_use()
        self.write_json(results_view(results))


class StopAllHandler(QuotaRoute):
    """``stop-all``: stop or delete all billed nodes and cancel everything that would create a node."""

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Stop everything and return the result for each item."""
        opened = await self.app.fleet.get()
        results = await stop_all(opened)
        self.quota_service(opened).forget_use()
        self.write_json(results_view(results))


def names_from_body(body: bytes) -> list[str]:
    """Parse the body of ``POST cleanup``.

    Raises:
        BadInput: the body is not a list of names. By design, there is no special name that stands for all items.
    """
    data: dict[str, Any] = json_object(body, "names")
    names = data.get("names")
    if set(data) != {"names"} or not isinstance(names, list) or not names or not all(map(_is_name, names)):
        raise BadInput(
            "The field 'names' is missing or is not a list of names.",
            exists="Nothing was deleted.",
            hint="Send the full name of each item to delete, as `GET cleanup` lists them.",
        )
    if len(names) > _MOST_NAMES:
        raise BadInput(
            Text("More than {most} names were sent.", most=_MOST_NAMES),
            exists="Nothing was deleted.",
            hint=Text("Send at most {most} names.", most=_MOST_NAMES),
        )
    return names


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value)


CLEANUP_ROUTES: tuple[tuple[str, type[TpuHandler]], ...] = (
    (r"/jupyter-tpu/v1/cleanup", CleanupHandler),
    (r"/jupyter-tpu/v1/stop-all", StopAllHandler),
)
