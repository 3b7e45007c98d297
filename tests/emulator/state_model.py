"""What the state machine knows of the cloud without looking into it: legal states, what counts, what is billed."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

GONE = "gone"

CALL_EDGES = {
    (GONE, "CREATING"),
    ("CREATING", "DELETING"),
    ("CREATING", GONE),
    ("READY", "STOPPING"),
    ("READY", "DELETING"),
    ("READY", "PREEMPTED"),
    ("READY", "RESTARTING"),
    ("STOPPING", "READY"),
    ("STOPPING", "DELETING"),
    ("STOPPED", "STARTING"),
    ("STOPPED", "DELETING"),
    ("STARTING", "STOPPED"),
    ("STARTING", "DELETING"),
    ("PREEMPTED", "DELETING"),
    ("RESTARTING", "DELETING"),
    ("DELETING", "READY"),
    ("DELETING", "STOPPED"),
    ("DELETING", "PREEMPTED"),
}
"""What one call may do to a node, a cancel included."""

TIME_EDGES = {
    (GONE, "CREATING"),  # for a queued resource
    ("CREATING", "READY"),
    ("CREATING", "DELETING"),  # a queued resource whose other node failed
    ("CREATING", GONE),
    ("READY", "DELETING"),
    ("STOPPING", "STOPPED"),
    ("STOPPING", "READY"),
    ("STARTING", "READY"),
    ("STARTING", "STOPPED"),
    ("RESTARTING", "READY"),
    ("PREEMPTED", "DELETING"),
    ("DELETING", GONE),
    ("DELETING", "READY"),
    ("DELETING", "STOPPED"),
    ("DELETING", "PREEMPTED"),
}
"""What may become of a node by itself, faults included; several of these in one jump."""

QUEUED_EDGES = {
    (GONE, "CREATING"),
    ("CREATING", "ACCEPTED"),
    ("CREATING", GONE),
    ("CREATING", "FAILED"),
    ("ACCEPTED", "WAITING_FOR_RESOURCES"),
    ("WAITING_FOR_RESOURCES", "PROVISIONING"),
    ("WAITING_FOR_RESOURCES", "FAILED"),
    ("PROVISIONING", "ACTIVE"),
    ("PROVISIONING", "SUSPENDING"),
    ("PROVISIONING", "FAILED"),
    ("ACTIVE", "SUSPENDING"),
    ("SUSPENDING", "ACTIVE"),
    ("SUSPENDING", "SUSPENDED"),
    ("SUSPENDING", "FAILED"),
    *((state, "DELETING") for state in ("CREATING", "ACCEPTED", "WAITING_FOR_RESOURCES", "PROVISIONING", "ACTIVE")),
    *((state, "DELETING") for state in ("SUSPENDING", "SUSPENDED", "FAILED")),
    *(("DELETING", state) for state in ("ACCEPTED", "WAITING_FOR_RESOURCES", "FAILED", "SUSPENDED", "ACTIVE")),
    ("DELETING", GONE),
}

ON_THE_WAY = {"CREATING", "STOPPING", "STARTING", "RESTARTING", "DELETING"}
DURATION_S = {"create": 90.0, "start": 60.0}
FREE_S = 60.0


def closure(edges: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """All pairs of states that some steps lead from one to the other."""
    reached = set(edges)
    while more := {(a, d) for a, b in reached for c, d in edges if b == c} - reached:
        reached |= more
    return reached


IN_TIME = closure(TIME_EDGES)
QUEUED_IN_TIME = closure(QUEUED_EDGES)


def seconds_of(text: str) -> float:
    """``2026-11-20T10:11:12.123456789Z`` as virtual seconds since the epoch."""
    whole, _, rest = text.removesuffix("Z").partition(".")
    moment = datetime.fromisoformat(whole).replace(tzinfo=UTC).timestamp()
    return moment + float(f"0.{rest or 0}")


@dataclass
class View:
    """What the API shows at one moment."""

    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    queued: dict[str, dict[str, Any]] = field(default_factory=dict)
    operations: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def states(self) -> dict[str, str]:
        return {name: node["state"] for name, node in self.nodes.items()}

    @property
    def queued_states(self) -> dict[str, str]:
        return {name: queued["state"]["state"] for name, queued in self.queued.items()}

    @property
    def in_flight(self) -> list[str]:
        """Operations that are not done, in an order that is the same whenever the same was done."""
        running = [operation for operation in self.operations.values() if not operation["done"]]
        return [each["name"] for each in sorted(running, key=_order)]


def _order(operation: dict[str, Any]) -> tuple[str, ...]:
    return tuple(operation["metadata"][field] for field in ("createTime", "target", "verb"))


@dataclass
class Stretch:
    """READY from `began` to `ended`; `is_free` when it was cut short by a preemption."""

    began: float
    ended: float | None = None
    is_free: bool = False


class Stopwatch:
    """READY seconds of each node, from the times that its operations tell and the moments of preemptions."""

    def __init__(self) -> None:
        self.stretches: dict[str, list[Stretch]] = {}
        self._noted: set[tuple[str, str]] = set()
        self._ids: dict[str, str] = {}
        self._stopped_by: dict[str, list[str]] = {}
        self._doomed: set[str] = set()

    def is_running(self, uid: str) -> bool:
        return bool(self.stretches.get(uid)) and self.stretches[uid][-1].ended is None

    def look(self, before: View, after: View, stuck: set[str]) -> None:
        """Take in what has happened between two views."""
        self._ids = {name: node["id"] for view in (before, after) for name, node in view.nodes.items()}
        events = [event for operation in after.operations.values() for event in self._events(operation)]
        for moment, _, kind, operation in sorted(events, key=lambda event: event[:2]):
            self._noted.add((operation["name"], kind))
            (self._begun if kind == "created" else self._ended)(operation, moment, before, after)
        for name in stuck & after.operations.keys():
            self._stuck(after.operations[name], after)

    def preempted(self, uid: str, moment: float) -> None:
        if self.is_running(uid):
            stretch = self.stretches[uid][-1]
            stretch.is_free = moment - stretch.began < FREE_S
        self._stop(uid, moment)
        self._doomed.add(uid)

    def billed(self, uid: str, now: float) -> int:
        return sum(math.ceil(round((each.ended or now) - each.began, 4)) for each in self._paid(uid))

    def _paid(self, uid: str) -> list[Stretch]:
        return [each for each in self.stretches.get(uid, []) if not each.is_free]

    def _events(self, operation: dict[str, Any]) -> list[tuple[float, int, str, dict[str, Any]]]:
        times = operation["metadata"]
        found = [(seconds_of(times["createTime"]), 0, "created", operation)]
        if operation["done"]:
            found.append((seconds_of(times["endTime"]), 1, "ended", operation))
        return [event for event in found if (operation["name"], event[2]) not in self._noted]

    def _begun(self, operation: dict[str, Any], moment: float, before: View, after: View) -> None:
        verb, target = operation["metadata"]["verb"], operation["metadata"]["target"]
        uids = self._nodes_of(target, before, after) if verb == "reset" else [self._ids.get(target, "")]
        if verb in ("stop", "delete", "reset"):
            self._stopped_by[operation["name"]] = [uid for uid in uids if self.is_running(uid)]
            for uid in uids:
                self._stop(uid, moment)
        if verb == "delete":
            self._doomed.update(uids)

    def _ended(self, operation: dict[str, Any], moment: float, before: View, after: View) -> None:
        verb, target = operation["metadata"]["verb"], operation["metadata"]["target"]
        uid, is_failed = self._ids.get(target, ""), "error" in operation
        stopped = self._stopped_by.get(operation["name"], [])
        if verb == "delete" and is_failed:
            self._doomed.discard(uid)
        if verb in ("create", "start") and not is_failed:
            self._start(uid, moment)
        if verb == "reset" or (verb in ("stop", "delete") and is_failed):
            for each in stopped:
                self._start(each, moment)

    def _stuck(self, operation: dict[str, Any], after: View) -> None:
        """Its end is never told; but its node shows that it has happened."""
        verb, target = operation["metadata"]["verb"], operation["metadata"]["target"]
        node = after.nodes.get(target, {})
        if verb in DURATION_S and node.get("state") == "READY" and not self.is_running(node["id"]):
            self._start(node["id"], seconds_of(operation["metadata"]["createTime"]) + DURATION_S[verb])

    def _nodes_of(self, queued: str, before: View, after: View) -> list[str]:
        nodes = {**before.nodes, **after.nodes}
        return [node["id"] for node in nodes.values() if node.get("queuedResource") == queued]

    def _start(self, uid: str, moment: float) -> None:
        if uid and uid not in self._doomed and not self.is_running(uid):
            self.stretches.setdefault(uid, []).append(Stretch(moment))

    def _stop(self, uid: str, moment: float) -> None:
        if self.is_running(uid):
            self.stretches[uid][-1].ended = moment


def quota_use(view: View, units: dict[str, int], quotas: dict[tuple[str, bool], str]) -> Counter[tuple[str, str]]:
    """Units in use by (quota id, zone): all nodes, and what queued resources without nodes ask for."""
    used: Counter[tuple[str, str]] = Counter()
    served = {node.get("queuedResource") for node in view.nodes.values()}
    for name, node in view.nodes.items():
        kind, is_spot = node["acceleratorType"], node.get("schedulingConfig", {}).get("spot", False)
        used[quotas[kind, is_spot], name.split("/")[3]] += units[kind]
    for name, queued in view.queued.items():
        for spec in queued["tpu"]["nodeSpec"] if name not in served else []:
            kind, count = spec["node"]["acceleratorType"], spec.get("multisliceParams", {}).get("nodeCount", 1)
            used[quotas[kind, "spot" in queued], name.split("/")[3]] += units[kind] * count
    return used
