"""The auto-stop controller: check nodes against their rules, send the rules to guards, and stop or delete nodes.

The guard on each node also stops the node, even if this computer is off. Budgets are separate: they stop nodes that
cost too much.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from jupyter_tpu.autostop import Activity, KeepRunning, Moment, Reminder, Rules, Verdict, earliest_end, judge
from jupyter_tpu.durations import duration_text
from jupyter_tpu.errors import JournalUnwritable, Text, TpuError, joined
from jupyter_tpu.fleet.agents import Agents
from jupyter_tpu.fleet.autostop.agent_poller import AgentPoller
from jupyter_tpu.fleet.autostop.autostop_settings import AutostopSettings, NodeSettings, reminder_of
from jupyter_tpu.fleet.autostop.history_view import JSON, activity_history_view
from jupyter_tpu.fleet.reconciler.records import FleetChange
from jupyter_tpu.fleet.spend.enforcer import can_stop
from jupyter_tpu.fleet.spend.spend_ledger import SpendLedger
from jupyter_tpu.fleet.termination.checkpoint_hooks import HOOK_S, CheckpointHooks
from jupyter_tpu.fleet.termination.stop_refusals import NO_REQUEST, EndRequest
from jupyter_tpu.fleet.termination.termination_executor import DirectEnds
from jupyter_tpu.journal.audit import Entry
from jupyter_tpu.lifecycle.intents import Intent, Verb
from jupyter_tpu.lifecycle.to_ready import BOOTING
from jupyter_tpu.models import Node
from jupyter_tpu.money.spending import NO_COSTS, NodeCosts, node_cost
from jupyter_tpu.node_end import EndCause

if TYPE_CHECKING:
    from jupyter_tpu.cloud.api import CloudApi
    from jupyter_tpu.fleet.reconciler.fleet import Fleet
    from jupyter_tpu.journal import Journal

log = logging.getLogger(__name__)

# all our choices: how often an agent is polled, and how long the fleet's loop waits for it
_ASK_EVERY_S = 5.0
_ANSWER_S = 3.0
# delay between two requests to stop a node: the cloud needs time, and repeating the request sooner would do nothing
_AGAIN_AFTER_S = 30.0
# how often to record a node's last activity; rarely, because each record is a write to the disk
_RECORD_ACTS_EVERY_S = 600.0
# how often to compute the cost, because reading a long ledger is slow
_COST_EVERY_S = 60.0
_ENDING = ("STOPPING", "DELETING")


def this_moment() -> Moment:
    """Return the time of this computer's wall clock and monotonic clock."""
    return Moment(wall=time.time(), steady=time.monotonic())


@dataclass(frozen=True, slots=True, kw_only=True)
class AutostopStatus:
    """The auto-stop status of one node.

    Attributes:
        rules: the rules that apply; `rules.action` is an action that the cloud allows for this node.
        reminder: the reminder to show if the node has been billed for a day or more without use, or None.
    """

    node: Node
    rules: Rules
    keep: KeepRunning
    activity: Activity
    verdict: Verdict
    guard: Mapping[str, str]
    reminder: Reminder | None = None


