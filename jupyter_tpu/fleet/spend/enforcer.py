"""Enforce budgets: record the cost of READY nodes, and stop nodes when a cap is reached."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from jupyter_tpu.accelerators import find_accelerator, price_on_terms
from jupyter_tpu.cloud.api import CloudApi
from jupyter_tpu.error_actions import raise_budget, show_budgets
from jupyter_tpu.errors import BadInput, BudgetExceeded, JournalUnwritable, Text, TpuError, joined
from jupyter_tpu.fleet.reconciler.records import FleetChange
from jupyter_tpu.fleet.spend.grant_usage import is_covered
from jupyter_tpu.fleet.spend.spend_ledger import FRESH_S, NEVER, SpendLedger, observation_of, observation_of_fleet
from jupyter_tpu.fleet.spend.unobserved import record_observation
from jupyter_tpu.fleet.termination.stop_refusals import NO_REQUEST, EndRequest
from jupyter_tpu.fleet.termination.termination_executor import DirectEnds
from jupyter_tpu.journal import Journal
from jupyter_tpu.journal.audit import Entry
from jupyter_tpu.lifecycle.intents import Intent, Verb
from jupyter_tpu.lifecycle.to_ready import BOOTING
from jupyter_tpu.models import Node, NodeName, NodeSpec
from jupyter_tpu.money.accrual import NodesObservation
from jupyter_tpu.money.budgets import BrokenBudget, Budget, Usage, moment_text, unmonitored_text, usage_text, window_of
from jupyter_tpu.money.coverage import NodeRequest
from jupyter_tpu.money.spans import dearest_usd_per_hour
from jupyter_tpu.money.spending import Account
from jupyter_tpu.node_end import EndCause

if TYPE_CHECKING:
    from jupyter_tpu.fleet.reconciler.fleet import Fleet
    from jupyter_tpu.fleet.reconciler.records import FleetSnapshot
    from jupyter_tpu.fleet.termination.checkpoint_hooks import CheckpointHooks

log = logging.getLogger(__name__)

UsedUp = list[tuple[Budget, Usage]]

_ENDED: Mapping[Verb, Text] = {
    "stop": Text("stopped {nodes}"),
    "delete": Text("deleted with the disk, because stopping is not possible: {nodes}"),
}
_NOTHING_ASKED = "No request was sent to the cloud."


class BudgetEnforcer:
    """The controller and admission check that enforce the budgets; see `Controller` and `AdmissionCheck`.

    Args:
        cloud: the cloud with the nodes.
        journal: contains the ledger and the budgets.
        ask_again_s: seconds before a request to stop a node is first repeated; the delay increases with each request.
        checkpoint_hooks: runs the checkpoint hooks before a node is stopped; None if there are no links to agents.
    """

    def __init__(
        self,
        cloud: CloudApi,
        journal: Journal,
        *,
        ask_again_s: float = 10.0,
        checkpoint_hooks: CheckpointHooks | None = None,
    ) -> None:
        self._cloud = cloud
        self._direct = DirectEnds(cloud, journal)
        self._journal = journal
        self._ledger = SpendLedger(journal, cloud.settings)
        self._ask_again_s = ask_again_s
        self._clock = cloud.clock
        self._hooks = checkpoint_hooks
        # the last observation that this process has recorded
        self._recorded = NEVER
        self._asked: dict[tuple[str, str], EndRequest] = {}
        # for the notice: the IDs of the nodes for which each action was requested at the budget limit
        self._ended: dict[Verb, set[str]] = {"stop": set(), "delete": set()}
        self._logged: set[tuple[object, ...]] = set()
        self._notices: tuple[str, ...] = ()
        self._budgets: tuple[Budget | BrokenBudget, ...] = ()
        self._applied: tuple[object, ...] = (self._budgets, self._notices)

    # -- the controller

    async def reconcile(self, fleet: Fleet, now: float) -> None:
        """Record the cost of the nodes; when a cap is reached, stop billed nodes. All times use the cloud's clock."""
        now, snapshot = self._clock.to_cloud(now), fleet.snapshot()
        unwritten, notices = None, list[str]()
        try:
            await self._record(snapshot)
        except JournalUnwritable as error:  # enforce budgets even on a full disk
            unwritten = observation_of_fleet(snapshot, before=self._recorded)
            notices.append(Text("The cost of the nodes is not saved: {reason}", reason=_sentences(error)))
        try:
            account = await asyncio.to_thread(self._account, now, unwritten)
        except JournalUnwritable as error:
            self._show(Text("The cost of the nodes is unknown: {reason}", reason=_sentences(error)))
        else:
            await self._enforce(fleet, snapshot, account, notices) if account else self._show(*notices)
            self._budgets = tuple(account.budgets) if account else ()
        self._notify(fleet)

    def _notify(self, fleet: Fleet) -> None:
        """Make all front ends fetch the budgets and notices again, if these have changed."""
        applied = (self._budgets, self._notices)
        if applied != self._applied:
            self._applied = applied
            fleet.notify(FleetChange(kind="budgets"))

    def _show(self, *notices: str) -> None:
        """Show the notices, and log each new notice once."""
        for notice in notices:
            if notice not in self._notices:
                log.warning("%s", notice)
        self._notices = notices

    def _account(self, now: float, unwritten: NodesObservation | None = None) -> Account | None:
        """Return spending and budgets, or None if there are no budgets."""
        # an unwritable disk is reported elsewhere
        with suppress(JournalUnwritable):
            self._ledger.record_losses()
        return self._ledger.account(now, unwritten=unwritten) if self._ledger.has_budgets() else None

    async def _enforce(self, fleet: Fleet, snapshot: FleetSnapshot, account: Account, notices: Sequence[str]) -> None:
        # run off the event loop, because the ledger may be long
        usages = await asyncio.to_thread(account.usages)
        used_up = _used_up(usages)
        broken = [_sentences(broken.error) for broken in account.broken()]
        spared = await self._granted(snapshot, account.now, used_up) if used_up else frozenset()
        if used_up:
            # stop before writing the audit log: a slow or full disk must not delay the stop
            await self._stop_all(fleet, snapshot, spared, account.now, used_up[0])
        else:
            self._ended = {"stop": set(), "delete": set()}
        caps = [_notice(budget, account, self._ended) for budget, _ in used_up]
        self._show(*notices, *broken, *caps, *_spared_notice(spared))
        with suppress(JournalUnwritable):  # the log entry needs a writable disk
            await self._log_levels(usages, account)

    async def _granted(self, snapshot: FleetSnapshot, now: float, used_up: UsedUp) -> frozenset[NodeName]:
        """Return the nodes covered by a grant, or an empty set if any used-up budget also applies to covered nodes."""
        if not all(budget.spares_granted for budget, _ in used_up):
            return frozenset()
        # include READY nodes: if another process has just seen a node stop, the ledger has no open span for it
        nodes = [node for node in snapshot.nodes if node.is_billed or _is_on_its_way(snapshot, node)]
        return await asyncio.to_thread(self._ledger.covered_nodes, nodes, now)

    async def _record(self, snapshot: FleetSnapshot) -> None:
        """Record the last known state of the nodes, unless it is already recorded."""
        observation, before = observation_of_fleet(snapshot, before=self._recorded), self._recorded
        if not observation.as_of or (observation.as_of, observation.read_at) == (before.as_of, before.read_at):
            return
        await record_observation(self._cloud, self._ledger, observation)
        self._recorded = observation

    async def _log_levels(self, usages: Sequence[tuple[Budget, Usage]], account: Account) -> None:
        """Log each exceeded threshold of a budget once per budget window.

        If several processes run, only one of them logs it.
        """
        for budget, usage in usages:
            level = (budget, usage.window, usage.level)
            if usage.level == "ok" or level in self._logged:
                continue
            detail = {"level": usage.level, "window_start": usage.window.starts_at, **budget.to_json()}
            reason = Text(
                "{percent} % of the budget {budget} is used: {usage}.",
                percent=usage.level,
                budget=budget.name,
                usage=usage_text(budget, usage),
            )
            at = self._clock.to_local(account.now)
            entry = Entry(at=at, action="budget_level", subject=budget.name, reason=reason, detail=detail)
            if await asyncio.to_thread(self._ledger.record_once, entry):
                log.warning("%s", reason)
            self._logged.add(level)

    async def _stop_all(
        self,
        fleet: Fleet,
        snapshot: FleetSnapshot,
        spared: frozenset[NodeName],
        now: float,
        first: tuple[Budget, Usage],
    ) -> None:
        """Stop each node that is or soon will be billed, except `spared`.

        If one node can't be stopped, the others are still stopped.
        """
        for node in snapshot.nodes:
            if node.name not in spared and (node.is_billed or _is_on_its_way(snapshot, node)):
                try:
                    await self._stop(fleet, snapshot, node, now, first)
                except TpuError as error:
                    log.warning("%s could not be stopped at the cap: %s", node.name, error)

    async def _stop(
        self, fleet: Fleet, snapshot: FleetSnapshot, node: Node, now: float, first: tuple[Budget, Usage]
    ) -> None:
        # don't repeat an open request
        open_intents = _open_intents(snapshot, node)
        open_verbs = {each.verb for each in open_intents}
        if open_verbs & {"stop", "delete"}:
            return
        if any(each.verb == "start" and each.phase != BOOTING for each in open_intents):
            return  # the cloud rejects a stop before the node is READY
        key = (str(node.name), node.uid)
        asked = self._asked.get(key, NO_REQUEST)
        if now - asked.at < self._ask_again_s * asked.times:  # give the cloud and its lists some time
            return
        reason = _reason(*first)
        if self._hooks is not None and not await self._hooks.is_ready(node, reason):
            return
        # repeated refusals turn a stop into a deletion
        asked = self._asked[key] = await self._with_outcome(fleet, asked)
        why_delete = asked.why_delete(now)
        verb: Verb = "delete" if why_delete or "create" in open_verbs or not can_stop(node) else "stop"
        try:
            end = fleet.delete if verb == "delete" else fleet.stop
            intent = await end(node.name, because=_cause(*first))
        except JournalUnwritable:  # a full disk must not keep a node billed
            self._asked[key] = await self._direct.request(
                verb, node.name, asked, now, because=_cause(*first), reason=_joined(reason, why_delete)
            )
            self._note_end(verb, node)
            return
        self._asked[key] = replace(asked, intent_id=intent.intent_id, at=now, times=asked.times + 1)
        self._note_end(verb, node)
        await self._log_stop(intent, now, _joined(reason, why_delete))

    def _note_end(self, verb: Verb, node: Node) -> None:
        for ids in self._ended.values():
            ids.discard(node.name.node_id)  # a refused stop may have become a deletion
        self._ended[verb].add(node.name.node_id)

    async def _with_outcome(self, fleet: Fleet, asked: EndRequest) -> EndRequest:
        """Return `asked` with the outcome of its last request.

        If the request failed, its intent is dismissed, because the request will be repeated.
        """
        intent = await fleet.intent(asked.intent_id) if asked.intent_id else None
        if intent is None:
            return asked
        if intent.error is None:
            return replace(asked, refused_since=None)
        await self._log_failure(intent)
        await fleet.dismiss(intent.intent_id)
        return asked.refused(intent.verb, intent.error)

    async def _log_stop(self, intent: Intent, now: float, reason: str) -> None:
        """Add the stop to the audit log, unless another process has already added it for the same intent."""
        detail = {"intent_id": intent.intent_id}
        at, subject = self._clock.to_local(now), str(intent.node_name)
        entry = Entry(at=at, action=intent.verb, subject=subject, reason=reason, detail=detail)
        await asyncio.to_thread(self._ledger.record_once, entry)

    async def _log_failure(self, intent: Intent) -> None:
        """Add the failure to the audit log, which already contains the request."""
        if intent.error is None:
            return
        detail = {"intent_id": intent.intent_id, "error": intent.error.to_json()}
        subject, reason = str(intent.node_name), Text("A budget is used up.")
        at = self._clock.to_local(self._clock.now())
        entry = Entry(at=at, action=intent.verb, subject=subject, reason=reason, detail=detail)
        await asyncio.to_thread(self._ledger.record_once, entry)

    # -- the admission check

    @property
    def notices(self) -> Sequence[str]:
        """Return one sentence for each budget that is unreadable or used up."""
        return self._notices

    async def check_create(self, spec: NodeSpec, *, accept_unknown_price: bool) -> None:
        """Check whether the budgets allow a node with these properties.

        See `Budget.spares_granted` for nodes covered by a grant.

        Raises:
            BudgetExceeded: a budget is used up.
            BadInput: there is a budget, the price is unknown, and `accept_unknown_price` is false.
            JournalUnwritable: a budget can't be read.
        """
        account = await self._readable()
        if account is None:
            return
        price = price_on_terms(spec.accelerator_type, spec.name.zone, spec.provisioning)
        wants_consent = price is None and not accept_unknown_price
        used_up = _used_up(account.usages())
        # checking whether a grant covers the node takes a request to the cloud, so check only if it matters
        if not (used_up or wants_consent):
            return
        request = NodeRequest(
            accelerator_type=spec.accelerator_type, zone=spec.name.zone, provisioning=spec.provisioning
        )
        is_free = await is_covered(self._cloud, self._journal, spec.name, request)
        _refuse_used_up(used_up, account, is_free=is_free)
        if wants_consent and not is_free:
            raise _unpriced(spec)

    async def check_start(self, name: NodeName) -> None:
        """Check whether the budgets allow this node to be started; raises the same errors as `check_create`."""
        account = await self._readable()
        used_up = _used_up(account.usages()) if account else []
        if account is None or not used_up:
            return
        node = await self._cloud.get_node(name)
        request = NodeRequest(accelerator_type=node.accelerator_type, zone=name.zone, provisioning=node.provisioning)
        is_free = await is_covered(self._cloud, self._journal, name, request)
        _refuse_used_up(used_up, account, is_free=is_free)

    async def _readable(self) -> Account | None:
        """Return up-to-date spending and budgets, or None if there are no budgets; raises JournalUnwritable."""
        if not await asyncio.to_thread(self._ledger.has_budgets):
            return None
        await self._update()
        account = await asyncio.to_thread(self._account, self._clock.now())
        for broken in account.broken() if account else ():
            raise broken.error
        return account

    async def _update(self) -> None:
        """List the nodes and record their states in the ledger, unless this was done recently.

        Without this update, nodes that have stopped since the last list would count as READY.
        """
        if self._clock.now() - self._recorded.as_of <= FRESH_S:
            return
        requested = self._clock.steady()
        try:
            listed = await self._cloud.list_nodes()
        except TpuError as error:  # without a list, nodes that were READY in the last list count as READY
            log.info("Budgets are checked without a current list of nodes: %s", error)
        else:
            as_of = self._clock.moment(requested).wall
            await record_observation(
                self._cloud, self._ledger, observation_of(listed, as_of=as_of, before=self._recorded)
            )


