"""Scripted faults as the user requests them. A fault can be limited to a method, a node or a zone.

A fault affects `times` matching calls, starting with the `nth`, each with the given `probability`. If several faults of
the same `Sort` match a call, only the oldest affects it. The fault's kind (`kinds`) defines the effect, which
`scripted` applies.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from google.rpc import code_pb2

from jupyter_tpu.emulator.api_faults.kinds import KINDS, Kind, kind_name
from jupyter_tpu.emulator.resources import fields
from jupyter_tpu.emulator.resources.behaviours import assumed
from jupyter_tpu.emulator.resources.errors import code_number

ANY_METHOD = "*"

# HTTP statuses are also accepted as codes, because users know 503 better than UNAVAILABLE
_HTTP_CODES = {
    400: code_pb2.INVALID_ARGUMENT,
    401: code_pb2.UNAUTHENTICATED,
    403: code_pb2.PERMISSION_DENIED,
    404: code_pb2.NOT_FOUND,
    409: code_pb2.ABORTED,
    429: code_pb2.RESOURCE_EXHAUSTED,
    499: code_pb2.CANCELLED,
    500: code_pb2.INTERNAL,
    501: code_pb2.UNIMPLEMENTED,
    503: code_pb2.UNAVAILABLE,
    504: code_pb2.DEADLINE_EXCEEDED,
}
_TEXTS = {
    code_pb2.RESOURCE_EXHAUSTED: "Resource has been exhausted (e.g. check quota).",
    code_pb2.INTERNAL: "Internal error encountered.",
    code_pb2.UNAVAILABLE: "The service is currently unavailable.",
    code_pb2.DEADLINE_EXCEEDED: "Deadline expired before operation could complete.",
}


@assumed(
    "words-of-codes",
    "If the servers themselves refuse a request, the error has the text that other Google APIs use for the same code.",
)
def default_text(code: int) -> str:
    """Return Google's usual text for a code."""
    return _TEXTS.get(code) or str(code_pb2.Code.Name(code)).replace("_", " ").capitalize()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One scripted fault, as requested.

    Attributes:
        method: name of an API method, such as ``CreateNode``; ``*`` for any method that this kind of fault can affect.
        target: a node or another resource (by short or full name) or a zone; empty for any.
        times: how many calls the fault affects; None for all matching calls until the fault is cleared.
        nth: the first matching call that is affected, counted from 1.
        probability: the probability that a matching call is affected; `seed` makes random decisions repeatable.
        applied: whether the call is performed although the caller gets an error, a broken connection or a late
            response.
    """

    method: str
    kind: str
    target: str = ""
    times: int | None = 1
    nth: int = 1
    probability: float = 1.0
    seed: int = 0
    code: int = code_pb2.UNAVAILABLE
    message: str = ""
    seconds: float = 0.0
    quota_id: str = ""
    limit: int = 0
    applied: bool = False

    @property
    def sort(self) -> str:
        """The sort of the fault: what it changes. At most one fault of each sort affects a call."""
        return KINDS[self.kind].sort

    @property
    def text(self) -> str:
        """The text of the error that the caller gets."""
        return self.message or default_text(self.code)

    def can_hit(self, method: str) -> bool:
        """Return whether the fault can hit calls to a method."""
        return self.method in (method, ANY_METHOD) and KINDS[self.kind].fits(method)

    def to_json(self) -> dict[str, Any]:
        """Return the fault as the control API shows it."""
        return {**asdict(self), "code": code_pb2.Code.Name(self.code), "message": self.text}


def _code(value: object) -> int:
    """Parse a google.rpc.Code by name or number, or an HTTP status."""
    return _HTTP_CODES[value] if isinstance(value, int) and value in _HTTP_CODES else code_number(value)


_CHECKS: Mapping[str, fields.Check] = {
    "method": fields.text,
    "kind": kind_name,
    "target": fields.text,
    "times": fields.optional(fields.counting),
    "nth": fields.counting,
    "probability": fields.fraction,
    "seed": fields.whole,
    "code": _code,
    "message": fields.text,
    "seconds": fields.difference,
    "quota_id": fields.text,
    "limit": fields.whole,
    "applied": fields.flag,
}


def fault_from_json(data: Mapping[str, Any], methods: frozenset[str]) -> Fault:
    """Parse a fault for one of these methods or for ``*``.

    Raises:
        ValueError: the fault is invalid; the message gives the reason.
    """
    settings = fields.checked(data, _CHECKS, required=("method", "kind"))
    kind = KINDS[settings["kind"]]
    _check_method(settings["method"], kind, methods)
    # clock skew may be negative; no other kind has a negative duration
    if settings.get("seconds", 0) < 0 and kind.name != "clock_skew":
        raise ValueError(f"seconds: {settings['seconds']:g} is less than 0")
    return Fault(**{**_defaults(kind), **settings})


def _check_method(method: str, kind: Kind, methods: frozenset[str]) -> None:
    if method != ANY_METHOD and not (method in methods and kind.fits(method)):
        known = ", ".join(sorted(filter(kind.fits, methods)))
        raise ValueError(f"method: {kind.name} cannot affect {method[:50]!r}; methods: {known}; * for any of them")


def _defaults(kind: Kind) -> dict[str, Any]:
    # use a random seed if none is given; `fault list` shows it, so that a run can be repeated
    defaults: dict[str, Any] = {"times": None if kind.lasts else 1, "seed": secrets.randbits(24)}
    # the text is that of the real service's internal errors; the ten virtual minutes are our choice
    if kind.name == "half_created":
        defaults |= {"code": code_pb2.INTERNAL, "message": "an internal error has occurred", "seconds": 600.0}
    # the rate is per minute, like the real quota (behaviour `E11-create-rate`)
    if kind.name == "rate":
        defaults |= {"code": code_pb2.RESOURCE_EXHAUSTED, "seconds": 60.0}
    return defaults


@dataclass(slots=True, kw_only=True)
class WaitingFault:
    """A fault that waits for matching calls.

    Attributes:
        seen: number of calls that matched the fault.
        struck: number of calls that the fault has affected.
        moments: times of the calls that the rate limit allowed; recorded only for faults of the kind `rate`.
    """

    number: int
    fault: Fault
    seen: int = 0
    struck: int = 0
    moments: list[float] = field(default_factory=list)

    @property
    def is_used_up(self) -> bool:
        """Whether the fault has affected as many calls as requested."""
        return self.fault.times is not None and self.struck >= self.fault.times

    def to_json(self) -> dict[str, Any]:
        """Return the fault as the control API shows it; `times` is the number of calls that it can still affect."""
        left = None if self.fault.times is None else self.fault.times - self.struck
        return {"id": self.number, **self.fault.to_json(), "times": left, "seen": self.seen, "struck": self.struck}
