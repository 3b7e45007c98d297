"""The planned or ongoing maintenance of a node as a value, and its form in the API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from jupyter_tpu.emulator.resources.behaviours import assumed, documented
from jupyter_tpu.emulator.resources.protos import NodePb

SCHEDULED, UNSCHEDULED = "SCHEDULED", "UNSCHEDULED"
NOTICE_S = 7 * 86_400.0  # the documented notice (behaviour `upcoming-maintenance`)
WINDOW_S = 4 * 3600.0  # window and duration are assumed (behaviour `maintenance-window`)
DURATION_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceEvent:
    """One maintenance event of one node.

    Attributes:
        node: the node's full name; `uid` identifies the node, because another node may get the same name.
        kind: ``SCHEDULED`` or ``UNSCHEDULED``.
        starts, ends: when the maintenance itself starts and ends, in virtual time.
        worker_id: id of the worker whose host is maintained.
        is_ongoing: whether the maintenance has started.
        is_down: whether the maintenance has started and the node's workers are down.
        operation: name of the operation that finishes with the maintenance; empty if there is none.
    """

    node: str
    uid: str
    kind: str
    starts: float
    ends: float
    worker_id: int = 0
    is_ongoing: bool = False
    is_down: bool = False
    operation: str = ""

    @property
    def can_reschedule(self) -> bool:
        """Whether the user may start the maintenance early."""
        return self.kind == SCHEDULED and not self.is_ongoing

    def to_json(self) -> dict[str, Any]:
        """Return the event as it is stored."""
        return asdict(self)


def planned(node: NodePb, kind: str, starts: float) -> MaintenanceEvent:
    """Return a planned maintenance event of a node; `starts` is the virtual time of its start."""
    return MaintenanceEvent(node=node.name, uid=str(node.id), kind=kind, starts=starts, ends=starts + DURATION_S)


def event_from_json(data: Mapping[str, Any]) -> MaintenanceEvent:
    """Rebuild an event from `MaintenanceEvent.to_json`."""
    return MaintenanceEvent(**data)


@documented(
    "upcoming-maintenance",
    "A node shows its next maintenance: its type, the start and end of its window, the latest time to which it "
    "can be rescheduled, its state (PENDING or ONGOING), and whether the user can start it (only pending "
    "scheduled maintenance). Scheduled maintenance is announced seven days in advance.",
    source="cloud.google.com/tpu/docs/view-maintenance-notifications; v2 discovery document, UpcomingMaintenance",
)
@assumed(
    "maintenance-window",
    "A maintenance window lasts 4 h and cannot be postponed. The maintenance itself takes the first 5 min of "
    "the window.",
)
def shown(event: MaintenanceEvent) -> dict[str, Any]:
    """Return the node's field ``upcomingMaintenance``, as in REST."""
    return {
        "type": event.kind,
        "canReschedule": event.can_reschedule,
        "windowStartTime": rfc3339(event.starts),
        "windowEndTime": rfc3339(event.starts + WINDOW_S),
        "latestWindowStartTime": rfc3339(event.starts),
        "maintenanceStatus": "ONGOING" if event.is_ongoing else "PENDING",
    }


def rfc3339(moment: float) -> str:
    """Format a time such as ``2026-11-21T22:00:00Z``."""
    return datetime.fromtimestamp(int(moment), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
