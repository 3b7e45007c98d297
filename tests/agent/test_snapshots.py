"""What laptops tell a node is kept there with its age."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from jupyter_tpu.agent.autostop.snapshots import LARGEST_BYTES, Snapshots
from jupyter_tpu.errors import BadInput

OLD = {"usd_per_hour": 1.0}
NEW = {"usd_per_hour": 2.0}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "snapshots.json"


async def test_what_was_told_is_there_for_the_next_agent(path: Path) -> None:
    await Snapshots(path).store({"kind": "cost", "as_of": 1000.0, "data": NEW})
    again = Snapshots(path)
    assert await again.read({"kind": "cost"}) == {"as_of": pytest.approx(1000.0, abs=1), "data": NEW}
    assert await again.read({"kind": "quota"}) == {}


async def test_older_news_do_not_replace_newer_ones(path: Path) -> None:
    kept = Snapshots(path)
    await kept.store({"kind": "cost", "as_of": 2000.0, "data": NEW})
    await kept.store({"kind": "cost", "as_of": 1000.0, "data": OLD})
    assert (await kept.read({"kind": "cost"}))["data"] == NEW


@pytest.mark.parametrize("ahead_s", [3600.0, -3600.0], ids=["ahead", "behind"])
async def test_news_are_fresh_and_the_clock_is_called_wrong_on_a_worker_whose_clock_is_an_hour(
    path: Path, ahead_s: float
) -> None:
    kept = Snapshots(path)
    await kept.store({"kind": "cost", "as_of": time.time() - ahead_s - 5, "age_s": 5.0, "data": NEW})
    for each in (kept, Snapshots(path)):
        told = await each.read({"kind": "cost"})
        assert told["as_of"] == pytest.approx(time.time() - 5, abs=30)
        assert told["clock_ahead_s"] == pytest.approx(ahead_s, abs=30)


async def test_what_an_earlier_version_kept_is_still_told(path: Path) -> None:
    await asyncio.to_thread(path.write_text, '{"cost": {"as_of": 1000.0, "data": {"usd_per_hour": 2.0}}}')
    assert await Snapshots(path).read({"kind": "cost"}) == {"as_of": pytest.approx(1000.0, abs=1), "data": NEW}


async def test_what_was_told_by_a_clock_that_ran_ahead_before_a_reboot_is_replaced(path: Path) -> None:
    as_of = {"wall": time.time() + 86400, "steady": 1.0, "boot": "an earlier one"}
    await asyncio.to_thread(path.write_text, json.dumps({"cost": {"as_of": as_of, "data": OLD}}))
    kept = Snapshots(path)
    await kept.store({"kind": "cost", "as_of": time.time() - 1, "age_s": 1.0, "data": NEW})
    assert (await kept.read({"kind": "cost"}))["data"] == NEW


async def test_a_laptop_whose_clock_runs_ahead_makes_nothing_fresh(path: Path) -> None:
    kept = Snapshots(path)
    await kept.store({"kind": "cost", "as_of": time.time() + 9000, "age_s": 300.0, "data": NEW})
    assert (await kept.read({"kind": "cost"}))["as_of"] <= time.time() - 300


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"kind": "password", "as_of": 1.0, "data": {}},
        {"kind": ["cost"], "as_of": 1.0, "data": {}},
        {"kind": "cost", "as_of": 1.0, "data": []},
        {"kind": "cost", "data": {}},
        {"kind": "cost", "as_of": float("nan"), "data": {}},
        {"kind": "cost", "as_of": 1.0, "age_s": "long", "data": {}},
        {"kind": "cost", "as_of": 1.0, "data": {"text": "a" * LARGEST_BYTES}},
    ],
    ids=lambda params: str(params)[:60],
)
async def test_what_makes_no_sense_is_refused_and_nothing_is_kept(path: Path, params: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        await Snapshots(path).store(params)
    assert await Snapshots(path).read({"kind": "cost"}) == {}


@pytest.mark.parametrize("content", ["", "[]", "{", '{"cost": 1}', '{"cost": {"as_of": "x", "data": {}}}'])
async def test_a_file_that_cannot_be_read_is_told_anew(path: Path, content: str) -> None:
    await asyncio.to_thread(path.write_text, content)
    kept = Snapshots(path)
    assert await kept.read({"kind": "cost"}) == {}
    await kept.store({"kind": "cost", "as_of": 1000.0, "data": NEW})
    assert (await Snapshots(path).read({"kind": "cost"}))["data"] == NEW
