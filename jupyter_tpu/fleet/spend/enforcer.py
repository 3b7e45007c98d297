"""Enforce budgets: write down what READY nodes cost, and stop them at the cap."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from jupyter_tpu.accelerators import find_accelerator, price_on_terms
from jupyter_tpu.cloud.api import CloudApi
from jupyter_tpu.errors import BadInput, BudgetExceeded, JournalUnwritable, TpuError
from jupyter_tpu.fleet.spend.grants import is_covered
from jupyter_tpu.fleet.spend.ledger import FRESH_S, NEVER, SpendLedger, look_of
from jupyter_tpu.fleet.spend.unobserved import write_down
from jupyter_tpu.fleet.termination.executor import ask_directly
from jupyter_tpu.fleet.termination.stop_refusals import NEVER_ASKED, Asked
from jupyter_tpu.journal import Journal
from jupyter_tpu.journal.audit import Entry
from jupyter_tpu.lifecycle.intents import Intent, Verb
from jupyter_tpu.lifecycle.rising import BOOTING
from jupyter_tpu.models import Node, NodeList, NodeName, NodeSpec
from jupyter_tpu.money.accrual import Look
from jupyter_tpu.money.budgets import Budget, Usage, moment_text, unwatched_text, usage_text, window_of
from jupyter_tpu.money.coverage import Request
from jupyter_tpu.money.spans import Window, dearest_usd_per_hour
from jupyter_tpu.money.spending import Account

if TYPE_CHECKING:
    from jupyter_tpu.fleet.reconciler.fleet import Fleet
    from jupyter_tpu.fleet.reconciler.records import FleetSnapshot
    from jupyter_tpu.fleet.termination.checkpoint_hooks import CheckpointHooks

log = logging.getLogger(__name__)

UsedUp = list[tuple[Budget, Usage]]

_NOTHING_ASKED = "Nothing was asked of the cloud."


class BudgetEnforcer:
    """See `Controller` and `AdmissionCheck`.

    Args:
        cloud: whose nodes.
        journal: with the ledger and the budgets.
        ask_again_s: between two requests to stop a node at the cap.
        saving: gives the hooks on a node their seconds; None: there is no way to them.
    """

    def __init__(
        self,
        cloud: CloudApi,
        journal: Journal,
        *,
        ask_again_s: float = 10.0,
        saving: CheckpointHooks | None = None,
    ) -> None:
        self._cloud = cloud
        self._journal = journal
        self._books = SpendLedger(journal, cloud.settings)
        self._ask_again_s = ask_again_s
        self._clock = cloud.clock
        self._saving = saving
        self._taken_in = NEVER
        self._asked: dict[tuple[str, str], Asked] = {}
        self._told: set[tuple[object, ...]] = set()
        self._notices: tuple[str, ...] = ()

    # the controller

    async def reconcile(self, fleet: Fleet, now: float) -> None:
        """Write down what the nodes cost; at a cap stop those that are billed. All of it by the cloud's clock."""
        now, snapshot = self._clock.of_cloud(now), fleet.snapshot()
        unwritten, notices = None, list[str]()
        try:
            await self._take_in(snapshot)
        except JournalUnwritable as error:  # budgets hold on a full disk too
            unwritten = self._look_of(snapshot)
            notices.append(f"What the nodes cost is not saved: {error.message} {error.hint}")
        try:
            account = await asyncio.to_thread(self._account, now, unwritten)
        except JournalUnwritable as error:
            self._show(f"What the nodes cost is not known: {error.message} {error.hint}")
            return
        await self._hold(fleet, snapshot, account, notices) if account else self._show(*notices)

    def _show(self, *notices: str) -> None:
        """Each change of what is wrong is logged once."""
        for notice in notices:
            if notice not in self._notices:
                log.warning("%s", notice)
        self._notices = notices

    def _account(self, now: float, unwritten: Look | None = None) -> Account | None:
        """None while there are no budgets."""
        with suppress(JournalUnwritable):
            self._books.note_losses()
        return self._books.account(now, unwritten=unwritten) if self._books.has_budgets() else None

    async def _hold(self, fleet: Fleet, snapshot: FleetSnapshot, account: Account, notices: Sequence[str]) -> None:
        usages = await asyncio.to_thread(account.usages)
        used_up = _used_up(usages)
        broken = [f"{broken.error.message} {broken.error.hint}" for broken in account.broken()]
        spared = await self._granted(snapshot, account.now, used_up) if used_up else frozenset()
        self._show(*notices, *broken, *(_notice(budget, account) for budget, _ in used_up), *_goes_on(spared))
        if used_up:
            await self._stop_all(fleet, snapshot, spared, account.now, _reason(*used_up[0]))
        with suppress(JournalUnwritable):  # told once it can be
            await self._tell(usages, account)

    async def _granted(self, snapshot: FleetSnapshot, now: float, used_up: UsedUp) -> frozenset[NodeName]:
        """Nodes that cost the user nothing; none where a budget counts hours, which these nodes use too."""
        if any(budget.unit != "usd" for budget, _ in used_up):
            return frozenset()
        # READY nodes too: the ledger may have no open span of one that another process saw ending a moment ago
        nodes = [node for node in snapshot.nodes if node.is_billed or _is_on_its_way(snapshot, node)]
        return await asyncio.to_thread(self._books.granted, nodes, now)

    async def _take_in(self, snapshot: FleetSnapshot) -> None:
        """A look that was taken in already is not looked at again."""
        look, before = self._look_of(snapshot), self._taken_in
        if not look.as_of or (look.as_of, look.looked_at) == (before.as_of, before.looked_at):
            return
        await write_down(self._cloud, self._books, look)
        self._taken_in = look

    def _look_of(self, snapshot: FleetSnapshot) -> Look:
        listed = NodeList(nodes=snapshot.nodes, unreachable=snapshot.unreachable)
        looked_at = dict(snapshot.looked_at)
        return look_of(listed, as_of=snapshot.as_of, before=self._taken_in, looked_at=looked_at)

    async def _tell(self, usages: Sequence[tuple[Budget, Usage]], account: Account) -> None:
        """Each threshold once per window, whoever of the user's processes sees it first."""
        for budget, usage in usages:
            told = (budget, usage.window, usage.level)
            if usage.level == "ok" or told in self._told:
                continue
            detail = {"level": usage.level, "window_start": usage.window.starts_at, **budget.to_json()}
            reason = f"The budget {budget.name} is used to {usage.level} %: {usage_text(budget, usage)}."
            entry = Entry(at=account.now, action="budget_level", subject=budget.name, reason=reason, detail=detail)
            if await asyncio.to_thread(self._books.note_once, entry):
                log.warning("%s", reason)
            self._told.add(told)

    async def _stop_all(
        self, fleet: Fleet, snapshot: FleetSnapshot, spared: frozenset[NodeName], now: float, reason: str
    ) -> None:
        """Each node that is billed, or will be soon, and that is not spared; the fault of one is not the others'."""
        for node in snapshot.nodes:
            if node.name not in spared and (node.is_billed or _is_on_its_way(snapshot, node)):
                try:
                    await self._stop(fleet, snapshot, node, now, reason)
                except TpuError as error:
                    log.warning("%s could not be stopped at the cap: %s", node.name, error)

    async def _stop(self, fleet: Fleet, snapshot: FleetSnapshot, node: Node, now: float, reason: str) -> None:
        open_intents = _open_intents(snapshot, node)
        open_verbs = {each.verb for each in open_intents}
        if open_verbs & {"stop", "delete"}:
            return
        if any(each.verb == "start" and each.phase != BOOTING for each in open_intents):
            return  # the cloud stops it when it is READY, and not before
        key = (str(node.name), node.uid)
        asked = self._asked.get(key, NEVER_ASKED)
        if now - asked.at < self._ask_again_s * asked.times:  # the cloud needs its time, and so do lists
            return
        if self._saving is not None and not await self._saving.is_ready(node, reason):
            return
        asked = self._asked[key] = await self._heard(fleet, asked)
        why_delete = asked.why_delete(now)
        verb: Verb = "delete" if why_delete or "create" in open_verbs or not can_stop(node) else "stop"
        try:
            intent = await (fleet.delete(node.name) if verb == "delete" else fleet.stop(node.name))
        except JournalUnwritable:  # what ends a charge must not wait for a disk
            self._asked[key] = await ask_directly(self._cloud, verb, node.name, asked, now)
            return
        self._asked[key] = replace(asked, intent_id=intent.intent_id, at=now, times=asked.times + 1)
        await self._note_stop(intent, now, f"{reason} {why_delete}".strip())

    async def _heard(self, fleet: Fleet, asked: Asked) -> Asked:
        """With what became of the last request; a refusal is no longer shown."""
        intent = await fleet.intent(asked.intent_id) if asked.intent_id else None
        if intent is None:
            return asked
        if intent.error is None:
            return replace(asked, refused_since=None)
        await self._note_failure(intent)
        await fleet.dismiss(intent.intent_id)
        return asked.refused(intent.verb, intent.error)

    async def _note_stop(self, intent: Intent, now: float, reason: str) -> None:
        """Once per intent: another process may have asked for the same."""
        detail = {"intent_id": intent.intent_id}
        entry = Entry(at=now, action=intent.verb, subject=str(intent.node_name), reason=reason, detail=detail)
        await asyncio.to_thread(self._books.note_once, entry)

    async def _note_failure(self, intent: Intent) -> None:
        """That it was asked for is written down already."""
        if intent.error is None:
            return
        detail = {"intent_id": intent.intent_id, "error": intent.error.to_json()}
        subject, reason = str(intent.node_name), "A budget is used up."
        entry = Entry(at=self._clock.now(), action=intent.verb, subject=subject, reason=reason, detail=detail)
        await asyncio.to_thread(self._books.note_once, entry)

    # The guard

    @property
    def notices(self) -> Sequence[str]:
        """Budgets that cannot be read, and those that are used up."""
        return self._notices

    async def check_create(self, spec: NodeSpec, *, accept_unknown_price: bool) -> None:
        """Whether the budgets allow such a node: one that a grant pays for uses no budget in dollars.

        Raises:
            BudgetExceeded: one is used up.
            BadInput: there is one, the price is unknown, and nobody said that this is known.
            JournalUnwritable: one cannot be read.
        """
        account = await self._readable()
        if account is None:
            return
        price = price_on_terms(spec.accelerator_type, spec.name.zone, spec.provisioning)
        wants_consent = price is None and not accept_unknown_price
        used_up = _used_up(account.usages())
        if not (used_up or wants_consent):
            return
        request = Request(accelerator_type=spec.accelerator_type, zone=spec.name.zone, provisioning=spec.provisioning)
        is_free = await is_covered(self._cloud, self._journal, spec.name, request)
        _refuse_used_up(used_up, account, is_free=is_free)
        if wants_consent and not is_free:
            raise _unpriced(spec)

    async def check_start(self, name: NodeName) -> None:
        """Whether the budgets allow that this node costs again; raises as `check_create` does."""
        account = await self._readable()
        used_up = _used_up(account.usages()) if account else []
        if account is None or not used_up:
            return
        node = await self._cloud.get_node(name)
        request = Request(accelerator_type=node.accelerator_type, zone=name.zone, provisioning=node.provisioning)
        is_free = await is_covered(self._cloud, self._journal, name, request)
        _refuse_used_up(used_up, account, is_free=is_free)

    async def _readable(self) -> Account | None:
        """The account, if there are budgets, and all of them can be read."""
        if not await asyncio.to_thread(self._books.has_budgets):
            return None
        await self._look()
        account = await asyncio.to_thread(self._account, self._clock.now())
        for broken in account.broken() if account else ():
            raise broken.error
        return account

    async def _look(self) -> None:
        """Look at the nodes unless that was done lately: what went meanwhile must not count."""
        if self._clock.now() - self._taken_in.as_of <= FRESH_S:
            return
        asked = self._clock.steady()
        try:
            listed = await self._cloud.list_nodes()
        except TpuError as error:  # what was READY then counts as READY still
            log.info("Budgets are judged without a look at the nodes: %s", error)
        else:
            as_of = self._clock.moment(asked).wall
            await write_down(self._cloud, self._books, look_of(listed, as_of=as_of, before=self._taken_in))


