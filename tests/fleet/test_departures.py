"""Nodes that end without us: the audit log says so, with what their guards were told."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from jupyter_tpu.brakes import Rules
from jupyter_tpu.fleet.accounting import Accounting
from jupyter_tpu.fleet.brake_book import BrakeBook
from jupyter_tpu.fleet.departures import Departures
from jupyter_tpu.journal import Journal
from jupyter_tpu.journal.audit import Audit, Entry
from jupyter_tpu.models import Node


async def watched(bench: Any, journal: Journal) -> Any:
    """A fleet that keeps a ledger, and looks who has left."""
    return await bench.fleet(Accounting, Departures, journal=journal)


async def ready(bench: Any, fleet: Any, journal: Journal) -> Node:
    """A node that the ledger knows."""
    assert (await fleet.wait((await fleet.create(bench.spec())).intent_id)).succeeded
    async with asyncio.timeout(60):
        while not spans(journal):
            await fleet.refresh()
    node: Node = (await fleet.refresh()).node(bench.name())
    return node


def spans(journal: Journal) -> list[Any]:
    with journal.reading() as database:
        return database.execute("SELECT 1 FROM spans").fetchall()


def entries(bench: Any, journal: Journal, *actions: str) -> list[Entry]:
    settings = bench.cloud.settings
    audit = Audit(journal, endpoint=settings.endpoint, project=settings.project)
    return [entry for entry in audit.newest() if entry.action in actions]


async def ended(bench: Any, journal: Journal) -> Entry:
    async with asyncio.timeout(60):
        while not (found := entries(bench, journal, "ended")):  # noqa: ASYNC110 - the journal never calls
            await asyncio.sleep(0.05)
    (entry,) = found
    return entry


@pytest.mark.parametrize("verb", ["stop", "delete"])
async def test_what_a_guard_did_while_the_laptop_was_off_is_said_with_its_orders(bench: Any, verb: str) -> None:
    journal = bench.journal()
    fleet = await watched(bench, journal)
    node = await ready(bench, fleet, journal)
    BrakeBook(journal, bench.cloud.settings).put_rules(node, Rules(idle_after_s=1800.0, action=verb), now=1.0)
    await fleet.close()
    await (bench.cloud.stop_node if verb == "stop" else bench.cloud.delete_node)(node.name)
    await watched(bench, journal)
    entry = await ended(bench, journal)
    assert entry.subject == str(node.name)
    assert entry.detail["uid"] == node.uid
    assert "and nothing here asked for that. It was last seen READY at 20" in entry.reason
    assert f"Its guard was due to {verb} it after 30 min without use (idle)" in entry.reason


async def test_what_was_asked_for_here_is_not_said_to_have_ended_by_itself(bench: Any) -> None:
    journal = bench.journal()
    fleet = await watched(bench, journal)
    node = await ready(bench, fleet, journal)
    assert (await fleet.wait((await fleet.delete(node.name)).intent_id)).succeeded
    departures = Departures(bench.cloud, journal)
    await fleet.refresh()
    async with asyncio.timeout(60):
        while open_spans(journal):  # noqa: ASYNC110 - the journal never calls
            await asyncio.sleep(0.05)
    await departures.tick(fleet, time.time())
    assert entries(bench, journal, "ended") == []


def open_spans(journal: Journal) -> list[Any]:
    with journal.reading() as database:
        return database.execute("SELECT 1 FROM spans WHERE is_open = 1").fetchall()
