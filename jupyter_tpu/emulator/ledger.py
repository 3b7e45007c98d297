"""What the emulated nodes cost: READY seconds × list price, in nano-dollars.

The oracle of every test that something is left behind. Whole numbers only, so sums are exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from jupyter_tpu import accelerators
from jupyter_tpu.emulator.behaviours import assumed, documented
from jupyter_tpu.emulator.protos import NodePb
from jupyter_tpu.emulator.quotas import is_preemptible
from jupyter_tpu.emulator.records import Span
from jupyter_tpu.emulator.store import Store

NANOS = 10**9
SECONDS_PER_HOUR = 3600
FREE_WHEN_PREEMPTED_WITHIN_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """What one node (of one life: a node made again under the same name has another) cost until now."""

    uid: str
    name: str
    accelerator_type: str
    spot: bool
    ready_seconds: int
    nano_usd: int | None
    nanos_per_hour: int | None
    billing: bool

    def to_json(self) -> dict[str, Any]:
        return {
            "uid": self.uid,
            "name": self.name,
            "accelerator_type": self.accelerator_type,
            "spot": self.spot,
            "ready_seconds": self.ready_seconds,
            "nano_usd": self.nano_usd,
            "usd": None if self.nano_usd is None else self.nano_usd / NANOS,
            "usd_per_hour": None if self.nanos_per_hour is None else self.nanos_per_hour / NANOS,
            "billing": self.billing,
        }


class Ledger:
    """Opens a span when a node becomes READY and closes it when it is READY no more."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @documented(
        "billed-while-ready",
        "Charges accrue while a node is READY, by the second.",
        source="cloud.google.com/tpu/pricing",
    )
    def node_ready(self, node: NodePb, now: float) -> None:
        zone = node.name.split("/")[3]
        spot = is_preemptible(node)
        span = Span(
            uid=str(node.id),
            name=node.name,
            accelerator_type=node.accelerator_type,
            zone=zone,
            spot=spot,
            nanos_per_hour=nanos_per_hour(node.accelerator_type, zone, spot),
            started=now,
        )
        self._store.open_span(span)

    def node_not_ready(self, node: NodePb, now: float) -> None:
        """Closes the node's span; harmless when none is open."""
        self._store.close_span(str(node.id), now, False)

    @documented(
        "first-minute-free",
        "A node that is preempted in its first minute is not charged.",
        source="cloud.google.com/tpu/docs/preemptible",
    )
    def node_preempted(self, node: NodePb, now: float) -> None:
        spans = [span for span in self._store.spans() if span.uid == str(node.id) and span.ended is None]
        is_young = all(now - span.started < FREE_WHEN_PREEMPTED_WITHIN_S for span in spans)
        self._store.close_span(str(node.id), now, is_young)

    def bills(self, now: float) -> list[Bill]:
        """One per node that ever was READY, in the order in which they first were."""
        spans: dict[str, list[Span]] = {}
        for span in self._store.spans():
            spans.setdefault(span.uid, []).append(span)
        return [_bill(parts, now) for parts in spans.values()]


def nanos_per_hour(accelerator_type: str, zone: str, spot: bool) -> int | None:
    """List price in nano-dollars per hour; None where the catalogue has none."""
    price = accelerators.list_price(accelerator_type, zone, spot)
    return None if price is None else round(price.usd_per_hour * NANOS)


@assumed("started-second", "A started second is charged as a whole one.")
def billed_seconds(span: Span, now: float) -> int:
    end = now if span.ended is None else span.ended
    return 0 if span.is_waived else math.ceil(max(0.0, end - span.started))


def _bill(spans: list[Span], now: float) -> Bill:
    last = spans[-1]
    seconds = sum(billed_seconds(span, now) for span in spans)
    nanos = last.nanos_per_hour
    return Bill(
        uid=last.uid,
        name=last.name,
        accelerator_type=last.accelerator_type,
        spot=last.spot,
        ready_seconds=seconds,
        nano_usd=None if nanos is None else seconds * nanos // SECONDS_PER_HOUR,
        nanos_per_hour=nanos,
        billing=last.ended is None,
    )


def ledger_json(bills: list[Bill], now: float) -> dict[str, Any]:
    """The whole ledger as the control API shows it."""
    total = sum(bill.nano_usd or 0 for bill in bills)
    return {
        "now": now,
        "total_usd": total / NANOS,
        "total_nano_usd": total,
        "nodes": [bill.to_json() for bill in bills],
    }
