"""The cost of the emulated nodes: READY seconds × list price, in nano-dollars.

Tests use this ledger to detect nodes that were left running. All numbers are whole, so that sums are exact. A bill is
the sum of a node's spans (intervals in which it was READY), and the total is the sum of the bills.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jupyter_tpu import accelerators
from jupyter_tpu.emulator.resources.behaviours import assumed, documented
from jupyter_tpu.emulator.resources.protos import NodePb
from jupyter_tpu.emulator.resources.records import Span
from jupyter_tpu.emulator.store.database import Store

NANOS = 10**9  # nanos per dollar, as in Google's prices (google.type.Money)
SECONDS_PER_HOUR = 3600
FREE_WHEN_PREEMPTED_WITHIN_S = 60  # seconds; source: cloud.google.com/tpu/docs/preemptible

ON_DEMAND, SPOT, FLEX_START, RESERVED = "on-demand", "spot", "flex-start", "reserved"
_MODELS = {"SPOT": SPOT, "FLEX_START": FLEX_START, "RESERVATION_BOUND": RESERVED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """The cost of one node until `now`; a node that was recreated under the same name has a separate bill."""

    spans: tuple[Span, ...]
    now: float

    @property
    def nano_usd(self) -> int | None:
        """The cost in nano-dollars, or None if the catalogue has no list price."""
        parts = [charge(span, self.now) for span in self.spans]
        return None if None in parts else sum(part for part in parts if part is not None)

    @property
    def is_billing(self) -> bool:
        """Whether the node is being billed."""
        return self.spans[-1].ended is None

    @property
    def nanos_per_hour(self) -> int | None:
        """The latest price in nano-dollars per hour, or None if it is unknown."""
        return self.spans[-1].nanos_per_hour

    def to_json(self) -> dict[str, Any]:
        """Return the bill as the control API shows it."""
        last = self.spans[-1]
        return {
            "uid": last.uid,
            "name": last.name,
            "zone": last.zone,
            "accelerator_type": last.accelerator_type,
            "spot": last.spot,
            "mode": last.mode,
            # each span is rounded up separately, so that the sum of seconds matches the sum of charges
            "ready_seconds": sum(billed_seconds(span, self.now) for span in self.spans),
            "nano_usd": self.nano_usd,
            "usd": _dollars(self.nano_usd),
            "usd_per_hour": _dollars(last.nanos_per_hour),
            "billing": self.is_billing,
            "spans": [span_json(span, self.now) for span in self.spans],
        }


def span_json(span: Span, now: float) -> dict[str, Any]:
    """Return a span as the control API shows it.

    `started` and `ended` are virtual seconds since the epoch; a span that is `waived` costs nothing.
    """
    return {
        "started": span.started,
        "ended": span.ended,
        "seconds": billed_seconds(span, now),
        "nano_usd": charge(span, now),
        "waived": span.is_waived,
    }


def _dollars(nanos: int | None) -> float | None:
    return None if nanos is None else nanos / NANOS


class Ledger:
    """The spans of all nodes. A span opens when a node becomes READY and closes when the node leaves that state."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @documented(
        "billed-while-ready",
        "Charges accrue per second while a node is READY.",
        source="cloud.google.com/tpu/pricing",
    )
    def node_ready(self, node: NodePb, now: float) -> None:
        """Open a usage interval for the node."""
        zone = node.name.split("/")[3]
        mode = self.mode_of(node)
        span = Span(
            uid=str(node.id),
            name=node.name,
            accelerator_type=node.accelerator_type,
            zone=zone,
            spot=mode == SPOT,
            # store the current price: a later catalogue must not change old bills
            nanos_per_hour=nanos_per_hour(node.accelerator_type, zone, mode),
            started=now,
            mode=mode,
        )
        self._store.open_span(span)

    @assumed(
        "price-by-model",
        "Preemptible nodes cost as much as spot nodes. A flex-start node has its own price if the catalogue lists "
        "one. The price of reserved nodes is unknown.",
    )
    def mode_of(self, node: NodePb) -> str:
        """Return the pricing mode of a node, as requested for the node itself or for its queued resource."""
        if node.scheduling_config.spot or node.scheduling_config.preemptible:
            return SPOT
        if node.scheduling_config.reserved:
            return RESERVED
        models = (_model_in(self._store.extras(name)) for name in (node.name, node.queued_resource) if name)
        return next((_MODELS[model] for model in models if model in _MODELS), ON_DEMAND)

    def node_not_ready(self, node: NodePb, now: float) -> None:
        """Close the node's span; do nothing if no span is open."""
        self._store.close_span(str(node.id), now, False)

    @documented(
        "first-minute-free",
        "A node that is pre-empted in its first minute costs nothing.",
        source="cloud.google.com/tpu/docs/preemptible",
    )
    def node_preempted(self, node: NodePb, now: float) -> None:
        """Close the node's span; it costs nothing if it is shorter than a minute."""
        spans = [span for span in self._store.spans() if span.uid == str(node.id) and span.ended is None]
        is_young = all(now - span.started < FREE_WHEN_PREEMPTED_WITHIN_S for span in spans)
        self._store.close_span(str(node.id), now, is_young)

    def bills(self, now: float) -> list[Bill]:
        """Return one bill for each node that was ever READY, sorted by when the node first became READY."""
        spans: dict[str, list[Span]] = {}
        for span in self._store.spans():
            spans.setdefault(span.uid, []).append(span)
        return [Bill(spans=tuple(parts), now=now) for parts in spans.values()]


def _model_in(extras: Mapping[str, Any]) -> str:
    """Return the provisioning model that a v2alpha1 node or queued resource requests; empty means none."""
    scheduling = extras.get("schedulingConfig") or {}
    return str(extras.get("provisioningModel") or scheduling.get("provisioningModel") or "")


def nanos_per_hour(accelerator_type: str, zone: str, mode: str) -> int | None:
    """Return the list price in nano-dollars per hour, or None if the catalogue has no price."""
    price = accelerators.table_price(accelerator_type, zone, mode)
    return None if price is None else round(price.usd_per_hour * NANOS)


@assumed("started-second", "Each second that has started is charged in full.")
def billed_seconds(span: Span, now: float) -> int:
    """Return the charged seconds of a span, until `now` if it is open."""
    end = now if span.ended is None else span.ended
    # round first: a float of seconds since 1970 is exact to a quarter of a microsecond, so 60.0000002 s means 60 s
    return 0 if span.is_waived else math.ceil(round(max(0.0, end - span.started), 5))


def charge(span: Span, now: float) -> int | None:
    """Return the cost of a span in nano-dollars, rounded down, or None if no list price is known."""
    if span.nanos_per_hour is None:
        return None
    return billed_seconds(span, now) * span.nanos_per_hour // SECONDS_PER_HOUR


def totals_json(bills: list[Bill]) -> dict[str, Any]:
    """Return the cost of all nodes until now, the number of billed nodes and their hourly cost at list price."""
    billing = [bill for bill in bills if bill.is_billing]
    return {
        "total_usd": _total(bills) / NANOS,
        "total_nano_usd": _total(bills),
        "billing": len(billing),
        "usd_per_hour": sum(bill.nanos_per_hour or 0 for bill in billing) / NANOS,
        "unpriced": sum(bill.nano_usd is None for bill in bills),
    }


def _total(bills: list[Bill]) -> int:
    return sum(bill.nano_usd or 0 for bill in bills)


def ledger_json(bills: list[Bill], now: float) -> dict[str, Any]:
    """Return the whole ledger as the control API shows it."""
    return {"now": now, **totals_json(bills), "nodes": [bill.to_json() for bill in bills]}
