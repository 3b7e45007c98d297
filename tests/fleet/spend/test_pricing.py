"""Which prices hold: those of the Billing Catalog where it answers, else the dated table."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_tpu import accelerators
from jupyter_tpu.cloud.emulator_address import ADDRESS_VARIABLE
from jupyter_tpu.cloud.settings import CloudSettings
from jupyter_tpu.emulator.store.ledger import NANOS, nanos_per_hour
from jupyter_tpu.errors import CloudUnavailable
from jupyter_tpu.fleet.assembly import open_fleet
from jupyter_tpu.fleet.spend.price_updater import FRESH_S, USABLE_S, PriceUpdater

MODES = ("on-demand", "spot", "flex-start")
NOWHERE = {ADDRESS_VARIABLE: "http://127.0.0.1:9"}
V6E = ("v6e-8", "us-east5-b", "on-demand")


@pytest.fixture(autouse=True)
def _table_again() -> Iterator[None]:
    yield
    accelerators.set_live_prices(())


@pytest.fixture
def pricing(emulator: Any, tmp_path: Path) -> PriceUpdater:
    return PriceUpdater(emulator.settings, {ADDRESS_VARIABLE: emulator.rest}, tmp_path)


def unreachable(folder: Path) -> PriceUpdater:
    return PriceUpdater(CloudSettings(endpoint="127.0.0.1:1"), NOWHERE, folder)


def silenced(folder: Path) -> PriceUpdater:
    """What is kept there, of a catalogue that does not answer any more."""
    kept = json.loads((folder / "prices.json").read_text())
    (folder / "prices.json").write_text(json.dumps({**kept, "address": NOWHERE[ADDRESS_VARIABLE]}))
    return unreachable(folder)


def origin() -> str:
    price = accelerators.price_in_mode(*V6E)
    return price.origin if price else ""


def test_prices_of_the_catalogue_are_what_the_cloud_charges(pricing: PriceUpdater) -> None:
    kept = pricing.read(time.time())

    assert origin() == f"catalog {kept.rows[0]['as_of']}"
    for name in accelerators.accelerators():
        for zone in accelerators.zones_for_type(name):
            for mode in MODES:
                price = accelerators.price_in_mode(name, zone, mode)
                charged = nanos_per_hour(name, zone, mode)
                assert (round(price.usd_per_hour * NANOS) if price else None) == charged, (name, zone, mode)
                assert price is None or price.is_live, (name, zone, mode)


def test_what_was_read_holds_for_the_next_process_and_is_read_again_after_a_day(
    pricing: PriceUpdater, tmp_path: Path
) -> None:
    now = time.time()
    pricing.refresh(now)
    accelerators.set_live_prices(())
    silent = silenced(tmp_path)

    silent.refresh(now + FRESH_S - 1)
    assert origin().startswith("catalog ")
    assert silent.stored().failure == ""  # nobody was asked

    silent.refresh(now + FRESH_S + 1)  # in vain, so it holds longer, by its date
    assert origin().startswith("catalog ")
    assert "is not responding" in silent.stored().failure
    silent.refresh(now + USABLE_S + 1)
    assert origin().startswith("list ")
    assert [path.name for path in tmp_path.iterdir()] == ["prices.json"]


def test_a_catalogue_that_does_not_answer_is_told_once_and_the_table_holds(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pricing, now = unreachable(tmp_path), time.time()
    for later_s in (0, 10, 3601):  # the second is too early to ask again
        pricing.refresh(now + later_s)

    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "The Cloud Billing API is not responding." in caplog.text
    assert origin().startswith("list ")
    with pytest.raises(CloudUnavailable):
        pricing.read(now)


def test_prices_of_another_cloud_do_not_hold(pricing: PriceUpdater, tmp_path: Path) -> None:
    pricing.read(time.time())

    assert unreachable(tmp_path).apply_stored(time.time()).rows == ()
    assert origin().startswith("list ")


@pytest.mark.parametrize("damage", ["", "[", "[]", "{}", '{"rows": [{"usd_per_chip_hour": -1}]}', "\0\0"])
def test_a_damaged_file_is_as_none(pricing: PriceUpdater, tmp_path: Path, damage: str) -> None:
    pricing.read(time.time())
    (tmp_path / "prices.json").write_text(damage)

    assert pricing.apply_stored(time.time()).is_due(time.time())
    assert origin().startswith("list ")


def test_prices_read_in_the_future_do_not_hold_for_ever(pricing: PriceUpdater, tmp_path: Path) -> None:
    now = time.time()
    pricing.read(now)
    kept = json.loads((tmp_path / "prices.json").read_text())
    (tmp_path / "prices.json").write_text(json.dumps({**kept, "read_at": now + 10 * FRESH_S}))

    assert pricing.apply_stored(now).is_due(now)
    assert origin().startswith("list ")


def test_they_come_in_the_background(pricing: PriceUpdater, tmp_path: Path) -> None:
    pricing.start(first_after_s=0.0)
    deadline = time.monotonic() + 120
    while not pricing.stored().rows:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    pricing.close()
    for thread in threading.enumerate():
        if thread.name == "jupyter_tpu prices":
            thread.join(60)

    assert origin().startswith("catalog ")


@pytest.mark.usefixtures("data_dir")
async def test_a_fleet_is_opened_with_the_prices_that_are_kept(emulator: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ADDRESS_VARIABLE, emulator.rest)
    PriceUpdater.of_user(emulator.settings).read(time.time())
    accelerators.set_live_prices(())

    async with open_fleet(emulator.settings):
        assert origin().startswith("catalog ")
