"""Budgets hold: what is told, what is stopped, and what may not be asked for."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any

import pytest

from jupyter_tpu.errors import BadInput, BudgetExceeded, JournalUnwritable
from jupyter_tpu.fleet import Fleet
from jupyter_tpu.fleet.spend.enforcer import BudgetEnforcer
from jupyter_tpu.fleet.spend.spend_ledger import SpendLedger
from jupyter_tpu.journal import Journal
from jupyter_tpu.journal.audit import Audit, Entry
from jupyter_tpu.journal.grant_store import Grants
from jupyter_tpu.models import Node
from jupyter_tpu.money.accrual import NodesObservation
from jupyter_tpu.money.days import day_of, day_text
from jupyter_tpu.money.grants import grant_from_json

USD_PER_SECOND = 9.6 / 3600
NO_AMOUNT = 1e-9
UNPRICED_ZONE = "southamerica-west1-a"
"""No source has a price of spot v6e chips there."""


@dataclass
class Desk:
    """A fleet whose accounting looks when the test says so."""

    bench: Any
    fleet: Fleet
    accounting: BudgetEnforcer
    books: SpendLedger
    audit: Audit
    now: float = 0.0

    def budget(self, amount: float, **changes: Any) -> None:
        wanted = {"amount": amount, "unit": "usd", "period": "total", **changes}
        self.books.set_budget("mine", wanted, now=1.0)

    async def tick(self, seconds: float = 0.0) -> None:
        """So much later, by the cloud's clock and by ours."""
        if seconds:
            self.bench.emulator.control.advance(seconds)
        self.now = max(self.now, (await self.fleet.refresh()).as_of) + seconds
        await self.accounting.reconcile(self.fleet, self.now)

    async def ready(self, node_id: str = "my-node", **changes: Any) -> Node:
        spec = self.bench.spec(node_id, **changes)
        intent = await self.fleet.wait((await self.fleet.create(spec)).intent_id)
        assert intent.succeeded, intent
        node = (await self.fleet.refresh()).node(spec.name)
        assert node is not None
        return node

    async def asked(self) -> list[tuple[str, str]]:
        """What was asked for at the cap up to now; the cloud has done it when this returns."""
        for intent in self.fleet.snapshot().intents:
            await self.fleet.wait(intent.intent_id)
        entries = self.noted_actions("stop", "delete")
        return sorted((each.action, each.subject.rpartition("/")[2]) for each in entries if each.error is None)

    def noted_actions(self, *actions: str) -> list[Entry]:
        return [entry for entry in reversed(self.audit.newest()) if entry.action in actions]


async def opened(bench: Any, stack: AsyncExitStack) -> Desk:
    journal = Journal.open(bench.folder)
    stack.callback(journal.close)
    accounting = BudgetEnforcer(bench.cloud, journal, ask_again_s=0.0)
    settings = bench.cloud.settings
    return Desk(
        bench=bench,
        fleet=await bench.fleet(admission_checks=[accounting]),
        accounting=accounting,
        books=SpendLedger(journal, settings),
        audit=Audit(journal, endpoint=settings.endpoint, project=settings.project),
    )


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture
async def desk(bench: Any, stack: AsyncExitStack) -> Desk:
    return await opened(bench, stack)


async def test_no_more_is_spent_than_the_cap_and_one_tick(desk: Desk) -> None:
    """The cloud's clock stands still but for our ticks."""
    control = desk.bench.emulator.control
    await desk.ready()
    control.pause()
    await desk.tick()
    before = control.ledger()["total_usd"]
    cap = 7.5 * USD_PER_SECOND
    desk.budget(cap)
    while not desk.noted_actions("stop"):
        assert control.ledger()["total_usd"] - before <= cap
        await desk.tick(1.0)
    async with asyncio.timeout(120):
        while control.billing():
            await desk.fleet.refresh()
    assert control.ledger()["total_usd"] - before <= cap + USD_PER_SECOND
    control.resume()
    assert await desk.asked() == [("stop", "my-node")]
    (entry,) = desk.noted_actions("stop")
    assert entry.subject == str(desk.bench.name())
    assert entry.reason.startswith("The budget mine is used up: $")


