"""Search for capacity: the controller of the searches that `SearchService` starts.

A search is a document in the journal, so that another process can continue the search if the first process exits. Each
try is an ordinary intent to create a node: it is saved before the request, found again by its label, and undone by a
deletion.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import replace

from jupyter_tpu.cloud.api import CloudApi
from jupyter_tpu.errors import CloudRefused, NodeExists, NodeNotFound, Text, TpuError
from jupyter_tpu.fleet.capacity.search_service import audit_of, search_entry, searches_of
from jupyter_tpu.fleet.reconciler.fleet import Fleet
from jupyter_tpu.journal import Journal
from jupyter_tpu.journal.journal import ClaimLost
from jupyter_tpu.lifecycle import intent_texts
from jupyter_tpu.lifecycle.intents import Intent
from jupyter_tpu.lifecycle.search import Begin, End, begun, lost, next_step, with_last, won
from jupyter_tpu.lifecycle.search_state import SEARCH_LABEL, Search
from jupyter_tpu.models import Node, NodeName

log = logging.getLogger(__name__)

# the times below are our choice; no API document gives any
# how long to list a finished search, and how often to delete older ones
_SHOWN_S = 86_400.0
_FORGET_EVERY_S = 600.0
# how often to save an unchanged search; well below `STALE_S`, so that an active search never becomes stale
_TOUCHED_S = 60.0
# how long to look for nodes that the cloud creates after an abandoned attempt
_WATCHED_S = 600.0
# delay between two requests to delete the leftovers of an attempt, because the cloud needs time
_ASK_AGAIN_S = 10.0


class SearchController:
    """The controller of the searches that this process started or whose process has exited."""

    def __init__(self, cloud: CloudApi, journal: Journal) -> None:
        self._cloud = cloud
        self._searches = searches_of(cloud, journal)
        self._audit = audit_of(cloud, journal)
        self._forgot_at = 0.0

    async def reconcile(self, fleet: Fleet, now: float) -> None:
        """Advance each search by one step; a failure in one search does not affect the others."""
        for search in await asyncio.to_thread(self._searches.ours, now):
            try:
                await self._reconcile_one(fleet, search, now)
            except ClaimLost:
                log.info("The search %s is driven by another process now.", search.search_id)
            except TpuError as error:  # the next pass tries again
                log.debug("The search %s is delayed: %s", search.search_id, error)
        if now - self._forgot_at > _FORGET_EVERY_S:
            self._forgot_at = now
            await asyncio.to_thread(self._searches.forget, now - _SHOWN_S)

    async def _reconcile_one(self, fleet: Fleet, search: Search, now: float) -> None:
        # do this even after the search has ended, because a late node costs money
        await self._delete_latecomers(fleet, search, now)
        last = search.last
        if search.has_ended:
            return
        if last is not None and last.outcome == "trying":
            await self._follow(fleet, search, now)
        elif last is not None and not last.is_clean:
            await self._clean(fleet, search, now)
        else:
            await self._next_try(fleet, search, now)

    async def _save(self, search: Search, now: float) -> Search:
        return await asyncio.to_thread(self._searches.save, replace(search, updated_at=now))

    async def _next_try(self, fleet: Fleet, search: Search, now: float) -> None:
        step = next_step(search, now)
        if isinstance(step, Begin):
            await self._try(fleet, await self._save(begun(search, step.index, now), now), now)
        elif isinstance(step, End) or step.search != search or now - search.updated_at > _TOUCHED_S:
            await self._save(step.search, now)

    async def _try(self, fleet: Fleet, search: Search, now: float) -> None:
        """Create the node for the search's current try, and store the id of the new intent in the search."""
        spec = search.spec(search.tries[-1].index)
        await asyncio.to_thread(self._audit.record, search_entry(search, "create", search.message, str(spec.name)))
        try:
            intent_id = await self._create_or_find(fleet, search)
        except TpuError as error:
            await self._save(lost(search, error), now)
        else:
            await self._save(with_last(search, intent_id=intent_id), now)

    async def _create_or_find(self, fleet: Fleet, search: Search) -> str:
        """Create this attempt's intent, or find it if a process exited before saving the id; return the intent's id."""
        spec = search.spec(search.tries[-1].index)
        try:
            intent = await fleet.create(spec, accept_unknown_price=search.accept_unknown_price)
        except NodeExists:
            # adopt the node if it belongs to this search and the response to its request was lost
            node = await self._node(spec.name)
            if node is None or not _is_of(node, search):
                raise
            return node.intent_id
        if intent.spec is None or intent.spec.labels.get(SEARCH_LABEL) != search.search_id:
            raise NodeExists(
                Text(
                    "Another request is creating a node named {node} in {zone}.",
                    node=spec.name.node_id,
                    zone=spec.name.zone,
                )
            )
        return intent.intent_id

    async def _follow(self, fleet: Fleet, search: Search, now: float) -> None:
        """Continue the open try of a search: create its node, or store its result when its intent has finished."""
        if search.is_cancelled:
            # the next pass cleans up, as after a failed attempt
            await self._save(with_last(search, outcome="other", message="Cancelled."), now)
            return
        intent = await _intent_of(fleet, search)
        if intent is None:
            await self._try(fleet, search, now)
        elif intent.settled:
            await self._save(_judged(search, intent), now)
        elif now - search.updated_at > _TOUCHED_S:
            await self._save(search, now)

    async def _clean(self, fleet: Fleet, search: Search, now: float) -> None:
        """Delete what the last try left in the cloud. The next try starts when nothing is left."""
        last = search.tries[-1]
        name = search.name(last.index)
        intent = await _intent_of(fleet, search)
        node = await self._left_node(name, intent)
        is_left = (intent is not None and not intent.settled) or (node is not None and _is_of(node, search))
        if is_left and now - last.deleted_at > _ASK_AGAIN_S:
            # save first, so that another process that claims the search doesn't repeat the request at once
            asked = await self._save(with_last(search, deleted_at=now), now)
            await self._delete(fleet, asked, name, "A failed attempt of a search left it behind.")
        elif not is_left and not _is_being_changed(fleet, name):
            await self._save(with_last(search, is_clean=True, intent_id=intent.intent_id if intent else ""), now)
            await _dismiss(fleet, intent)

    async def _delete(self, fleet: Fleet, search: Search, name: NodeName, reason: str) -> None:
        await asyncio.to_thread(self._audit.record, search_entry(search, "delete", reason, str(name)))
        try:
            await fleet.delete(name)
        except NodeNotFound:
            log.debug("The node %s is gone already.", name)

    async def _left_node(self, name: NodeName, intent: Intent | None) -> Node | None:
        try:
            return await self._node(name)
        except CloudRefused:  # the user has no read permission in this zone, so the failed attempt left nothing there
            if intent is not None and not (intent.error and intent.error.exists == intent_texts.NOTHING_CREATED):
                raise
            return None

    async def _node(self, name: NodeName) -> Node | None:
        try:
            return await self._cloud.get_node(name)
        except NodeNotFound:
            return None

    async def _delete_latecomers(self, fleet: Fleet, search: Search, now: float) -> None:
        """Delete nodes that the cloud created only after the search had given up on them."""
        if search.has_ended and now - search.updated_at > _WATCHED_S:
            return
        given_up = {each.intent_id for each in search.tries if each.is_clean and each.outcome != "won"} - {""}
        for node in fleet.snapshot().nodes:
            if node.intent_id in given_up and _is_of(node, search) and not _was_deleted(fleet, node, now):
                await self._delete(fleet, search, node.name, "It appeared after the search had given up on it.")


