"""A node whose notebooks have checkpoint hooks ends after them, no matter which part of jupyter_tpu ends it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from jupyter_tpu.cloud.settings import CloudSettings
from jupyter_tpu.errors import BadInput, LinkDown
from jupyter_tpu.fleet.autostop.controller import AutostopController
from jupyter_tpu.fleet.spend.enforcer import BudgetEnforcer
from jupyter_tpu.fleet.termination.checkpoint_hooks import CheckpointHooks
from jupyter_tpu.journal import Journal
from jupyter_tpu.journal.audit import Audit
from jupyter_tpu.journal.user_documents import Documents
from jupyter_tpu.models import Node, NodeName
from jupyter_tpu.money.budgets import Budget

RAN = {
    "notice_id": "n",
    "kernel_id": "k",
    "notebook": "train.ipynb",
    "status": "ran",
    "message": "checkpoint hook ran in 3.1 s (the node's session is over)",
    "age_s": 0.5,
}
TURNS = 10
NODE = Node(name=NodeName(project="demo-project", zone="us-central1-a", node_id="my-node"), state="READY")


class Hooked:
    """An agent whose hook needs some turns; it answers nothing else. Remembers whether the node was there."""

    def __init__(self, is_there: Any) -> None:
        self.asked: list[str] = []
        self.found: list[bool] = []
        self._is_there = is_there

    async def call(self, _node: NodeName, method: str, params: Mapping[str, Any]) -> dict[str, Any] | None:
        if method != "prepare_to_end":
            return None
        self.asked.append(params["reason"])
        self.found.append(await asyncio.to_thread(self._is_there))
        is_ready = len(self.asked) >= TURNS
        return {"is_ready": is_ready, "hooks": [RAN] if is_ready else []}

    def was_reached(self, _node: Node) -> bool:
        return True


class Answering:
    """An agent that always answers, or fails, the same way."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    async def call(self, _node: NodeName, _method: str, _params: Mapping[str, Any]) -> Any:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    def was_reached(self, _node: Node) -> bool:
        return True


async def until_ended(bench: Any) -> None:
    async with asyncio.timeout(120):
        while await asyncio.to_thread(bench.emulator.control.billing):  # noqa: ASYNC110 - it never calls
            await asyncio.sleep(0.05)


async def test_auto_stop_waits_for_the_hooks_and_notes_them_once(bench: Any) -> None:
    journal, agents = bench.journal(), Hooked(bench.emulator.control.billing)
    braking = AutostopController(bench.cloud, journal, agents, every_s=0.0)
    fleet = await bench.fleet(BudgetEnforcer, lambda *_: braking, journal=journal)
    assert (await fleet.wait((await fleet.create(bench.spec())).intent_id)).succeeded
    node = (await fleet.refresh()).node(bench.name())
    await braking.set_rules(node, {"session_s": 1.0})

    await until_ended(bench)

    assert len(agents.asked) >= TURNS
    assert all(agents.found[:TURNS])
    settings = bench.cloud.settings
    audit = Audit(journal, endpoint=settings.endpoint, project=settings.project)
    noted = [entry for entry in await asyncio.to_thread(audit.newest) if entry.action == "checkpoint_hook"]
    assert [entry.reason for entry in noted] == [f"train.ipynb: {RAN['message']}."]


async def test_a_budget_waits_for_the_hooks(bench: Any) -> None:
    journal, agents, settings = bench.journal(), Hooked(bench.emulator.control.billing), bench.cloud.settings
    saving = CheckpointHooks(agents, journal, settings)
    fleet = await bench.fleet(lambda *_: BudgetEnforcer(bench.cloud, journal, checkpoint_hooks=saving), journal=journal)
    assert (await fleet.wait((await fleet.create(bench.spec())).intent_id)).succeeded
    budget = Budget(name="all", amount=1e-6, unit="hours", period="total")
    documents = Documents(journal, endpoint=settings.endpoint, project=settings.project)
    await asyncio.to_thread(documents.put, "budget", "all", budget.to_json(), now=time.time())

    await until_ended(bench)

    assert len(agents.asked) >= TURNS
    assert all(agents.found[:TURNS])
    assert "The budget all is used up" in agents.asked[0]


@pytest.fixture
def saving_with(tmp_path: Path) -> Iterator[Callable[[Any], CheckpointHooks]]:
    """Makes one whose agent gives that answer."""
    journal = Journal.open(tmp_path)
    settings = CloudSettings(project="demo-project", endpoint="localhost:1")
    yield lambda answer: CheckpointHooks(Answering(answer), journal, settings)
    journal.close()


@pytest.mark.parametrize(
    "answer",
    [None, {}, {"is_ready": True, "hooks": [{"status": 7}, "x"]}, BadInput("no such method"), LinkDown("cut")],
    ids=["no link", "nonsense", "odd hooks", "older agent", "cut"],
)
async def test_nobody_waits_for_an_agent_that_cannot_tell(saving_with: Any, answer: Any) -> None:
    assert await saving_with(answer).is_ready(NODE, "the node ends")


async def test_a_deadline_waits_for_nothing(saving_with: Any) -> None:
    saving = saving_with({"is_ready": False})
    assert not await saving.is_ready(NODE, "the node ends", ends_in_s=5)
    assert await saving.is_ready(NODE, "the node ends", ends_in_s=0)
