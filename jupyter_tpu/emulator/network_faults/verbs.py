"""The faults of a link: verbs, their fields, and the effects of lasting faults on the link. Pure.

Some faults last until they are cleared or for `for_s` seconds; faults with different verbs add up. Some faults happen
immediately, to every open connection. Some take effect at a certain byte, counted from when the fault was set, on
`times` connections. `direction` is ``up`` (from the client to the server), ``down`` or ``both``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from jupyter_tpu.emulator.resources import fields

UP, DOWN, BOTH = "up", "down", "both"
CLEAR = "clear"


MEANINGS: Mapping[str, str] = {
    "latency": "every byte arrives this many ms later, in order; throughput is unchanged, new connections take longer",
    "rate": "at most this many bytes per second",
    "stall": "no data is transferred or lost; the sender notices once the buffers are full",
    "black_hole": "bytes are dropped without an error; a connection that lost bytes never recovers",
    "slice": "bytes arrive in pieces",
    "refuse": "new connections are refused",
    "reset": "connections are torn down (RST)",
    "finish": "both ends are closed in an orderly way (FIN)",
    "half_close": "one end gets end-of-file, the other direction stays open",
    "cut": "the connection is reset after a byte, which still arrives",
    "corrupt": "one byte arrives with one bit flipped",
    CLEAR: "remove all faults",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """The effects of all lasting faults on one direction of a link."""

    latency_s: float = 0.0
    jitter_s: float = 0.0
    bytes_per_s: float = 0.0
    slice_bytes: int = 0
    slice_gap_s: float = 0.0
    stalled: bool = False
    black_hole: bool = False

    @property
    def blocked(self) -> bool:
        """Whether no data passes in this direction."""
        return self.stalled or self.black_hole


FAIR = Conditions()


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFault:
    """A link fault: a verb and its fields; see the module's docstring."""

    verb: str
    direction: str = BOTH
    ms: float = 0.0
    jitter_ms: float = 0.0
    kib_per_s: float = 0.0
    bytes: int = 0
    gap_ms: float = 0.0
    after: int = 0
    at: int = 0
    times: int = 1
    for_s: float = 0.0

    def hits(self, direction: str) -> bool:
        """Return whether the fault affects a direction."""
        return self.direction in (BOTH, direction)

    def to_json(self) -> dict[str, Any]:
        """Return the verb and its fields."""
        return {"verb": self.verb, **{name: getattr(self, name) for name in FIELDS[self.verb]}}


FIELDS: Mapping[str, tuple[str, ...]] = {
    "latency": ("direction", "ms", "jitter_ms", "for_s"),
    "rate": ("direction", "kib_per_s", "for_s"),
    "stall": ("direction", "for_s"),
    "black_hole": ("direction", "for_s"),
    "slice": ("direction", "bytes", "gap_ms", "for_s"),
    "refuse": ("for_s",),
    "reset": (),
    "finish": (),
    "half_close": ("direction",),
    "cut": ("direction", "after", "times"),
    "corrupt": ("direction", "at", "times"),
    CLEAR: (),
}
REQUIRED: Mapping[str, tuple[str, ...]] = {
    "latency": ("ms",),
    "rate": ("kib_per_s",),
    "slice": ("bytes",),
    "half_close": ("direction",),
    "cut": ("after",),
    "corrupt": ("at",),
}
WAITING = frozenset({"cut", "corrupt"})
_CONDITIONS: Mapping[str, Callable[[LinkFault, Conditions], Conditions]] = {
    "latency": lambda fault, now: replace(now, latency_s=fault.ms / 1000, jitter_s=fault.jitter_ms / 1000),
    "rate": lambda fault, now: replace(now, bytes_per_s=fault.kib_per_s * 1024),
    "stall": lambda _, now: replace(now, stalled=True),
    "black_hole": lambda _, now: replace(now, black_hole=True),
    "slice": lambda fault, now: replace(now, slice_bytes=fault.bytes, slice_gap_s=fault.gap_ms / 1000),
}
LASTING = frozenset({*_CONDITIONS, "refuse"})


def conditions(faults: list[LinkFault], direction: str) -> Conditions:
    """Combine the lasting faults into the network conditions in one direction; per verb, the newest fault applies."""
    now = FAIR
    for fault in faults:
        if fault.verb in _CONDITIONS and fault.hits(direction):
            now = _CONDITIONS[fault.verb](fault, now)
    return now


def link_fault_from_json(data: Mapping[str, Any]) -> LinkFault:
    """Parse a fault; raises ValueError or KeyError if it is invalid."""
    verb = _verb(data["verb"])
    given = {name: value for name, value in data.items() if name != "verb"}
    if unknown := given.keys() - set(FIELDS[verb]):
        raise ValueError(f"{verb} takes no {', '.join(sorted(unknown))}")
    if missing := set(REQUIRED.get(verb, ())) - given.keys():
        raise ValueError(f"{verb} needs {', '.join(sorted(missing))}")
    return LinkFault(verb=verb, **{name: _CHECKS[name](value) for name, value in given.items()})


def _verb(value: object) -> str:
    verb = fields.text(value).replace("-", "_")
    if verb not in FIELDS:
        raise ValueError(f"unknown verb {value!r}; verbs: {', '.join(FIELDS)}")
    return verb


def _direction(value: object) -> str:
    if value not in (UP, DOWN, BOTH):
        raise ValueError(f"unknown direction {value!r}; directions: {UP}, {DOWN} and {BOTH}")
    return str(value)


_CHECKS: Mapping[str, Callable[[object], Any]] = {
    "direction": _direction,
    "ms": fields.amount,
    "jitter_ms": fields.amount,
    "kib_per_s": fields.positive,
    "bytes": fields.counting,
    "gap_ms": fields.amount,
    "after": fields.whole,
    "at": fields.whole,
    "times": fields.counting,
    "for_s": fields.amount,
}
