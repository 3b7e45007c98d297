"""Searches and queued resources as JSON, for the REST API and the CLI's ``--json``.

This module is pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from jupyter_tpu.lifecycle.search_state import Candidate, Search, Try
from jupyter_tpu.models import QueuedName, QueuedResource
from jupyter_tpu.provisioning import can_be_preempted

if TYPE_CHECKING:
    from jupyter_tpu.fleet.capacity.queued_resources import QueueSnapshot

JSON = dict[str, Any]


def searches_view(searches: Iterable[Search]) -> JSON:
    """Return all searches as JSON."""
    return {"searches": [search_view(each) for each in searches]}


def search_view(search: Search) -> JSON:
    """Return a search as JSON; candidates not yet tried in this round come last, as ``waiting``."""
    return {
        "search_id": search.search_id,
        "node_id": search.node_id,
        "phase": search.phase,
        "message": search.message,
        "tries": [*(_try_view(search, each) for each in search.tries), *_waiting(search)],
        "node_name": search.node_name or None,
        "created_at": search.created_at,
    }


def _try_view(search: Search, tried: Try) -> JSON:
    of = _candidate_view(search.candidates[tried.index])
    return {**of, "outcome": tried.outcome, "message": tried.message, "raw": tried.raw, "at": tried.at}


def _waiting(search: Search) -> list[JSON]:
    if search.has_ended or search.is_cancelled or search.stop:
        return []
    left = [index for index in range(search.position, len(search.candidates)) if index not in search.hopeless]
    again = search.next_at or None  # 0 means no delay
    return [
        {**_candidate_view(search.candidates[index]), "outcome": "waiting", "message": "", "raw": "", "at": again}
        for index in left
    ]


def _candidate_view(candidate: Candidate) -> JSON:
    return {
        "zone": candidate.zone,
        "accelerator_type": candidate.accelerator_type,
        "spot": can_be_preempted(candidate.provisioning),
        "provisioning": candidate.provisioning,
    }


def queue_view(snapshot: QueueSnapshot) -> JSON:
    """Return the queue as JSON."""
    return {
        "as_of": snapshot.as_of,
        "is_complete": not snapshot.unreachable,
        "unreachable": list(snapshot.unreachable),
        "items": [queued_view(each, snapshot.since) for each in snapshot.items],
    }


def queued_view(queued: QueuedResource, since: Mapping[QueuedName, float] | None = None) -> JSON:
    """Return a queued resource as JSON. `since` contains the known start times of current states (Unix seconds)."""
    return {
        "name": str(queued.name),
        "queued_id": queued.name.queued_id,
        "zone": queued.name.zone,
        "state": queued.state,
        "state_since": (since or {}).get(queued.name),
        "accelerator_type": queued.accelerator_type,
        "spot": can_be_preempted(queued.provisioning),
        "provisioning": queued.provisioning,
        "node_ids": list(queued.node_ids),
        "valid_until": queued.valid_until,
        "error": _error_text(queued),
        "holds_quota": queued.holds_quota,
        "is_leftover": queued.is_leftover,
    }


def _error_text(queued: QueuedResource) -> str | None:
    error = queued.error
    if error is None:
        return None
    return error.message if not error.raw else f"{error.message} Message from the cloud: {error.raw}"