def _open_intents(snapshot: FleetSnapshot, node: Node) -> list[Intent]:
    return [each for each in snapshot.intents if each.node_name == node.name and not each.settled]


def _is_on_its_way(snapshot: FleetSnapshot, node: Node) -> bool:
    """A node that we are having made: it can be deleted before it is ever billed."""
    return node.state == "CREATING" and any(each.verb == "create" for each in _open_intents(snapshot, node))


def can_stop(node: Node) -> bool:
    """Whether the cloud stops such a node; spot nodes and those of several VMs can only be deleted."""
    kind = find_accelerator(node.accelerator_type)
    workers = kind.workers if kind else len(node.workers)
    return workers <= 1 and not (node.spot or node.preemptible)


def _refuse_used_up(used_up: UsedUp, account: Account, *, is_free: bool) -> None:
    """Raise for the first that such a node would use."""
    for budget, usage in used_up:
        if not (is_free and budget.unit == "usd"):
            raise _exceeded(budget, usage, account)


def _goes_on(spared: frozenset[NodeName]) -> tuple[str, ...]:
    names = ", ".join(sorted(name.node_id for name in spared))
    return (f"A grant pays for {names}: not stopped by the budget.",) if spared else ()


def _used_up(usages: Sequence[tuple[Budget, Usage]]) -> UsedUp:
    """Those that stop."""
    return [(budget, usage) for budget, usage in usages if usage.is_used_up and budget.action == "stop"]


