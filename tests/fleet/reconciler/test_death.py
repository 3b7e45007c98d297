"""A process with a fleet dies without a word; the next one finds everything, finishes it, and leaves no bill."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jupyter_tpu.errors import JournalUnwritable
from jupyter_tpu.lifecycle.time_limits import Limits


async def delete_and_settle(bench: Any, fleet: Any) -> None:
    assert (await fleet.wait((await fleet.delete(bench.name())).intent_id)).succeeded
    assert (await fleet.refresh()).nodes == ()
    assert bench.emulator.control.billing() == []


@pytest.mark.parametrize("point", ["answered", "provisioning", "booting"])
async def test_a_node_that_was_asked_for_is_adopted_after_the_death(bench: Any, point: str) -> None:
    await bench.die("create", point)
    fleet = await bench.fleet()
    (intent,) = (await fleet.refresh()).intents
    intent = await fleet.wait(intent.intent_id)
    assert intent.succeeded, intent
    (node,) = (await fleet.refresh()).nodes
    assert node.intent_id == intent.intent_id
    assert len(bench.emulator.control.ledger()["nodes"]) == 1
    await delete_and_settle(bench, fleet)


@pytest.mark.parametrize("point", ["requested", "asking"])
async def test_a_node_that_was_not_asked_for_is_closed_as_not_created(bench: Any, point: str) -> None:
    await bench.die("create", point)
    fleet = await bench.fleet(limits=Limits(unsure_s=0.3))
    (intent,) = (await fleet.refresh()).intents
    intent = await fleet.wait(intent.intent_id)
    assert intent.error is not None
    assert intent.error.exists == "No node was created; nothing is billed."
    assert (await fleet.refresh()).nodes == ()
    assert bench.emulator.control.ledger()["nodes"] == []


@pytest.mark.parametrize("point", ["requested", "asking", "answered", "deleting"])
async def test_a_deletion_is_finished_after_the_death(bench: Any, point: str) -> None:
    fleet = await bench.fleet()
    await fleet.wait((await fleet.create(bench.spec())).intent_id)
    await fleet.close()
    await bench.die("delete", point)
    fleet = await bench.fleet(limits=Limits(ask_again_s=0.1))
    async with asyncio.timeout(120):
        for intent in (await fleet.refresh()).intents:
            assert (await fleet.wait(intent.intent_id)).succeeded
    assert (await fleet.refresh()).nodes == ()
    assert bench.emulator.control.billing() == []


async def test_two_fleets_share_what_is_being_done(bench: Any) -> None:
    first = await bench.fleet()
    second = await bench.fleet()
    bench.emulator.control.pause()  # the node is not READY before the second one asks
    intent = await first.create(bench.spec())
    assert (await second.create(bench.spec())).intent_id == intent.intent_id
    bench.emulator.control.resume()
    seen = await asyncio.gather(first.wait(intent.intent_id), second.wait(intent.intent_id))
    assert [each.phase for each in seen] == ["ready", "ready"]
    assert (await second.refresh()).node(bench.name()) is not None
    assert len(bench.emulator.control.ledger()["nodes"]) == 1


async def test_a_deletion_waits_for_a_node_that_another_process_is_asking_for(bench: Any) -> None:
    bench.emulator.control.add_fault("CreateNode", "latency", seconds=1.5)
    first, second = await bench.fleet(), await bench.fleet(limits=Limits(ask_again_s=0.1))
    bench.emulator.control.pause()  # the node is not READY before the second one asks
    created = await first.create(bench.spec())
    deleted = await second.delete(bench.name())
    bench.emulator.control.resume()
    assert (await second.wait(deleted.intent_id)).succeeded
    assert (await first.wait(created.intent_id)).phase == "cancelled"
    assert (await second.refresh()).nodes == ()
    bench.emulator.control.advance(3600)
    assert bench.emulator.control.billing() == []


async def test_a_deletion_waits_no_longer_than_a_node_takes_to_show_up(bench: Any) -> None:
    bench.emulator.control.add_fault("CreateNode", "drop")
    first, second = await bench.fleet(), await bench.fleet(limits=Limits(unsure_s=0.3))
    await first.create(bench.spec())
    deleted = await second.wait((await second.delete(bench.name())).intent_id)
    assert (deleted.phase, deleted.message) == ("deleted", "The node my-node no longer exists, and nothing is billed.")


async def test_what_a_closed_fleet_left_is_taken_up_by_the_next(bench: Any) -> None:
    first = await bench.fleet()
    intent = await first.create(bench.spec())
    await first.close()
    second = await bench.fleet(limits=Limits(unsure_s=0.3))
    assert (await second.wait(intent.intent_id)).settled
    nodes = (await second.refresh()).nodes
    assert len(nodes) == (1 if (await second.wait(intent.intent_id)).succeeded else 0)


async def test_nothing_is_asked_when_the_journal_cannot_be_written(bench: Any) -> None:
    bench.folder = bench.folder / "a file"
    bench.folder.write_text("in the way")
    fleet = await bench.fleet()
    with pytest.raises(JournalUnwritable) as refused:
        await fleet.create(bench.spec())
    assert refused.value.exists == "No request was sent to the cloud."
    assert (await fleet.refresh()).nodes == ()
    assert fleet.snapshot().notices


async def test_nothing_is_asked_when_the_journal_can_no_longer_be_written_by_then(bench: Any) -> None:
    journal = bench.journal()
    fleet = await bench.fleet(journal=journal)
    intent = await fleet.create(bench.spec())
    with journal.reading() as database:
        database.execute("PRAGMA query_only = ON")
    intent = await fleet.wait(intent.intent_id)
    assert (intent.error.code, intent.error.exists) == ("journal_unwritable", "No request was sent to the cloud.")
    assert (await bench.cloud.list_nodes()).nodes == ()
