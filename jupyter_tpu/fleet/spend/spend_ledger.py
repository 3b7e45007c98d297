"""Read and write a project's spending data: ledger, budgets, grants and audit log.

Used by the fleet's loop, the server and the CLI. Every method may block on disk I/O.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from jupyter_tpu.error_actions import show_budgets
from jupyter_tpu.errors import BadInput, BudgetNotFound, JournalUnwritable, Text, WrongState
from jupyter_tpu.fleet.reconciler.views import node_price
from jupyter_tpu.journal import Journal
from jupyter_tpu.journal.audit import Audit, Entry
from jupyter_tpu.journal.grant_store import Grants
from jupyter_tpu.journal.ledger import Ledger
from jupyter_tpu.journal.losses import Losses
from jupyter_tpu.journal.user_documents import Document, Documents
from jupyter_tpu.models import Node, NodeList, NodeName
from jupyter_tpu.money.accrual import Accrual, NodesObservation, ObservedNode
from jupyter_tpu.money.budgets import BrokenBudget, Budget, Period, Usage, amount_text, budget_from_json, usage_text
from jupyter_tpu.money.burn_down import burn_down_view
from jupyter_tpu.money.grants_applied import as_billed, paid_by_grants
from jupyter_tpu.money.project_ids import check_project
from jupyter_tpu.money.spans import Span, at_worst
from jupyter_tpu.money.spend_history import By, history_view
from jupyter_tpu.money.spending import JSON, Account, NodeCosts, node_costs

if TYPE_CHECKING:
    from jupyter_tpu.fleet.reconciler.records import FleetSnapshot

_KIND = "budget"

FRESH_S = 60.0
"""Maximum age of a list of nodes that counts as current, in seconds: our choice, several times the polling interval."""

NEVER = NodesObservation(as_of=0.0)
"""The last observation of a process that has not observed the nodes yet."""

LOST = "lost-budgets"
"""Name of the unreadable budget that represents budgets that may have been lost with a damaged journal."""


_SET: Mapping[Period, Text] = {
    "day": Text("The user set the budget {budget} to {amount} per day ({action})."),
    "week": Text("The user set the budget {budget} to {amount} per week ({action})."),
    "month": Text("The user set the budget {budget} to {amount} per month ({action})."),
    "total": Text("The user set the budget {budget} to {amount} in total ({action})."),
}
# what happens at the cap, in the words of the front end
_WARNS = Text("only warns")
_SPARES_GRANTED = Text(
    "stops billed nodes at the cap, and deletes those that cannot be stopped, except those under a grant"
)
_STOPS_ALL = Text("stops all nodes at the cap, and deletes those that cannot be stopped")


class Place(Protocol):
    """A project of a cloud; implemented by `CloudSettings`."""

    @property
    def endpoint(self) -> str:
        """The URL of the cloud's API; empty for Google Cloud."""

    @property
    def project(self) -> str:
        """The project's id."""


