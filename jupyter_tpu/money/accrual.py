"""What a look at the nodes means for the ledger: which spans begin, go on and end.

A look says of each node when it was seen, so looks may come in any order and from several processes: one that is older
than what the ledger knows changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from jupyter_tpu.models import NodeName
from jupyter_tpu.money.spans import Span
from jupyter_tpu.provisioning import Provisioning

_NO_LOOK_IS_SO_LATE_S = 600.0
"""What the ledger knows of a time so much later than now was written while the clock was wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """A node that was seen READY.

    Attributes:
        unwatched_s: for how long it may have been READY before, with nobody looking.
        price_source: where the price is from, see `Price.origin`.
        provisioning: on which terms it was asked for.
    """

    name: NodeName
    uid: str
    accelerator_type: str
    spot: bool
    usd_per_hour: float | None
    unwatched_s: float = 0.0
    price_source: str = ""
    provisioning: Provisioning | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A look at all nodes of a project.

    Attributes:
        as_of: when it was asked for (Unix seconds); 0 where nothing but the nodes of `looked_at` was looked at.
        ready: the nodes that were READY.
        unreachable: zones that did not answer; what was READY there is taken as READY still.
        looked_at: nodes that were looked at by themselves later, and when; also in vain.
        ended: nodes that are READY no more, and when the cloud says that this ended at the latest.
        now: when it is taken in, which may be long after; what the ledger knows of a later time is wrong. By default
            nothing is.
    """

    as_of: float
    ready: tuple[Sight, ...] = ()
    unreachable: tuple[str, ...] = ()
    looked_at: Mapping[NodeName, float] = field(default_factory=dict)
    ended: Mapping[NodeName, float] = field(default_factory=dict)
    now: float = float("inf")

    def is_ahead(self, at: float) -> bool:
        """Whether the ledger has such a moment from a clock that was wrong."""
        return at - self.now > _NO_LOOK_IS_SO_LATE_S

    def seen_at(self, name: NodeName) -> float:
        """When that node, or its absence, was seen."""
        return self.looked_at.get(name, self.as_of)


@dataclass(frozen=True, slots=True, kw_only=True)
class Accrual:
    """What is to be written down. Each node has at most one open span before and after."""

    extended: tuple[Span, ...] = ()
    closed: tuple[Span, ...] = ()
    opened: tuple[Span, ...] = ()


def accrue(spans: Mapping[NodeName, Span], gone_at: Mapping[NodeName, float], look: Look) -> Accrual:
    """What a look means for the open `spans`; `gone_at` says when a node was last seen not READY any more."""
    ready = {sight.name: sight for sight in look.ready}
    extended, closed, opened, repriced = list[Span](), list[Span](), list[Span](), set[NodeName]()
    for name, span in spans.items():
        at, sight = look.seen_at(name), ready.get(name)
        if not at:
            continue  # nobody looked at it
        if look.is_ahead(span.ended_at):
            span = replace(span, began_at=min(span.began_at, at), ended_at=at)
        elif at <= span.ended_at:
            continue
        if sight is None and name.zone in look.unreachable and name not in look.looked_at:
            extended.append(replace(span, ended_at=at))
        elif sight is None or sight.uid != span.uid:
            closed.append(_closed(span, _ended_at_latest(span, sight, look)))
        elif sight.usd_per_hour != span.usd_per_hour:
            closed.append(replace(span, ended_at=at, is_open=False))
            repriced.add(name)
        else:
            extended.append(replace(span, ended_at=at, price_source=sight.price_source))
    free = ready.keys() - (spans.keys() - {span.name for span in closed})
    for name in sorted(free):
        at, gone = look.seen_at(name), gone_at.get(name, float("-inf"))
        watched_s = float("inf") if look.is_ahead(gone) else at - gone
        if watched_s > 0:
            sight = ready[name]
            unwatched_s = 0.0 if name in repriced else min(sight.unwatched_s, watched_s)
            opened.append(_opened(replace(sight, unwatched_s=unwatched_s), at))
    return Accrual(extended=tuple(extended), closed=tuple(closed), opened=tuple(opened))


def _ended_at_latest(span: Span, successor: Sight | None, look: Look) -> float:
    """When it was seen not READY, or before: by the word of the cloud, or because another node has its name."""
    seen_at = look.seen_at(span.name)
    began_at = seen_at - successor.unwatched_s if successor else seen_at
    said_at = look.ended.get(span.name, seen_at)
    return min([seen_at, *(at for at in (began_at, said_at) if at >= span.ended_at)])


def _closed(span: Span, at: float) -> Span:
    """It ended at its last sight, or somewhat later."""
    return replace(span, is_open=False, unwatched_after_s=at - span.ended_at)


def _opened(sight: Sight, at: float) -> Span:
    return Span(
        name=sight.name,
        uid=sight.uid,
        accelerator_type=sight.accelerator_type,
        spot=sight.spot,
        usd_per_hour=sight.usd_per_hour,
        began_at=at,
        ended_at=at,
        unwatched_before_s=sight.unwatched_s,
        price_source=sight.price_source,
        provisioning=sight.provisioning,
    )
