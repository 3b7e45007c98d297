"""Start, list and cancel searches for capacity, for the front ends."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterable

from jupyter_tpu.cloud.api import CloudApi
from jupyter_tpu.error_actions import delete_node, show_queue
from jupyter_tpu.errors import BadInput, IntentNotFound, NodeExists, Text
from jupyter_tpu.journal import Journal
from jupyter_tpu.journal.audit import Audit, Entry
from jupyter_tpu.journal.search_store import Searches
from jupyter_tpu.lifecycle import intent_texts
from jupyter_tpu.lifecycle.search import checked
from jupyter_tpu.lifecycle.search_state import Candidate, Search

LONGEST_S = 7 * 86_400.0
"""Maximum duration of a search, in seconds: our choice, because a node found by a forgotten search is billed."""


class SearchService:
    """Starts, lists and cancels searches; a running fleet with a `SearchController` performs them.

    `clock` returns Unix seconds.
    """

    def __init__(self, cloud: CloudApi, journal: Journal, *, clock: Callable[[], float] = time.time) -> None:
        self._cloud = cloud
        self._clock = clock
        self._searches = searches_of(cloud, journal)
        self._audit = audit_of(cloud, journal)

    async def begin(
        self,
        node_id: str,
        candidates: Iterable[Candidate],
        *,
        for_s: float | None = None,
        accept_unknown_price: bool = False,
    ) -> Search:
        """Start a search; a second call with the same candidates returns the same search.

        Args:
            node_id: id of the node, the same in every zone.
            candidates: the zones and types to try, in order; see `lifecycle.search.ordered`.
            for_s: maximum duration in seconds; if None, each candidate is tried once.
            accept_unknown_price: see `Fleet.check_spending`.

        Raises:
            BadInput: there are no candidates or too many, the name is invalid, or the duration is longer than a week.
            NodeExists: a node with this name exists in some zone, or there is another search for it.
            JournalUnwritable: the search can't be saved, so nothing was requested.
            CloudUnavailable, CloudRefused: the cloud did not return the list of nodes.
        """
        now = self._clock()
        if for_s is not None and for_s > LONGEST_S:
            raise BadInput(
                "A search can last at most one week.", hint="Choose a shorter time; you can start another search later."
            )
        wanted = checked(
            Search(
                search_id=secrets.token_hex(8),
                project=self._cloud.settings.project,
                node_id=node_id,
                candidates=tuple(dict.fromkeys(candidates)),  # without duplicates, in the same order
                until=None if for_s is None else now + for_s,
                accept_unknown_price=accept_unknown_price,
                message="Starting the search.",
                created_at=now,
                updated_at=now,
            )
        )
        # look for the search before checking the names, because it may already have created the node
        known = await self._same_open(wanted)
        if known is not None:
            return known
        await self._refuse_taken(wanted)
        search = await asyncio.to_thread(self._searches.begin, wanted)
        # if another process started this search, that process writes the audit entry
        if search.search_id == wanted.search_id:
            await asyncio.to_thread(self._audit.record, search_entry(search, "search", _begun_reason(search)))
        return search

    async def _same_open(self, wanted: Search) -> Search | None:
        """Return an open search for the same node and candidates. Grants may have changed the candidates' order."""
        listed = await asyncio.to_thread(self._searches.all)
        open_ones = (each for each in listed if each.node_id == wanted.node_id and not each.has_ended)
        return next((each for each in open_ones if set(each.candidates) == set(wanted.candidates)), None)

    async def _refuse_taken(self, wanted: Search) -> None:
        # list all zones, because the user wants one node with this name
        listed = await self._cloud.list_nodes()
        taken = next((node for node in listed.nodes if node.name.node_id == wanted.node_id), None)
        if taken is not None:
            raise NodeExists(
                Text("{zone} already has a node named {node}.", node=wanted.node_id, zone=taken.name.zone),
                exists=intent_texts.node_exists(taken),
                hint=Text(
                    "Choose another name, or delete that node with {command}.",
                    command=intent_texts.command("delete", taken.name),
                ),
                actions=(delete_node(taken.name),),
            )

    async def all(self) -> tuple[Search, ...]:
        """Return the open searches and those that finished in the last day, oldest first."""
        return await asyncio.to_thread(self._searches.all)

    async def get(self, search_id: str) -> Search:
        """Return one search.

        Raises:
            IntentNotFound: there is no such search.
        """
        found = await asyncio.to_thread(self._searches.find, search_id)
        if found is None:
            raise IntentNotFound(
                "There is no such search.", hint="`jupyter tpu search` lists the searches.", actions=(show_queue(),)
            )
        return found

    async def watch(self, search_id: str, *, every_s: float = 0.5) -> AsyncIterator[Search]:
        """Yield the search now and after each change until it has finished; raises the same errors as `get`."""
        shown: Search | None = None
        while shown is None or not shown.has_ended:
            search = await self.get(search_id)
            if search != shown:
                yield search
                shown = search
            else:
                await asyncio.sleep(every_s)

    async def cancel(self, search_id: str) -> Search:
        """Begin to cancel a search. Its phase becomes ``cancelled`` when no resources of its last try are left.

        Raises:
            IntentNotFound: there is no such search.
        """
        search = await asyncio.to_thread(self._searches.cancel, search_id)
        if not search.has_ended:
            await asyncio.to_thread(
                self._audit.record, search_entry(search, "cancel", Text("The user cancelled the search."))
            )
        return search


def _begun_reason(search: Search) -> str:
    return Text("The user started a search (candidates: {count}).", count=len(search.candidates))


def search_entry(search: Search, action: str, reason: str, subject: str = "") -> Entry:
    """Return an audit log entry about a search; by default, its subject is the id of the node."""
    detail = {"search_id": search.search_id}
    return Entry(at=time.time(), action=action, subject=subject or search.node_id, reason=reason, detail=detail)


def searches_of(cloud: CloudApi, journal: Journal) -> Searches:
    """Return the store with the capacity searches in the cloud's project."""
    return Searches(journal, endpoint=cloud.settings.endpoint, project=cloud.settings.project)


def audit_of(cloud: CloudApi, journal: Journal) -> Audit:
    """Return the audit log of the cloud's project."""
    return Audit(journal, endpoint=cloud.settings.endpoint, project=cloud.settings.project)
