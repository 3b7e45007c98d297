"""A refusal to stop a node that passes by costs nobody a disk; the cloud's own ledger is the judge."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from cloud_line import CloudLine
from money_judge import Judge
from money_world import PROJECT, Process, World

from jupyter_tpu.cloud import CloudSettings
from jupyter_tpu.cloud.google import GoogleCloud
from jupyter_tpu.emulator.resources.protos import State
from jupyter_tpu.errors import BadInput, CloudRefused, CloudUnavailable, PermissionDenied, RateExceeded, WrongState
from jupyter_tpu.fleet.termination.stop_refusals import is_permanent, is_temporary
from jupyter_tpu.fleet.termination.termination_executor import Result, TerminationExecutor
from jupyter_tpu.journal.audit import Audit, Entry
from jupyter_tpu.models import NodeName, NodeSpec

NAME = NodeName(project=PROJECT, zone="us-central1-a", node_id="n1")
SPEC = NodeSpec(name=NAME, accelerator_type="v5litepod-8", runtime_version="v2-alpha-tpuv5-lite")
FOR_GOOD = {"code": "INVALID_ARGUMENT", "message": "stop is not supported for a node like this"}
TOO_OFTEN = {"code": "RESOURCE_EXHAUSTED", "message": "Quota exceeded for quota metric 'Requests' per minute"}
PASSING: list[tuple[str, dict[str, Any]]] = [
    ("permission_denied", {}),
    ("error", TOO_OFTEN),
    ("error", {"code": "INVALID_ARGUMENT", "message": "something is wrong with this request"}),
]


def elsewhere(world: World) -> GoogleCloud:
    """Somebody else's client."""
    return GoogleCloud(CloudSettings(project=PROJECT, endpoint="127.0.0.1:1"), CloudLine(world.emulated))


async def ready(world: World) -> Process:
    process = await world.open()
    await process.does(process.fleet.create(SPEC))
    await asyncio.sleep(120.0)
    return process


def use_up(process: Process) -> None:
    process.books.set_budget("mine", {"amount": 0.01, "unit": "usd", "period": "total"}, now=1.0)


def noted(process: Process, *actions: str) -> list[Entry]:
    settings = process.cloud.settings
    audit = Audit(process.journal, endpoint=settings.endpoint, project=settings.project)
    return [entry for entry in reversed(audit.newest()) if entry.action in actions]


def states(world: World) -> list[int]:
    return [node.state for node in world.nodes()]


@pytest.mark.parametrize(("kind", "options"), PASSING)
def test_at_the_cap_a_refusal_that_passes_by_deletes_nothing(world: World, kind: str, options: dict[str, Any]) -> None:
    async def story() -> None:
        process = await ready(world)
        world.fault("StopNode", kind, times=2, **options)
        use_up(process)
        await asyncio.sleep(240.0)
        assert states(world) == [State.STOPPED]
        assert all(span.ended is not None for span in world.spans())
        assert noted(process, "delete") == []
        asked = noted(process, "stop")
        # a request that came too soon is repeated without being asked for again
        refused = 0 if options == TOO_OFTEN else 2
        assert sum(entry.error is None for entry in asked) == refused + 1
        assert len([entry.error for entry in asked if entry.error]) == refused

    world.run(story())


def test_a_stop_that_the_cloud_refuses_for_minutes_for_its_rate_is_carried_out(world: World) -> None:
    async def story() -> None:
        process = await ready(world)
        world.fault("StopNode", "error", times=20, **TOO_OFTEN)
        world.fault("GetNode", "error", times=20, **TOO_OFTEN)
        intent = await process.does(process.fleet.stop(NAME))
        ended = await process.does(process.fleet.wait(intent.intent_id))
        assert ended.succeeded
        assert states(world) == [State.STOPPED]

    world.run(story())


async def end_by_rules(process: Process) -> None:
    (node,) = process.fleet.snapshot().nodes
    await process.braking.set_rules(node, {"idle_after_s": None, "session_s": 1.0, "action": "stop"})


