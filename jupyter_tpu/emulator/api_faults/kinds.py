"""The kinds of scripted faults: the effect of each, the methods that it can affect, and whether it lasts."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Fits = Callable[[str], bool]


class Sort(enum.StrEnum):
    """What a fault changes. At most one fault of each sort affects a call, so a call can be both slow and rejected."""

    OUTCOME = "outcome"
    VIEW = "view"
    LATENCY = "latency"
    SKEW = "skew"


def any_method(_: str) -> bool:
    """Return True: this kind of fault can affect every method."""
    return True


def starts_operation(method: str) -> bool:
    """Return whether a method starts an operation."""
    return not method.startswith(("List", "Get", "Cancel", "GenerateServiceIdentity", "DeleteOperation"))


def shows_nodes(method: str) -> bool:
    """Return whether a method returns nodes."""
    return method in ("ListNodes", "GetNode")


def one_of(*methods: str) -> Fits:
    """Return a function that checks whether a method is one of these methods."""
    return lambda method: method in methods


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of fault.

    Attributes:
        meaning: the description that ``fault --help`` shows, in one line.
        fits: a function that returns whether the kind can affect a method.
        lasts: whether the fault remains until it is cleared, if its request does not say how often it applies.
    """

    name: str
    meaning: str
    sort: Sort = Sort.OUTCOME
    fits: Fits = any_method
    lasts: bool = False


_ALL = (
    Kind("error", "refused with CODE and MESSAGE, and not performed; HTTP codes (429, 500, 503, 504) work too"),
    Kind("unavailable", "refused with 503, as by a broken front end of the real service"),
    Kind("flaky_zone", "refused with 503 and the recorded text of a flaky zone"),
    Kind("rate", "refused with 429 after LIMIT calls in SECONDS of virtual time (default: 60)", lasts=True),
    Kind("quota", "refused with 429 and a QuotaFailure for QUOTA_ID and LIMIT"),
    Kind("api_disabled", "refused with 403 because the Cloud TPU API is disabled"),
    Kind("permission_denied", "refused with 403 because an IAM permission is missing"),
    Kind(
        "not_allowlisted",
        "refused with 403 because the project is not allowed to use the type",
        fits=lambda method: method.startswith("Create"),
    ),
    Kind("location_denied", "refused with 403 because the zone is not allowed"),
    Kind(
        "expired_token",
        "a page token older than SECONDS of virtual time (default: any) is refused with 400",
        fits=lambda method: method.startswith("List"),
    ),
    Kind("drop", "the connection is reset, and the call is not performed"),
    Kind("applied_then_drop", "the call is performed, but the connection is reset before the response"),
    Kind("empty", "success without a body"),
    Kind("html", "a load balancer's 502 page instead of a response"),
    Kind("truncated", "the call is performed, but its response is truncated"),
    Kind("unknown_enum", "the call is performed, but its response contains unknown states"),
    Kind(
        "stockout",
        "no more capacity: the operation fails with code 8",
        fits=one_of("CreateNode", "StartNode"),
    ),
    Kind("operation_error", "the operation fails with CODE and MESSAGE", fits=starts_operation),
    Kind("stuck", "the operation never finishes, although it takes effect", fits=starts_operation),
    Kind(
        "half_created",
        "the operation fails, but the node is removed only SECONDS of virtual time later",
        fits=one_of("CreateNode"),
    ),
    Kind(
        "not_yet_visible",
        "nodes younger than SECONDS of virtual time are not shown",
        Sort.VIEW,
        fits=shows_nodes,
        lasts=True,
    ),
    Kind(
        "still_visible",
        "nodes are shown for SECONDS of virtual time after they are deleted",
        Sort.VIEW,
        fits=shows_nodes,
        lasts=True,
    ),
    Kind("latency", "the call is performed SECONDS of real time later", Sort.LATENCY),
    Kind(
        "clock_skew",
        "timestamps in the response and its Date header are off by SECONDS, which may be negative",
        Sort.SKEW,
        lasts=True,
    ),
)

KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _ALL}


def kind_name(value: object) -> str:
    """Return the name of a kind. Raises ValueError, which lists all kinds, if the kind is unknown."""
    if not isinstance(value, str) or value not in KINDS:
        raise ValueError(f"unknown kind of fault {value!r}; kinds: {', '.join(sorted(KINDS))}")
    return value