async def test_what_cannot_be_stopped_is_deleted(desk: Desk) -> None:
    await desk.ready("plain")
    await desk.ready("spot", spot=True)
    await desk.ready("wide", accelerator_type="v5litepod-16")
    desk.budget(NO_AMOUNT)
    await desk.tick(1.0)
    assert await desk.asked() == [("delete", "spot"), ("delete", "wide"), ("stop", "plain")]
    (notice,) = desk.fleet.snapshot().notices
    assert notice == (
        "The budget mine is used up: stopped plain; deleted with the disk, because stopping is not possible: spot, "
        "wide. You can't create nodes."
    )
    await desk.tick()
    assert desk.bench.emulator.control.billing() == []


async def test_a_budget_that_another_page_or_a_command_changes_is_news_once(desk: Desk) -> None:
    def news() -> int:
        return [each.kind for each in desk.bench.changes].count("budgets")

    await desk.tick()
    assert news() == 0
    desk.budget(100.0)
    await desk.tick()
    await desk.tick()
    assert news() == 1
    desk.budget(NO_AMOUNT, action="warn")
    await desk.tick()
    assert news() == 2
    desk.books.remove_budget("mine", now=1.0)
    await desk.tick()
    assert news() == 3


async def test_what_the_cloud_refuses_to_stop_is_deleted(desk: Desk) -> None:
    await desk.ready()
    desk.budget(NO_AMOUNT)
    refusal = "stop is not supported for a node of a queued resource"
    desk.bench.emulator.control.add_fault("StopNode", "error", code="INVALID_ARGUMENT", message=refusal)
    await desk.tick(1.0)
    assert await desk.asked() == [("stop", "my-node")]
    await desk.tick()
    assert await desk.asked() == [("delete", "my-node"), ("stop", "my-node")]
    assert desk.fleet.snapshot().intents == ()
    assert desk.bench.emulator.control.billing() == []


async def test_a_budget_that_only_warns_stops_nothing_and_forbids_nothing(desk: Desk) -> None:
    await desk.ready()
    desk.budget(NO_AMOUNT, action="warn")
    await desk.tick(1.0)
    assert desk.fleet.snapshot().intents == ()
    assert [entry.detail["level"] for entry in desk.noted_actions("budget_level")] == ["100"]
    await desk.ready("another")


async def test_each_threshold_is_told_once_by_one_of_two_processes(
    desk: Desk, bench: Any, stack: AsyncExitStack
) -> None:
    other = await opened(bench, stack)
    await desk.ready()
    bench.emulator.control.pause()
    await desk.tick()
    began_at = desk.books.account(desk.now).spans[0].began_at
    desk.budget(1.0, action="warn")
    for fraction in (0.1, 0.55, 0.6, 0.85, 0.9, 1.1, 1.2):
        now = began_at + fraction / USD_PER_SECOND
        for each in (desk, other):
            await each.accounting.reconcile(each.fleet, now)
    assert [entry.detail["level"] for entry in desk.noted_actions("budget_level")] == ["50", "80", "100"]


async def test_nothing_is_created_or_started_when_a_budget_is_used_up(desk: Desk) -> None:
    await desk.ready()
    desk.budget(NO_AMOUNT, period="month")
    await desk.tick(1.0)
    await desk.asked()
    for ask in (desk.fleet.create(desk.bench.spec("another")), desk.fleet.start_node(desk.bench.name())):
        with pytest.raises(BudgetExceeded, match="The budget mine is used up") as refused:
            await ask
        assert refused.value.exists == "No request was sent to the cloud."
        assert "Wait until 20" in refused.value.hint
        assert [(action.label, action.args) for action in refused.value.actions] == [
            ("Raise budget…", {"name": "mine"})
        ]
    assert [node.name.node_id for node in (await desk.fleet.refresh()).nodes] == ["my-node"]
    said = "The budget mine is used up: stopped my-node. You can't create nodes until "
    assert any(notice.startswith(said) for notice in desk.fleet.snapshot().notices)
    desk.books.remove_budget("mine", now=2.0)
    await desk.tick()
    assert desk.fleet.snapshot().notices == ()
    assert (await desk.fleet.wait((await desk.fleet.start_node(desk.bench.name())).intent_id)).succeeded