class AutostopController:
    """The controller that applies the auto-stop rules; see `Controller`.

    Args:
        agents: access to the agents; if None, activity is unknown, and the idle timeout stops nothing.
        every_s: seconds between two polls of an agent.
        answer_s: seconds for which the fleet's loop waits for an agent's response.
        read_clocks: a function that returns the times of the wall clock and of the monotonic clock.
        login_key: the user's public key line; a node that has it belongs to the user even if the journal was lost.
    """

    def __init__(
        self,
        cloud: CloudApi,
        journal: Journal,
        agents: Agents | None = None,
        *,
        every_s: float = _ASK_EVERY_S,
        answer_s: float = _ANSWER_S,
        read_clocks: Callable[[], Moment] = this_moment,
        login_key: str = "",
    ) -> None:
        self._cloud = cloud
        self._direct = DirectEnds(cloud, journal)
        self._owner = journal.owner
        self._settings = AutostopSettings(journal, cloud.settings, login_key)
        self.checkpoint_hooks = CheckpointHooks(agents, journal, cloud.settings) if agents else None
        self._poller = AgentPoller(self.checkpoint_hooks, every_s=every_s, answer_s=answer_s)
        self._cloud_clock = cloud.clock
        self._clocks = read_clocks
        self._ledger = SpendLedger(journal, cloud.settings)
        self._costs: NodeCosts = NO_COSTS
        self._cost_again_at = -math.inf
        # the times of both clocks when a stop time was first seen, see `_earliest`
        self._first_seen: dict[tuple[object, ...], Moment] = {}
        self._asked: dict[tuple[str, str], EndRequest] = {}
        self._warned: set[tuple[str, str]] = set()
        self._verdicts: dict[str, str] = {}

    async def reconcile(self, fleet: Fleet, now: float) -> None:
        """Check all nodes and stop or delete those whose rules require it; a failure with one node affects no other."""
        for status in await self.evaluate(fleet.snapshot().nodes):
            self._notify_of_activity(fleet, status)
            if await self._is_ready(status) and _is_due(status):
                try:
                    await self._end(fleet, status, now)
                except TpuError as error:
                    log.warning("Auto-stop could not end %s: %s", status.node.name, error)

    def _notify_of_activity(self, fleet: Fleet, status: AutostopStatus) -> None:
        """Let front ends show at once that a node became busy or idle."""
        name, verdict = str(status.node.name), status.verdict.verdict
        if self._verdicts.get(name, verdict) != verdict:
            fleet.notify(FleetChange(kind="activity", node_name=name, state=status.node.state))
        self._verdicts[name] = verdict

    async def evaluate(self, nodes: Iterable[Node]) -> list[AutostopStatus]:
        """Return the current status of each of these nodes.

        Raises:
            JournalUnwritable: the journal can't be read. If only one node's entry is damaged, that node's status says
                so instead.
        """
        nodes = tuple(nodes)
        # read the rules first: the poll sends rules that are newer than the agents'
        settings = await self._read(nodes)
        settings = {
            str(node.name): self._by_local_clock(self._with_possible_action(node, settings[str(node.name)]))
            for node in nodes
        }
        self._log_damage(settings)
        await self._poller.poll(nodes, settings, self._clocks())
        await asyncio.to_thread(self._record_acts, nodes, settings)
        statuses = [self._status(node, settings[str(node.name)]) for node in nodes]
        return await self._with_costs(statuses) if any(status.reminder for status in statuses) else statuses

    async def _with_costs(self, statuses: list[AutostopStatus]) -> list[AutostopStatus]:
        """Add the cost of the node to each reminder; read the ledger at most once a minute."""
        now = self._clocks()
        if now.steady >= self._cost_again_at:
            self._cost_again_at = now.steady + _COST_EVERY_S
            self._costs = await asyncio.to_thread(self._ledger.node_costs, self._cloud_clock.now())
        return [
            replace(status, reminder=replace(status.reminder, usd=node_cost(self._costs, status.node).usd))
            if status.reminder
            else status
            for status in statuses
        ]

    def _record_acts(self, nodes: Iterable[Node], settings: Mapping[str, NodeSettings]) -> None:
        """Store when each node was last used, for processes without a link to it. Never raises."""
        for node in nodes:
            acted_at = self._poller.last_human_at(node)
            if acted_at is not None and acted_at - (settings[str(node.name)].acted_at or 0.0) >= _RECORD_ACTS_EVERY_S:
                with suppress(JournalUnwritable):
                    self._settings.put_last_use(node, acted_at)

    def _log_damage(self, settings: Mapping[str, NodeSettings]) -> None:
        """Log each damaged node setting once."""
        damaged = {(name, each.damage) for name, each in settings.items() if each.damage}
        for name, damage in sorted(damaged - self._warned):
            log.warning("%s: %s", name, damage)
        self._warned |= damaged

    async def set_rules(self, node: Node, changes: Mapping[str, Any]) -> AutostopStatus:
        """Change only the rules in `changes`; return the new status.

        Raises:
            BadInput: a rule is invalid; nothing has changed.
            JournalUnwritable: the rules could not be written; nothing has changed.
        """
        settings = (await self._read((node,)))[str(node.name)]
        rules = replace(self._poller.rules(node, settings), **changes)
        await asyncio.to_thread(self._settings.put_rules, node, rules, **self._dated(node, settings))
        return await self._after_change(node)

    async def extend(self, node: Node, keep: KeepRunning) -> AutostopStatus:
        """Suspend the idle timeout and extend the session, or cancel an extension; return the new status.

        Raises the same errors as `set_rules`.
        """
        settings = (await self._read((node,)))[str(node.name)]
        await asyncio.to_thread(self._settings.put_keep, node, keep, **self._dated(node, settings))
        return await self._after_change(node)

    def _dated(self, node: Node, settings: NodeSettings) -> dict[str, float]:
        """Return the time and the revision of a setting that the user makes now."""
        now = self._clocks().wall
        revision = self._poller.next_revision(node, settings, now)
        return {"now": now, "revision": revision, "clock_wrong_s": self._cloud_clock.wrong_s}

    async def history(self, node: Node) -> JSON:
        """Return the guard's history for the last hour, if a link to the node is open; see `activity_history_view`.

        Raises:
            JournalUnwritable: the rules can't be read.
        """
        settings = (await self._read((node,)))[str(node.name)]
        answer = await self._poller.history(node)
        idle_after_s = self._poller.rules(node, settings).idle_after_s
        return activity_history_view(answer, idle_after_s=idle_after_s, now=self._clocks().wall)

    async def _after_change(self, node: Node) -> AutostopStatus:
        self._poller.poll_soon(node)
        return (await self.evaluate((node,)))[0]

    async def _read(self, nodes: Iterable[Node]) -> dict[str, NodeSettings]:
        return await asyncio.to_thread(self._settings.read, nodes, clock_wrong_s=self._cloud_clock.wrong_s)

    def _with_possible_action(self, node: Node, settings: NodeSettings) -> NodeSettings:
        """Replace the action “stop” with “delete” if the cloud can't stop the node and the node is not yet STOPPED."""
        return (
            settings
            if can_stop(node) or node.state == "STOPPED"
            else replace(settings, rules=replace(settings.rules, action="delete"))
        )

    def _by_local_clock(self, settings: NodeSettings) -> NodeSettings:
        """Convert the time from the ledger to this computer's clock, on which all other times are based."""
        since = settings.ready_since
        return settings if since is None else replace(settings, ready_since=self._cloud_clock.to_local(since))

    def _status(self, node: Node, settings: NodeSettings) -> AutostopStatus:
        now = self._clocks()
        rules, keep = self._poller.rules(node, settings), self._poller.keep(node, settings)
        activity = self._poller.activity(node, settings, now)
        # both stop times are fixed when they are first seen, so that a change of the clock doesn't move them
        if rules.deadline_at is not None:
            rules = replace(rules, deadline_at=self._earliest(node, "deadline", rules.deadline_at, now))
        if keep.until is not None:
            keep = replace(keep, until=self._earliest(node, "keep", keep.until, now))
        ready_since = self._ready_since(node, settings, now)
        # use the same pure function as the node
        verdict = judge(rules, activity, keep, ready_since, now.wall)
        if settings.damage:
            verdict = replace(verdict, reason=f"{settings.damage}; {verdict.reason}")
        return AutostopStatus(
            node=node,
            rules=rules,
            keep=keep,
            activity=activity,
            verdict=verdict,
            guard=self._poller.guard(node),
            reminder=reminder_of(settings, ready_since, self._poller.last_human_at(node), now.wall),
        )

    def _earliest(self, node: Node, what: str, end_at: float, now: Moment) -> float:
        # round the time to a minute, because an agent's response differs a little each time
        first = self._first_seen.setdefault((str(node.name), node.uid, what, round(end_at / 60)), now)
        # a local clock that is ahead of the cloud's must not stop a node days early
        ahead_s = max(0.0, self._cloud_clock.wrong_s)
        return earliest_end(end_at, first, replace(now, wall=now.wall - ahead_s)) + ahead_s

    def _ready_since(self, node: Node, settings: NodeSettings, now: Moment) -> float | None:
        """Return when the node became READY. If the clock is set back, the node's age does not decrease."""
        if settings.ready_since is None:
            return None
        # round the time to a minute, because the offset of our clock becomes more exact with each response from the
        # cloud
        first = self._first_seen.setdefault((str(node.name), node.uid, "ready", round(settings.ready_since / 60)), now)
        counted_s = (first.wall - settings.ready_since) + first.age_s(now)
        return now.wall - max(now.wall - settings.ready_since, counted_s)

    # -- stopping and deleting

    async def _is_ready(self, status: AutostopStatus) -> bool:
        """Return whether the checkpoint hooks allow a stop now. Start the hooks when a stop is near.

        Hooks start `HOOK_S` seconds before a session limit or a deadline. For an idle timeout, they start when it is
        reached.
        """
        left_s = math.inf if status.verdict.ends_at is None else status.verdict.ends_at - self._clocks().wall
        is_near = left_s <= (0.0 if status.verdict.ends_why == "idle" else HOOK_S)
        if self.checkpoint_hooks is None or not is_near or not status.node.is_billed:
            return True
        # hooks may postpone any stop except one by deadline
        deadline_at = status.rules.deadline_at
        ends_in_s = math.inf if deadline_at is None else deadline_at - self._clocks().wall
        return await self.checkpoint_hooks.is_ready(status.node, why_text(status), ends_in_s=ends_in_s)

    async def _end(self, fleet: Fleet, status: AutostopStatus, now: float) -> None:
        node, key = status.node, (str(status.node.name), status.node.uid)
        open_intents = [each for each in fleet.snapshot().intents if each.node_name == node.name and not each.settled]
        # another intent is changing the node: check again when it has finished
        if any(not _can_overrule(status.rules.action, each) for each in open_intents):
            return
        asked, steady = self._asked.get(key, NO_REQUEST), self._clocks().steady
        if asked.times and steady - asked.at < _AGAIN_AFTER_S:
            return
        # repeated refusals turn a stop into a deletion
        asked = await self._with_outcome(fleet, asked)
        why_delete = asked.why_delete(steady)
        verb: Verb = "delete" if why_delete or status.rules.action == "delete" else "stop"
        reason = joined(filter(None, [why_text(status), why_delete]), " ")
        try:
            end = fleet.delete if verb == "delete" else fleet.stop
            intent = await end(node.name, because=_cause(status))
        except JournalUnwritable:  # a full disk must not keep a node billed
            log.warning("Auto-stop ends %s: %s", node.name, reason)
            self._asked[key] = await self._direct.request(
                verb, node.name, asked, steady, because=_cause(status), reason=reason
            )
            return
        self._asked[key] = replace(asked, intent_id=intent.intent_id, at=steady, times=asked.times + 1)
        log.warning("Auto-stop ends %s: %s", node.name, reason)
        # if another process started this intent, that process writes the audit entry
        if intent.owner == self._owner:
            entry = Entry(at=now, action=verb, subject=str(node.name), reason=reason)
            await asyncio.to_thread(self._settings.record, entry)

    @staticmethod
    async def _with_outcome(fleet: Fleet, asked: EndRequest) -> EndRequest:
        """Add the outcome of the last stop or delete request to the record of these requests."""
        intent = await fleet.intent(asked.intent_id) if asked.intent_id else None
        if intent is None or intent.verb == "delete":
            return asked
        if intent.error is None:
            return replace(asked, refused_since=None)
        return asked.refused(intent.verb, intent.error)


