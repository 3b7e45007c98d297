"""Grants on disk, against the nodes and the ledger."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_tpu.cloud.settings import CloudSettings
from jupyter_tpu.errors import TpuError
from jupyter_tpu.fleet.reconciler.new_intents import new_create_intent
from jupyter_tpu.fleet.reconciler.records import FleetSnapshot
from jupyter_tpu.fleet.spend.grant_usage import GrantUsage, read_grant_usage
from jupyter_tpu.journal import Journal
from jupyter_tpu.journal.audit import Audit
from jupyter_tpu.journal.grant_store import Grants
from jupyter_tpu.journal.ledger import Ledger
from jupyter_tpu.models import Node, NodeName, NodeSpec
from jupyter_tpu.money.accrual import NodesObservation, ObservedNode
from jupyter_tpu.money.coverage import NodeRequest
from jupyter_tpu.money.days import day_of, day_text
from jupyter_tpu.money.grants import grant_from_json

SETTINGS = CloudSettings(project="my-project", endpoint="127.0.0.1:1")
PLACE = {"endpoint": SETTINGS.endpoint, "project": SETTINGS.project}
NAME = NodeName(project="my-project", zone="us-central1-a", node_id="mine")
REQUEST = NodeRequest(accelerator_type="v5litepod-8", zone="us-central1-a")
DAY_S = 86_400
ROW = {"chips": 8, "generation": "v5e", "spot": False, "zone": "us-central1-a"}


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = Journal.open(tmp_path)
    yield journal
    journal.close()


def enter(journal: Journal, name: str, **body: Any) -> None:
    starts_on = day_text(day_of(time.time() - 10 * DAY_S))
    grant = grant_from_json(name, {"starts_on": starts_on, "days": 90, **body})
    Grants(journal, **PLACE).put(grant, now=time.time())


def seen(*nodes: Node, **fields: Any) -> FleetSnapshot:
    return FleetSnapshot(nodes=nodes, **{"as_of": time.time(), **fields})


def node(name: NodeName = NAME) -> Node:
    return Node(name=name, state="READY", accelerator_type="v5litepod-8")


async def book_of(journal: Journal, snapshot: FleetSnapshot) -> GrantUsage:
    return await read_grant_usage(journal, SETTINGS, snapshot)


async def test_the_credit_is_used_by_what_the_ledger_knows(journal: Journal) -> None:
    enter(journal, "welcome", kind="credit", usd=300)
    sight = ObservedNode(name=NAME, uid="1", accelerator_type="v5litepod-8", spot=False, usd_per_hour=9.6)
    ledger, began = Ledger(journal, **PLACE), time.time() - 7200
    for look in (
        NodesObservation(as_of=began, ready=(sight,)),
        NodesObservation(as_of=began + 3600, ready=(sight,)),
        NodesObservation(as_of=began + 3601),
    ):
        ledger.record(look)
    book = await book_of(journal, seen())
    (view,) = book.to_json()["grants"]
    assert view["usd_used"] == pytest.approx(9.6, abs=0.1)
    assert view["usd_left"] == pytest.approx(290.4, abs=0.1)
    assert "; your credit welcome has about $290." in book.coverage(REQUEST).text


async def test_a_node_that_is_only_wished_for_uses_its_chips(journal: Journal) -> None:
    enter(journal, "trc", kind="trc", rows=[ROW])
    spec = NodeSpec(name=NAME, accelerator_type="v5litepod-8", runtime_version="v2-alpha-tpuv5-lite")
    wish = new_create_intent(spec, ssh_key="me:key", endpoint=SETTINGS.endpoint, now=time.time())
    assert (await book_of(journal, seen())).coverage(REQUEST).is_covered
    for snapshot in (seen(intents=(wish,)), seen(node()), seen(node(), intents=(wish,))):
        book = await book_of(journal, snapshot)
        assert book.to_json()["grants"][0]["rows"][0]["used"] == 8
        assert "has 0 chips free there, but the node needs 8" in book.coverage(REQUEST).text


@pytest.mark.parametrize(
    "snapshot",
    [FleetSnapshot(), seen(error=TpuError("no answer")), seen(unreachable=("us-central1-a",))],
    ids=["never seen", "not seen now", "zone not seen"],
)
async def test_what_was_not_seen_covers_nothing(journal: Journal, snapshot: FleetSnapshot) -> None:
    enter(journal, "trc", kind="trc", rows=[ROW])
    book = await book_of(journal, snapshot)
    assert not book.coverage(REQUEST).is_covered
    row = book.to_json()["grants"][0]["rows"][0]
    assert (row["used"], row["free"]) == (None, None)


@pytest.mark.parametrize("body", ["[1", '{"kind": "gift"}', '{"kind": "trc", "starts_on": "2026-11-01", "days": 1e99}'])
async def test_a_broken_grant_is_shown_and_covers_nothing(journal: Journal, tmp_path: Path, body: str) -> None:
    enter(journal, "broken", kind="trc", rows=[ROW])
    with sqlite3.connect(tmp_path / "journal.db") as database:
        database.execute("UPDATE documents SET body = ?", (body,))
    database.close()
    enter(journal, "whole", kind="credit", usd=300)
    book = await book_of(journal, seen())
    broken, whole = book.to_json()["grants"]
    assert broken["error"]
    assert (whole["error"], whole["usd_left"]) == (None, 300)
    assert not book.coverage(REQUEST).is_covered
    Grants(journal, **PLACE).remove("broken", now=time.time())
    assert [each["name"] for each in (await book_of(journal, seen())).to_json()["grants"]] == ["whole"]


def test_each_change_of_a_grant_is_in_the_audit_log(journal: Journal) -> None:
    enter(journal, "trc", kind="trc", rows=[ROW])
    Grants(journal, **PLACE).remove("trc", now=time.time())
    assert [entry.action for entry in Audit(journal, **PLACE).newest()] == ["grant", "grant"]
