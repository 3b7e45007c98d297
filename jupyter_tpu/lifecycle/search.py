"""Look for capacity: one candidate after the other, each try an ordinary wish for a node, until one becomes READY.

Pure: what to do next, and what the end of a try means. A search has at most one try that is open; before the next one
begins, nothing of it may be left in the cloud (`Try.is_clean`).
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
    TpuError,
)
from jupyter_tpu.lifecycle.searches import MOST_TRIES, Candidate, Outcome, Phase, Search, Try
from jupyter_tpu.provisioning import takes_preemptible_quota

PAUSE_S = 30.0
LONGEST_PAUSE_S = 300.0
STALE_S = 900.0
MOST_CANDIDATES = 64

_HOPELESS = (NotAllowlisted, PermissionDenied, ApiDisabled, BadInput)
_WORDS = {
    "quota": "the quota is used up",
    "stockout": "no free machines",
    "not_allowed": "not open to the project",
    "address": "no external IP address is left: --internal-ips needs none",
    "other": "it failed",
}


def checked(search: Search) -> Search:
    """The search, if it can be made.

    Raises:
        BadInput: it has no candidates, too many of them, or a name that cannot be.
    """
    if not search.candidates:
        raise BadInput("A search needs at least one zone and accelerator type.", hint="Name what you would accept.")
    if len(search.candidates) > MOST_CANDIDATES:
        raise BadInput(
            f"{len(search.candidates)} candidates are too many.", hint=f"Name at most {MOST_CANDIDATES} of them."
        )
    for index in range(len(search.candidates)):
        search.name(index)
    return search


def ordered(candidates: Iterable[Candidate], is_covered: Callable[[Candidate], bool]) -> tuple[Candidate, ...]:
    """By their cost to the user: those that a grant pays first, then by list price; unknown prices last."""
    return tuple(sorted(candidates, key=lambda each: _cost(each, is_covered(each))))


def _cost(candidate: Candidate, is_covered: bool) -> tuple[bool, bool, float]:
    price = price_on_terms(candidate.accelerator_type, candidate.zone, candidate.provisioning)
    return not is_covered, price is None, price.usd_per_hour if price else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """Try this candidate now."""

    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Nothing is to be done yet; the search is as given."""

    search: Search


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """It is over; the search is as given."""

    search: Search


def next_step(search: Search, now: float) -> Begin | Wait | End:
    """What to do when no try is open."""
    if search.is_cancelled:
        return End(search=ended(search, "cancelled", "The search was cancelled; nothing of it is left."))
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
    message = f"Nothing is free now; all of it is tried again in {pause_s:.0f} s."
    again = replace(search, round=search.round + 1, position=0, next_at=now + pause_s, message=message)
    return Wait(search=again)


def _nothing_found(search: Search) -> str:
    times = "once" if search.tried == 1 else f"{search.tried} times"
    if len(search.hopeless) == len(search.candidates):
        return f"Nothing was found in {search.tried or 'no'} tries, and waiting does not help; nothing is billed."
    return f"Nothing was found; the cloud was asked {times}. Nothing is billed."


def ended(search: Search, phase: Phase, message: str) -> Search:
    """It is over."""
    return replace(search, phase=phase, message=message)


def begun(search: Search, index: int, now: float) -> Search:
    """A try begins: to be written down before anything is asked."""
    wanted = search.candidates[index]
    tries = (*search.tries, Try(index=index, at=now))[-MOST_TRIES:]
    message = f"Trying {wanted.accelerator_type} in {wanted.zone}."
    return replace(search, tries=tries, tried=search.tried + 1, position=index + 1, message=message)


def with_last(search: Search, **changes: Any) -> Search:
    """The search with its last try changed."""
    return replace(search, tries=(*search.tries[:-1], replace(search.tries[-1], **changes)))


def won(search: Search) -> Search:
    """The node of the last try is READY."""
    index = search.tries[-1].index
    name = search.name(index)
    found = with_last(search, outcome="won", is_clean=True, message="The node is READY.")
    found = replace(found, node_name=str(name))
    return ended(found, "found", f"{search.candidates[index].accelerator_type} in {name.zone} is READY.")


def lost(search: Search, error: TpuError) -> Search:
    """The last try came to nothing; what it left is to be cleaned away."""
    outcome = outcome_of(error)
    index = search.tries[-1].index
    wanted = search.candidates[index]
    told = with_last(search, outcome=outcome, message=error.message, raw=error.raw)
    hopeless = sorted({*search.hopeless, *_hopeless_with(search, index, error)})
    message = f"{wanted.accelerator_type} in {wanted.zone}: {_WORDS[outcome]}."
    told = replace(told, hopeless=tuple(hopeless), message=message)
    if search.tries[-1].was_interrupted and outcome == "other":
        told = replace(told, position=index)
    # the name is somebody's: under the same name in another zone there would be two nodes
    is_over = isinstance(error, BudgetExceeded | NodeExists)
    return replace(told, stop=error.message) if is_over else told


def outcome_of(error: TpuError) -> Outcome:
    """Which of the refusals it is."""
    match error:
        case AddressQuotaExceeded():
            return "address"
        case RateExceeded():
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
    """The candidates that the same refusal would meet, however long one waits."""
    outcome = outcome_of(error)
    tried = search.candidates[index]
    if outcome == "quota":
        in_region = re.search(r"\bin region ", error.raw) is not None
        return {at for at, each in enumerate(search.candidates) if _has_quota_of(tried, each, in_region)}
    if outcome == "address":
        region = region_of(tried.zone)
        return {at for at, each in enumerate(search.candidates) if region_of(each.zone) == region}
    return {index} if isinstance(error, _HOPELESS) else set()


def _has_quota_of(tried: Candidate, other: Candidate, in_region: bool) -> bool:
    """Whether the limit that refused one refuses the other: for one type it is the same, and as much is asked of it."""
    if (tried.accelerator_type, _quota_kind(tried)) != (other.accelerator_type, _quota_kind(other)):
        return False
    return region_of(tried.zone) == region_of(other.zone) if in_region else tried.zone == other.zone


def _quota_kind(candidate: Candidate) -> tuple[bool, bool]:
    return candidate.reserved, takes_preemptible_quota(candidate.provisioning)


def resumed(search: Search, now: float) -> Search:
    """Taken up by another process; what was begun long ago may not be wanted any more, so nothing new is begun."""
    is_stale = now - search.updated_at > STALE_S
    stop = "The search was interrupted for long and is over; begin it again if you still want it." if is_stale else ""
    taken = replace(search, stop=search.stop or stop, updated_at=now)
    is_open = search.last is not None and search.last.outcome == "trying"
    return with_last(taken, was_interrupted=True) if is_open else taken