def release_searches(cloud: CloudApi, journal: Journal) -> None:
    """Release the searches of this process, so that another process can claim them; blocks on disk I/O."""
    with contextlib.suppress(TpuError):
        searches_of(cloud, journal).release()


def _judged(search: Search, intent: Intent) -> Search:
    """Return the search, updated with the result of its open try. The intent of this try has finished."""
    if intent.succeeded:
        return won(search)
    if intent.error is not None:
        return lost(search, intent.error)
    # neither an error nor a success: the user deleted the node during its creation, so the search ends
    return replace(with_last(search, outcome="other", message=intent.message), is_cancelled=True)


async def _intent_of(fleet: Fleet, search: Search) -> Intent | None:
    """Return the intent of the search's last try. If the intent's id was never saved, find it by the search's label."""
    last = search.tries[-1]
    if last.intent_id:
        return await fleet.intent(last.intent_id)
    listed = (each for each in fleet.snapshot().intents if each.spec and each.node_name == search.name(last.index))
    return next((each for each in listed if each.spec and each.spec.labels.get(SEARCH_LABEL) == search.search_id), None)


async def _dismiss(fleet: Fleet, intent: Intent | None) -> None:
    """Hide a failed intent from the list of nodes; the search shows the error."""
    if intent is not None:
        await fleet.dismiss(intent.intent_id)


def _is_being_changed(fleet: Fleet, name: NodeName) -> bool:
    return any(each.node_name == name and not each.settled for each in fleet.snapshot().intents)


def _was_deleted(fleet: Fleet, node: Node, now: float) -> bool:
    """Return whether the node is being deleted, or its deletion was just requested."""
    asked = (each for each in fleet.snapshot().intents if each.node_name == node.name and each.verb == "delete")
    return node.state == "DELETING" or any(now - each.updated_at < _ASK_AGAIN_S for each in asked)


def _is_of(node: Node, search: Search) -> bool:
    return node.labels.get(SEARCH_LABEL) == search.search_id
