"""The money ledger: READY seconds × list price, to the nano-dollar."""

from __future__ import annotations

from typing import Any

import pytest
from google.cloud import tpu_v2

from jupyter_tpu.emulator.ledger import billed_seconds
from jupyter_tpu.emulator.store import Span

HOUR_S = 3600


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