@pytest.mark.parametrize("body", ["{", "[]", '{"amount": -5}', '{"amount": 1e999, "unit": "usd", "period": "day"}'])
async def test_a_damaged_budget_allows_nothing(desk: Desk, body: str) -> None:
    desk.budget(1000.0)
    with sqlite3.connect(desk.bench.folder / "journal.db") as database:
        database.execute("UPDATE documents SET body = ? WHERE kind = 'budget'", (body,))
    with pytest.raises(JournalUnwritable, match="mine") as refused:
        await desk.fleet.create(desk.bench.spec())
    assert "`jupyter tpu budget`" in refused.value.hint
    await desk.tick()
    assert any("mine" in notice for notice in desk.fleet.snapshot().notices)
    assert (await desk.fleet.refresh()).nodes == ()
    desk.budget(1000.0)
    await desk.ready()


async def test_an_unknown_price_asks_first_where_there_is_a_budget(desk: Desk) -> None:
    unpriced = desk.bench.spec(
        name=desk.bench.name(zone=UNPRICED_ZONE),
        accelerator_type="v6e-1",
        runtime_version="v2-alpha-tpuv6e",
        spot=True,
    )
    desk.budget(1000.0)
    with pytest.raises(BadInput, match="The price of v6e-1 in southamerica-west1-a is unknown") as refused:
        await desk.fleet.create(unpriced)
    assert "--accept-unknown-price" in refused.value.hint
    intent = await desk.fleet.wait((await desk.fleet.create(unpriced, accept_unknown_price=True)).intent_id)
    assert intent.succeeded, intent
    await desk.tick(1.0)
    account = desk.books.account(desk.now + 60.0)
    ((_, usage),) = account.usages()
    assert usage.used > 0
    desk.books.remove_budget("mine", now=2.0)
    await desk.fleet.create(replace(unpriced, name=desk.bench.name("another", zone=UNPRICED_ZONE)))


def grant(desk: Desk, *rows: dict[str, Any]) -> None:
    body = {"kind": "trc", "starts_on": day_text(day_of(time.time()) - 1), "days": 90, "rows": list(rows)}
    place = {"endpoint": desk.bench.cloud.settings.endpoint, "project": desk.bench.cloud.settings.project}
    Grants(desk.bench.journal(), **place).put(grant_from_json("trc", body), now=1.0)


V5E_ROW = {"chips": 8, "generation": "v5e", "spot": False, "zone": "us-central1-a"}


async def test_an_unknown_price_asks_nothing_where_a_grant_pays(desk: Desk) -> None:
    unpriced = desk.bench.spec(
        name=desk.bench.name(zone=UNPRICED_ZONE),
        accelerator_type="v6e-1",
        runtime_version="v2-alpha-tpuv6e",
        spot=True,
    )
    desk.budget(1000.0)
    grant(desk, {"chips": 8, "generation": "v6e", "spot": True, "zone": UNPRICED_ZONE})
    intent = await desk.fleet.wait((await desk.fleet.create(unpriced)).intent_id)
    assert intent.succeeded, intent


async def test_a_used_up_budget_stops_only_what_no_grant_pays_for(desk: Desk) -> None:
    grant(desk, V5E_ROW)
    await desk.ready("free")
    await desk.tick(1.0)  # the oldest node is the one that the grant pays for
    await desk.ready("paid")
    await desk.tick(1.0)
    desk.budget(NO_AMOUNT)
    await desk.tick(1.0)
    await desk.tick(1.0)
    assert await desk.asked() == [("stop", "paid")]
    assert any("The budget does not stop free" in notice for notice in desk.fleet.snapshot().notices)


