"""The money ledger: READY seconds × list price, to the nano-dollar."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import requests
from google.cloud import tpu_v2

from jupyter_tpu.emulator.store.database import Span
from jupyter_tpu.emulator.store.ledger import billed_seconds

HOUR_S = 3600
UNTIL_READY_S = 90


def bill_of(cloud: Any) -> dict[str, Any]:
    (bill,) = cloud.control.ledger()["nodes"]
    return bill


def freeze(cloud: Any) -> None:
    """Hardly any virtual time passes but what the test advances."""
    cloud.control.set_time_scale(0.001)


async def test_a_ready_node_costs_its_list_price_per_second(cloud: Any) -> None:
    await cloud.create()
    freeze(cloud)
    before = bill_of(cloud)

    cloud.control.advance(HOUR_S)

    after = bill_of(cloud)
    assert after["usd_per_hour"] == 9.6
    assert after["ready_seconds"] - before["ready_seconds"] in (HOUR_S, HOUR_S + 1)
    assert after["nano_usd"] == after["ready_seconds"] * 9_600_000_000 // HOUR_S


async def test_spot_has_its_own_price(cloud: Any) -> None:
    await cloud.create(scheduling_config=tpu_v2.SchedulingConfig(spot=True))

    assert (bill_of(cloud)["spot"], bill_of(cloud)["usd_per_hour"]) == (True, 4.8)


@pytest.mark.parametrize("verb", ["stop", "delete"])
async def test_nothing_is_billed_after_a_node_was_stopped_or_deleted(cloud: Any, verb: str) -> None:
    await cloud.create()
    await getattr(cloud, verb)()
    before = cloud.control.ledger()

    cloud.control.advance(1000 * HOUR_S)

    after = cloud.control.ledger()
    assert after["nodes"] == before["nodes"]
    assert after["total_nano_usd"] == before["total_nano_usd"] > 0
    assert cloud.control.billing() == []


async def test_a_node_that_never_was_ready_costs_nothing(cloud: Any) -> None:
    cloud.control.set_time_scale(1)
    await cloud.ask_for_node()

    assert cloud.control.ledger()["nodes"] == []


async def test_two_stretches_of_one_node_are_one_bill(cloud: Any) -> None:
    await cloud.create()
    await cloud.stop()
    await cloud.start()

    assert bill_of(cloud)["billing"] is True


async def test_a_node_that_is_made_again_has_a_bill_of_its_own(cloud: Any) -> None:
    await cloud.create()
    await cloud.delete()
    await cloud.create()

    bills = cloud.control.ledger()["nodes"]
    assert [bill["billing"] for bill in bills] == [False, True]
    assert bills[0]["uid"] != bills[1]["uid"]


@pytest.mark.parametrize(("lived_s", "is_free"), [(30, True), (90, False)])
async def test_a_preemption_in_the_first_minute_is_free(cloud: Any, lived_s: int, is_free: bool) -> None:
    cloud.control.set_time_scale(1)
    await cloud.ask_for_node(scheduling_config=tpu_v2.SchedulingConfig(spot=True))
    cloud.control.advance(90)
    while not cloud.control.billing():
        await cloud.get()
    freeze(cloud)
    cloud.control.advance(lived_s - bill_of(cloud)["ready_seconds"])

    cloud.control.preempt(cloud.emulator.node_name("n1"))

    assert (bill_of(cloud)["nano_usd"] == 0) == is_free
    assert bill_of(cloud)["billing"] is False


@pytest.mark.parametrize(("seconds", "billed"), [(0.0, 0), (0.1, 1), (1.0, 1), (59.5, 60)])
def test_a_started_second_is_billed(seconds: float, billed: int) -> None:
    span = Span(
        uid="1",
        name="n",
        accelerator_type="v5litepod-8",
        zone="us-central1-a",
        spot=False,
        nanos_per_hour=1,
        started=1000.0,
    )

    assert billed_seconds(span, 1000.0 + seconds) == billed


async def test_a_bill_is_exact_to_the_second_and_the_nano_dollar(cloud: Any) -> None:
    cloud.control.pause()
    await cloud.ask_for_node()
    cloud.control.advance(UNTIL_READY_S)

    cloud.control.advance(HOUR_S + 1)
    await cloud.client.delete_node(name=cloud.emulator.node_name("n1"))
    cloud.control.advance(1000 * HOUR_S)

    bill = bill_of(cloud)
    assert (bill["ready_seconds"], bill["billing"]) == (HOUR_S + 1, False)
    assert bill["nano_usd"] == (HOUR_S + 1) * 9_600_000_000 // HOUR_S == 9_602_666_666


async def test_a_bill_is_the_sum_of_its_spans_and_the_total_that_of_the_bills(cloud: Any) -> None:
    cloud.control.pause()
    await cloud.ask_for_node("n1")
    await cloud.ask_for_node("n2", scheduling_config=tpu_v2.SchedulingConfig(spot=True))
    cloud.control.advance(UNTIL_READY_S)
    for seconds in (7, 11, 13):
        cloud.control.advance(seconds)
        await cloud.client.stop_node(tpu_v2.StopNodeRequest(name=cloud.emulator.node_name("n1")))
        cloud.control.advance(60)
        await cloud.client.start_node(tpu_v2.StartNodeRequest(name=cloud.emulator.node_name("n1")))
        cloud.control.advance(60)

    ledger = cloud.control.ledger()

    first, second = sorted(ledger["nodes"], key=lambda bill: str(bill["name"]))  # READY in the same moment
    assert [span["seconds"] for span in first["spans"]] == [7, 11, 13, 0]
    for bill in (first, second):
        assert bill["nano_usd"] == sum(span["nano_usd"] for span in bill["spans"])
        assert bill["ready_seconds"] == sum(span["seconds"] for span in bill["spans"])
    assert ledger["total_nano_usd"] == first["nano_usd"] + second["nano_usd"]
    assert (ledger["billing"], ledger["usd_per_hour"]) == (2, 14.4)


async def test_a_node_without_a_list_price_costs_what_nobody_knows(cloud: Any) -> None:
    cloud.control.pause()
    cloud.control.reserve("mine", cloud.emulator.zone, "v5e", 64)
    await cloud.ask_for_node(scheduling_config=tpu_v2.SchedulingConfig(reserved=True))
    cloud.control.advance(UNTIL_READY_S + 10)

    bill = bill_of(cloud)
    assert (bill["mode"], bill["ready_seconds"], bill["nano_usd"]) == ("reserved", 10, None)
    assert cloud.control.ledger()["unpriced"] == 1


async def test_a_node_by_flex_start_has_its_own_price_and_is_billed_for_its_run_only(cloud: Any) -> None:
    cloud.control.pause()
    parent = f"projects/{cloud.emulator.project}/locations/us-east5-a"
    node = {"acceleratorType": "v6e-8", "runtimeVersion": "v2-alpha-tpuv6e"}
    asked = {
        "provisioningModel": "FLEX_START",
        "runDuration": {"maxRunDuration": "14400s"},
        "tpu": {"nodeSpec": [{"parent": parent, "nodeId": "n1", "node": node}]},
    }
    answer = await asyncio.to_thread(
        requests.post, f"{cloud.emulator.rest}/v2alpha1/{parent}/queuedResources?queuedResourceId=q1", json=asked
    )
    assert answer.status_code == 200, answer.text

    cloud.control.advance(100_000)

    bill = bill_of(cloud)
    assert (bill["mode"], bill["ready_seconds"], bill["usd_per_hour"]) == ("flex-start", 14_400, 10.8)
    assert bill["nano_usd"] == 4 * 10_800_000_000