class SpendLedger:
    """The cost of a project's nodes and the budgets that limit it.

    Attributes:
        notices: messages from the journal for the user.
    """

    def __init__(self, journal: Journal, place: Place) -> None:
        self.notices = journal.notices
        endpoint, project = place.endpoint, place.project
        self._project = project
        self._ledger = Ledger(journal, endpoint=endpoint, project=project)
        self._documents = Documents(journal, endpoint=endpoint, project=project)
        self._audit = Audit(journal, endpoint=endpoint, project=project)
        self._grants = Grants(journal, endpoint=endpoint, project=project)
        self._losses = Losses(journal, endpoint=endpoint, project=project)

    def record(self, observation: NodesObservation) -> None:
        """Record an observation of the nodes.

        Raises:
            JournalUnwritable: the observation was not recorded.
        """
        self._ledger.record(observation)

    def preview(self, observation: NodesObservation) -> Accrual:
        """Return the changes that an observation would make, without recording it; raises `JournalUnwritable`."""
        return self._ledger.preview(observation)

    def has_budgets(self) -> bool:
        """Return whether there are budgets, including unreadable and lost budgets; raises `JournalUnwritable`."""
        return bool(self._documents.each(_KIND) or self._losses.open())

    def account(self, now: float, *, without_grant: str = "", unwritten: NodesObservation | None = None) -> Account:
        """Return spending and budgets.

        Args:
            without_grant: name of a grant to ignore, as if it had been removed.
            unwritten: an additional observation that is not recorded yet, or can't be because the disk is full.

        Raises:
            JournalUnwritable: the ledger can't be read. An unreadable budget raises no error; the result lists it as
                unreadable.
        """
        budgets = [_budget(each) for each in self._documents.each(_KIND)]
        # show only the latest loss
        budgets += [BrokenBudget(name=LOST, error=loss.error()) for loss in self._losses.open()[-1:]]
        grants = tuple(grant for grant in self._grants.read().grants if grant.name != without_grant)
        spans = self._spans(unwritten)
        return Account(
            spans=as_billed(grants, spans, now),
            worst=as_billed(grants, tuple(map(at_worst, spans)), now),
            budgets=budgets,
            now=now,
            offset_at=utc_offset_s,
        )

    def history(self, by: By, last: int, *, now: float, unwritten: NodesObservation | None = None) -> JSON:
        """Return the spending in each of the last hours or days; see `history_view`, and `account` for `unwritten`.

        Raises:
            BadInput: `last` exceeds the maximum.
            JournalUnwritable: the ledger can't be read.
        """
        return history_view(self.account(now, unwritten=unwritten), by, last, utc_offset_s)

    def burn_down(self, name: str, *, now: float, unwritten: NodesObservation | None = None) -> JSON:
        """Return the usage of a budget over time, see `burn_down_view`; for `unwritten`, see `account`.

        Raises:
            BudgetNotFound: there is no budget with this name.
            JournalUnwritable: the budget or the ledger can't be read.
        """
        account = self.account(now, unwritten=unwritten)
        for budget in account.budgets:
            if budget.name == name:
                if isinstance(budget, BrokenBudget):
                    raise budget.error
                return burn_down_view(budget, account)
        raise _no_budget(name)

    def _billed(self, now: float, unwritten: NodesObservation | None = None) -> tuple[Span, ...]:
        """Return the usage intervals, priced at 0 where a TRC grant covers them. An unreadable grant covers nothing."""
        return as_billed(self._grants.read().grants, self._spans(unwritten), now)

    def _spans(self, unwritten: NodesObservation | None) -> tuple[Span, ...]:
        return self._ledger.spans() if unwritten is None else self._ledger.spans_if_recorded(unwritten)

    def covered_nodes(self, nodes: Iterable[Node], now: float) -> frozenset[NodeName]:
        """Return which nodes a TRC grant covers now, among the ledger's READY nodes and `nodes`.

        Raises:
            JournalUnwritable: the ledger or the grants can't be read.
        """
        ready = [span for span in self._ledger.spans() if span.is_open]
        known = {span.name for span in ready}
        others = [_as_ready(node, now) for node in nodes if node.name not in known]
        return paid_by_grants(self._grants.read().grants, [*ready, *others], now)

    def node_costs(self, now: float, *, unwritten: NodesObservation | None = None) -> NodeCosts:
        """Return the cost by node, or an empty mapping if the ledger can't be read. See `account` for `unwritten`."""
        try:
            return node_costs(self._billed(now, unwritten), now)
        except JournalUnwritable:
            return {}

    def set_budget(self, name: str, wanted: Mapping[str, Any], *, now: float) -> Budget:
        """Write a budget, replacing any budget with the same name. Confirms all other budgets too.

        Args:
            now: Unix seconds by this computer's clock, which dates all changes that the user makes.

        Raises:
            BadInput: the budget is invalid.
            JournalUnwritable: nothing has changed.
        """
        # reject a project number or a misspelt ID: such a budget would limit nothing
        check_project(self._project)
        budget = budget_from_json(name, wanted)
        reason = _SET[budget.period].with_arguments(
            budget=name, amount=amount_text(budget, budget.amount), action=_action_text(budget)
        )
        self._documents.put(_KIND, name, budget.to_json(), now=now)
        self._audit.record(Entry(at=now, action="budget", subject=name, reason=reason, detail=budget.to_json()))
        # a user who sets a budget sees all budgets, so count them as confirmed
        self.confirm_budgets(now=now)
        return budget

    def confirm_budgets(self, *, now: float) -> bool:
        """Record that the user has checked the budgets after damage to the journal; return whether this was needed.

        Raises:
            JournalUnwritable: the budgets are not confirmed.
        """
        return self._losses.confirm(now=now)

    def record_losses(self) -> None:
        """Record each case of journal damage in the audit log once; raises `JournalUnwritable`."""
        self._losses.record()

    def remove_budget(self, name: str, *, now: float) -> None:
        """Remove a budget. Removing `LOST`, the warning about lost budgets, confirms the remaining budgets.

        Raises:
            BudgetNotFound: there is no budget with this name.
            JournalUnwritable: nothing has changed.
        """
        if name == LOST and self.confirm_budgets(now=now):
            return
        if not self._documents.remove(_KIND, name):
            raise _no_budget(name)
        reason = Text("The user removed the budget {budget}.", budget=name)
        self._audit.record(Entry(at=now, action="budget", subject=name, reason=reason))

    def remove_grant(self, name: str, *, now: float) -> None:
        """Remove a grant. All usage that it covered then counts as billed, even past usage.

        Args:
            now: Unix seconds by the cloud's clock, which measures usage.

        Raises:
            BadInput: there is no grant with this name.
            WrongState: a budget would be used up as a result.
            JournalUnwritable: nothing has changed.
        """
        # report only budgets that the removal would exceed; others already exceed their limit
        used_up = {budget.name for budget, usage in self.account(now).usages() if usage.is_used_up}
        for budget, usage in self.account(now, without_grant=name).usages():
            if usage.is_used_up and budget.stops_nodes and budget.name not in used_up:
                raise _needed(name, budget, usage)
        self._grants.remove(name, now=time.time())

    def record_once(self, entry: Entry) -> bool:
        """Add an entry to the audit log unless it already exists, see `Audit.record_once`; return whether it was added.

        Raises:
            JournalUnwritable: the entry was not added.
        """
        return self._audit.record_once(entry)