@pytest.mark.parametrize("terms", [{"unit": "hours"}, {"action": "stop-all"}], ids=["hours", "stop-all"])
async def test_a_used_up_budget_stops_and_refuses_what_a_grant_pays_for_where_it_is_told_to(
    desk: Desk, terms: dict[str, str]
) -> None:
    grant(desk, V5E_ROW)
    await desk.ready("free")
    await desk.tick(1.0)  # the oldest node is the one that the grant pays for
    await desk.ready("paid")
    await desk.tick(1.0)
    desk.budget(NO_AMOUNT, **terms)
    await desk.tick(1.0)
    await desk.tick(1.0)
    assert await desk.asked() == [("stop", "free"), ("stop", "paid")]
    assert any("is used up: stopped free, paid." in notice for notice in desk.fleet.snapshot().notices)
    with pytest.raises(BudgetExceeded):  # though the grant has chips free again
        await desk.fleet.start_node(desk.bench.name("free"))


async def test_a_used_up_budget_spares_what_a_grant_pays_for_though_the_ledger_has_it_as_ended(desk: Desk) -> None:
    grant(desk, V5E_ROW)
    free = await desk.ready("free")
    await desk.ready("paid", spot=True)
    await desk.tick(1.0)
    await desk.tick(1.0)
    desk.books.record(
        NodesObservation(as_of=0.0, read_at={free.name: desk.now + 300.0})
    )  # by a clock that is 5 min ahead
    desk.budget(NO_AMOUNT)
    await desk.tick(1.0)
    assert [span.name.node_id for span in desk.books.account(desk.now).spans if span.is_open] == ["paid"]
    assert await desk.asked() == [("delete", "paid")]
    assert any("The budget does not stop free" in notice for notice in desk.fleet.snapshot().notices)


async def test_a_used_up_budget_allows_what_a_grant_pays_for(desk: Desk) -> None:
    await desk.ready("kept")
    await desk.ready("paid", spot=True)
    await desk.tick(1.0)
    desk.budget(NO_AMOUNT)
    await desk.tick(1.0)
    assert await desk.asked() == [("delete", "paid"), ("stop", "kept")]
    with pytest.raises(BudgetExceeded):
        await desk.fleet.create(desk.bench.spec("free"))
    with pytest.raises(BudgetExceeded):
        await desk.fleet.start_node(desk.bench.name("kept"))

    grant(desk, {**V5E_ROW, "chips": 16})
    await desk.ready("free")
    assert (await desk.fleet.wait((await desk.fleet.start_node(desk.bench.name("kept"))).intent_id)).succeeded
    with pytest.raises(BudgetExceeded):  # the grant has no chips left
        await desk.fleet.create(desk.bench.spec("another"))


async def test_what_the_cloud_does_not_offer_is_said_before_the_budget(desk: Desk) -> None:
    await desk.ready()
    await desk.tick()
    desk.budget(NO_AMOUNT)
    await desk.tick(1.0)
    nowhere = desk.bench.spec(name=desk.bench.name("x", zone="us-central1-z"))
    with pytest.raises(BadInput, match="us-central1-z is not a Cloud TPU zone"):
        await desk.fleet.create(nowhere)


async def test_a_node_that_went_while_nobody_looked_uses_a_budget_as_long_as_it_can_have_been_ready(
    desk: Desk, bench: Any, stack: AsyncExitStack
) -> None:
    await desk.ready()
    await desk.tick()
    desk.budget(1.0)
    await bench.cloud.delete_node(bench.name())
    async with asyncio.timeout(120):
        while (await bench.cloud.list_nodes()).nodes:
            pass
    with sqlite3.connect(bench.folder / "journal.db") as database:
        database.execute("UPDATE spans SET began_at = began_at - 90000, ended_at = began_at - 89999")
    later = await opened(bench, stack)
    with pytest.raises(BudgetExceeded, match="unmonitored time in which nodes may have been READY"):
        await later.ready("another")
    ((_, usage),) = later.books.account(0.0).usages()
    assert usage.watched < 1.0 < usage.used


