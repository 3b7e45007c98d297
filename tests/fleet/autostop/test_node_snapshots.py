"""Nodes are told what only this machine knows of them, over links that are up."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any

import pytest

from jupyter_tpu.accelerators import zones_for
from jupyter_tpu.agent.autostop.snapshots import KINDS, LARGEST_BYTES
from jupyter_tpu.errors import BadInput
from jupyter_tpu.fleet.autostop.snapshot_publisher import AT_LEAST_EVERY_S, SnapshotPublisher
from jupyter_tpu.fleet.spend.enforcer import BudgetEnforcer
from jupyter_tpu.fleet.spend.spend_ledger import SpendLedger
from jupyter_tpu.journal.grant_store import Grants
from jupyter_tpu.models import Node, NodeName
from jupyter_tpu.money.grants import grant_from_json

CREDIT = {"kind": "credit", "starts_on": "2026-01-01", "days": 3000, "usd": 500.0}


class Agents:
    """Agents that answer, refuse or cannot be asked, and remember what they were told."""

    def __init__(self) -> None:
        self.is_up = True
        self.refuses = False
        self.asked = 0
        self.told: list[tuple[str, str, Mapping[str, Any]]] = []
        self._news = asyncio.Event()

    async def call(self, node: NodeName, method: str, params: Mapping[str, Any]) -> dict[str, Any] | None:
        self.asked += 1
        self._news.set()
        if self.refuses:
            raise BadInput("The agent has no method 'told'.")
        if self.is_up and method == "tell":
            self.told.append((node.node_id, str(params["kind"]), params))
        return {} if self.is_up else None

    def was_reached(self, _node: Node) -> bool:
        return True

    def kinds(self, node_id: str = "my-node") -> list[str]:
        return [kind for each, kind, _ in self.told if each == node_id]

    def last(self, kind: str) -> Mapping[str, Any]:
        return next(params for node, each, params in reversed(self.told) if (node, each) == ("my-node", kind))

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(120):
            while not is_so():
                self._news.clear()
                await self._news.wait()


class Clock:
    """Some way ahead of the machine's."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead_s


class Scene:
    """A fleet of READY nodes whose agents are told."""

    def __init__(self, bench: Any) -> None:
        self.bench, self.agents, self.clock, self.journal = bench, Agents(), Clock(), bench.journal()
        self.telling = SnapshotPublisher(bench.cloud, self.journal, self.agents, clock=self.clock)

    async def begin(self, *node_ids: str) -> None:
        options = {"journal": self.journal, "clock": self.clock}
        fleet = await self.bench.fleet(BudgetEnforcer, lambda *_: self.telling, **options)
        for node_id in node_ids:
            intent = await fleet.wait((await fleet.create(self.bench.spec(node_id))).intent_id)
            assert intent.error is None


@pytest.fixture
async def make_scene(bench: Any) -> AsyncIterator[Callable[..., Awaitable[Scene]]]:
    async with AsyncExitStack() as stack:

        async def make(*node_ids: str, **agents: bool) -> Scene:
            scene = Scene(bench)
            vars(scene.agents).update(agents)
            stack.push_async_callback(scene.telling.close)
            await scene.begin(*(node_ids or ("my-node",)))
            return scene

        yield make


async def test_each_kind_is_told_small_and_with_its_age(make_scene: Any) -> None:
    scene = await make_scene()
    await scene.agents.until(lambda: set(scene.agents.kinds()) == set(KINDS))
    for kind in KINDS:
        params = scene.agents.last(kind)
        assert len(json.dumps(params["data"])) <= LARGEST_BYTES
        assert params["age_s"] >= 0
        assert params["as_of"] <= time.time()
    assert scene.agents.last("node")["data"]["price"]["usd_per_hour"] > 0


async def test_however_much_there_is_what_is_told_fits(make_scene: Any) -> None:
    scene = await make_scene(is_up=False)
    settings = scene.bench.cloud.settings
    grants = Grants(scene.journal, endpoint=settings.endpoint, project=settings.project)
    places = [(zone, spot) for zone in zones_for("v6e") for spot in (True, False)]
    rows = [{"chips": 64, "generation": "v6e", "zone": zone, "spot": spot} for zone, spot in places]
    books = SpendLedger(scene.journal, settings)
    for number in range(30):
        name = f"{number:02}{'a' * 60}"
        grant = grant_from_json(name, {"kind": "trc", "starts_on": "2026-01-01", "days": 30, "rows": rows})
        await asyncio.to_thread(grants.put, grant, now=time.time())
        for letter in "abcd":
            budget = {"amount": 1000.0, "unit": "usd", "period": "week", "action": "warn"}
            await asyncio.to_thread(books.set_budget, letter + name[:50], budget, now=time.time())
    scene.agents.is_up = True
    scene.clock.ahead_s += 61
    await scene.agents.until(lambda: set(scene.agents.kinds()) == set(KINDS))
    assert max(len(json.dumps(scene.agents.last(kind)["data"])) for kind in KINDS) <= LARGEST_BYTES


async def test_a_node_is_told_nothing_of_what_another_one_costs(make_scene: Any) -> None:
    scene = await make_scene("my-node", "other-node")
    scene.clock.ahead_s += 6
    await scene.agents.until(lambda: {"cost", "quota"} <= {*scene.agents.kinds()} & {*scene.agents.kinds("other-node")})
    scene.clock.ahead_s += AT_LEAST_EVERY_S
    count = len(scene.agents.told)
    await scene.agents.until(
        lambda: "cost" in [kind for node, kind, _ in scene.agents.told[count:] if node == "my-node"]
    )
    rows = scene.agents.last("cost")["data"]["nodes"]
    assert [row["node_id"] for row in rows] == ["my-node"]


async def test_news_are_told_at_the_next_look_and_the_rest_each_minute(make_scene: Any) -> None:
    scene = await make_scene()
    await scene.agents.until(lambda: set(scene.agents.kinds()) == set(KINDS))
    settings = scene.bench.cloud.settings
    grants = Grants(scene.journal, endpoint=settings.endpoint, project=settings.project)
    await asyncio.to_thread(grants.put, grant_from_json("edu", CREDIT), now=time.time())
    scene.clock.ahead_s += 6
    await scene.agents.until(lambda: bool(scene.agents.last("grant")["data"]["grants"]))
    count = len(scene.agents.told)
    scene.clock.ahead_s += AT_LEAST_EVERY_S
    await scene.agents.until(lambda: {kind for _, kind, _ in scene.agents.told[count:]} == set(KINDS))


@pytest.mark.parametrize("trouble", [{"refuses": True}, {"is_up": False}], ids=["refuses", "is not linked"])
async def test_an_agent_that_cannot_be_told_is_told_later(make_scene: Any, trouble: dict[str, bool]) -> None:
    scene = await make_scene(**trouble)
    await scene.agents.until(lambda: scene.agents.asked > 0)
    assert scene.agents.told == []
    scene.agents.refuses, scene.agents.is_up = False, True
    scene.clock.ahead_s += 61
    await scene.agents.until(lambda: set(scene.agents.kinds()) == set(KINDS))