def _reason(budget: Budget, usage: Usage) -> str:
    return f"The budget {budget.name} is used up: {usage_text(budget, usage)}."


def _notice(budget: Budget, account: Account) -> str:
    """The same words while it lasts, so that it is told once."""
    until = _until(window_of(budget, account.now, account.offset_at), account)
    return f"The budget {budget.name} is used up: READY nodes are stopped, and none may be created{until}."


def _until(window: Window, account: Account) -> str:
    at = window.ends_at
    return "" if at is None else f" until {moment_text(at, account.offset_at(at))}"


def _exceeded(budget: Budget, usage: Usage, account: Account) -> BudgetExceeded:
    until = _until(usage.window, account)
    return BudgetExceeded(
        f"{_reason(budget, usage)} {unwatched_text(budget, usage)}".strip(),
        exists=_NOTHING_ASKED,
        hint=f"Wait{until}, or raise or remove it with `jupyter tpu budget`."
        if until
        else "Raise or remove it with `jupyter tpu budget`.",
    )


def _unpriced(spec: NodeSpec) -> BadInput:
    return BadInput(
        f"The price of {spec.accelerator_type[:70]} in {spec.name.zone} is not known, and there is a budget.",
        exists=_NOTHING_ASKED,
        hint="Say that you accept that (--accept-unknown-price): it then counts as "
        f"${dearest_usd_per_hour(spec.accelerator_type):,.2f} per hour, as the dearest of its size.",
    )
