"""Add an audit log entry for each node that another program, usually the node's guard, stopped or deleted.

The cloud does not show who stopped the node, so the entry contains only the time when the node was last seen READY, and
its guard's rules.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

from jupyter_tpu.autostop import Rules
from jupyter_tpu.durations import duration_text
from jupyter_tpu.errors import ShownTime, Text, TpuError, joined
from jupyter_tpu.fleet.autostop.autostop_settings import AutostopSettings, NodeSettings
from jupyter_tpu.fleet.spend.spend_ledger import utc_offset_s
from jupyter_tpu.journal.audit import Audit, Entry
from jupyter_tpu.journal.ledger import Ledger
from jupyter_tpu.models import INTENT_LABEL, Node, NodeName
from jupyter_tpu.money.budgets import moment_text
from jupyter_tpu.money.spans import Span
from jupyter_tpu.provisioning import can_be_preempted

if TYPE_CHECKING:
    from jupyter_tpu.cloud.api import CloudApi
    from jupyter_tpu.fleet.reconciler.fleet import Fleet
    from jupyter_tpu.fleet.reconciler.records import FleetSnapshot
    from jupyter_tpu.journal import Journal

log = logging.getLogger(__name__)

ACTION = "ended"
# our choice: report only spans that ended within this time
_LATELY_S = 30 * 86400.0
_COMES_BACK = frozenset({"CREATING", "STARTING", "RESTARTING", "REPAIRING"})
_TAKEN = frozenset({"PREEMPTED", "TERMINATED"})
_DUE = {
    "stop": Text("Its guard was due to stop it {due} and may have done so; otherwise, {cause}."),
    "delete": Text("Its guard was due to delete it {due} and may have done so; otherwise, {cause}."),
}
_ASKED_HERE = frozenset({"stop", "delete", "unqueue", "preempted"})


@dataclass(frozen=True, slots=True)
class _End:
    """A node that was stopped or deleted without a request from this computer.

    Attributes:
        node: the node as the cloud still shows it; None if it was deleted.
        rules: the auto-stop rules of its guard.
    """

    span: Span
    node: Node | None
    rules: Rules

    @property
    def state(self) -> str:
        return self.node.state if self.node is not None else ""

    @property
    def is_left(self) -> bool:
        return self.state not in ("", "DELETING")


class ExternalDeletions:
    """The controller that logs when a node is stopped or deleted without a request from this computer.

    It runs after the `BudgetEnforcer`, which records in the ledger when nodes are no longer READY.
    """

    def __init__(self, cloud: CloudApi, journal: Journal, login_key: str = "") -> None:
        settings = cloud.settings
        place = {"endpoint": settings.endpoint, "project": settings.project}
        self._endpoint = settings.endpoint
        self._cloud = cloud
        self._clock = cloud.clock
        self._journal = journal
        self._ledger = Ledger(journal, **place)
        self._audit = Audit(journal, **place)
        self._settings = AutostopSettings(journal, settings, login_key)
        self._settled: set[tuple[str, str, float]] = set()
        self._seen: tuple[object, ...] = ()

    async def reconcile(self, fleet: Fleet, now: float) -> None:
        """Look for stopped nodes if the list of nodes has changed. After JournalUnwritable, the next call retries."""
        snapshot = fleet.snapshot()
        seen = (snapshot.as_of, snapshot.nodes, dict(snapshot.node_read_at))
        # read the ledger only when the list has changed, because the ledger may be long
        if snapshot.as_of and seen != self._seen:
            ends = await asyncio.to_thread(self._unreported, snapshot, now)
            suspended = await self._suspended(ends)
            for end in ends:
                await asyncio.to_thread(self._report, end, suspended, now)
            self._seen = seen

    def _unreported(self, snapshot: FleetSnapshot, now: float) -> list[_End]:
        last = {span.name: span for span in self._ledger.readable_spans()}
        found: list[_End] = []
        for span in last.values():
            if span.is_open or _key(span) in self._settled or now - span.ended_at > _LATELY_S:
                continue
            listed = snapshot.node(span.name)
            node = listed if listed is not None and listed.uid == span.uid else None
            # STARTING or similar: the node will run again, so it wasn't deleted
            if node is not None and (node.is_billed or node.state in _COMES_BACK):
                continue
            settings = self._settings_of(span, node)
            is_none_of_ours = settings.rules.is_off and not settings.is_ours
            if is_none_of_ours or self._was_asked_here(span):
                self._settled.add(_key(span))
            else:
                found.append(_End(span, node, settings.rules))
        return found

    async def _suspended(self, ends: Sequence[_End]) -> dict[NodeName, str]:
        """Return the pre-empted nodes of queued resources, with the states of these resources."""
        zones = {end.span.name.zone for end in ends if can_be_preempted(end.span.terms) and not end.is_left}
        found: dict[NodeName, str] = {}
        for zone in sorted(zones):
            # if this fails, report the deletion without its reason
            with contextlib.suppress(TpuError):
                listed = (await self._cloud.list_queued_resources(zone)).items
                found |= {node: each.state for each in listed if each.was_preempted for node in each.nodes}
        return found

    def _report(self, end: _End, suspended: Mapping[NodeName, str], now: float) -> None:
        span = end.span
        # use this computer's clock, like the entry's time: the cloud's clock may differ, and the emulated one runs
        # ahead
        seen_at = _moment(self._clock.to_local(span.ended_at))
        reason = Text("{how} It was last seen READY at {time}.", how=self._how(end, suspended, now), time=seen_at)
        detail = {"uid": span.uid, "last_seen_ready_at": span.ended_at}
        # record the deletion only once, even if several processes of the user notice it
        if self._audit.record_once(Entry(at=now, action=ACTION, subject=str(span.name), reason=reason, detail=detail)):
            log.warning("%s: %s", span.name, reason)
        self._settled.add(_key(span))

    def _was_asked_here(self, span: Span) -> bool:
        """Return whether a process of this user requested the stop or deletion, and the cloud accepted the request."""
        since = self._clock.to_local(span.began_at)  # intents use this computer's clock
        meant = self._journal.intents_about(span.name, endpoint=self._endpoint, since=since)
        if any(each.verb in _ASKED_HERE and not each.error for each in meant):
            return True
        # then check the audit log for requests without an intent: those for queued resources, and all requests on a
        # full disk
        done = _ASKED_HERE - {each.verb for each in meant}
        noted = (each for each in self._audit.newest(1000) if str(span.name) in each.subjects)
        return any(each.action in done and each.error is None and each.at >= since for each in noted)

    def _how(self, end: _End, suspended: Mapping[NodeName, str], now: float) -> str:
        span, state, rules = end.span, end.state, end.rules
        if state in _TAKEN:
            return Text("The cloud has pre-empted the node: it is {state}.", state=state)
        if span.name in suspended and not end.is_left:
            return Text(
                "The cloud has pre-empted the node: its queued resource is {state}.", state=suspended[span.name]
            )
        ended = (
            Text("The node is {state}, and this computer did not request that.", state=state)
            if state
            else Text("The node no longer exists, and this computer did not request that.")
        )
        cause = (
            Text("it was pre-empted, or someone else stopped or deleted it")
            if span.spot
            else Text("someone else stopped or deleted it")
        )
        due = [] if rules.is_off else self._due(span, rules, now)
        if rules.is_off:
            why = Text("It had no auto-stop rule, so {cause}.", cause=cause)
        elif not due:
            why = Text("None of its auto-stop rules was due yet, so {cause}.", cause=cause)
        else:
            why = _DUE[rules.action].with_arguments(due=reduce(_or, due), cause=cause)
        return joined([ended, why], " ")

    def _due(self, span: Span, rules: Rules, now: float) -> list[Text]:
        """Return when the rules stop a node, such as ``at 2026-11-22 12:00 (deadline)`` or ``after 1 h without use``.

        Rules that can't have stopped the node yet are omitted.
        """
        # the node's guard may have counted time before the first observation
        began_at = self._clock.to_local(span.began_at - span.unwatched_before_s)
        ends: list[tuple[float, Text]] = []
        if rules.deadline_at is not None:
            ends.append((rules.deadline_at, Text("at {time} (deadline)", time=_moment(rules.deadline_at))))
        if rules.session_s is not None:
            ends_at = began_at + rules.session_s
            ends.append((ends_at, Text("at {time} (maximum session length)", time=_moment(ends_at))))
        if (idle_s := rules.idle_after_s) is not None:
            text = Text("after {duration} without use (idle timeout)", duration=duration_text(idle_s))
            ends.append((began_at + idle_s, text))
            if (unattended_s := rules.unattended_after_s) is not None:
                text = Text("after {duration} unattended (idle timeout)", duration=duration_text(unattended_s))
                ends.append((began_at + unattended_s, text))
        return [text for at, text in ends if at <= now]

    def _settings_of(self, span: Span, node: Node | None) -> NodeSettings:
        """Return the guard's settings; for a deleted node, return the settings in the journal."""
        made_by = next(
            (
                each.intent_id
                for each in self._journal.intents_about(span.name, endpoint=self._endpoint, since=0.0)
                if each.verb == "create"
            ),
            "",
        )
        # the node is gone, so create a placeholder with its data from the ledger
        gone = Node(
            name=span.name,
            state="",
            uid=span.uid,
            accelerator_type=span.accelerator_type,
            spot=span.spot,
            labels={INTENT_LABEL: made_by} if made_by else {},
        )
        known = replace(node, state="") if node is not None and node.uid == span.uid else gone
        return self._settings.read((known,), clock_wrong_s=self._clock.wrong_s)[str(span.name)]


def _key(span: Span) -> tuple[str, str, float]:
    return (str(span.name), span.uid, span.ended_at)


def _or(first: Text, second: Text) -> Text:
    return Text("{first} or {second}", first=first, second=second)


def _moment(at: float) -> ShownTime:
    return moment_text(at, utc_offset_s(at))
