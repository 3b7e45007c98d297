"""The routes of spend: the ledger, the budgets and what Google has billed."""

from __future__ import annotations

import asyncio
import os
from typing import cast, get_args

from jupyter_server.auth.decorator import authorized
from tornado import web

from jupyter_tpu.errors import BadInput
from jupyter_tpu.fleet.spend.bill_cache import BillCache
from jupyter_tpu.fleet.spend.spend_ledger import SpendLedger
from jupyter_tpu.money.billed import EXPORT_VARIABLE, ExportTable
from jupyter_tpu.money.budgets import FIELDS
from jupyter_tpu.money.spend_history import DEFAULT_SLOTS, By
from jupyter_tpu.money.spending import JSON, budget_view, spend_view
from jupyter_tpu.server.routes.bodies import json_object
from jupyter_tpu.server.routes.nodes import TpuHandler

_EXPORT = "jupyter_tpu_billing_export"


class SpendHandler(TpuHandler):
    """``spend``: what nodes have cost, and how much of the budgets is used."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Return the spend and the budgets."""
        snapshot = (await self.fleet()).snapshot()
        is_complete = bool(snapshot.as_of) and snapshot.error is None and not snapshot.unreachable
        books, now = await self.ledger(), await self.cloud_now()
        self.write_json(await asyncio.to_thread(_spend, books, now, snapshot.as_of_here, is_complete))


class HistoryHandler(TpuHandler):
    """``spend/history``: spend per hour or per day."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Return the last hours or days."""
        by = _by(self.get_query_argument("by", "day"))
        last = _count(self.get_query_argument("last", str(DEFAULT_SLOTS[by])))
        books, now = await self.ledger(), await self.cloud_now()
        self.write_json(await asyncio.to_thread(lambda: books.history(by, last, now=now)))


class BurnDownHandler(TpuHandler):
    """``budgets/{name}/course``: the burn-down of one budget."""

    @web.authenticated
    @authorized
    async def get(self, name: str) -> None:
        """Return the burn-down."""
        books, now = await self.ledger(), await self.cloud_now()
        self.write_json(await asyncio.to_thread(lambda: books.burn_down(name, now=now)))


class BilledHandler(TpuHandler):
    """``billed``: what Google has billed, from the configured billing export."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Return the bill."""
        table = ExportTable.parse(self.app.billing_export or os.environ.get(EXPORT_VARIABLE, ""))
        settings = (await self.app.fleet.get()).settings
        # one for the cloud: it caches, because each query of BigQuery costs money
        export: BillCache = self.app.shown.caches.setdefault(_EXPORT, BillCache(settings, table))
        self.write_json(await export.view())


class BudgetHandler(TpuHandler):
    """``budgets/{name}``: set or remove one budget."""

    @web.authenticated
    @authorized
    async def put(self, name: str) -> None:
        """Set the budget and return its usage."""
        body = json_object(self.request.body, ", ".join(FIELDS))
        self.write_json(await asyncio.to_thread(_set, await self.ledger(), name, body, await self.cloud_now()))

    @web.authenticated
    @authorized
    async def delete(self, name: str) -> None:
        """Remove the budget."""
        books, now = await self.ledger(), await self.cloud_now()
        await asyncio.to_thread(lambda: books.remove_budget(name, now=now))
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


def _spend(books: SpendLedger, now: float, as_of: float | None, is_complete: bool) -> JSON:
    return spend_view(books.account(now), as_of=as_of, is_complete=is_complete)


def _set(books: SpendLedger, name: str, body: JSON, now: float) -> JSON:
    budget = books.set_budget(name, body, now=now)
    account = books.account(now)
    return budget_view(budget, account.usage(budget), account)


SPEND_ROUTES: tuple[tuple[str, type[TpuHandler]], ...] = (
    (r"/jupyter-tpu/v1/spend", SpendHandler),
    (r"/jupyter-tpu/v1/spend/history", HistoryHandler),
    (r"/jupyter-tpu/v1/billed", BilledHandler),
    (r"/jupyter-tpu/v1/budgets/(?P<name>[^/]+)", BudgetHandler),
    (r"/jupyter-tpu/v1/budgets/(?P<name>[^/]+)/course", BurnDownHandler),
)
