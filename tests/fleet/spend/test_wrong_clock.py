"""What nodes cost is counted by the cloud's clock, whatever somebody does to that of the user's computer."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tiers import mostly_nightly

from jupyter_tpu.autostop import KeepRunning
from jupyter_tpu.fleet.capacity.recreate import set_recovery
from jupyter_tpu.journal.recovery_store import Recoveries
from jupyter_tpu.models import NodeName, NodeSpec
from jupyter_tpu.money.spans import EVER, cost

if TYPE_CHECKING:
    from money_world import Process, World

HOUR_S = 3600.0
USD_PER_HOUR = 9.6
SPEC = NodeSpec(
    name=NodeName(project="demo-project", zone="us-central1-a", node_id="my-node"),
    accelerator_type="v5litepod-8",
    runtime_version="v2-alpha-tpuv5-lite",
)

SPOT = replace(SPEC, spot=True)


def spent(world: World, process: Process) -> float:
    """As the panel shows it."""
    now = process.cloud.clock.now()
    assert now == pytest.approx(world.now, abs=2.0)
    usd = cost(process.books.account(now).spans, EVER, now).usd
    assert usd is not None
    return usd


def billed(world: World) -> float:
    """As the cloud counts."""
    return sum(((span.ended or world.now) - span.started) / HOUR_S * USD_PER_HOUR for span in world.spans())


async def with_a_node(world: World) -> Process:
    process = await world.open()
    await process.does(process.fleet.create(SPEC))
    await asyncio.sleep(600.0)
    assert spent(world, process) == pytest.approx(billed(world), abs=0.2)
    return process


@pytest.mark.parametrize("leap_s", mostly_nightly([-HOUR_S, HOUR_S, -86_400.0], count=2))
@pytest.mark.parametrize("is_new_process", mostly_nightly([True, False], count=1))
def test_a_clock_that_is_set_neither_hides_what_is_spent_nor_charges_more(
    world: World, leap_s: float, is_new_process: bool
) -> None:
    async def story() -> None:
        process = await with_a_node(world)
        process.books.set_budget("mine", {"amount": 9.0, "unit": "usd", "period": "total"}, now=world.now)
        if is_new_process:
            await world.kill(process)
        world.clock_ahead_s = leap_s
        if is_new_process:
            process = await world.open()
        for _ in range(4):
            await asyncio.sleep(600.0)
            assert spent(world, process) == pytest.approx(billed(world), abs=0.2)
        ((_, usage),) = process.books.account(process.cloud.clock.now()).usages()
        assert usage.used == pytest.approx(billed(world), abs=0.2)
        snapshot = process.fleet.snapshot()
        assert [node.state for node in snapshot.nodes] == ["READY"]  # no budget was used up
        assert snapshot.as_of_here == pytest.approx(world.now + leap_s, abs=30.0)

    world.run(story())


async def ends_in_about_half_an_hour(process: Process) -> None:
    await asyncio.sleep(0.25 * HOUR_S)
    assert [each.state for each in process.fleet.snapshot().nodes] == ["READY"]
    await asyncio.sleep(0.375 * HOUR_S)
    assert [each.state for each in process.fleet.snapshot().nodes] != ["READY"]


@pytest.mark.parametrize("leap_s", [-HOUR_S, HOUR_S])
def test_a_budget_strikes_when_it_is_used_up_though_the_clock_was_set(world: World, leap_s: float) -> None:
    async def story() -> None:
        process = await with_a_node(world)
        process.books.set_budget("mine", {"amount": 3.0, "unit": "usd", "period": "total"}, now=world.now)
        world.clock_ahead_s = leap_s
        await asyncio.sleep(0.5 * HOUR_S)
        assert [node.state for node in process.fleet.snapshot().nodes] == ["STOPPED"]
        assert billed(world) == pytest.approx(3.0, abs=0.5)

    world.run(story())


@pytest.mark.parametrize(("leap_s", "way"), [(-HOUR_S, "behind"), (HOUR_S, "ahead")])
def test_a_wrong_clock_is_told_while_it_is_wrong(world: World, leap_s: float, way: str) -> None:
    async def story() -> None:
        process = await world.open()
        await asyncio.sleep(60.0)
        assert process.fleet.snapshot().notices == ()
        world.clock_ahead_s = leap_s
        (notice,) = process.fleet.snapshot().notices
        assert notice.startswith(f"This computer's clock is 1 h {way}.")
        world.clock_ahead_s = 0.0
        assert process.fleet.snapshot().notices == ()

    world.run(story())


@pytest.mark.parametrize("leap_s", mostly_nightly([-HOUR_S, HOUR_S], count=1))
def test_a_session_is_as_long_as_it_was_though_the_clock_was_set(world: World, leap_s: float) -> None:
    async def story() -> None:
        process = await with_a_node(world)
        (node,) = process.fleet.snapshot().nodes
        await process.does(process.braking.set_rules(node, {"session_s": 0.5 * HOUR_S + 600.0}))
        world.clock_ahead_s = leap_s
        await ends_in_about_half_an_hour(process)

    world.run(story())


@pytest.mark.parametrize("leap_s", mostly_nightly([-3 * 86_400.0, 3 * 86_400.0], count=1))
@pytest.mark.parametrize(
    "when", mostly_nightly(["while a process runs", "before the next process", "before it is set"], count=2)
)
@pytest.mark.parametrize("end", mostly_nightly(["deadline", "keep"], count=1))
def test_a_fixed_end_comes_when_it_was_meant_to_though_the_clock_was_set(
    world: World, end: str, when: str, leap_s: float
) -> None:
    async def story() -> None:
        process = await with_a_node(world)
        (node,) = process.fleet.snapshot().nodes
        world.clock_ahead_s = leap_s if when == "before it is set" else 0.0
        at = world.now + world.clock_ahead_s + 0.5 * HOUR_S
        if end == "deadline":
            await process.does(process.braking.set_rules(node, {"deadline_at": at}))
        else:
            await process.does(process.braking.set_rules(node, {"session_s": 0.25 * HOUR_S}))
            await process.does(process.braking.extend(node, KeepRunning(until=at, while_busy=False)))
        await asyncio.sleep(60.0)
        world.clock_ahead_s = leap_s
        if when == "before the next process":
            await world.kill(process)
            process = await world.open()
        await ends_in_about_half_an_hour(process)

    world.run(story())


@pytest.mark.parametrize(("ahead_s", "then_s", "phase"), [(2 * HOUR_S, 0.0, "given_up"), (0.0, 2 * HOUR_S, "watching")])
def test_a_cap_of_what_a_node_costs_counts_from_the_choice_though_the_clock_was_set(
    world: World, ahead_s: float, then_s: float, phase: str
) -> None:
    """Two hours cost more than the cap of $5: they come after the choice, or before it."""

    async def story() -> None:
        process = await world.open()
        await process.does(process.fleet.create(SPOT))
        place = {"endpoint": process.cloud.settings.endpoint, "project": process.cloud.settings.project}
        await asyncio.sleep(600.0 if phase == "given_up" else 2 * HOUR_S)
        world.clock_ahead_s = ahead_s
        now = world.now + ahead_s
        await process.does(set_recovery(process.cloud, process.journal, SPOT.name, is_on=True, max_usd=5.0, now=now))
        await asyncio.sleep(2 * HOUR_S if phase == "given_up" else 60.0)
        world.clock_ahead_s = then_s
        await world.preempt(str(SPOT.name))
        await asyncio.sleep(HOUR_S)
        after = Recoveries(process.journal, **place).get(SPOT.name)
        assert after is not None
        assert after.phase == phase, after.message

    world.run(story())
