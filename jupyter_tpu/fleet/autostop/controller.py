"""The local brake: judges every node by its rules, tells the guards on the nodes, and ends what is due.

It is one of three: a guard on each node does the same without us, and a budget stops what costs too much.
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

from jupyter_tpu.brakes import Activity, Keep, Moment, Reminder, Rules, Verdict, earliest_end, judge, span_text
from jupyter_tpu.errors import JournalUnwritable, TpuError
from jupyter_tpu.fleet.agents import Agents
from jupyter_tpu.fleet.autostop.agent_poller import AgentPoller
from jupyter_tpu.fleet.autostop.history_view import JSON, past_view
from jupyter_tpu.fleet.autostop.settings import AutostopSettings, NodeSettings, reminder_of
from jupyter_tpu.fleet.spend.enforcer import can_stop
from jupyter_tpu.fleet.spend.ledger import SpendLedger
from jupyter_tpu.fleet.termination.checkpoint_hooks import HOOK_S, CheckpointHooks
from jupyter_tpu.fleet.termination.executor import ask_directly
from jupyter_tpu.fleet.termination.stop_refusals import NEVER_ASKED, Asked
from jupyter_tpu.journal.audit import Entry
from jupyter_tpu.lifecycle.intents import Intent
from jupyter_tpu.lifecycle.rising import BOOTING
from jupyter_tpu.models import Node
from jupyter_tpu.money.spending import NO_COSTS, NodeCosts, node_cost

if TYPE_CHECKING:
    from jupyter_tpu.cloud.api import CloudApi
    from jupyter_tpu.fleet.reconciler.fleet import Fleet
    from jupyter_tpu.journal import Journal

log = logging.getLogger(__name__)

_ASK_EVERY_S = 5.0
_ANSWER_S = 3.0
_AGAIN_AFTER_S = 30.0
_NOTE_ACTS_EVERY_S = 600.0
_COST_EVERY_S = 60.0
_ENDING = ("STOPPING", "DELETING")


def this_moment() -> Moment:
    """Both clocks of this machine."""
    return Moment(wall=time.time(), steady=time.monotonic())


@dataclass(frozen=True, slots=True, kw_only=True)
class Brake:
    """How one node stands with its brakes; `rules.action` is what the node allows.

    `reminder` is there where the node was billed for a day or more without a human act.
    """

    node: Node
    rules: Rules
    keep: Keep
    activity: Activity
    verdict: Verdict
    guard: Mapping[str, str]
    reminder: Reminder | None = None


class AutostopController:
    """See `Controller`.

    Args:
        agents: the way to the agents; None: nothing is known of what goes on, so the idle rule ends nothing.
        every_s: how often an agent is asked.
        answer_s: how long it may take; the loop of the fleet waits for it.
        look_at_clocks: gives both clocks.
        login_key: the user's public key line, by which nodes are known that the journal does not know.
    """

    def __init__(
        self,
        cloud: CloudApi,
        journal: Journal,
        agents: Agents | None = None,
        *,
        every_s: float = _ASK_EVERY_S,
        answer_s: float = _ANSWER_S,
        look_at_clocks: Callable[[], Moment] = this_moment,
        login_key: str = "",
    ) -> None:
        self._cloud = cloud
        self._owner = journal.owner
        self._book = AutostopSettings(journal, cloud.settings, login_key)
        self.saving = CheckpointHooks(agents, journal, cloud.settings) if agents else None
        self._hearing = AgentPoller(self.saving, every_s=every_s, answer_s=answer_s)
        self._cloud_clock = cloud.clock
        self._clocks = look_at_clocks
        self._books = SpendLedger(journal, cloud.settings)
        self._costs: NodeCosts = NO_COSTS
        self._cost_again_at = -math.inf
        self._first_seen: dict[tuple[object, ...], Moment] = {}
        self._asked: dict[tuple[str, str], Asked] = {}
        self._warned: set[tuple[str, str]] = set()

    async def reconcile(self, fleet: Fleet, now: float) -> None:
        """Judge all nodes, and begin to end those that are due; the fault of one is not the others'."""
        for brake in await self.look(fleet.snapshot().nodes):
            if await self._is_ready(brake) and _is_due(brake):
                try:
                    await self._end(fleet, brake, now)
                except TpuError as error:
                    log.warning("%s could not be ended by its rules: %s", brake.node.name, error)

    async def look(self, nodes: Iterable[Node]) -> list[Brake]:
        """How each of these nodes stands now.

        Raises:
            JournalUnwritable: the journal cannot be read. Where only something of one node cannot, its verdict says so.
        """
        nodes = tuple(nodes)
        laid = await asyncio.to_thread(self._book.read, nodes)
        laid = {str(node.name): self._here(self._possible(node, laid[str(node.name)])) for node in nodes}
        self._tell_damage(laid)
        await self._hearing.listen(nodes, laid, self._clocks())
        await asyncio.to_thread(self._note_acts, nodes, laid)
        brakes = [self._brake(node, laid[str(node.name)]) for node in nodes]
        return await self._with_costs(brakes) if any(brake.reminder for brake in brakes) else brakes

    async def _with_costs(self, brakes: list[Brake]) -> list[Brake]:
        """What the nodes have cost of which the user is reminded; the ledger is read once a minute."""
        now = self._clocks()
        if now.steady >= self._cost_again_at:
            self._cost_again_at = now.steady + _COST_EVERY_S
            self._costs = await asyncio.to_thread(self._books.node_costs, self._cloud_clock.now())
        return [
            replace(brake, reminder=replace(brake.reminder, usd=node_cost(self._costs, brake.node)))
            if brake.reminder
            else brake
            for brake in brakes
        ]

    def _note_acts(self, nodes: Iterable[Node], laid: Mapping[str, NodeSettings]) -> None:
        """For processes that have no link: when somebody acted on each node. That it fails is no reason to end less."""
        for node in nodes:
            acted_at = self._hearing.last_human_at(node)
            if acted_at is not None and acted_at - (laid[str(node.name)].acted_at or 0.0) >= _NOTE_ACTS_EVERY_S:
                with suppress(JournalUnwritable):
                    self._book.put_act(node, acted_at)

    def _tell_damage(self, laid: Mapping[str, NodeSettings]) -> None:
        """Each is logged once."""
        damaged = {(name, each.damage) for name, each in laid.items() if each.damage}
        for name, damage in sorted(damaged - self._warned):
            log.warning("%s: %s", name, damage)
        self._warned |= damaged

    async def set_rules(self, node: Node, changes: Mapping[str, Any]) -> Brake:
        """Lay down other rules; what is not named stays.

        Raises:
            BadInput: they make no sense; the rules are as they were.
            JournalUnwritable: they cannot be written down.
        """
        laid = (await asyncio.to_thread(self._book.read, (node,)))[str(node.name)]
        rules = replace(self._hearing.rules(node, laid), **changes)
        await asyncio.to_thread(self._book.put_rules, node, rules, now=self._clocks().wall)
        return await self._told(node)

    async def keep(self, node: Node, keep: Keep) -> Brake:
        """Hold the idle rule off and the end of the session out, or no longer; raises as `set_rules`."""
        await asyncio.to_thread(self._book.put_keep, node, keep, now=self._clocks().wall)
        return await self._told(node)

    async def past(self, node: Node) -> JSON:
        """What its guard saw in the last hour, see `past_view`; asked over a link that is there, never over a new one.

        Raises:
            JournalUnwritable: the rules cannot be read.
        """
        laid = (await asyncio.to_thread(self._book.read, (node,)))[str(node.name)]
        said = await self._hearing.past(node)
        idle_after_s = self._hearing.rules(node, laid).idle_after_s
        return past_view(said, idle_after_s=idle_after_s, now=self._clocks().wall)

    async def _told(self, node: Node) -> Brake:
        self._hearing.hurry(node)
        return (await self.look((node,)))[0]

    def _possible(self, node: Node, laid: NodeSettings) -> NodeSettings:
        """The cloud does not stop every node; what is stopped already need not be deleted for that."""
        return (
            laid
            if can_stop(node) or node.state == "STOPPED"
            else replace(laid, rules=replace(laid.rules, action="delete"))
        )

    def _here(self, laid: NodeSettings) -> NodeSettings:
        """What the ledger knows is by the cloud's clock, all else by this computer's."""
        since = laid.ready_since
        return laid if since is None else replace(laid, ready_since=self._cloud_clock.of_here(since))

    def _brake(self, node: Node, laid: NodeSettings) -> Brake:
        now = self._clocks()
        rules, keep = self._hearing.rules(node, laid), self._hearing.keep(node, laid)
        activity = self._hearing.activity(node, laid, now)
        if rules.deadline_at is not None:
            rules = replace(rules, deadline_at=self._earliest(node, "deadline", rules.deadline_at, now))
        if keep.until is not None:
            keep = replace(keep, until=self._earliest(node, "keep", keep.until, now))
        ready_since = self._ready_since(node, laid, now)
        verdict = judge(rules, activity, keep, ready_since, now.wall)
        if laid.damage:
            verdict = replace(verdict, reason=f"{laid.damage}; {verdict.reason}")
        return Brake(
            node=node,
            rules=rules,
            keep=keep,
            activity=activity,
            verdict=verdict,
            guard=self._hearing.guard(node),
            reminder=reminder_of(laid, ready_since, self._hearing.last_human_at(node), now.wall),
        )

    def _earliest(self, node: Node, what: str, end_at: float, now: Moment) -> float:
        # a keep that an agent tells of differs a little each time
        first = self._first_seen.setdefault((str(node.name), node.uid, what, round(end_at / 60)), now)
        return earliest_end(end_at, first, now)

    def _ready_since(self, node: Node, laid: NodeSettings, now: Moment) -> float | None:
        """A clock that was set back makes no node younger."""
        if laid.ready_since is None:
            return None
        # by minutes: how wrong our clock is becomes known more closely with each answer of the cloud
        first = self._first_seen.setdefault((str(node.name), node.uid, "ready", round(laid.ready_since / 60)), now)
        counted_s = (first.wall - laid.ready_since) + first.age_s(now)
        return now.wall - max(now.wall - laid.ready_since, counted_s)

    # The end

    async def _is_ready(self, brake: Brake) -> bool:
        """Whether the hooks on the node have had their seconds; those before an end that nothing moves come first."""
        left_s = math.inf if brake.verdict.ends_at is None else brake.verdict.ends_at - self._clocks().wall
        is_near = left_s <= (0.0 if brake.verdict.ends_why == "idle" else HOOK_S)
        if self.saving is None or not is_near or not brake.node.is_billed:
            return True
        deadline_at = brake.rules.deadline_at
        ends_in_s = math.inf if deadline_at is None else deadline_at - self._clocks().wall
        return await self.saving.is_ready(brake.node, why_text(brake), ends_in_s=ends_in_s)

    async def _end(self, fleet: Fleet, brake: Brake, now: float) -> None:
        node, key = brake.node, (str(brake.node.name), brake.node.uid)
        open_intents = [each for each in fleet.snapshot().intents if each.node_name == node.name and not each.settled]
        if any(not _can_overrule(brake.rules.action, each) for each in open_intents):
            return
        asked, steady = self._asked.get(key, NEVER_ASKED), self._clocks().steady
        if asked.times and steady - asked.at < _AGAIN_AFTER_S:
            return
        asked = await self._heard(fleet, asked)
        why_delete = asked.why_delete(steady)
        verb = "delete" if why_delete else brake.rules.action
        reason = f"{why_text(brake)} {why_delete}".strip()
        try:
            intent = await (fleet.delete(node.name) if verb == "delete" else fleet.stop(node.name))
        except JournalUnwritable:  # what ends a charge must not wait for a disk
            log.warning("%s ends by its rules: %s", node.name, reason)
            self._asked[key] = await ask_directly(self._cloud, verb, node.name, asked, steady)
            return
        self._asked[key] = replace(asked, intent_id=intent.intent_id, at=steady, times=asked.times + 1)
        log.warning("%s ends by its rules: %s", node.name, reason)
        if intent.owner == self._owner:
            entry = Entry(at=now, action=verb, subject=str(node.name), reason=reason)
            await asyncio.to_thread(self._book.note, entry)

    @staticmethod
    async def _heard(fleet: Fleet, asked: Asked) -> Asked:
        """With what became of the last request."""
        intent = await fleet.intent(asked.intent_id) if asked.intent_id else None
        if intent is None or intent.verb == "delete":
            return asked
        if intent.error is None:
            return replace(asked, refused_since=None)
        return asked.refused(intent.verb, intent.error)


def _can_overrule(action: str, intent: Intent) -> bool:
    """Whether the node can be ended now although something else is being done to it."""
    is_rising = intent.verb in ("create", "start")
    return is_rising and (action == "delete" or intent.phase == BOOTING)


def why_text(brake: Brake) -> str:
    """Why a node ends, for people."""
    rules = brake.rules
    if brake.verdict.ends_why == "idle" and brake.verdict.idle_limit_s is not None:
        return f"It was idle for longer than {span_text(brake.verdict.idle_limit_s)}: {brake.verdict.reason}."
    if brake.verdict.ends_why == "session" and rules.session_s is not None:
        return f"Its session of {span_text(rules.session_s)} is over."
    return "Its deadline has passed."


def _is_due(brake: Brake) -> bool:
    """A node that is not READY costs no more than its disk, so only a deadline ends it, and by deletion."""
    if not brake.verdict.is_due or brake.node.state in _ENDING:
        return False
    return brake.node.is_billed or (brake.verdict.ends_why == "deadline" and brake.rules.action == "delete")
