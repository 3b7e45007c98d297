"""One user, one journal, two clouds that know a project and a node of the same name: they are kept apart."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jupyter_tpu.lifecycle.time_limits import Limits


async def created(bench: Any, fleet: Any) -> str:
    intent = await fleet.wait((await fleet.create(bench.spec())).intent_id)
    assert intent.succeeded, intent
    return str(intent.intent_id)


async def test_each_cloud_gets_its_own_node(make_bench: Any) -> None:
    benches = [await make_bench(), await make_bench()]
    fleets = [await bench.fleet() for bench in benches]

    made = await asyncio.gather(*map(created, benches, fleets))

    assert len(set(made)) == 2
    for bench, fleet, intent_id in zip(benches, fleets, made, strict=True):
        (node,) = (await fleet.refresh()).nodes
        assert node.intent_id == intent_id
        assert len(bench.emulator.control.ledger()["nodes"]) == 1


@pytest.mark.parametrize("point", ["requested", "asking"])
async def test_a_deletion_is_finished_in_the_cloud_it_was_meant_for(make_bench: Any, point: str) -> None:
    here, there = await make_bench(), await make_bench()
    fleets = [await bench.fleet() for bench in (here, there)]
    await asyncio.gather(*map(created, (here, there), fleets))
    await fleets[0].close()
    await here.die("delete", point)

    await fleets[1].refresh()
    seen = await fleets[1].refresh()
    assert seen.intents == ()
    assert [node.state for node in seen.nodes] == ["READY"]

    again = await here.fleet(limits=Limits(ask_again_s=0.1))
    (intent,) = (await again.refresh()).intents
    assert await fleets[1].intent(intent.intent_id) is None
    assert (await again.wait(intent.intent_id)).succeeded
    assert here.emulator.control.billing() == []
    assert [node.state for node in (await fleets[1].refresh()).nodes] == ["READY"]
