"""Judges the promises on money by the emulated cloud's own books, with what the user has laid down beside them.

A *tick* is the longest time from one look at the nodes to the next one that leads to an act. One tick of every billed
time is what a cap, a session or a deadline may be exceeded by; a fault that keeps auto-stop from looking or acting, or
a time in which no process of the user ran, adds its own length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from money_world import POLLING, World

from jupyter_tpu.emulator.resources.protos import NodePb, State, state_name
from jupyter_tpu.emulator.resources.records import Span
from jupyter_tpu.emulator.store.ledger import NANOS
from jupyter_tpu.lifecycle.search_state import SEARCH_LABEL
from jupyter_tpu.models import INTENT_LABEL

TICK_S = POLLING.idle_s + 2 * POLLING.open_s + 1.0
"""A list as late as it may be, one turn of the loop that it waits for and one that follows, and the calls."""

FAULT_S = 60.0
"""What one fault of a call costs at most: a request is recreated after up to half a minute."""

OPERATION_S = 90.0
"""The longest of the cloud's operations: nothing is deleted by auto-stop before the operation before has ended."""

HOUR_S = 3600.0


@dataclass(kw_only=True)
class Cap:
    """A budget of the whole time; what was used already when it was laid down is nobody's fault."""

    amount: float
    unit: str
    used_before: float

    @property
    def limit(self) -> float:
        return max(self.amount, self.used_before)


@dataclass(kw_only=True)
class End:
    """When a node ends: at a moment, or so long after it became READY; `set_at` is when that was said."""

    set_at: float
    deadline_at: float | None = None
    session_s: float | None = None
    action: str = "stop"

    def of(self, span: Span, kept_until: float) -> float:
        """The moment after which a billed time is too long, but for a tick."""
        ends = [] if self.deadline_at is None else [self.deadline_at]
        if self.session_s is not None:
            ends.append(max(span.started + self.session_s, kept_until))
        return max(min(ends, default=float("inf")), self.set_at, span.started)


@dataclass
class Judge:
    """Remembers what the user has said, and looks at what the cloud has made of it."""

    world: World
    caps: dict[str, Cap] = field(default_factory=dict)
    ends: dict[str, End] = field(default_factory=dict)
    kept: dict[str, float] = field(default_factory=dict)
    deleted: dict[str, str] = field(default_factory=dict)
    excused_s: float = 0.0

    @property
    def grace_s(self) -> float:
        return TICK_S + self.excused_s

    def excuse(self, seconds: float) -> None:
        """For so long auto-stop could not look or act."""
        self.excused_s += seconds

    # -- what the user says

    def cap(self, name: str, amount: float, unit: str) -> None:
        self.caps[name] = Cap(amount=amount, unit=unit, used_before=self.used(unit))

    def end(self, node: NodePb, end: End) -> None:
        self.ends[str(node.id)] = end

    def keep(self, node: NodePb, until: float) -> None:
        self.kept[str(node.id)] = until

    # -- what holds at any moment

    def look(self) -> None:
        """Raises AssertionError."""
        assert self.world.errors.seen == []
        nodes = self.world.nodes()
        self.check_one_of_each(nodes)
        self.check_known(nodes)
        self.check_caps()
        self.check_ends(nodes)

    def check_one_of_each(self, nodes: Iterable[NodePb]) -> None:
        """No wish and no search ever has two nodes."""
        for label in (INTENT_LABEL, SEARCH_LABEL):
            made = [node.labels[label] for node in nodes if label in node.labels]
            assert len(set(made)) == len(made), [(node.name, state_name(node)) for node in nodes]

    def check_known(self, nodes: Iterable[NodePb]) -> None:
        """What exists was written down before."""
        for node in nodes:
            assert self.world.is_known(node.labels[INTENT_LABEL]), node.name

    def check_caps(self) -> None:
        for name, cap in self.caps.items():
            ticks = self.sum(lambda span, unit=cap.unit: self.rate(span, unit) * self.grace_s / HOUR_S)
            used = self.used(cap.unit)
            assert used <= cap.limit + ticks, (name, cap, used, ticks)

    def check_ends(self, nodes: Iterable[NodePb]) -> None:
        now = self.world.now
        for span in self.world.spans():
            end = self.ends.get(span.uid)
            if end is not None:
                last = now if span.ended is None else span.ended
                late_s = last - end.of(span, self.kept.get(span.uid, 0.0))
                assert late_s <= self.grace_s, (span, end, late_s)
        for node in nodes:
            end = self.ends.get(str(node.id))
            if end is not None and end.deadline_at is not None and end.action == "delete":
                late_s = now - max(end.deadline_at, end.set_at) - OPERATION_S
                assert late_s <= self.grace_s or node.state == State.DELETING, (
                    node.name,
                    state_name(node),
                    end,
                    late_s,
                )

    # -- what holds in the end

    def look_at_the_end(self) -> None:
        """Nothing is under way any more, and no fault waits."""
        self.look()
        names = {node.name: state_name(node) for node in self.world.nodes()}
        for name in self.deleted:
            assert name not in names, (name, names)
        billed = {span.name for span in self.world.spans() if span.ended is None}
        assert not billed & self.deleted.keys()
        assert billed <= names.keys()

    # -- the cloud's books

    def used(self, unit: str) -> float:
        """US dollars or hours, of all nodes until now."""
        return self.sum(lambda span: self.rate(span, unit) * self.seconds(span) / HOUR_S)

    def sum(self, of: Callable[[Span], float]) -> float:
        return sum(of(span) for span in self.world.spans())

    def rate(self, span: Span, unit: str) -> float:
        """Per hour."""
        assert span.nanos_per_hour is not None
        return span.nanos_per_hour / NANOS if unit == "usd" else 1.0

    def seconds(self, span: Span) -> float:
        return (self.world.now if span.ended is None else span.ended) - span.started
