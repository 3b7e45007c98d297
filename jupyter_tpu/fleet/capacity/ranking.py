"""The order in which a search tries its candidates, by cost to the user."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from jupyter_tpu.fleet.spend.grant_usage import read_grant_usage
from jupyter_tpu.lifecycle.search import ordered
from jupyter_tpu.lifecycle.search_state import Candidate
from jupyter_tpu.money.coverage import NodeRequest

if TYPE_CHECKING:
    from jupyter_tpu.cloud.settings import CloudSettings
    from jupyter_tpu.fleet.reconciler.fleet import Fleet
    from jupyter_tpu.journal.journal import Journal


async def rank_by_cost(
    fleet: Fleet, journal: Journal, settings: CloudSettings, candidates: Iterable[Candidate]
) -> tuple[Candidate, ...]:
    """Sort candidates: first those covered by a grant, then by list price, unknown prices last; the sort is stable.

    Raises:
        JournalUnwritable: the grants can't be read.
    """
    snapshot = fleet.snapshot()
    if not snapshot.as_of and snapshot.error is None:  # no list yet, so it is unknown which nodes use the grants
        snapshot = await fleet.refresh()
    book = await read_grant_usage(journal, settings, snapshot)

    def is_covered(each: Candidate) -> bool:
        request = NodeRequest(accelerator_type=each.accelerator_type, zone=each.zone, provisioning=each.provisioning)
        return book.coverage(request).is_covered

    return ordered(candidates, is_covered)