def _can_overrule(action: str, intent: Intent) -> bool:
    """Return whether auto-stop may stop or delete the node before this open intent has finished."""
    is_rising = intent.verb in ("create", "start")
    return is_rising and (action == "delete" or intent.phase == BOOTING)


def why_text(status: AutostopStatus) -> str:
    """Return why a node will be stopped, for display."""
    rules = status.rules
    if status.verdict.ends_why == "idle" and status.verdict.idle_limit_s is not None:
        return Text(
            "It was idle for longer than {duration}: {reason}.",
            duration=duration_text(status.verdict.idle_limit_s),
            reason=status.verdict.reason,
        )
    if status.verdict.ends_why == "session" and rules.session_s is not None:
        return Text("It reached the maximum session length of {duration}.", duration=duration_text(rules.session_s))
    return Text("Its deadline has passed.")


def _cause(status: AutostopStatus) -> EndCause:
    """Return why a node will be stopped, for the users of its kernels."""
    rules, verdict = status.rules, status.verdict
    if verdict.ends_why == "idle" and verdict.idle_limit_s is not None:
        return EndCause(cause="idle", detail=duration_text(verdict.idle_limit_s))
    if verdict.ends_why == "session" and rules.session_s is not None:
        return EndCause(cause="session", detail=duration_text(rules.session_s))
    return EndCause(cause="deadline")


def _is_due(status: AutostopStatus) -> bool:
    """Return whether to stop or delete the node now.

    If only the node's disk is billed, the node is deleted only after its deadline.
    """
    if not status.verdict.is_due or status.node.state in _ENDING:
        return False
    return status.node.is_billed or (status.verdict.ends_why == "deadline" and status.rules.action == "delete")
