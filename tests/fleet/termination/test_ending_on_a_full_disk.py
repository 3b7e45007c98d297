"""A full local disk keeps no node billed: nodes still end, as the cloud's own ledger shows."""

from __future__ import annotations

import asyncio

import pytest
from money_judge import TICK_S, Judge
from money_world import PROJECT, Process, World

from jupyter_tpu.emulator.resources.protos import State
from jupyter_tpu.models import NodeName, NodeSpec

NAME = NodeName(project=PROJECT, zone="us-central1-a", node_id="n1")
SPEC = NodeSpec(name=NAME, accelerator_type="v5litepod-8", runtime_version="v2-alpha-tpuv5-lite")
USD_PER_SECOND = 9.6 / 3600
CAP_USD = 1.0


def fill_the_disk(process: Process, *, is_full: bool = True) -> None:
    """The journal of this process can be read and not be written."""
    with process.journal.reading() as database:
        database.execute(f"PRAGMA query_only = {'ON' if is_full else 'OFF'}")


@pytest.mark.parametrize("settles_s", [120.0, 1.0], ids=["READY", "CREATING"])
def test_a_budget_stops_a_node_whatever_it_was_when_the_disk_became_full(world: World, settles_s: float) -> None:
    async def story() -> None:
        process = await world.open()
        process.books.set_budget("mine", {"amount": CAP_USD, "unit": "usd", "period": "total"}, now=world.now)
        await asyncio.sleep(60.0)
        await process.does(process.fleet.create(SPEC))
        await asyncio.sleep(settles_s)
        fill_the_disk(process)
        await asyncio.sleep(600.0)
        assert [node.state for node in world.nodes()] == [State.STOPPED]
        assert CAP_USD / 2 < Judge(world).used("usd") <= CAP_USD + TICK_S * USD_PER_SECOND
        assert any("is not saved" in notice for notice in process.fleet.snapshot().notices)
        assert world.errors.seen == []

    world.run(story())


def test_a_node_that_cannot_be_stopped_is_deleted_though_the_disk_is_full(world: World) -> None:
    async def story() -> None:
        process = await world.open()
        await process.does(process.fleet.create(SPEC))
        await asyncio.sleep(120.0)
        process.books.set_budget("mine", {"amount": 0.01, "unit": "usd", "period": "total"}, now=world.now)
        fill_the_disk(process)
        refusal = "stop is not supported for a node like this"
        world.fault("StopNode", "error", code="INVALID_ARGUMENT", message=refusal, times=None)
        await asyncio.sleep(240.0)
        assert world.nodes() == []

    world.run(story())


@pytest.mark.parametrize("action", ["stop", "delete"])
@pytest.mark.parametrize("rule", ["session", "deadline"])
def test_a_rule_ends_a_node_though_the_disk_is_full(world: World, rule: str, action: str) -> None:
    async def story() -> None:
        process = await world.open()
        await process.does(process.fleet.create(SPEC))
        await asyncio.sleep(120.0)
        node = await process.cloud.get_node(NAME)
        limit = {"session_s": 300.0} if rule == "session" else {"deadline_at": world.now + 180.0}
        await process.braking.set_rules(node, {**limit, "action": action})
        fill_the_disk(process)
        await asyncio.sleep(400.0)
        assert [each.state for each in world.nodes()] == ([State.STOPPED] if action == "stop" else [])
        assert Judge(world).used("usd") <= (300.0 + TICK_S) * USD_PER_SECOND

    world.run(story())


@pytest.mark.parametrize("who", ["budget", "session"])
def test_why_a_node_ended_is_recorded_when_the_disk_has_room_again(world: World, who: str) -> None:
    async def story() -> None:
        process = await world.open()
        await process.does(process.fleet.create(SPEC))
        await asyncio.sleep(120.0)
        if who == "budget":
            process.books.set_budget("mine", {"amount": CAP_USD, "unit": "usd", "period": "total"}, now=world.now)
        else:
            await process.braking.set_rules(await process.cloud.get_node(NAME), {"session_s": 300.0})
        fill_the_disk(process)
        await asyncio.sleep(600.0)
        assert [node.state for node in world.nodes()] == [State.STOPPED]

        fill_the_disk(process, is_full=False)
        await asyncio.sleep(60.0)
        about = process.journal.intents_about(NAME, endpoint=process.cloud.settings.endpoint, since=0.0)
        assert [each.because and each.because.cause for each in about if each.verb == "stop"] == [who]
        with process.journal.reading() as database:
            reasons = database.execute("SELECT reason FROM audit WHERE action = 'stop'").fetchall()
        (said,) = reasons
        assert (
            "The budget mine is used up" if who == "budget" else "It reached the maximum session length of 5 min"
        ) in said[0]

    world.run(story())