def _open_intents(snapshot: FleetSnapshot, node: Node) -> list[Intent]:
    return [each for each in snapshot.intents if each.node_name == node.name and not each.settled]


def _is_on_its_way(snapshot: FleetSnapshot, node: Node) -> bool:
    """Return whether jupyter_tpu is creating the node. Such a node can be deleted before it is billed."""
    return node.state == "CREATING" and any(each.verb == "create" for each in _open_intents(snapshot, node))


def can_stop(node: Node) -> bool:
    """Return whether the cloud can stop the node; spot nodes and nodes with several workers can only be deleted."""
    kind = find_accelerator(node.accelerator_type)
    workers = kind.workers if kind else len(node.workers)
    return workers <= 1 and not (node.spot or node.preemptible)


def _refuse_used_up(used_up: UsedUp, account: Account, *, is_free: bool) -> None:
    """Raise BudgetExceeded for the first used-up budget that the node counts towards."""
    for budget, usage in used_up:
        if not (is_free and budget.spares_granted):
            raise _exceeded(budget, usage, account)


def _spared_notice(spared: frozenset[NodeName]) -> tuple[str, ...]:
    names = ", ".join(sorted(name.node_id for name in spared))
    return (Text("The budget does not stop {nodes}: a grant covers this usage.", nodes=names),) if spared else ()


