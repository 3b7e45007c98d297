"""What a node costs while nobody here looks: budgets count it, and the cloud's own ledger is the judge."""

from __future__ import annotations

import asyncio

import pytest
from cloud_line import CloudLine
from money_judge import Judge
from money_world import POLLING, PROJECT, Process, World

from jupyter_tpu.cli.spend.ledger_access import costs_of_nodes
from jupyter_tpu.cloud import CloudSettings
from jupyter_tpu.cloud.google import GoogleCloud
from jupyter_tpu.errors import BudgetExceeded
from jupyter_tpu.models import NodeName, NodeSpec
from jupyter_tpu.money.budgets import Usage

NAME = NodeName(project=PROJECT, zone="us-central1-a", node_id="n1")
SPEC = NodeSpec(name=NAME, accelerator_type="v5litepod-8", runtime_version="v2-alpha-tpuv5-lite")
AWAY_S = 4 * 3600.0


async def ready_and_left(world: World) -> None:
    """A node was seen READY, and then the laptop was closed."""
    process = await world.open()
    await process.does(process.fleet.create(SPEC))
    await asyncio.sleep(120.0)
    await world.kill(process)


async def elsewhere(world: World, verb: str) -> None:
    """Somebody, or the guard, stops, starts or deletes the node."""
    cloud = GoogleCloud(CloudSettings(project=PROJECT, endpoint="127.0.0.1:1"), CloudLine(world.emulated))
    await getattr(cloud, f"{verb}_node")(NAME)
    await asyncio.sleep(120.0)


async def usage(world: World, unit: str = "usd", amount: float = 1000.0) -> Usage:
    """How far a budget is used, after a look."""
    process = await world.open()
    await asyncio.sleep(60.0)
    process.books.set_budget("mine", {"amount": amount, "unit": unit, "period": "total"}, now=world.now)
    ((_, found),) = process.books.account(world.now).usages()
    return found


@pytest.mark.parametrize("verb", ["stop", "delete"])
@pytest.mark.parametrize("unit", ["usd", "hours"])
def test_a_budget_counts_what_was_ready_unwatched_until_the_cloud_says_that_it_ended(
    world: World, verb: str, unit: str
) -> None:
    async def story() -> None:
        await ready_and_left(world)
        await asyncio.sleep(AWAY_S)
        await elsewhere(world, verb)
        await asyncio.sleep(10 * AWAY_S)
        used, billed = await usage(world, unit), Judge(world).used(unit)
        assert billed <= used.used <= billed * 1.05
        assert used.watched < billed / 10

    world.run(story())


def test_what_the_cloud_does_not_tell_counts_as_long_as_it_can_have_been(world: World) -> None:
    async def story() -> None:
        await ready_and_left(world)
        await asyncio.sleep(AWAY_S)
        await elsewhere(world, "delete")
        await asyncio.sleep(AWAY_S)
        world.fault("ListOperations", "permission_denied", times=None)
        used, billed = await usage(world), Judge(world).used("usd")
        assert billed * 1.5 < used.used < billed * 2.5
        assert used.unwatched > billed

    world.run(story())


def test_a_stop_and_a_start_elsewhere_are_not_charged_for_the_time_between(world: World) -> None:
    async def story() -> None:
        await ready_and_left(world)
        await elsewhere(world, "stop")
        process = await world.open()
        await asyncio.sleep(60.0)
        await world.kill(process)
        await asyncio.sleep(10 * AWAY_S)
        await elsewhere(world, "start")
        used, billed = await usage(world), Judge(world).used("usd")
        assert billed <= used.used <= billed * 2

    world.run(story())


def test_lives_that_nobody_watched_use_a_budget_up(world: World) -> None:
    async def story() -> None:
        process = await world.open()
        process.books.set_budget("mine", {"amount": 0.7, "unit": "usd", "period": "total"}, now=world.now)
        await world.kill(process)
        for _ in range(2):
            await ready_and_left(world)
            await asyncio.sleep(100.0)
            await elsewhere(world, "delete")
        process = await world.open()
        with pytest.raises(BudgetExceeded, match=r"up to \$.* of \$0.70 in total. Up to \$.* unmonitored time"):
            await process.does(process.fleet.create(SPEC))
        assert world.nodes() == []

    world.run(story())


def test_a_budget_counts_a_node_that_became_ready_while_the_computer_slept(world: World) -> None:
    async def story() -> None:
        process = await world.open()
        await asyncio.sleep(60.0)
        await process.does(process.fleet.create(SPEC))
        await asyncio.sleep(1.0)
        assert not world.spans(), "it is not READY yet"
        await world.emulated.time.jump(AWAY_S)  # the clocks of the process stand still
        await asyncio.sleep(60.0)
        process.books.set_budget("mine", {"amount": 1000.0, "unit": "usd", "period": "total"}, now=world.now)
        ((_, used),) = process.books.account(world.now).usages()
        billed = Judge(world).used("usd")
        assert billed <= used.used <= billed * 1.05

    world.run(story())


def test_a_node_that_becomes_ready_while_somebody_looks_costs_from_then_on(world: World) -> None:
    async def story() -> None:
        process = await world.open()
        await asyncio.sleep(60.0)
        await process.does(process.fleet.create(SPEC))
        await asyncio.sleep(300.0)
        assert [span.unwatched_s for span in process.books.account(world.now).spans] == [0.0]

    world.run(story())


def test_a_cloud_whose_time_runs_faster_is_listed_more_often(world: World) -> None:
    async def story() -> None:
        process = await world.open()
        steady = process.cloud.clock.steady()
        assert process.cloud.clock.follow(f"{world.now} 2", asked=steady, answered=steady)
        lists = set[float]()
        for _ in range(12):
            await asyncio.sleep(POLLING.idle_s / 2)
            lists.add(process.fleet.snapshot().as_of)
        assert len(lists) >= 11

    world.run(story())


def test_a_command_that_looks_at_one_node_counts_it_from_its_creation(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_TPU_DATA_DIR", str(world.folder))

    async def story() -> None:
        command = Process(world.emulated, world.folder)  # it has no fleet that looks
        await command.cloud.create_node(SPEC)
        await asyncio.sleep(AWAY_S)
        node = await command.cloud.get_node(NAME)
        await costs_of_nodes(command.cloud, (node,), world.now)
        command.journal.close()
        used, billed = await usage(world), Judge(world).used("usd")
        assert billed <= used.used <= billed * 1.05

    world.run(story())
