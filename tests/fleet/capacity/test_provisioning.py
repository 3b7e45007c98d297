"""Nodes on all the terms that the API has, what they cost by our books and by the cloud's, and their refusals."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_tpu.errors import BadInput, NodeExists, OutOfCapacity, TpuError
from jupyter_tpu.fleet.capacity.queued_resources import Queue
from jupyter_tpu.fleet.capacity.recreate import set_recovery
from jupyter_tpu.fleet.reconciler.views import node_price, node_view
from jupyter_tpu.fleet.spend.enforcer import BudgetEnforcer
from jupyter_tpu.fleet.spend.quota_report import read_quota
from jupyter_tpu.fleet.spend.spend_ledger import SpendLedger, observation_of
from jupyter_tpu.lifecycle.intent_texts import NOTHING_CREATED
from jupyter_tpu.lifecycle.recovery_state import spec_of
from jupyter_tpu.models import Node, NodeName, QueuedResource
from jupyter_tpu.money.spending import NodeCost
from jupyter_tpu.provisioning import FLEX_START_LABELS

LONG_ENOUGH_S = 3600
DAY_S = 86_400
FLEX = {"accelerator_type": "v6e-8", "runtime_version": "v2-alpha-tpuv6e"}
FLEX_ZONE = "us-east5-a"
RESERVED = {"reserved": True, "accelerator_type": "v5litepod-8"}


@pytest.fixture
async def queue(bench: Any, monkeypatch: pytest.MonkeyPatch) -> Queue:
    """A queue in a cloud whose time stands still unless a test moves it, and whose REST address is known."""
    monkeypatch.setenv("JUPYTER_TPU_EMULATOR", bench.emulator.rest)
    bench.emulator.control.pause()
    journal = bench.journal()
    return Queue(await bench.fleet(journal=journal), bench.cloud, journal)


async def created(bench: Any, **terms: bool) -> TpuError | None:
    """How the operation of such a node fails, in a cloud whose time moves by the test."""
    bench.emulator.control.pause()
    operation = await bench.cloud.create_node(bench.spec(**terms))
    bench.emulator.control.advance(LONG_ENOUGH_S)
    error: TpuError | None = (await bench.cloud.get_operation(operation.name)).error
    return error


async def test_a_preemptible_node_costs_what_a_spot_one_does_and_is_over_after_a_day(bench: Any) -> None:
    assert await created(bench, preemptible=True) is None
    node: Node = await bench.cloud.get_node(bench.name())
    assert (node.state, node.preemptible, node.spot) == ("READY", True, False)
    view = node_view(node)
    assert (view["provisioning"], view["spot"], view["price"]["usd_per_hour"]) == ("preemptible", True, 4.8)
    assert bench.emulator.control.ledger()["usd_per_hour"] == pytest.approx(4.8)

    bench.emulator.control.advance(DAY_S)
    assert (await bench.cloud.get_node(bench.name())).state == "PREEMPTED"


async def test_a_reserved_node_takes_chips_of_a_reservation_and_has_no_list_price(bench: Any) -> None:
    bench.emulator.control.reserve("ours", bench.emulator.zone, "v5e", 8)
    assert await created(bench, reserved=True) is None
    node = await bench.cloud.get_node(bench.name())
    assert (node.state, node.provisioning, node_price(node)) == ("READY", "reserved", None)
    assert bench.emulator.control.ledger()["unpriced"] == 1


async def test_a_missing_reservation_and_a_full_one_are_told_apart(bench: Any) -> None:
    missing = await created(bench, reserved=True)
    assert isinstance(missing, BadInput)
    assert "there is no such reservation" in missing.message

    bench.emulator.control.reserve("small", bench.emulator.zone, "v5e", 4)
    full = await created(bench, reserved=True)
    assert isinstance(full, OutOfCapacity)
    assert "the reservation has no free capacity" in full.message
    assert bench.emulator.control.billing() == []


async def state_of(queue: Queue) -> QueuedResource:
    (queued,) = (await queue.list()).items
    return queued


@pytest.mark.parametrize("reservation", ["", "ours"])
async def test_a_reserved_node_can_be_queued(bench: Any, queue: Queue, reservation: str) -> None:
    bench.emulator.control.reserve("ours", bench.emulator.zone, "v5e", 8)
    asked = await queue.add(bench.spec(**RESERVED), reservation=reservation)
    assert asked.provisioning == "reserved"
    bench.emulator.control.advance(LONG_ENOUGH_S)
    assert (await state_of(queue)).state == "ACTIVE"
    assert (await bench.cloud.get_node(bench.name())).reserved


async def test_a_queued_node_that_finds_no_reservation_says_so(bench: Any, queue: Queue) -> None:
    bench.emulator.control.reserve("theirs", bench.emulator.zone, "v5e", 8)
    await queue.add(bench.spec(**RESERVED), reservation="ours")
    bench.emulator.control.advance(LONG_ENOUGH_S)
    failed = await state_of(queue)
    assert failed.state == "FAILED"
    assert failed.error is not None
    assert "there is no such reservation" in failed.error.message


async def test_a_preemptible_node_can_be_queued(bench: Any, queue: Queue) -> None:
    asked = await queue.add(bench.spec(preemptible=True))
    assert asked.provisioning == "preemptible"
    assert (await queue.add(bench.spec(preemptible=True))).intent_id == asked.intent_id
    bench.emulator.control.advance(LONG_ENOUGH_S)
    assert (await bench.cloud.get_node(bench.name())).provisioning == "preemptible"


async def test_a_flex_start_node_has_its_own_price_and_takes_preemptible_quota(bench: Any, queue: Queue) -> None:
    name = bench.name(zone=FLEX_ZONE)
    asked = await queue.add(bench.spec(name=name, **FLEX), run_for_s=2 * DAY_S)
    assert asked.provisioning == "flex-start"
    bench.emulator.control.advance(LONG_ENOUGH_S)
    node = await bench.cloud.get_node(name)
    price = node_price(node)
    assert price is not None
    assert (node.provisioning, price.usd_per_hour) == ("flex-start", pytest.approx(10.8))
    assert bench.emulator.control.ledger()["usd_per_hour"] == pytest.approx(10.8)

    used = {(use.quota.quota_id, use.place): use.used for use in (await read_quota(bench.cloud)).uses() if use.users}
    told = bench.emulator.control.quotas()
    assert used == {(row["quota_id"], row.get("zone") or row["region"]): row["used"] for row in told if row["used"]}
    assert {quota_id for quota_id, _ in used} == {
        "TPUV6EPreemptiblePerProjectPerZoneForTPUAPI",
        "TPUV6EPreemptiblePerProjectPerRegionForTPUAPI",
    }


async def test_a_flex_start_node_is_not_made_again(bench: Any, queue: Queue) -> None:
    name = bench.name(zone=FLEX_ZONE)
    await queue.add(bench.spec(name=name, **FLEX), run_for_s=DAY_S)
    bench.emulator.control.advance(LONG_ENOUGH_S)
    with pytest.raises(BadInput, match="flex-start"):
        await set_recovery(bench.cloud, bench.journal(), name, is_on=True, now=1.0)


@pytest.mark.parametrize(
    ("terms", "options", "said"),
    [
        ({"spot": True}, {"run_for_s": 3600.0}, "also be a spot node"),
        ({"reserved": True}, {"run_for_s": 3600.0}, "also be a reserved node"),
        ({}, {"reservation": "ours"}, "Only a reserved node can use"),
        ({"reserved": True}, {"reservation": "../other"}, "is not a valid reservation ID"),
    ],
)
async def test_terms_that_contradict_each_other_are_refused_before_the_cloud_is_asked(
    bench: Any, queue: Queue, terms: dict[str, bool], options: dict[str, Any], said: str
) -> None:
    with pytest.raises(BadInput, match=said):
        await queue.add(bench.spec(**terms), **options)
    assert (await queue.list()).items == ()


async def test_the_ledger_writes_the_terms_down_with_the_price(bench: Any) -> None:
    assert await created(bench, preemptible=True) is None
    books = SpendLedger(bench.journal(), bench.cloud.settings)
    listed = await bench.cloud.list_nodes()
    books.record(observation_of(listed, as_of=1000.0))
    books.record(observation_of(listed, as_of=4600.0))
    (span,) = books.account(4600.0).spans
    assert (span.terms, span.spot, span.usd_per_hour) == ("preemptible", True, 4.8)
    assert books.node_costs(4600.0) == {(str(bench.name()), span.uid): NodeCost(usd=pytest.approx(4.8))}


@pytest.mark.parametrize("terms", [{"reserved": True}, {"labels": FLEX_START_LABELS}])
async def test_a_budget_asks_about_terms_without_a_list_price(bench: Any, terms: dict[str, Any]) -> None:
    journal = bench.journal()
    SpendLedger(journal, bench.cloud.settings).set_budget(
        "mine", {"amount": 5, "unit": "usd", "period": "day"}, now=1.0
    )
    guard = BudgetEnforcer(bench.cloud, journal)
    with pytest.raises(BadInput, match="price of v5litepod-8 in us-central1-a is unknown"):
        await guard.check_create(bench.spec(**terms), accept_unknown_price=False)
    await guard.check_create(bench.spec(**terms), accept_unknown_price=True)
    await guard.check_create(bench.spec(preemptible=True), accept_unknown_price=False)


async def test_a_create_without_a_reservation_fails_for_good_and_leaves_nothing(bench: Any) -> None:
    fleet = await bench.fleet()
    intent = await fleet.wait((await fleet.create(bench.spec(reserved=True))).intent_id)
    assert intent.error is not None, intent
    assert (intent.error.code, intent.error.exists) == ("bad_input", NOTHING_CREATED)
    assert "there is no such reservation" in intent.error.message
    assert "Reservation not found" in intent.error.raw
    assert (await fleet.refresh()).nodes == ()


async def test_a_second_click_on_other_terms_is_another_wish(bench: Any) -> None:
    fleet = await bench.fleet()
    bench.emulator.control.pause()
    first = await fleet.create(bench.spec(preemptible=True))
    assert (await fleet.create(bench.spec(preemptible=True))).intent_id == first.intent_id
    with pytest.raises(NodeExists, match="is being created"):
        await fleet.create(bench.spec(reserved=True))


def test_a_node_is_made_again_on_its_terms() -> None:
    name = NodeName(project="my-project", zone="us-central1-a", node_id="my-node")
    for terms in ({"preemptible": True}, {"reserved": True}, {"spot": True}, {}):
        node = Node(name=name, state="READY", **terms)
        assert spec_of(node).provisioning == node.provisioning
