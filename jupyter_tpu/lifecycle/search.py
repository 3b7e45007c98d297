"""Search for capacity: try the candidates one by one, each with an ordinary intent, until a node is READY.

This module is pure: it decides on the next step and evaluates the result of a try. A search has at most one open try.
The next try begins when all leftovers of the previous try are gone from the cloud (`Try.is_clean`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from jupyter_tpu.accelerators import price_on_terms, region_of
from jupyter_tpu.errors import (
    AddressQuotaExceeded,
    ApiDisabled,
    BadInput,
    BudgetExceeded,
    NodeExists,
    NotAllowlisted,
    OutOfCapacity,
    PermissionDenied,
    QuotaExceeded,
    RateExceeded,
    Text,
    TpuError,
)
from jupyter_tpu.lifecycle.search_state import MOST_TRIES, Candidate, Outcome, Phase, Search, Try
from jupyter_tpu.provisioning import takes_preemptible_quota

PAUSE_S = 30.0
"""Pause after the first round, in seconds. It doubles with each round, so that a long search sends few requests."""

LONGEST_PAUSE_S = 300.0
"""Longest pause between two rounds, in seconds. Bounds the delay until free capacity is noticed."""

STALE_S = 900.0
"""Seconds without a running process after which a search starts no new try: the user may have given it up."""

MOST_CANDIDATES = 64
"""Maximum number of candidates: more than all zones of one accelerator type. Bounds the length of a round."""

_HOPELESS = (NotAllowlisted, PermissionDenied, ApiDisabled, BadInput)
_OUTCOME_TEXTS = {
    "quota": Text("the quota is used up"),
    "stockout": Text("no capacity"),
    "not_allowed": Text("not available to this project"),
    "address": Text("no external IP address is left (a node with only internal addresses needs none)"),
    "other": "failed",
}


def checked(search: Search) -> Search:
    """Return the search if it is valid.

    Raises:
        BadInput: the search has no candidates, too many candidates or an invalid name.
    """
    if not search.candidates:
        raise BadInput(
            "A search needs at least one zone and accelerator type.", hint="Specify at least one zone and one type."
        )
    if len(search.candidates) > MOST_CANDIDATES:
        raise BadInput(
            Text("{count} candidates are too many.", count=len(search.candidates)),
            hint=Text("Use at most {most} candidates.", most=MOST_CANDIDATES),
        )
    for index in range(len(search.candidates)):
        search.name(index)  # raises BadInput for an invalid name
    return search


def ordered(candidates: Iterable[Candidate], is_covered: Callable[[Candidate], bool]) -> tuple[Candidate, ...]:
    """Sort candidates: first candidates covered by a grant, then by list price. Unknown prices are last."""
    return tuple(sorted(candidates, key=lambda each: _cost(each, is_covered(each))))


def _cost(candidate: Candidate, is_covered: bool) -> tuple[bool, bool, float]:
    price = price_on_terms(candidate.accelerator_type, candidate.zone, candidate.provisioning)
    return not is_covered, price is None, price.usd_per_hour if price else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """The decision to try the candidate with this index."""

    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """The decision to wait; `search` is the search's new state."""

    search: Search


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The decision to finish the search; `search` is its final state."""

    search: Search


def next_step(search: Search, now: float) -> Begin | Wait | End:
    """Decide on the next step of a search that has no open try."""
    if search.is_cancelled:
        return End(search=ended(search, "cancelled", Text("The search was cancelled and left no resources behind.")))
    if search.stop:
        return End(search=ended(search, "failed", search.stop))
    if search.until is not None and now >= search.until:
        return End(search=ended(search, "failed", _nothing_found(search)))
    if now < search.next_at:
        return Wait(search=search)
    left = [index for index in range(search.position, len(search.candidates)) if index not in search.hopeless]
    return Begin(index=left[0]) if left else _after_a_round(search, now)


def _after_a_round(search: Search, now: float) -> Wait | End:
    if search.until is None or len(search.hopeless) == len(search.candidates):
        return End(search=ended(search, "failed", _nothing_found(search)))
    pause_s = min(PAUSE_S * 2**search.round, LONGEST_PAUSE_S)
    message = Text("No capacity; all candidates will be tried again in {seconds} s.", seconds=f"{pause_s:.0f}")
    again = replace(search, round=search.round + 1, position=0, next_at=now + pause_s, message=message)
    return Wait(search=again)


def _nothing_found(search: Search) -> str:
    tries = Text("1 try") if search.tried == 1 else Text("{count} tries", count=search.tried)
    if len(search.hopeless) == len(search.candidates):
        return Text("No capacity found after {tries}, and waiting won't help. Nothing is billed.", tries=tries)
    return Text("No capacity found after {tries}. Nothing is billed.", tries=tries)


def ended(search: Search, phase: Phase, message: str) -> Search:
    """Return the search with its final phase and message."""
    return replace(search, phase=phase, message=message)


def begun(search: Search, index: int, now: float) -> Search:
    """Return the search with a new try added. The caller saves the search before it sends the create request."""
    wanted = search.candidates[index]
    tries = (*search.tries, Try(index=index, at=now))[-MOST_TRIES:]
    message = Text("Trying {type} in {zone}.", type=wanted.accelerator_type, zone=wanted.zone)
    return replace(search, tries=tries, tried=search.tried + 1, position=index + 1, message=message)


def with_last(search: Search, **changes: Any) -> Search:
    """Return the search with changed fields in its last try."""
    return replace(search, tries=(*search.tries[:-1], replace(search.tries[-1], **changes)))


def won(search: Search) -> Search:
    """Return the search as successful, because the node of its last try is READY."""
    index = search.tries[-1].index
    name = search.name(index)
    found = with_last(search, outcome="won", is_clean=True, message=Text("The node is READY."))
    found = replace(found, node_name=str(name))
    return ended(
        found,
        "found",
        Text("{type} in {zone} is READY.", type=search.candidates[index].accelerator_type, zone=name.zone),
    )


def lost(search: Search, error: TpuError) -> Search:
    """Record that the last try failed. The caller must then delete the leftovers of that try from the cloud."""
    outcome = outcome_of(error)
    index = search.tries[-1].index
    wanted = search.candidates[index]
    after = with_last(search, outcome=outcome, message=error.message, raw=error.raw)
    hopeless = sorted({*search.hopeless, *_hopeless_with(search, index, error)})
    message = Text(
        "{type} in {zone}: {outcome}.",
        type=wanted.accelerator_type,
        zone=wanted.zone,
        outcome=_OUTCOME_TEXTS[outcome],
    )
    after = replace(after, hopeless=tuple(hopeless), message=message)
    # an interrupted attempt may have failed only because its process exited, so try the same candidate again
    if search.tries[-1].was_interrupted and outcome == "other":
        after = replace(after, position=index)
    # after NodeExists, an attempt in another zone would create a second node with this name
    is_over = isinstance(error, BudgetExceeded | NodeExists)
    return replace(after, stop=error.message) if is_over else after


def outcome_of(error: TpuError) -> Outcome:
    """Return the outcome of a try that failed with this error."""
    match error:
        case AddressQuotaExceeded():
            return "address"
        case RateExceeded():  # check this before its base class QuotaExceeded, because here waiting helps
            return "other"
        case QuotaExceeded():
            return "quota"
        case OutOfCapacity():
            return "stockout"
        case NotAllowlisted() | PermissionDenied():
            return "not_allowed"
        case _:
            return "other"


def _hopeless_with(search: Search, index: int, error: TpuError) -> set[int]:
    """Return the indexes of the candidates for which the same error would occur, however long the search waits."""
    outcome = outcome_of(error)
    tried = search.candidates[index]
    if outcome == "quota":
        # only the error's text shows whether the quota is per region or per zone
        in_region = re.search(r"\bin region ", error.raw) is not None
        return {at for at, each in enumerate(search.candidates) if _has_quota_of(tried, each, in_region)}
    if outcome == "address":
        region = region_of(tried.zone)
        return {at for at, each in enumerate(search.candidates) if region_of(each.zone) == region}
    return {index} if isinstance(error, _HOPELESS) else set()


def _has_quota_of(tried: Candidate, other: Candidate, in_region: bool) -> bool:
    """Return whether both candidates count against the same regional or zonal quota."""
    if (tried.accelerator_type, _quota_kind(tried)) != (other.accelerator_type, _quota_kind(other)):
        return False
    return region_of(tried.zone) == region_of(other.zone) if in_region else tried.zone == other.zone


def _quota_kind(candidate: Candidate) -> tuple[bool, bool]:
    return candidate.reserved, takes_preemptible_quota(candidate.provisioning)


def resumed(search: Search, now: float) -> Search:
    """Return a claimed search in a form that can continue. After too long an interruption, no new try starts."""
    is_stale = now - search.updated_at > STALE_S
    stop = (
        Text("The search was interrupted for too long, so it has ended. Start it again if you still need a node.")
        if is_stale
        else ""
    )
    taken = replace(search, stop=search.stop or stop, updated_at=now)
    is_open = search.last is not None and search.last.outcome == "trying"
    return with_last(taken, was_interrupted=True) if is_open else taken
