"""Our ledger against the emulated cloud's own, with several processes and with one that dies."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_tpu.cloud import CloudSettings
from jupyter_tpu.errors import JournalUnwritable, NodeNotFound
from jupyter_tpu.fleet.autostop.autostop_settings import AutostopSettings
from jupyter_tpu.fleet.spend.spend_ledger import NEVER, SpendLedger, observation_of
from jupyter_tpu.fleet.spend.unobserved import record_observation
from jupyter_tpu.journal import Journal
from jupyter_tpu.models import Node, NodeList, NodeName
from jupyter_tpu.money.accrual import NodesObservation, ObservedNode
from jupyter_tpu.money.spans import EVER, cost

DYING_ACCOUNTANT = Path(__file__).with_name("dying_accountant.py")
PLACE = CloudSettings(project="demo-project")
NAME = NodeName(project="demo-project", zone="us-central1-a", node_id="my-node")
USD_PER_SECOND = 9.6 / 3600
ROUNDING = 1e-6
STEP_S = 5.0


@pytest.fixture
def journals(tmp_path: Path) -> Iterator[tuple[Journal, Journal]]:
    """One journal, opened by two processes."""
    pair = Journal.open(tmp_path), Journal.open(tmp_path)
    yield pair
    for journal in pair:
        journal.close()


def look(as_of: float, *uids: str) -> NodesObservation:
    price = {"accelerator_type": "v5litepod-8", "spot": False, "usd_per_hour": 9.6}
    return NodesObservation(as_of=as_of, ready=tuple(ObservedNode(name=NAME, uid=uid, **price) for uid in uids))  # type: ignore[arg-type]


def spans(books: SpendLedger) -> list[tuple[str, float, float, bool]]:
    return [(each.uid, each.began_at, each.ended_at, each.is_open) for each in books.account(0.0).spans]


async def test_it_agrees_with_the_clouds_own_to_a_look(bench: Any, journals: tuple[Journal, Journal]) -> None:
    """The clock of the cloud stands still but for our steps; both accountants look at every moment."""
    control, first, second = bench.emulator.control, SpendLedger(journals[0], PLACE), SpendLedger(journals[1], PLACE)
    control.pause()

    seen = NEVER

    async def step_until(is_it: Any) -> None:
        nonlocal seen
        while True:
            control.advance(STEP_S)
            now, listed = control.now(), await bench.cloud.list_nodes()
            seen = observation_of(listed, as_of=now, before=seen)
            for books in (first, second):
                await asyncio.to_thread(books.record, seen)
            if is_it(next(iter(listed.nodes), None)):
                return

    def costs() -> tuple[float, float]:
        ours = cost(first.account(0.0).spans, EVER, 0.0).usd
        assert ours is not None
        return ours, control.ledger()["total_usd"]

    await bench.cloud.create_node(bench.spec())
    await step_until(lambda node: node and node.state == "READY")
    for _ in range(3):
        await step_until(lambda node: node is not None)
    ours, theirs = costs()
    assert ours == pytest.approx(3 * STEP_S * USD_PER_SECOND)
    assert -ROUNDING <= theirs - ours <= (STEP_S + 1) * USD_PER_SECOND
    assert [each[3] for each in spans(first)] == [True]

    await bench.cloud.stop_node(bench.name())
    await step_until(lambda node: node and node.state == "STOPPED")
    assert control.billing() == []
    ours, theirs = costs()
    assert abs(theirs - ours) <= 2 * (STEP_S + 1) * USD_PER_SECOND

    await bench.cloud.start_node(bench.name())
    await step_until(lambda node: node and node.state == "READY")
    await step_until(lambda node: node is not None)
    await bench.cloud.delete_node(bench.name())
    await step_until(lambda node: node is None)
    assert [each[3] for each in spans(second)] == [False, False]
    assert {each[0] for each in spans(second)} == {str(bill["uid"]) for bill in control.ledger()["nodes"]}
    ours, theirs = costs()
    assert ours > 0
    assert abs(theirs - ours) <= 4 * (STEP_S + 1) * USD_PER_SECOND


def test_two_that_look_count_nothing_twice(journals: tuple[Journal, Journal]) -> None:
    first, second = (SpendLedger(journal, PLACE) for journal in journals)
    first.record(look(100.0, "1"))
    second.record(look(90.0, "1"))
    second.record(look(110.0, "1"))
    first.record(look(105.0))  # asked for before the other's
    assert spans(first) == spans(second) == [("1", 100.0, 110.0, True)]
    first.record(look(130.0))
    second.record(look(120.0, "1"))  # the node went after that
    assert spans(first) == spans(second) == [("1", 100.0, 130.0, False)]  # it may have been READY until then


@pytest.mark.parametrize(("point", "kept"), [("within", 100.0), ("after", 500.0)])
async def test_a_process_that_dies_leaves_a_whole_ledger(
    journals: tuple[Journal, Journal], tmp_path: Path, point: str, kept: float
) -> None:
    books = SpendLedger(journals[0], PLACE)
    books.record(look(100.0, "1"))
    arguments = [str(tmp_path), str(NAME), "1", "500.0", point]
    environment = {**os.environ, "PYTHONPATH": str(DYING_ACCOUNTANT.parents[3])}
    process = await asyncio.create_subprocess_exec(sys.executable, str(DYING_ACCOUNTANT), *arguments, env=environment)
    assert await process.wait() == -signal.SIGKILL
    assert spans(books) == [("1", 100.0, kept, True)]
    books.record(look(9000.0, "1"))
    assert spans(books) == [("1", 100.0, 9000.0, True)]
    books.record(look(9999.0, "2"))
    assert spans(books) == [("1", 100.0, 9000.0, False), ("2", 9999.0, 9999.0, True)]


def test_projects_and_clouds_have_ledgers_of_their_own(journals: tuple[Journal, Journal]) -> None:
    SpendLedger(journals[0], PLACE).record(look(100.0, "1"))
    assert spans(SpendLedger(journals[0], CloudSettings(project="demo-project-2"))) == []
    assert spans(SpendLedger(journals[0], CloudSettings(project="demo-project", endpoint="127.0.0.1:1"))) == []


def test_a_node_that_was_ready_before_anyone_looked_is_not_charged_but_said(
    journals: tuple[Journal, Journal],
) -> None:
    books = SpendLedger(journals[0], PLACE)
    node = Node(name=NAME, state="READY", accelerator_type="v5litepod-8", create_time="1970-01-01T00:10:00Z")
    books.record(observation_of(NodeList(nodes=(node,)), as_of=1000.0))
    (only,) = books.account(0.0).spans
    assert (only.began_at, only.unwatched_s) == (1000.0, 400.0)


def test_an_entry_that_cannot_be_read_is_an_error_and_never_left_out(
    journals: tuple[Journal, Journal], tmp_path: Path
) -> None:
    books = SpendLedger(journals[0], PLACE)
    books.record(look(100.0, "1"))
    with sqlite3.connect(tmp_path / "journal.db") as database:
        database.execute("UPDATE spans SET body = '{'")
    with pytest.raises(JournalUnwritable, match="cannot be read"):
        books.account(0.0)
    assert books.node_costs(0.0) == {}


def test_an_entry_that_cannot_be_read_leaves_the_rules_of_the_other_nodes_alone(
    journals: tuple[Journal, Journal], tmp_path: Path
) -> None:
    books = SpendLedger(journals[0], PLACE)
    books.record(look(100.0, "1"))
    other = Node(name=NodeName.parse(str(NAME) + "-b"), state="READY", accelerator_type="v5litepod-8", uid="2")
    books.record(observation_of(NodeList(nodes=(other,)), as_of=200.0))
    with sqlite3.connect(tmp_path / "journal.db") as database:
        database.execute("UPDATE spans SET body = '{' WHERE node_name = ?", (str(NAME),))
    laid = AutostopSettings(journals[0], PLACE).read([other])
    assert laid[str(other.name)].ready_since == 200.0


async def test_the_ledger_of_a_missing_node_ends(bench: Any, journals: tuple[Journal, Journal]) -> None:
    books = SpendLedger(journals[0], PLACE)
    with pytest.raises(NodeNotFound):
        await bench.cloud.get_node(bench.name())
    books.record(look(100.0, "1"))
    books.record(observation_of(await bench.cloud.list_nodes(), as_of=9000.0))
    assert spans(books) == [("1", 100.0, 100.0, False)]


async def test_a_look_that_is_written_down_an_hour_late_changes_nothing(
    bench: Any, journals: tuple[Journal, Journal]
) -> None:
    books = SpendLedger(journals[0], PLACE)
    listed, now = await bench.cloud.list_nodes(), bench.cloud.clock.now()
    books.record(look(now - 9000.0, "1"))
    books.record(look(now - 10.0, "1"))  # by another process, while this one slept
    await record_observation(bench.cloud, books, observation_of(listed, as_of=now - 3600.0))
    assert spans(books) == [("1", now - 9000.0, now - 10.0, True)]


async def test_a_span_that_began_a_day_ahead_is_kept_as_of_the_next_look(
    bench: Any, journals: tuple[Journal, Journal]
) -> None:
    books = SpendLedger(journals[0], PLACE)
    node = Node(name=NAME, state="READY", accelerator_type="v5litepod-8", uid="1")
    await bench.cloud.list_nodes()
    now = bench.cloud.clock.now()
    books.record(observation_of(NodeList(nodes=(node,)), as_of=now + 86_400.0))
    for as_of in (now - 60.0, now):
        await record_observation(bench.cloud, books, observation_of(NodeList(nodes=(node,)), as_of=as_of))
    assert spans(books) == [("1", now - 60.0, now, True)]


def test_what_nobody_watched_is_read_from_ledgers_of_versions_that_wrote_one_number(
    journals: tuple[Journal, Journal], tmp_path: Path
) -> None:
    books = SpendLedger(journals[0], PLACE)
    books.record(look(1000.0, "1"))
    books.record(look(6000.0, "2"))
    with sqlite3.connect(tmp_path / "journal.db") as database:
        database.execute(
            "UPDATE spans SET body = json_remove(json_set(body, '$.unwatched_s', 5600.0), '$.unwatched_after_s')"
        )
    old, new = books.account(0.0).spans
    assert (old.unwatched_before_s, old.unwatched_after_s) == (600.0, 5000.0)
    assert (new.unwatched_before_s, new.unwatched_after_s) == (5600.0, 0.0)
