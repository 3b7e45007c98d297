"""The spend ledger and budgets, for commands without a fleet."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from jupyter_tpu.cli.options import cloud_settings
from jupyter_tpu.cli.terminal import warn
from jupyter_tpu.errors import JournalUnwritable, TpuError
from jupyter_tpu.fleet.autostop.autostop_settings import AutostopSettings, reminder_of
from jupyter_tpu.fleet.spend.spend_ledger import Place, SpendLedger, observation_of
from jupyter_tpu.fleet.spend.unobserved import record_observation
from jupyter_tpu.i18n import _
from jupyter_tpu.models import Node, NodeList, NodeName
from jupyter_tpu.money.accrual import NodesObservation
from jupyter_tpu.money.spending import Account, NodeCosts, node_cost

if TYPE_CHECKING:
    from jupyter_tpu.autostop import Reminder
    from jupyter_tpu.cloud.api import CloudApi


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedSpend:
    """The state of the ledger after the nodes were listed.

    Attributes:
        account: spending and budgets.
        as_of: when the nodes were listed, on the cloud's clock; None if the cloud didn't respond.
        is_complete: whether all zones responded.
        clock_rate: seconds of the cloud's time per real second.
    """

    account: Account
    as_of: float | None
    is_complete: bool
    clock_rate: float = 1.0


@contextmanager
def open_ledger(place: Place) -> Iterator[SpendLedger]:
    """Open the ledger of a project in a cloud, and print the journal's notices."""
    from jupyter_tpu.journal import Journal

    with closing(Journal.of_user()) as journal:
        for notice in journal.notices:
            warn(_(notice))
        yield SpendLedger(journal, place)


def warn_of_unwritten(place: Place) -> None:
    """Retry journal writes that failed on a full disk; warn if they fail again and will be lost."""
    from jupyter_tpu.journal import Journal

    with closing(Journal.of_user(place.endpoint)) as journal:
        if not journal.write_unwritten():
            warn(
                _(
                    "The journal still cannot be written, so notebooks and `jupyter tpu audit` will not show this "
                    "request."
                )
            )


@asynccontextmanager
async def ledger_of_cloud(options: argparse.Namespace) -> AsyncIterator[tuple[CloudApi, SpendLedger]]:
    """Open the cloud and the ledger of the project from the options or the credentials."""
    from jupyter_tpu.fleet.assembly import open_cloud

    async with open_cloud(cloud_settings(options)) as cloud:
        with open_ledger(cloud.settings) as ledger:
            yield cloud, ledger


async def warn_if_project_unreadable(cloud: CloudApi) -> None:
    """Warn if the project of a new budget or grant can't be read, because its id may be mistyped."""
    try:
        await cloud.list_nodes()
    except TpuError as error:
        warn(
            _(
                "The project {project} could not be read. Is the project ID correct? {message}",
                project=cloud.settings.project,
                message=_(error.message),
            )
        )


def warn_of_clock(cloud: CloudApi) -> None:
    """Warn if this computer's clock is wrong; call this after the cloud has responded with its time."""
    if notice := cloud.clock.notice:
        warn(_(notice))


async def observe_spend(options: argparse.Namespace) -> ObservedSpend:
    """List all nodes, update the ledger and return its state.

    If the cloud doesn't respond, nodes that were READY when last seen count as still READY.

    Raises:
        JournalUnwritable: the ledger can't be read or written.
    """
    async with ledger_of_cloud(options) as (cloud, ledger):
        # use the cloud's clock, because this computer's may be wrong; the offset is known after the first response
        asked = cloud.clock.steady()
        try:
            listed = await cloud.list_nodes()
        except TpuError as error:
            warn(_("The nodes could not be listed: {message}", message=_(error.message)))
            return ObservedSpend(account=ledger.account(cloud.clock.now()), as_of=None, is_complete=False)
        warn_of_clock(cloud)
        requested_at = cloud.clock.moment(asked).wall
        await record_observation(cloud, ledger, observation_of(listed, as_of=requested_at))
        account = ledger.account(cloud.clock.now())
        return ObservedSpend(
            account=account, as_of=requested_at, is_complete=not listed.unreachable, clock_rate=cloud.clock.rate
        )


async def costs_of_list(cloud: CloudApi, listed: NodeList, as_of: float, *, zone: str) -> NodeCosts:
    """Update the ledger with this list of all nodes, or of `zone` only, and return the nodes' costs."""
    if zone:
        return await costs_of_nodes(cloud, listed.nodes, as_of)
    return await _costs(cloud, observation_of(listed, as_of=as_of))


async def costs_of_nodes(cloud: CloudApi, nodes: tuple[Node, ...], as_of: float) -> NodeCosts:
    """Update the ledger with only these nodes, and return the cost of each node."""
    seen_at = {node.name: as_of for node in nodes}
    return await _costs(cloud, observation_of(NodeList(nodes=nodes), as_of=0.0, read_at=seen_at))


async def _costs(cloud: CloudApi, observation: NodesObservation) -> NodeCosts:
    """Update the ledger and return the costs; if the ledger can't be written, only warn, so that nodes are shown."""
    with open_ledger(cloud.settings) as ledger:
        unwritten = None
        try:
            await record_observation(cloud, ledger, observation)
        except JournalUnwritable as error:
            unwritten = replace(observation, now=cloud.clock.now())
            if error.message not in ledger.notices:  # otherwise this notice was printed when the journal was opened
                warn(_("The cost of the nodes is not saved: {message}", message=_(error.message)))
        return ledger.node_costs(cloud.clock.now(), unwritten=unwritten)


def reminders_of(cloud: CloudApi, nodes: tuple[Node, ...], costs: NodeCosts, as_of: float) -> dict[NodeName, Reminder]:
    """Return a reminder for each node that was billed for at least a day without a user action on this machine.

    The times in the ledger and `as_of` come from the cloud's clock. The times of user actions come from this computer's
    clock.
    """
    from jupyter_tpu.journal import Journal

    with closing(Journal.of_user()) as journal:  # the journal's notices were printed with the costs
        try:
            settings = AutostopSettings(journal, cloud.settings).read(nodes)
        except JournalUnwritable:  # the notice about this was already printed
            return {}
    now = cloud.clock.to_local(as_of)
    reminders: dict[NodeName, Reminder] = {}
    for node in nodes:
        each = settings[str(node.name)]
        ready_since = None if each.ready_since is None else cloud.clock.to_local(each.ready_since)
        if found := reminder_of(each, ready_since, None, now):
            reminders[node.name] = replace(found, usd=node_cost(costs, node).usd)
    return reminders