async def test_nodes_count_as_ready_while_the_cloud_does_not_say(desk: Desk) -> None:
    await desk.ready()
    await desk.tick()
    desk.bench.emulator.control.add_fault("ListNodes", "permission_denied", times=None)
    desk.budget(NO_AMOUNT)
    await desk.tick()
    await desk.accounting.reconcile(desk.fleet, desk.now + 3600.0)
    (span,) = desk.books.account(desk.now + 3600.0).spans
    assert span.is_open
    assert await desk.asked() == [("stop", "my-node")]


async def test_at_the_cap_a_node_that_boots_still_is_stopped(desk: Desk, bench: Any) -> None:
    node = await desk.ready()
    await desk.fleet.wait((await desk.fleet.stop(node.name)).intent_id)
    bench.emulator.control.add_fault("GetGuestAttributes", "permission_denied", times=None)
    await desk.fleet.start_node(node.name)
    await bench.until(lambda: [each.phase for each in desk.fleet.snapshot().intents] == ["booting"])
    desk.budget(NO_AMOUNT)
    await desk.tick(1.0)
    assert await desk.asked() == [("stop", "my-node")]
    assert bench.emulator.control.billing() == []


async def test_at_the_cap_a_node_that_is_being_made_is_deleted_before_it_is_billed(desk: Desk, bench: Any) -> None:
    control = bench.emulator.control
    await desk.ready()
    await desk.tick()
    control.pause()
    await desk.fleet.create(bench.spec("another"))
    await bench.until(lambda: any(node.state == "CREATING" for node in desk.fleet.snapshot().nodes))
    desk.budget(NO_AMOUNT)
    await desk.tick(1.0)
    control.resume()
    assert await desk.asked() == [("delete", "another"), ("stop", "my-node")]
    billed = {bill["name"]: bill["ready_seconds"] for bill in control.ledger()["nodes"]}
    assert billed.get(str(bench.name("another")), 0) == 0
    assert billed[str(bench.name())] > 0


async def test_budgets_that_damage_may_have_taken_allow_nothing_until_they_are_confirmed(
    bench: Any, stack: AsyncExitStack
) -> None:
    (bench.folder / "journal.db").write_bytes(b"this is no database, " * 400)
    desk = await opened(bench, stack)
    with pytest.raises(JournalUnwritable, match="budgets, or records of their usage, may be lost") as refused:
        await desk.fleet.create(bench.spec())
    assert "`jupyter tpu budget confirm`" in refused.value.hint
    await desk.tick()
    assert any("may be lost" in notice for notice in desk.fleet.snapshot().notices)
    assert [entry.action for entry in desk.audit.newest()] == ["journal_damaged"]
    desk.books.confirm_budgets(now=desk.now)
    await desk.tick()
    assert desk.accounting.notices == ()
    await desk.ready()


async def test_a_node_in_a_state_that_nobody_knows_is_charged_and_stopped_at_the_cap(desk: Desk) -> None:
    await desk.ready()
    await desk.tick()
    (before,) = desk.books.account(desk.now).spans
    desk.bench.emulator.control.add_fault("ListNodes", "unknown_enum", times=None)
    await desk.tick()
    (span,) = desk.books.account(desk.now).spans
    assert (span.is_open, span.began_at) == (True, before.began_at)
    assert span.ended_at > before.ended_at
    desk.budget(NO_AMOUNT)
    await desk.tick()
    assert await desk.asked() == [("stop", "my-node")]
    assert desk.bench.emulator.control.billing() == []