def _budget(read: Document | tuple[str, JournalUnwritable]) -> Budget | BrokenBudget:
    if isinstance(read, tuple):
        return BrokenBudget(name=read[0], error=read[1])
    try:
        return budget_from_json(read.name, read.body)
    except BadInput as error:
        unreadable = JournalUnwritable(
            Text(
                "The budget {budget} in the journal is invalid: {reason}",
                budget=repr(read.name[:70]),
                reason=error.message,
            ),
            exists="Until the budget is fixed, jupyter_tpu requests nothing that costs money.",
            hint="Set the budget again, or remove it, with `jupyter tpu budget`.",
            actions=(show_budgets(),),
        )
        return BrokenBudget(name=read.name, error=unreadable)


def utc_offset_s(at: float) -> float:
    """Return the offset of this computer's time zone from UTC at a time, in seconds, including daylight saving."""
    return float(time.localtime(at).tm_gmtoff)


def _action_text(budget: Budget) -> Text:
    if not budget.stops_nodes:
        return _WARNS
    return _SPARES_GRANTED if budget.spares_granted else _STOPS_ALL


def _no_budget(name: str) -> BudgetNotFound:
    return BudgetNotFound(
        Text("There is no budget named {budget}.", budget=repr(name[:70])),
        hint="`jupyter tpu budget` lists the budgets.",
        actions=(show_budgets(),),
    )


def _needed(grant: str, budget: Budget, usage: Usage) -> WrongState:
    return WrongState(
        Text(
            "If you remove the grant {grant}, its usage counts as billed. The budget {budget} would then be "
            "used up ({usage}), and READY nodes would be stopped.",
            grant=grant,
            budget=budget.name,
            usage=usage_text(budget, usage),
        ),
        exists="The grant is unchanged.",
        hint=Text(
            "Raise or remove the budget {budget} first. Or enter the grant again with its last day, so that "
            "past usage stays covered.",
            budget=budget.name,
        ),
    )


def observation_of(
    listed: NodeList, *, as_of: float, before: NodesObservation = NEVER, **changes: Any
) -> NodesObservation:
    """Convert a list of nodes to a ledger observation.

    `before` is the last observation by this process. If it is old, for example because this computer slept, a node that
    is now READY may have been READY since then or since its creation.
    """
    observation = NodesObservation(as_of=as_of, unreachable=listed.unreachable, **changes)
    return replace(
        observation, ready=tuple(_sight(node, observation, before) for node in listed.nodes if node.is_billed)
    )


def observation_of_fleet(snapshot: FleetSnapshot, *, before: NodesObservation = NEVER) -> NodesObservation:
    """Convert the last known state of the fleet to a ledger observation; for `before`, see `observation_of`."""
    listed = NodeList(nodes=snapshot.nodes, unreachable=snapshot.unreachable)
    return observation_of(listed, as_of=snapshot.as_of, before=before, read_at=dict(snapshot.node_read_at))


def _as_ready(node: Node, now: float) -> Span:
    """Return a new usage interval that starts now, for a node that is not READY in the ledger."""
    return Span(
        name=node.name,
        uid=node.uid,
        accelerator_type=node.accelerator_type,
        spot=node.spot or node.preemptible,
        usd_per_hour=None,  # grants count chips, not prices
        began_at=now,
        ended_at=now,
        provisioning=node.provisioning,
    )


def _sight(node: Node, observation: NodesObservation, before: NodesObservation) -> ObservedNode:
    price = node_price(node)
    return ObservedNode(
        name=node.name,
        uid=node.uid,
        accelerator_type=node.accelerator_type,
        spot=node.spot or node.preemptible,
        usd_per_hour=price.usd_per_hour if price else None,
        unwatched_s=_unwatched_s(node, observation.seen_at(node.name), before.seen_at(node.name)),
        price_source=price.origin if price else "",
        provisioning=node.provisioning,
    )


def _unwatched_s(node: Node, seen_at: float, seen_before_at: float) -> float:
    """Return the maximum time that the node may have been READY without being observed, in seconds."""
    created_at = _unix_seconds(node.create_time)
    # the node was seen a moment ago, so the ledger knows its state at that time
    if created_at is None or seen_at - seen_before_at <= FRESH_S:
        return 0.0
    return max(0.0, seen_at - max(created_at, seen_before_at))


def _unix_seconds(create_time: str) -> float | None:
    try:
        return datetime.fromisoformat(create_time).timestamp()
    except ValueError:
        return None
