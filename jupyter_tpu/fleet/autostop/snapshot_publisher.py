"""Send nodes the data that only this computer has, for their notebooks: price, cost, quota, grants and budgets.

The module uses only links that are already open, sends only to billed nodes, and never sends a credential. The data is
the same as in the REST API, with the time at which it was read.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jupyter_tpu.accelerators import region_of
from jupyter_tpu.errors import TpuError
from jupyter_tpu.fleet.reconciler.views import node_view
from jupyter_tpu.fleet.spend.grant_usage import GrantUsage, read_grant_usage
from jupyter_tpu.fleet.spend.quota_report import QuotaReport, QuotaService, quota_view
from jupyter_tpu.fleet.spend.spend_ledger import SpendLedger
from jupyter_tpu.models import Node
from jupyter_tpu.money.spending import Account, budgets_view, node_costs, spend_view

if TYPE_CHECKING:
    from jupyter_tpu.cloud.api import CloudApi
    from jupyter_tpu.cloud.cloud_clock import CloudClock
    from jupyter_tpu.fleet.agents import Agents
    from jupyter_tpu.fleet.reconciler.fleet import Fleet
    from jupyter_tpu.fleet.reconciler.records import FleetSnapshot
    from jupyter_tpu.journal import Journal

log = logging.getLogger(__name__)

JSON = dict[str, Any]
Key = tuple[str, str]

# the times below are our choices
AT_LEAST_EVERY_S = 60.0
"""How often unchanged data is sent, in seconds, so that notebooks can distinguish current data from old data."""

# how often this computer checks for new data
_CHECK_EVERY_S = 5.0
# how long to wait after an agent refused or did not respond
_REST_S = 60.0
_ANSWER_S = 3.0
# how often to read the quota's limits, which change rarely and take several calls to read
_QUOTA_S = 300.0
# maximum numbers of items to send: agents accept 64 KiB of each kind
# (`jupyter_tpu.agent.autostop.snapshots.LARGEST_BYTES`)
_MOST_LIMITS, _MOST_USERS = 40, 5
_MOST_BUDGETS = 100
_MOST_GRANTS, _MOST_ROWS = 20, 20
# fields that change merely because time passes; only a change of another field is sent early
_GROWING = frozenset(
    {"as_of", "cost_usd", "fraction", "known_usd", "ready_s", "runs_out_at", "unwatched_s", "usd", "usd_left"}
    | {"usd_used", "used"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DatedView:
    """The data of one kind, such as the quota; `as_of` is when it was read (Unix seconds)."""

    data: JSON
    as_of: float

    def stable_text(self) -> str:
        """Return the data as text for comparisons, without the values that change with time."""
        return json.dumps(_stable(self.data), sort_keys=True)

    def params(self, kind: str, clock: CloudClock, now: float) -> JSON:
        """Return the parameters of the agent's method ``tell``; `now` is in Unix seconds by this computer's clock."""
        # the worker's clock is real even if the cloud's is emulated
        as_of = clock.to_real(self.as_of)
        return {"kind": kind, "as_of": as_of, "age_s": max(0.0, now - as_of), "data": self.data}


def _stable(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _stable(each) for name, each in value.items() if name not in _GROWING}
    return [_stable(each) for each in value] if isinstance(value, list) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalState:
    """All data that is sent to nodes, read once for all of them."""

    snapshot: FleetSnapshot
    account: Account
    grants: GrantUsage
    quota: QuotaReport


class SnapshotPublisher:
    """The controller that sends cost and quota snapshots to the nodes' agents.

    Sending runs in a separate task, so that the fleet's loop never waits for an agent.

    Args:
        agents: access to the agents; if None, nothing is sent.
        clock: returns Unix seconds; if None, the cloud's clock is used.
    """

    def __init__(
        self, cloud: CloudApi, journal: Journal, agents: Agents | None, *, clock: Callable[[], float] | None = None
    ) -> None:
        self._cloud = cloud
        self._journal = journal
        self._agents = agents
        self._clock = clock or cloud.clock.now
        self._ledger = SpendLedger(journal, cloud.settings)
        self._quota = QuotaService(cloud, keep_s=_QUOTA_S)
        self._sent: dict[tuple[Key, str], tuple[str, float]] = {}
        self._rest_until: dict[Key, float] = {}
        self._check_at = 0.0
        self._task: asyncio.Task[None] | None = None

    async def reconcile(self, fleet: Fleet, now: float) -> None:
        """Start sending snapshots to all billed nodes if it is time, unless the previous round is still running."""
        # use the clock of the data, because times are sent in cloud time
        now = self._real_now()
        is_busy = self._task is not None and not self._task.done()
        if self._agents is None or is_busy or now < self._check_at:
            return
        snapshot = fleet.snapshot()
        nodes = [node for node in snapshot.nodes if node.is_billed]
        if nodes:
            self._check_at = now + _CHECK_EVERY_S
            self._task = asyncio.create_task(self._send_all(self._agents, snapshot, nodes))

    async def close(self) -> None:
        """Stop sending snapshots."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _send_all(self, agents: Agents, snapshot: FleetSnapshot, nodes: Sequence[Node]) -> None:
        """Send the snapshots to all nodes whose agent responds. A failure with one node does not affect the others."""
        try:
            # make a small call first: if no agent is connected, nothing needs to be read
            is_up = await asyncio.gather(*(self._has_answer(agents, node, "told", {"kind": "node"}) for node in nodes))
            if any(is_up):
                known = await self._known(snapshot)
                up = [node for node, answers in zip(nodes, is_up, strict=True) if answers]
                await asyncio.gather(*(self._send_one(agents, node, known) for node in up))
        except TpuError as error:
            log.info("Costs and quota could not be sent to the nodes: %s", error)
        except Exception:
            log.exception("Costs and quota could not be sent to the nodes")

    def _real_now(self) -> float:
        return self._cloud.clock.to_real(self._clock())

    async def _has_answer(self, agents: Agents, node: Node, method: str, params: Mapping[str, Any]) -> bool:
        """Return whether the agent responds; after an error or a timeout, it is not called again for a while."""
        if self._real_now() < self._rest_until.get(_key(node), 0.0):
            return False
        try:
            async with asyncio.timeout(_ANSWER_S):
                return await agents.call(node.name, method, params) is not None
        except (TpuError, TimeoutError) as error:
            self._rest_until[_key(node)] = self._real_now() + _REST_S
            log.info("Costs and quota could not be sent to %s: %s", node.name, str(error) or "no response in time")
            return False

    async def _send_one(self, agents: Agents, node: Node, known: LocalState) -> None:
        views = await asyncio.to_thread(node_snapshots, known, node, self._cloud.clock)  # a ledger may be long
        for kind, view in views.items():
            await self._send(agents, node, kind, view)

    async def _send(self, agents: Agents, node: Node, kind: str, view: DatedView) -> None:
        key, now, stable = (_key(node), kind), self._clock(), view.stable_text()
        before, sent_at = self._sent.get(key, ("", 0.0))
        if stable == before and now - sent_at < AT_LEAST_EVERY_S:
            return
        if await self._has_answer(agents, node, "tell", view.params(kind, self._cloud.clock, self._real_now())):
            # count data as sent only if the agent has accepted it
            self._sent[key] = (stable, now)

    async def _known(self, snapshot: FleetSnapshot) -> LocalState:
        """Read the data that the snapshots of all nodes are built from; raises `JournalUnwritable`."""
        account = await asyncio.to_thread(self._ledger.account, self._clock())
        grants = await read_grant_usage(self._journal, self._cloud.settings, snapshot)
        quota = await self._quota.report(tuple((each.name, each.state, each.uid) for each in snapshot.nodes))
        return LocalState(snapshot=snapshot, account=account, grants=grants, quota=quota)