def _used_up(usages: Sequence[tuple[Budget, Usage]]) -> UsedUp:
    """Return the used-up budgets whose action is to stop nodes."""
    return [(budget, usage) for budget, usage in usages if usage.is_used_up and budget.stops_nodes]


def _reason(budget: Budget, usage: Usage) -> str:
    return Text("The budget {budget} is used up: {usage}.", budget=budget.name, usage=usage_text(budget, usage))


def _cause(budget: Budget, usage: Usage) -> EndCause:
    """Return why a node will be stopped, for the users of its kernels."""
    return EndCause(cause="budget", name=budget.name, detail=usage_text(budget, usage))


def _notice(budget: Budget, account: Account, ended: Mapping[Verb, Collection[str]]) -> str:
    """Return a notice about the budget's actions. It contains no changing amounts, because each new text is logged.

    Args:
        ended: ids of the stopped nodes, and of the nodes that were deleted because they can't be stopped.
    """
    done = [_ENDED[verb].with_arguments(nodes=", ".join(sorted(ids))) for verb, ids in ended.items() if ids]
    usual = (
        Text("billed nodes are stopped, and those that cannot be stopped are deleted")
        if budget.spares_granted
        else Text("all nodes are stopped, and those that cannot be stopped are deleted")
    )
    what, at = joined(done or [usual], "; "), window_of(budget, account.now, account.offset_at).ends_at
    if at is None:
        return Text("The budget {budget} is used up: {what}. You can't create nodes.", budget=budget.name, what=what)
    return Text(
        "The budget {budget} is used up: {what}. You can't create nodes until {time}.",
        budget=budget.name,
        what=what,
        time=moment_text(at, account.offset_at(at)),
    )