@pytest.mark.parametrize(("kind", "options"), PASSING)
def test_a_rule_deletes_no_node_because_of_a_refusal_that_passes_by(
    world: World, kind: str, options: dict[str, Any]
) -> None:
    async def story() -> None:
        process = await ready(world)
        world.fault("StopNode", kind, times=2, **options)
        await end_by_rules(process)
        await asyncio.sleep(240.0)
        assert states(world) == [State.STOPPED]
        assert noted(process, "delete") == []

    world.run(story())


@pytest.mark.parametrize(
    ("kind", "options", "within_s"), [("permission_denied", {}, 600.0), ("error", FOR_GOOD, 150.0)]
)
def test_a_node_that_its_rule_cannot_stop_is_deleted(
    world: World, kind: str, options: dict[str, Any], within_s: float
) -> None:
    async def story() -> None:
        process = await ready(world)
        world.fault("StopNode", kind, times=None, **options)
        await end_by_rules(process)
        await asyncio.sleep(within_s)
        assert states(world) == []
        assert any("so it is deleted" in entry.reason for entry in noted(process, "delete"))

    world.run(story())


def test_at_the_cap_a_node_is_deleted_when_its_stop_is_refused_for_minutes(world: World) -> None:
    async def story() -> None:
        process = await ready(world)
        world.fault("StopNode", "permission_denied", times=None)
        use_up(process)
        await asyncio.sleep(250.0)
        assert states(world) == [State.READY]
        await asyncio.sleep(350.0)
        assert states(world) == []
        (entry,) = noted(process, "delete")
        assert entry.reason.endswith("The cloud has refused to stop this node for 5 min, so it is deleted.")

    world.run(story())


def test_at_the_cap_a_node_that_cannot_be_stopped_is_deleted_at_once(world: World) -> None:
    async def story() -> None:
        process = await ready(world)
        world.fault("StopNode", "error", times=None, **FOR_GOOD)
        use_up(process)
        await asyncio.sleep(150.0)
        assert states(world) == []
        assert Judge(world).used("usd") < 1.0

    world.run(story())


@pytest.mark.parametrize(
    ("kind", "options", "times", "action"),
    [
        *((kind, options, 2, "stop") for kind, options in PASSING),
        ("error", TOO_OFTEN, 8, "stop"),
        ("permission_denied", {}, None, "delete"),
        ("error", FOR_GOOD, 1, "delete"),
    ],
)
def test_stop_all_asks_again_for_a_stop_that_was_refused_and_deletes_in_the_end(
    world: World, kind: str, options: dict[str, Any], times: int | None, action: str
) -> None:
    async def story() -> None:
        process = await ready(world)
        world.fault("StopNode", kind, times=times, **options)
        executor = TerminationExecutor(process, reason="Stop all.", wait=True)
        result = await process.does(executor.stop(str(NAME)))
        assert replace(result, why="") == Result(name=str(NAME), action=action)
        assert bool(result.why) == (action == "delete")
        assert states(world) == ([State.STOPPED] if action == "stop" else [])
        assert all(span.ended is not None for span in world.spans())

    world.run(story())


def test_stop_all_stops_a_node_that_is_being_started_and_keeps_its_disk(world: World) -> None:
    async def story() -> None:
        process = await ready(world)
        stopped = await process.does(process.fleet.stop(NAME))
        await process.does(process.fleet.wait(stopped.intent_id))
        await process.does(process.fleet.start_node(NAME))
        executor = TerminationExecutor(process, reason="Stop all.", wait=True)
        result = await process.does(executor.stop(str(NAME)))
        assert result == Result(name=str(NAME), action="stop")
        assert states(world) == [State.STOPPED]
        assert all(span.ended is not None for span in world.spans())

    world.run(story())


