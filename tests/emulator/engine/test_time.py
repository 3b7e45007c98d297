"""Virtual time over crashes: what was told or dated once never lies in the future again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from google.cloud import tpu_v2

from jupyter_tpu.emulator.engine.timeline import Timeline
from jupyter_tpu.emulator.engine.virtual_time import LAST_MOMENT, VirtualTime, restored_clock
from jupyter_tpu.emulator.resources.records import Span
from jupyter_tpu.emulator.store.database import Store
from jupyter_tpu.emulator.store.ledger import billed_seconds

State = tpu_v2.Node.State


def span(**fields: Any) -> Span:
    given = {"uid": "1", "name": "n", "accelerator_type": "v5litepod-8", "zone": "us-central1-a", "spot": False}
    return Span(**{**given, "nanos_per_hour": 1, "started": 5000.0, **fields})


def crash(cloud: Any) -> None:
    cloud.emulator.kill()
    cloud.emulator.start()


async def until_a_node_is_billed(state_dir: Path) -> None:
    """Looks into the store, because whatever is asked of the emulator makes it store the time."""
    store = Store(state_dir / "cloud.db")
    async with asyncio.timeout(120):
        while not store.spans():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    store.close()


async def test_what_the_ledger_showed_after_a_jump_is_not_taken_back_by_a_crash(cloud: Any) -> None:
    await cloud.create()
    cloud.control.advance(7200)
    (before,) = cloud.control.ledger()["nodes"]

    crash(cloud)

    (after,) = cloud.control.ledger()["nodes"]
    assert after["ready_seconds"] >= before["ready_seconds"] >= 7200
    assert after["usd"] >= before["usd"]


async def test_the_clock_does_not_go_back_behind_a_jump(cloud: Any) -> None:
    cloud.control.advance(1_000_000)
    before = cloud.control.now()

    crash(cloud)

    assert cloud.control.now() >= before


async def test_an_effect_stores_the_time_at_which_it_happened(cloud: Any) -> None:
    await cloud.ask_for_node()
    await until_a_node_is_billed(cloud.emulator.state_dir)

    crash(cloud)

    (bill,) = cloud.control.ledger()["nodes"]
    assert bill["ready_seconds"] >= 0
    assert bill["usd"] >= 0


@pytest.mark.parametrize("ended", [None, 7000.0])
def test_no_row_is_later_than_the_time_that_a_store_knows(tmp_path: Path, ended: float | None) -> None:
    store = Store(tmp_path / "cloud.db")
    store.open_span(span())
    if ended is not None:
        store.close_span("1", ended, is_waived=False)

    assert store.latest_moment() == (ended or 5000.0)
    store.close()


def test_a_new_store_knows_no_time(tmp_path: Path) -> None:
    store = Store(tmp_path / "cloud.db")

    assert store.latest_moment() is None
    store.close()


def test_the_time_that_was_told_comes_back_to_the_last_bit(tmp_path: Path) -> None:
    told = 1802434244.854231  # which SQLite 3.40 reads from a text as 2.4e-7 s less
    store = Store(tmp_path / "cloud.db")
    store.date_by(lambda: told)
    with store.transaction():
        pass

    assert store.latest_moment() == told
    store.close()


def test_a_transaction_that_fails_stores_no_time(tmp_path: Path) -> None:
    store = Store(tmp_path / "cloud.db")
    store.date_by(lambda: 9000.0)
    with pytest.raises(KeyError), store.transaction():
        raise KeyError

    assert store.latest_moment() is None
    store.close()


@pytest.mark.parametrize("now", [0.0, 4999.9, 5000.0])
def test_no_number_of_seconds_is_less_than_none(now: float) -> None:
    assert billed_seconds(span(), now) == 0


def test_a_paused_clock_moves_only_by_jumps(emulator: Any) -> None:
    emulator.control.pause()
    before = emulator.control.now()

    assert emulator.control.now() == before
    emulator.control.advance(12.5)
    assert emulator.control.now() == before + 12.5


def test_a_clock_runs_on_at_its_own_pace_after_a_pause(emulator: Any) -> None:
    emulator.control.pause()
    emulator.control.set_time_scale(1000)
    before = emulator.control.now()

    emulator.control.resume()

    assert emulator.control.clock()["paused"] is False
    while emulator.control.now() == before:
        pass
    assert emulator.control.clock()["scale"] == 1000


async def test_nothing_happens_while_time_is_paused(cloud: Any) -> None:
    cloud.control.pause()
    cloud.control.set_time_scale(100_000)
    await cloud.ask_for_node()

    for _ in range(20):
        assert (await cloud.get()).state == State.CREATING

    cloud.control.resume()
    async with asyncio.timeout(120):
        while (await cloud.get()).state != State.READY:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def test_a_pause_outlives_the_process(emulator: Any) -> None:
    emulator.control.pause()
    before = emulator.control.now()

    emulator.kill()
    emulator.start()

    clock = emulator.control.clock()
    assert (clock["paused"], clock["now"]) == (True, before)


async def test_a_scale_outlives_the_process_unless_another_is_asked_for(tmp_path: Path) -> None:
    store = Store(tmp_path / "cloud.db")
    clock = restored_clock(store, start=0.0, scale=5.0)
    VirtualTime(store, clock, Timeline(clock, [])).run(scale=7.0)

    assert restored_clock(store, start=0.0, scale=None).scale == 7.0
    assert restored_clock(store, start=0.0, scale=9.0).scale == 9.0
    store.close()


async def test_what_falls_due_in_a_jump_happens_at_its_own_moment(cloud: Any) -> None:
    cloud.control.pause()
    first = cloud.control.now()
    await cloud.ask_for_node()

    cloud.control.advance(100_000)

    (bill,) = cloud.control.ledger()["nodes"]
    assert bill["spans"][0]["started"] == pytest.approx(first + 90, abs=0.001)
    assert bill["ready_seconds"] == 99_910


async def test_time_ends_before_the_api_can_no_longer_tell_it(tmp_path: Path) -> None:
    store = Store(tmp_path / "cloud.db")
    clock = restored_clock(store, start=LAST_MOMENT - 10, scale=0.001)
    time = VirtualTime(store, clock, Timeline(clock, []))

    await time.jump(5)
    with pytest.raises(ValueError, match="cannot pass the year 9000"):
        await time.jump(6)

    assert clock.now() < LAST_MOMENT
    store.close()