def _sentences(error: TpuError) -> Text:
    return _joined(error.message, error.hint)


def _joined(*sentences: str) -> Text:
    return joined(filter(None, sentences), " ")


def _exceeded(budget: Budget, usage: Usage, account: Account) -> BudgetExceeded:
    ends_at, unmonitored = usage.window.ends_at, unmonitored_text(budget, usage)
    return BudgetExceeded(
        Text(
            "The budget {budget} is used up: {usage}. {unmonitored}",
            budget=budget.name,
            usage=usage_text(budget, usage),
            unmonitored=unmonitored,
        )
        if unmonitored
        else _reason(budget, usage),
        exists=_NOTHING_ASKED,
        hint=Text(
            "Wait until {time}, or raise or remove the budget with `jupyter tpu budget`.",
            time=moment_text(ends_at, account.offset_at(ends_at)),
        )
        if ends_at is not None
        else "Raise or remove the budget with `jupyter tpu budget`.",
        actions=(raise_budget(budget.name),),
    )


def _unpriced(spec: NodeSpec) -> BadInput:
    return BadInput(
        Text(
            "The price of {accelerator_type} in {zone} is unknown, and a budget is set.",
            accelerator_type=spec.accelerator_type[:70],
            zone=spec.name.zone,
        ),
        exists=_NOTHING_ASKED,
        hint=Text(
            "To accept the unknown price, use --accept-unknown-price. The node is then counted at ${usd} per "
            "hour, the highest price for its size.",
            usd=f"{dearest_usd_per_hour(spec.accelerator_type):,.2f}",
        ),
        actions=(show_budgets(),),
    )
