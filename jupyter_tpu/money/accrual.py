"""Convert an observation of the nodes to ledger changes: which spans begin, continue and end.

An observation includes the time at which each node was seen, so observations may arrive in any order and from several
processes. An observation that is older than the ledger changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from jupyter_tpu.models import NodeName
from jupyter_tpu.money.spans import Span
from jupyter_tpu.provisioning import Provisioning

_FUTURE_TOLERANCE_S = 600.0
"""A ledger entry further in the future than this many seconds was written with a wrong clock.

Entries closer to now are accepted: another process may have just written them, with a slightly different clock.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedNode:
    """A node that was observed to be READY.

    Attributes:
        usd_per_hour: list price of the whole node in US dollars per hour; None if unknown.
        unwatched_s: how long before this observation the node may have been READY without being observed, in seconds.
        price_source: the source of the price; see `Price.origin`.
        provisioning: the node's provisioning model; None if unknown.
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
class NodesObservation:
    """An observation of the nodes of a project.

    Attributes:
        as_of: when the list was requested (Unix seconds); 0 if only the nodes in `read_at` were observed.
        ready: the nodes that were READY.
        unreachable: zones that did not respond. Nodes that were READY in these zones still count as READY.
        read_at: when each node was read individually, after the list (Unix seconds); includes nodes that were not
            found.
        ended: nodes that are no longer READY, each with the latest time at which it can have been READY according to
            the cloud (Unix seconds).
        now: when the observation is recorded (Unix seconds), possibly long after `as_of`. Ledger entries that are later
            than this time are wrong. The default accepts every entry.
    """

    as_of: float
    ready: tuple[ObservedNode, ...] = ()
    unreachable: tuple[str, ...] = ()
    read_at: Mapping[NodeName, float] = field(default_factory=dict)
    ended: Mapping[NodeName, float] = field(default_factory=dict)
    now: float = float("inf")

    def is_ahead(self, at: float) -> bool:
        """Return whether a time in the ledger is so far in the future that it must come from a wrong clock."""
        return at - self.now > _FUTURE_TOLERANCE_S

    def seen_at(self, name: NodeName) -> float:
        """Return when a node was observed as existing or missing (Unix seconds)."""
        return self.read_at.get(name, self.as_of)


@dataclass(frozen=True, slots=True, kw_only=True)
class Accrual:
    """Changes to the ledger. Each node has at most one open span before and after the changes."""

    extended: tuple[Span, ...] = ()
    closed: tuple[Span, ...] = ()
    opened: tuple[Span, ...] = ()


def accrue(spans: Mapping[NodeName, Span], gone_at: Mapping[NodeName, float], observation: NodesObservation) -> Accrual:
    """Compute the changes to the open `spans` from a new observation.

    Args:
        spans: the open spans by node; a node without an open span is absent.
        gone_at: when each node was last observed as not READY (Unix seconds).
    """
    ready = {node.name: node for node in observation.ready}
    # first process the open spans: extend each span, close it, or close it and open a new span at a new price
    extended, closed, opened, repriced = list[Span](), list[Span](), list[Span](), set[NodeName]()
    for name, span in spans.items():
        at, node = observation.seen_at(name), ready.get(name)
        if not at:
            continue  # this observation doesn't include the node
        if observation.is_ahead(span.ended_at):
            # the clock was ahead when the span was written: move the span back to now, or it would block all later
            # observations
            span = replace(span, began_at=min(span.began_at, at), ended_at=at)
        elif at <= span.ended_at:
            continue  # this observation is older than the ledger's last one
        if node is None and name.zone in observation.unreachable and name not in observation.read_at:
            # a zone that didn't respond doesn't prove that the node is gone, and an existing node is billed
            extended.append(replace(span, ended_at=at))
        elif node is None or node.uid != span.uid:
            closed.append(_closed(span, _ended_at_latest(span, node, observation)))
        elif node.usd_per_hour != span.usd_per_hour:
            closed.append(replace(span, ended_at=at, is_open=False))
            repriced.add(name)
        else:
            extended.append(replace(span, ended_at=at, price_source=node.price_source))
    # then process the READY nodes without an open span or with a span closed above
    without_span = ready.keys() - (spans.keys() - {span.name for span in closed})
    for name in sorted(without_span):
        at, gone = observation.seen_at(name), gone_at.get(name, float("-inf"))
        watched_s = float("inf") if observation.is_ahead(gone) else at - gone
        if watched_s > 0:
            node = ready[name]
            # a node with a new price was monitored all the time, so there is no unmonitored time before its new span
            unwatched_s = 0.0 if name in repriced else min(node.unwatched_s, watched_s)
            opened.append(_opened(replace(node, unwatched_s=unwatched_s), at))
    return Accrual(extended=tuple(extended), closed=tuple(closed), opened=tuple(opened))


def _ended_at_latest(span: Span, successor: ObservedNode | None, observation: NodesObservation) -> float:
    """Return the earliest time at which the node had certainly stopped being READY.

    This is the time when the node was observed as not READY, unless there is proof of an earlier time: the cloud's
    operations report the end, or a new node already had the same name.
    """
    seen_at = observation.seen_at(span.name)
    began_at = seen_at - successor.unwatched_s if successor else seen_at
    reported_at = observation.ended.get(span.name, seen_at)
    return min([seen_at, *(at for at in (began_at, reported_at) if at >= span.ended_at)])


def _closed(span: Span, at: float) -> Span:
    """Return a closed copy of the span. It ends at the time when the node was last seen READY.

    The time between that end and `at` counts as unmonitored.
    """
    return replace(span, is_open=False, unwatched_after_s=at - span.ended_at)


def _opened(node: ObservedNode, at: float) -> Span:
    return Span(
        name=node.name,
        uid=node.uid,
        accelerator_type=node.accelerator_type,
        spot=node.spot,
        usd_per_hour=node.usd_per_hour,
        began_at=at,
        ended_at=at,
        unwatched_before_s=node.unwatched_s,
        price_source=node.price_source,
        provisioning=node.provisioning,
    )