@pytest.mark.parametrize("starter", ["us", "somebody else"])
def test_stop_all_waits_for_a_long_start_and_says_so(world: World, starter: str) -> None:
    async def story() -> None:
        process = await ready(world)
        stopped = await process.does(process.fleet.stop(NAME))
        await process.does(process.fleet.wait(stopped.intent_id))
        if starter == "us":
            await process.does(process.fleet.start_node(NAME))
        else:
            await elsewhere(world).start_node(NAME)
        await asyncio.sleep(10.0)
        world.delay(str(NAME), 600.0)
        shown = list[Result]()
        executor = TerminationExecutor(process, reason="Stop all.", wait=True, on_result=shown.append)
        (result,) = await process.does(executor.each([executor.stop(str(NAME))]))
        assert result == Result(name=str(NAME), action="stop")
        assert [each.action for each in shown] == ["wait", "stop"]
        assert "is being started" in shown[0].why
        assert states(world) == [State.STOPPED]
        assert noted(process, "delete") == []
        assert len(noted(process, "stop")) == 1

    world.run(story())


@pytest.mark.parametrize("by", ["budget", "rule"])
def test_a_node_that_is_started_again_while_it_is_stopped_keeps_its_disk(world: World, by: str) -> None:
    """The stop is refused as long as the node is STARTING: longer than a refusal may last."""

    async def story() -> None:
        process = await ready(world)
        world.fault("ListNodes", "permission_denied", times=None)  # this process takes it for READY
        await elsewhere(world).stop_node(NAME)
        await asyncio.sleep(31.0)
        await elsewhere(world).start_node(NAME)
        world.delay(str(NAME), 900.0)
        use_up(process) if by == "budget" else await end_by_rules(process)
        await asyncio.sleep(60.0)
        world.all_is_well()
        await asyncio.sleep(1200.0)
        assert states(world) == [State.STOPPED]
        assert noted(process, "delete") == []

    world.run(story())


def test_a_stop_says_that_it_waits_for_a_start(world: World) -> None:
    async def story() -> None:
        process = await ready(world)
        stopped = await process.does(process.fleet.stop(NAME))
        await process.does(process.fleet.wait(stopped.intent_id))
        await elsewhere(world).start_node(NAME)
        world.delay(str(NAME), 300.0)
        asked = await process.does(process.fleet.stop(NAME))
        await asyncio.sleep(120.0)
        waiting = await process.fleet.intent(asked.intent_id)
        assert waiting is not None
        assert waiting.message == "The node is STARTING. It is stopped as soon as it is READY."
        assert (await process.does(process.fleet.wait(asked.intent_id))).succeeded
        assert states(world) == [State.STOPPED]

    world.run(story())


@pytest.mark.parametrize(
    ("kind", "options", "code"), [("error", TOO_OFTEN, "rate_exceeded"), ("unavailable", {}, "cloud_unavailable")]
)
def test_stop_all_deletes_no_node_of_which_the_cloud_says_nothing(
    world: World, kind: str, options: dict[str, Any], code: str
) -> None:
    async def story() -> None:
        process = await ready(world)
        world.fault("StopNode", kind, times=None, **options)
        executor = TerminationExecutor(process, reason="Stop all.", wait=True)
        result = await process.does(executor.stop(str(NAME)))
        assert result.error is not None
        assert result.error.code == code
        assert states(world) == [State.READY]

    world.run(story())


@pytest.mark.parametrize(
    ("error", "for_good", "passing"),
    [
        (BadInput("No.", raw="stop is not supported for a node with more than one worker"), True, False),
        (WrongState("No.", raw="Stopping of spot nodes is unsupported."), True, False),
        (CloudRefused("No.", raw="This node cannot be stopped."), True, False),
        (BadInput("No.", raw="the request is not valid"), False, True),
        (PermissionDenied("No.", raw="cannot be stopped by you"), False, True),
        (RateExceeded("No.", raw="too many requests"), False, False),
        (WrongState("No.", raw="while in state STARTING"), False, True),
        (WrongState("'one' cannot be stopped: a node with that name is being started."), False, True),
        (CloudUnavailable("No answer."), False, False),
    ],
)
def test_only_the_refusal_that_says_so_is_for_good(error: Any, for_good: bool, passing: bool) -> None:
    assert (is_permanent(error), is_temporary(error)) == (for_good, passing)
