"""The routes for spending: the ledger, the budgets and Google's bill."""

from __future__ import annotations

import asyncio
import os
import time
from typing import cast, get_args

from jupyter_server.auth.decorator import authorized
from tornado import web

from jupyter_tpu.errors import BadInput
from jupyter_tpu.fleet.spend.bill_cache import BillCache
from jupyter_tpu.money.billed import EXPORT_VARIABLE, ExportTable
from jupyter_tpu.money.budgets import FIELDS
from jupyter_tpu.money.spend_history import DEFAULT_SLOTS, By
from jupyter_tpu.money.spending import budget_view, spend_view
from jupyter_tpu.server.routes.bodies import json_object
from jupyter_tpu.server.routes.nodes import TpuHandler

_EXPORT = "jupyter_tpu_billing_export"


class SpendHandler(TpuHandler):
    """``spend``: the cost of nodes and the usage of the budgets."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Return spending and budgets."""
        snapshot = (await self.fleet()).snapshot()
        is_complete = bool(snapshot.as_of) and snapshot.error is None and not snapshot.unreachable
        books, now, seen = await self.ledger(), await self.cloud_now(), await self.seen()
        as_of = snapshot.as_of_here
        self.write_json(
            await asyncio.to_thread(
                lambda: spend_view(books.account(now, unwritten=seen), as_of=as_of, is_complete=is_complete)
            )
        )


class HistoryHandler(TpuHandler):
    """``spend/history``: spending per hour or per day."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Return the spending in the last hours or days."""
        by = _by(self.get_query_argument("by", "day"))
        last = _count(self.get_query_argument("last", str(DEFAULT_SLOTS[by])))
        books, now, seen = await self.ledger(), await self.cloud_now(), await self.seen()
        self.write_json(await asyncio.to_thread(lambda: books.history(by, last, now=now, unwritten=seen)))


class BurnDownHandler(TpuHandler):
    """``budgets/{name}/course``: the burn-down of one budget."""

    @web.authenticated
    @authorized
    async def get(self, name: str) -> None:
        """Return the budget's usage over time (burn-down)."""
        books, now, seen = await self.ledger(), await self.cloud_now(), await self.seen()
        self.write_json(await asyncio.to_thread(lambda: books.burn_down(name, now=now, unwritten=seen)))


class BilledHandler(TpuHandler):
    """``billed``: Google's bill, from the configured billing export."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Return the bill."""
        table = ExportTable.parse(self.app.billing_export or os.environ.get(EXPORT_VARIABLE, ""))
        settings = (await self.app.fleet.get()).settings
        # cache the result per cloud, because each BigQuery query costs money
        export: BillCache = self.app.shown.caches.setdefault(_EXPORT, BillCache(settings, table))
        self.write_json(await export.view())


class BudgetHandler(TpuHandler):
    """``budgets/{name}``: set or remove one budget."""

    @web.authenticated
    @authorized
    async def put(self, name: str) -> None:
        """Set the budget and return its usage."""
        body = json_object(self.request.body, ", ".join(FIELDS))
        books, now = await self.ledger(), await self.cloud_now()
        budget = await asyncio.to_thread(lambda: books.set_budget(name, body, now=time.time()))
        account = await asyncio.to_thread(books.account, now)
        self.write_json(budget_view(budget, account.usage(budget), account))

    @web.authenticated
    @authorized
    async def delete(self, name: str) -> None:
        """Remove the budget."""
        books = await self.ledger()
        await asyncio.to_thread(lambda: books.remove_budget(name, now=time.time()))
        self.set_status(204)
        self.finish()


def _by(text: str) -> By:
    for by in get_args(By):
        if text == by:
            return cast(By, by)
    raise BadInput("The parameter 'by' must be hour or day.")


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise BadInput("The parameter 'last' must be a whole number.")
    return int(text[:9])


SPEND_ROUTES: tuple[tuple[str, type[TpuHandler]], ...] = (
    (r"/jupyter-tpu/v1/spend", SpendHandler),
    (r"/jupyter-tpu/v1/spend/history", HistoryHandler),
    (r"/jupyter-tpu/v1/billed", BilledHandler),
    (r"/jupyter-tpu/v1/budgets/(?P<name>[^/]+)", BudgetHandler),
    (r"/jupyter-tpu/v1/budgets/(?P<name>[^/]+)/course", BurnDownHandler),
)
