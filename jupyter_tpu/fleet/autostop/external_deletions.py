"""Add a line to the audit log for each node that ended without a request from this computer, most often by its guard.

The cloud does not say who ended it. So the line says what is known: when the node was last seen READY, and the rules
that its guard had.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from jupyter_tpu.autostop import Rules
from jupyter_tpu.durations import duration_text
from jupyter_tpu.fleet.autostop.autostop_settings import AutostopSettings, NodeSettings
from jupyter_tpu.journal.audit import Audit, Entry
from jupyter_tpu.journal.ledger import Ledger
from jupyter_tpu.models import INTENT_LABEL, Node
from jupyter_tpu.money.budgets import moment_text
from jupyter_tpu.money.spans import Span

if TYPE_CHECKING:
    from jupyter_tpu.cloud.api import CloudApi
    from jupyter_tpu.fleet.reconciler.fleet import Fleet
    from jupyter_tpu.fleet.reconciler.records import FleetSnapshot
    from jupyter_tpu.journal import Journal

log = logging.getLogger(__name__)

ACTION = "ended"
# spans that ended earlier are not reported: our choice
_LATELY_S = 30 * 86400.0
_COMES_BACK = frozenset({"CREATING", "STARTING", "RESTARTING", "REPAIRING"})
_TAKEN = frozenset({"PREEMPTED", "TERMINATED"})
_ASKED_HERE = frozenset({"stop", "delete", "preempted"})


class ExternalDeletions:
    """See `Controller`. Runs after the `BudgetEnforcer`, which writes to the ledger which nodes are no longer READY."""

    def __init__(self, cloud: CloudApi, journal: Journal, login_key: str = "") -> None:
        settings = cloud.settings
        place = {"endpoint": settings.endpoint, "project": settings.project}
        self._endpoint = settings.endpoint
        self._clock = cloud.clock
        self._journal = journal
        self._ledger = Ledger(journal, **place)
        self._audit = Audit(journal, **place)
        self._settings = AutostopSettings(journal, settings, login_key)
        self._settled: set[tuple[str, str, float]] = set()
        self._seen: tuple[object, ...] = ()

    async def reconcile(self, fleet: Fleet, now: float) -> None:
        """Look for such nodes after the list of nodes has changed; raises `JournalUnwritable`, and tries again at
        the next call.
        """
        snapshot = fleet.snapshot()
        seen = (snapshot.as_of, snapshot.nodes, dict(snapshot.looked_at))
        # the ledger is read only when the list has changed: it may be long
        if snapshot.as_of and seen != self._seen:
            await asyncio.to_thread(self._check, snapshot, now)
            self._seen = seen

    def _check(self, snapshot: FleetSnapshot, now: float) -> None:
        last = {span.name: span for span in self._ledger.readable_spans()}
        for span in last.values():
            key = (str(span.name), span.uid, span.ended_at)
            if span.is_open or key in self._settled or now - span.ended_at > _LATELY_S:
                continue
            node = snapshot.node(span.name)
            # STARTING or similar: the node is coming back, so it has not ended
            if node is None or node.uid != span.uid or not (node.is_billed or node.state in _COMES_BACK):
                self._report(span, node, now)
                self._settled.add(key)

    def _report(self, span: Span, node: Node | None, now: float) -> None:
        settings = self._settings_of(span, node)
        is_none_of_ours = settings.rules.is_off and not settings.is_ours
        if is_none_of_ours or self._was_asked_here(span):
            return
        # by this computer's clock, like the time of the line: the cloud's may differ, and the emulated one runs ahead
        seen_at = _moment(self._clock.to_local(span.ended_at))
        reason = f"{self._how(span, node, settings.rules)} It was last seen READY at {seen_at}."
        detail = {"uid": span.uid, "last_seen_ready_at": span.ended_at}
        # once for all processes of the user
        if self._audit.record_once(Entry(at=now, action=ACTION, subject=str(span.name), reason=reason, detail=detail)):
            log.warning("%s: %s", span.name, reason)

    def _was_asked_here(self, span: Span) -> bool:
        """Whether a process of this user requested the end, and the cloud did not refuse."""
        since = self._clock.to_local(span.began_at)  # intents are dated by this computer's clock
        meant = self._journal.intents_about(span.name, endpoint=self._endpoint, since=since)
        if any(each.verb in _ASKED_HERE and not each.error for each in meant):
            return True
        # then the audit log, for requests without an intent: on a full disk the cloud is asked directly
        done = _ASKED_HERE - {each.verb for each in meant}
        noted = (each for each in self._audit.newest(1000) if each.subject == str(span.name))
        return any(each.action in done and each.error is None and each.at >= since for each in noted)

    def _how(self, span: Span, node: Node | None, rules: Rules) -> str:
        state = node.state if node is not None and node.uid == span.uid else ""
        if state in _TAKEN:
            return f"The cloud has pre-empted the node: it is {state}."
        ended = f"The node {f'is {state}' if state else 'is gone'}, and this computer did not request that."
        cause = "it was pre-empted, or someone else ended it" if span.spot else "someone else ended it"
        if rules.is_off:
            return f"{ended} No auto-stop rule applied to it: {cause}."
        return f"{ended} Its guard was due to {rules.action} it {_when(rules, span)}; otherwise {cause}."

    def _settings_of(self, span: Span, node: Node | None) -> NodeSettings:
        """Return the settings that the guard had; those of a deleted node come from the journal."""
        made_by = next(
            (
                each.intent_id
                for each in self._journal.intents_about(span.name, endpoint=self._endpoint, since=0.0)
                if each.verb == "create"
            ),
            "",
        )
        # a stand-in with what the ledger knows of the node
        gone = Node(
            name=span.name,
            state="",
            uid=span.uid,
            accelerator_type=span.accelerator_type,
            spot=span.spot,
            labels={INTENT_LABEL: made_by} if made_by else {},
        )
        known = replace(node, state="") if node is not None and node.uid == span.uid else gone
        return self._settings.read((known,))[str(span.name)]


def _when(rules: Rules, span: Span) -> str:
    """Return when the rules end a node, such as ``at 2026-11-22 12:00 (session) or after 1 h 0 min without use``."""
    unattended_s = rules.unattended_after_s if rules.idle_after_s is not None else None
    ends = [
        *([f"at {_moment(rules.deadline_at)} (deadline)"] if rules.deadline_at is not None else []),
        *([f"at {_moment(span.began_at + rules.session_s)} (session)"] if rules.session_s is not None else []),
        *([f"after {duration_text(rules.idle_after_s)} without use (idle)"] if rules.idle_after_s is not None else []),
        *([f"after {duration_text(unattended_s)} unattended (idle)"] if unattended_s is not None else []),
    ]
    return " or ".join(ends)


def _moment(at: float) -> str:
    return moment_text(at, time.localtime(at).tm_gmtoff)
