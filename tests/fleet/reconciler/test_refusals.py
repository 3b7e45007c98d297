"""What the user reads when the cloud says no: what failed, what exists now, what to do."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_tpu.errors import BadInput, CloudUnavailable, NodeExists, NodeNotFound, WrongState

NOTHING = "No node was created; nothing is billed."

FAULTS = [
    ("stockout", "out_of_capacity", "no capacity", "us-south1-a"),
    ("quota", "quota_exceeded", "quota of project demo-project is used up", "deletes resources that you don't need"),
    ("permission_denied", "permission_denied", "you lack the permission", "roles/tpu.admin"),
    ("api_disabled", "api_disabled", "not enabled in project demo-project", "gcloud services enable tpu"),
    ("not_allowlisted", "not_allowlisted", "is not allowed to use v5litepod-8 in us-central1-a", "Waiting won't help"),
    ("location_denied", "permission_denied", "not available to project demo-project", "us-south1-a"),
]


@pytest.mark.parametrize(("kind", "code", "message", "hint"), FAULTS)
async def test_a_refused_creation_says_why_and_leaves_nothing(
    bench: Any, kind: str, code: str, message: str, hint: str
) -> None:
    bench.emulator.control.add_fault("CreateNode", kind)
    fleet = await bench.fleet()
    intent = await fleet.wait((await fleet.create(bench.spec())).intent_id)
    assert intent.error is not None, intent
    assert (intent.error.code, intent.error.exists) == (code, NOTHING)
    assert message in intent.error.message
    assert hint in intent.error.hint
    assert intent.error.raw
    assert (await fleet.refresh()).nodes == ()
    assert [shown.intent_id for shown in fleet.snapshot().intents] == [intent.intent_id]


@pytest.mark.parametrize(
    ("changes", "message", "hint"),
    [
        ({"accelerator_type": "v5litepod-7"}, "'v5litepod-7' is not offered", "v5litepod-8"),
        (
            {"accelerator_type": "v4-8"},
            "'v4-8' is not offered in us-central1-a",
            "Zones that offer v4-8: us-central2-b.",
        ),
        ({"runtime_version": "tpu-windows"}, "'tpu-windows' is not offered", "v2-alpha-tpuv5-lite"),
    ],
)
async def test_what_is_not_offered_is_refused_at_once(
    bench: Any, changes: dict[str, str], message: str, hint: str
) -> None:
    fleet = await bench.fleet()
    with pytest.raises(BadInput) as refused:
        await fleet.create(bench.spec(**changes))
    assert message in refused.value.message
    assert hint in refused.value.hint
    assert refused.value.exists == NOTHING
    assert fleet.snapshot().intents == ()


async def test_an_unknown_zone_is_refused_with_those_that_offer_the_type(bench: Any) -> None:
    fleet = await bench.fleet()
    with pytest.raises(BadInput, match="mars-north1-a is not a Cloud TPU zone") as refused:
        await fleet.create(bench.spec(name=bench.name(zone="mars-north1-a")))
    assert "us-central1-a" in refused.value.hint


async def test_a_taken_name_is_refused_with_what_has_it(bench: Any) -> None:
    fleet = await bench.fleet()
    await fleet.wait((await fleet.create(bench.spec())).intent_id)
    with pytest.raises(NodeExists) as refused:
        await fleet.create(bench.spec())
    assert refused.value.exists == "The node my-node exists and costs $9.60 per hour."


async def test_a_missing_node_can_be_neither_deleted_nor_stopped_nor_started(bench: Any) -> None:
    fleet = await bench.fleet()
    for ask in (fleet.delete, fleet.stop, fleet.start_node):
        with pytest.raises(NodeNotFound, match="there is no such node"):
            await ask(bench.name("ghost"))


async def test_only_one_thing_is_done_to_a_node_at_a_time(bench: Any) -> None:
    fleet = await bench.fleet()
    bench.emulator.control.pause()
    await fleet.create(bench.spec())
    with pytest.raises(WrongState, match="is being created"):
        await fleet.stop(bench.name())
    with pytest.raises(NodeExists, match="is being created"):
        await fleet.create(bench.spec(spot=True))


async def test_a_stop_in_the_wrong_state_says_what_state_that_is(bench: Any) -> None:
    fleet = await bench.fleet()
    await fleet.wait((await fleet.create(bench.spec())).intent_id)
    bench.emulator.control.preempt(str(bench.name()))
    intent = await fleet.wait((await fleet.stop(bench.name())).intent_id)
    assert intent.error is not None
    assert intent.error.code == "wrong_state"
    assert "is PREEMPTED" in intent.error.exists


async def test_a_start_that_finds_no_machines_leaves_the_node_stopped(bench: Any) -> None:
    fleet = await bench.fleet()
    await fleet.wait((await fleet.create(bench.spec())).intent_id)
    await fleet.wait((await fleet.stop(bench.name())).intent_id)
    bench.emulator.control.add_fault("StartNode", "stockout")
    intent = await fleet.wait((await fleet.start_node(bench.name())).intent_id)
    assert intent.error is not None
    assert intent.error.code == "out_of_capacity"
    assert "is STOPPED: only its disk is billed" in intent.error.exists


async def test_a_failed_intent_can_be_dismissed_but_not_an_open_one(bench: Any) -> None:
    bench.emulator.control.add_fault("CreateNode", "quota")
    fleet = await bench.fleet()
    failed = await fleet.wait((await fleet.create(bench.spec())).intent_id)
    bench.emulator.control.pause()
    opened = await fleet.create(bench.spec("other"))
    with pytest.raises(WrongState):
        await fleet.dismiss(opened.intent_id)
    await fleet.dismiss(failed.intent_id)
    assert [intent.intent_id for intent in fleet.snapshot().intents] == [opened.intent_id]


async def test_a_failed_poll_keeps_the_old_list_and_says_why(bench: Any) -> None:
    fleet = await bench.fleet()
    await fleet.wait((await fleet.create(bench.spec())).intent_id)
    before = await fleet.refresh()
    bench.emulator.stop()
    after = await fleet.refresh()
    assert isinstance(after.error, CloudUnavailable)
    assert (after.nodes, after.as_of) == (before.nodes, before.as_of)
    assert bench.changes[-1].error_code == "cloud_unavailable"
