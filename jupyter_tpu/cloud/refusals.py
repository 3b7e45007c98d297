"""A table that maps the cloud's refusals to our errors, by status code, reason and text.

The first matching rule applies. The texts were copied from public reports of real refusals; if Google changes a text,
the rule for the bare status code still applies. This module does no I/O and doesn't depend on gRPC or Google's client.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from jupyter_tpu.cloud import messages
from jupyter_tpu.cloud.refusal_records import Case, Refusal, Request
from jupyter_tpu.errors import TpuError


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that selects refusals by its conditions, and builds the error for a refusal that matches.

    An empty condition is ignored.
    """

    codes: frozenset[int]
    text: str
    reasons: frozenset[str]
    build: Callable[[Case], TpuError]

    def fits(self, refusal: Refusal) -> bool:
        """Return whether the refusal matches this rule by its code, and by its reason or text."""
        if self.codes and refusal.code not in self.codes:
            return False
        if self.reasons and refusal.reason in self.reasons:
            return True
        if not self.text:
            return not self.reasons
        return re.search(self.text, refusal.text, re.IGNORECASE) is not None


def error_of_refusal(request: Request, refusal: Refusal) -> TpuError:
    """Convert a refusal to one of our errors, with the cloud's message in ``raw``."""
    # There is always a matching rule, because the last rule has no condition.
    rule = next(rule for rule in RULES if rule.fits(refusal))
    error = rule.build(Case(request, refusal))
    error.raw = refusal.text
    return error


def _rule(*codes: int, text: str = "", reasons: tuple[str, ...] = (), build: Callable[[Case], TpuError]) -> Rule:
    return Rule(frozenset(codes), text, frozenset(reasons), build)


# google.rpc.Code: 3 INVALID_ARGUMENT, 4 DEADLINE_EXCEEDED, 5 NOT_FOUND, 6 ALREADY_EXISTS, 7 PERMISSION_DENIED,
# 8 RESOURCE_EXHAUSTED, 9 FAILED_PRECONDITION, 11 OUT_OF_RANGE, 12 UNIMPLEMENTED, 13 INTERNAL, 14 UNAVAILABLE,
# 16 UNAUTHENTICATED
RULES: tuple[Rule, ...] = (
    _rule(16, build=messages.not_signed_in),
    # gRPC's credentials plugin reports an expired login as UNAVAILABLE, like an outage.
    _rule(
        text=r"Getting metadata from plugin failed|invalid_grant|Reauthentication is needed",
        build=messages.not_signed_in,
    ),
    _rule(
        7,
        text=r"API has not been used in project|API .*is disabled",
        reasons=("SERVICE_DISABLED",),
        build=messages.api_disabled,
    ),
    _rule(
        7,
        text=r"billing (to be enabled|is disabled|account)",
        reasons=("BILLING_DISABLED",),
        build=messages.billing_disabled,
    ),
    # The project isn't allowed to use this type, so a retry never helps.
    _rule(7, text=r"permission to submit requests", build=messages.not_allowlisted),
    # Google's error doesn't show whether the zone is unavailable to the project or doesn't exist.
    _rule(
        5,
        7,
        text=r"Permission denied on 'locations/|Location \S+ is not found or access is unauthorized",
        reasons=("LOCATION_POLICY_VIOLATED",),
        build=messages.zone_closed,
    ),
    _rule(
        5,
        7,
        text=r"Read access to project|Project .*(not found|has been deleted)",
        reasons=("CONSUMER_INVALID", "USER_PROJECT_DENIED"),
        build=messages.project_unknown,
    ),
    _rule(7, build=messages.permission_denied),
    # RESOURCE_EXHAUSTED has four meanings: a limit of the project, the rate of requests, addresses, or a stock-out.
    _rule(8, text=r"Quota limit '|Quota '", reasons=("QUOTA_EXCEEDED",), build=messages.quota),
    _rule(
        8,
        text=r"requests per minute|Quota exceeded for quota metric",
        reasons=("RATE_LIMIT_EXCEEDED",),
        build=messages.rate,
    ),
    _rule(text=r"IN_USE_ADDRESSES", build=messages.address_quota),
    # Google uses both codes for missing capacity (8 in skypilot#4579).
    _rule(8, 9, text=r"Insufficient reserved capacity", build=messages.reservation),
    _rule(8, 9, text=r"no more capacity", build=messages.stock_out),
    _rule(8, build=messages.exhausted),
    _rule(
        3, text=r"zonal accelerator configurations|accelerator \S+ was not found in zone", build=messages.not_in_zone
    ),
    # If a node is in the wrong state, the API may return INVALID_ARGUMENT instead of FAILED_PRECONDITION.
    _rule(3, 9, text=r"while in state", build=messages.wrong_state),
    _rule(9, build=messages.wrong_state),
    _rule(5, text=r"Reservation not found", build=messages.reservation_unknown),
    _rule(5, build=messages.not_found),
    _rule(6, build=messages.exists),
    _rule(3, 11, build=messages.bad_request),
    _rule(4, 14, build=messages.no_answer),
    _rule(0, 1, 2, 10, 12, 13, 15, build=messages.broken_answer),
    _rule(build=messages.refused),
)
