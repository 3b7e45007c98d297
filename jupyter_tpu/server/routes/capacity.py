"""The routes for scarce capacity: searches over zones and types, and queued resources."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from jupyter_server.auth.decorator import authorized
from tornado import web

from jupyter_tpu.errors import BadInput, Text, TpuError
from jupyter_tpu.fleet.capacity.offers import annotated_offers
from jupyter_tpu.fleet.capacity.queued_resources import VALID_FOR_S
from jupyter_tpu.fleet.capacity.ranking import rank_by_cost
from jupyter_tpu.fleet.capacity.views import queue_view, queued_view, search_view, searches_view
from jupyter_tpu.fleet.reconciler.views import offers_view
from jupyter_tpu.lifecycle.search import MOST_CANDIDATES
from jupyter_tpu.lifecycle.search_state import Candidate
from jupyter_tpu.models import QueuedName
from jupyter_tpu.provisioning import Provisioning
from jupyter_tpu.server.routes.bodies import (
    CANDIDATE_FIELDS,
    at_once,
    candidate_of,
    flag_field,
    json_object,
    number_field,
    provisioning_field,
    refuse_unknown_fields,
    text_field,
)
from jupyter_tpu.server.routes.nodes import TpuHandler

_SEARCH_FIELDS = ("node_id", "candidates", "queue_minutes", "accept_unknown_price")
_QUEUE_FIELDS = ("node_id", *CANDIDATE_FIELDS, "valid_for_s", "run_for_s", "reservation", "accept_unknown_price")


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedSearch:
    """The body of ``POST searches``; `for_s` is the search duration in seconds, or None to try each candidate once."""

    node_id: str
    candidates: tuple[Candidate, ...]
    for_s: float | None
    accept_unknown_price: bool


def search_from_body(body: bytes) -> WantedSearch:
    """Parse the body of ``POST searches``.

    Raises:
        BadInput: the body is not the JSON object described in rest-api.yml.
    """
    data = json_object(body, ", ".join(_SEARCH_FIELDS))
    refuse_unknown_fields(data, _SEARCH_FIELDS)
    rows = data.get("candidates")
    if not isinstance(rows, list) or not 0 < len(rows) <= MOST_CANDIDATES or not all(isinstance(r, dict) for r in rows):
        raise BadInput(
            Text("The field 'candidates' is not a list of 1 to {most} objects.", most=MOST_CANDIDATES),
            hint=Text("Send a list of acceptable candidates, each with {fields}.", fields=", ".join(CANDIDATE_FIELDS)),
        )
    minutes = number_field(data, "queue_minutes")
    return WantedSearch(
        node_id=text_field(data, "node_id"),
        candidates=tuple(map(_candidate, rows)),
        for_s=None if minutes is None else minutes * 60,
        accept_unknown_price=flag_field(data, "accept_unknown_price"),
    )


def _candidate(row: dict[str, Any]) -> Candidate:
    refuse_unknown_fields(row, CANDIDATE_FIELDS)
    return candidate_of(row, at_once(provisioning_field(row)))


def _queued_on(data: dict[str, Any], run_for_s: float | None) -> Provisioning:
    provisioning = provisioning_field(data)
    if provisioning == "flex-start" and run_for_s is None:
        raise BadInput(
            "A flex-start node requires a run duration.", hint="Send 'run_for_s', the run duration in seconds."
        )
    return provisioning


class OffersHandler(TpuHandler):
    """``offers``: the offers of each zone, with list prices, coverage by grants, and results of past attempts."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Return the offers of all zones."""
        offers = offers_view()
        try:
            opened = await self.app.fleet.get()
            offers = await annotated_offers(offers, opened.fleet, opened.journal, opened.settings, now=time.time())
        except TpuError as error:  # the form works without this data, and the creation itself reports the problem
            self.log.info("The offers are listed without grants and past creations: %s", error)
        self.write_json(offers)


class SearchesHandler(TpuHandler):
    """``searches``: list all searches or start a search."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Return all searches."""
        opened = await self.app.fleet.get()
        self.write_json(searches_view(await opened.searches.all()))

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Start a search."""
        wanted = search_from_body(self.request.body)
        opened = await self.app.fleet.get()
        search = await opened.searches.begin(
            wanted.node_id,
            await rank_by_cost(opened.fleet, opened.journal, opened.settings, wanted.candidates),
            for_s=wanted.for_s,
            accept_unknown_price=wanted.accept_unknown_price,
        )
        self.write_json(search_view(search), status=202)


class SearchHandler(TpuHandler):
    """``searches/{search_id}``: cancel one search."""

    @web.authenticated
    @authorized
    async def delete(self, search_id: str) -> None:
        """Cancel the search."""
        opened = await self.app.fleet.get()
        self.write_json(search_view(await opened.searches.cancel(search_id)), status=202)


class QueueHandler(TpuHandler):
    """``queue``: list the queued resources of the project or create one."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Return the cloud's current list of queued resources."""
        opened = await self.app.fleet.get()
        self.write_json(queue_view(await opened.queue.list()))

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Create a queued resource."""
        data = json_object(self.request.body, ", ".join(_QUEUE_FIELDS))
        refuse_unknown_fields(data, _QUEUE_FIELDS)
        run_for_s = number_field(data, "run_for_s")
        wanted = candidate_of(data, _queued_on(data, run_for_s))  # parse everything before any request to the cloud
        opened = await self.app.fleet.get()
        queued = await opened.queue.add(
            wanted.spec(opened.settings.project, text_field(data, "node_id")),
            valid_for_s=number_field(data, "valid_for_s") or VALID_FOR_S,
            run_for_s=run_for_s,
            reservation=text_field(data, "reservation") if data.get("reservation") is not None else "",
            accept_unknown_price=flag_field(data, "accept_unknown_price"),
        )
        self.write_json(queued_view(queued), status=202)


class QueuedHandler(TpuHandler):
    """``queue/{zone}/{queued_id}``: delete one queued resource."""

    @web.authenticated
    @authorized
    async def delete(self, zone: str, queued_id: str) -> None:
        """Delete the queued resource."""
        opened = await self.app.fleet.get()
        name = QueuedName(project=opened.settings.project, zone=zone, queued_id=queued_id)
        self.write_json(queued_view(await opened.queue.remove(name)))


CAPACITY_ROUTES: tuple[tuple[str, type[TpuHandler]], ...] = (
    (r"/jupyter-tpu/v1/offers", OffersHandler),
    (r"/jupyter-tpu/v1/searches", SearchesHandler),
    (r"/jupyter-tpu/v1/searches/(?P<search_id>[^/]+)", SearchHandler),
    (r"/jupyter-tpu/v1/queue", QueueHandler),
    (r"/jupyter-tpu/v1/queue/(?P<zone>[^/]+)/(?P<queued_id>[^/]+)", QueuedHandler),
)