def node_snapshots(known: LocalState, node: Node, clock: CloudClock) -> Mapping[str, DatedView]:
    """Return all data that is sent to a node, by kind."""
    account, snapshot = known.account, known.snapshot
    quota_at = clock.to_cloud(known.quota.as_of)  # this time is from this computer's clock, unlike the other times
    costs = node_costs(account.spans, account.now)
    return {
        "node": DatedView(data=node_view(node, costs=costs), as_of=snapshot.seen_at(node.name)),
        "cost": DatedView(data=cost_of_node(account, snapshot, node), as_of=account.now),
        "budget": DatedView(data={"budgets": budgets_view(account)[:_MOST_BUDGETS]}, as_of=account.now),
        "grant": DatedView(data=_first_grants(known.grants.to_json()), as_of=known.grants.now),
        "quota": DatedView(data=quota_of_node(quota_view(known.quota), node), as_of=quota_at),
    }


def cost_of_node(account: Account, snapshot: FleetSnapshot, node: Node) -> JSON:
    """Return the spending view of the REST API without the rows of other nodes."""
    is_complete = bool(snapshot.as_of) and snapshot.error is None and not snapshot.unreachable
    view = spend_view(account, as_of=snapshot.as_of or None, is_complete=is_complete)
    rows = [row for row in view["nodes"] if row["name"] == str(node.name)]
    return {**view, "nodes": rows[-1:], "budgets": view["budgets"][:_MOST_BUDGETS]}


def _first_grants(view: JSON) -> JSON:
    # sort expired grants last, so that they are cut first
    grants = sorted(view["grants"], key=lambda grant: bool(grant["is_over"]))
    return {"grants": [{**grant, "rows": grant["rows"][:_MOST_ROWS]} for grant in grants[:_MOST_GRANTS]]}


def quota_of_node(view: JSON, node: Node) -> JSON:
    """Return the limits that this node counts against, then other limits in use in its zone and region."""
    places = (node.name.zone, region_of(node.name.zone))
    near = [row for row in view["limits"] if row["location"] in places and row["used"]]
    near.sort(key=lambda row: not any(user["name"] == str(node.name) for user in row["users"]))
    return {**view, "limits": [{**row, "users": row["users"][:_MOST_USERS]} for row in near[:_MOST_LIMITS]]}


def _key(node: Node) -> Key:
    return str(node.name), node.uid
