"""A node that the cloud takes away is recreated where its user said so, and nowhere else."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from jupyter_tpu.errors import BadInput, NodeNotFound
from jupyter_tpu.fleet import Fleet
from jupyter_tpu.fleet.capacity.queued_resources import Queue
from jupyter_tpu.fleet.capacity.recreate import RecreateController, recovery_view, set_recovery
from jupyter_tpu.fleet.spend.spend_ledger import SpendLedger, observation_of
from jupyter_tpu.journal import Journal
from jupyter_tpu.journal.audit import Audit
from jupyter_tpu.journal.grant_store import Grants
from jupyter_tpu.journal.recovery_store import Recoveries
from jupyter_tpu.lifecycle.recovery_state import Recovery
from jupyter_tpu.lifecycle.time_limits import Limits
from jupyter_tpu.models import NodeList, NodeName, NodeOptions, NodeSpec
from jupyter_tpu.money.days import day_of, day_text
from jupyter_tpu.money.grants import grant_from_json

QUICK = Limits(vanished_s=0.5)


def quick(cloud: Any, journal: Journal) -> RecreateController:
    return RecreateController(cloud, journal, QUICK)


class Choices:
    """What is laid down in the journal of a bench."""

    def __init__(self, bench: Any, journal: Journal) -> None:
        self._bench = bench
        self.journal = journal
        self._place = {"endpoint": bench.cloud.settings.endpoint, "project": bench.emulator.project}

    async def choose(self, node_id: str = "my-node", *, is_on: bool = True, **caps: Any) -> Recovery:
        name = self._bench.name(node_id)
        return await set_recovery(self._bench.cloud, self.journal, name, is_on=is_on, now=time.time(), **caps)

    def of(self, node_id: str = "my-node") -> Recovery:
        found = Recoveries(self.journal, **self._place).get(self._bench.name(node_id))
        assert found is not None
        return found

    def audited(self) -> list[str]:
        """The actions, oldest first."""
        return [entry.action for entry in reversed(Audit(self.journal, **self._place).newest())]

    async def until(self, *phases: str, attempts: int = 0) -> Recovery:
        await self._bench.until(lambda: self.of().phase in phases and self.of().attempts >= attempts)
        return self.of()


@pytest.fixture
async def choices(bench: Any) -> AsyncIterator[Choices]:
    journal = Journal.open(bench.folder)
    yield Choices(bench, journal)
    journal.close()


async def made(bench: Any, fleet: Fleet, **changes: Any) -> Any:
    intent = await fleet.wait((await fleet.create(bench.spec(**{"spot": True, **changes}))).intent_id)
    assert intent.succeeded, intent
    node = (await fleet.refresh()).node(bench.name())
    assert node is not None
    return node


def lives(bench: Any) -> list[bool]:
    """Whether each of the nodes that ever were, in their order, is billed now."""
    return [bill["billing"] for bill in bench.emulator.control.ledger()["nodes"]]


async def test_a_preempted_node_is_made_again_as_it_was(bench: Any, choices: Choices) -> None:
    fleet = await bench.fleet(quick)
    options = NodeOptions(internal_ips=True)
    first = await made(bench, fleet, labels={"team": "a"}, metadata={"startup-script": "true"}, options=options)
    await choices.choose()
    bench.emulator.control.preempt(str(bench.name()))
    told = await bench.change("node", state="PREEMPTED")
    assert told.node_name == str(bench.name())
    recovery = await choices.until("watching", attempts=1)
    second = (await fleet.refresh()).node(bench.name())
    assert second is not None
    assert (second.state, second.spot, second.labels["team"]) == ("READY", True, "a")
    assert second.metadata["startup-script"] == "true"
    assert second.options == first.options == options
    assert second.metadata["ssh-keys"] == first.metadata["ssh-keys"]
    assert second.uid != first.uid
    assert recovery.message == "my-node was recreated (attempt 1 of 3)."
    assert lives(bench) == [False, True]
    assert choices.audited() == ["recover-on", "preempted", "recover-wait", "recreate", "recreated"]
    assert any("attempt 1 of 3" in change.message for change in bench.changes if change.kind == "node")


async def test_of_a_node_that_is_not_spot_no_pre_emption_is_promised(bench: Any, choices: Choices) -> None:
    await made(bench, await bench.fleet(quick), spot=False)
    recovery = await choices.choose()
    assert recovery.message == (
        "my-node is not a spot node, so no pre-emption is expected. If it is pre-empted, it is recreated, "
        "with at most 3 attempts each time."
    )


@pytest.mark.parametrize("body", ["damaged", "[1]", '{"is_on": true}'])
async def test_a_setting_that_cannot_be_read_keeps_no_other_node_from_being_recreated(
    bench: Any, choices: Choices, body: str
) -> None:
    fleet = await bench.fleet(quick)
    await made(bench, fleet)
    await choices.choose()
    place = (bench.cloud.settings.endpoint, bench.cloud.settings.project, "recovery", str(bench.name("another")), body)
    with choices.journal.writing() as database:
        database.execute("INSERT INTO documents VALUES (?, ?, ?, ?, ?, 9)", place)
    bench.emulator.control.preempt(str(bench.name()))
    await choices.until("watching", attempts=1)
    assert lives(bench) == [False, True]


async def test_two_fleets_make_one(bench: Any, choices: Choices) -> None:
    fleet, _ = await bench.fleet(quick), await bench.fleet(quick)
    await made(bench, fleet)
    await choices.choose()
    bench.emulator.control.preempt(str(bench.name()))
    await choices.until("watching", attempts=1)
    assert lives(bench) == [False, True]
    assert choices.audited().count("recreate") == 1


async def test_attempts_are_capped_and_the_last_leftover_is_cleared(bench: Any, choices: Choices) -> None:
    fleet = await bench.fleet(quick)
    await made(bench, fleet)
    await choices.choose(max_attempts=1)
    bench.emulator.control.preempt(str(bench.name()))
    await choices.until("watching", attempts=1)
    bench.emulator.control.preempt(str(bench.name()))
    recovery = await choices.until("given_up")
    assert recovery.message.endswith("each time, it was lost within 4 h (limit: 1 in a row).")
    assert bench.emulator.control.state()["nodes"] == []
    assert lives(bench) == [False, False]


@pytest.mark.parametrize("is_chosen", [True, False])
async def test_nothing_is_made_again_that_was_deleted_or_not_chosen(
    bench: Any, choices: Choices, is_chosen: bool
) -> None:
    fleet = await bench.fleet(quick)
    await made(bench, fleet)
    await choices.choose(is_on=is_chosen)
    if is_chosen:
        await fleet.wait((await fleet.delete(bench.name())).intent_id)
        await choices.until("off")
        assert bench.emulator.control.state()["nodes"] == []
    else:
        bench.emulator.control.preempt(str(bench.name()))
        await bench.change("node", state="PREEMPTED")
        assert choices.of().phase == "off"
        assert [each["state"] for each in bench.emulator.control.state()["nodes"]] == ["PREEMPTED"]
    assert lives(bench) == [False]


async def test_a_deletion_between_two_attempts_ends_them(bench: Any, choices: Choices) -> None:
    """There is neither a node nor a request for one then, but auto-recovery would make one in a minute."""
    fleet = await bench.fleet(quick)
    await made(bench, fleet)
    await choices.choose()
    bench.emulator.control.stock_out(bench.emulator.zone)
    bench.emulator.control.preempt(str(bench.name()))
    await choices.until("waiting", attempts=1)
    with pytest.raises(NodeNotFound) as refused:
        await fleet.stop(bench.name())
    assert "may recreate it" in refused.value.exists
    assert (await fleet.wait((await fleet.delete(bench.name())).intent_id)).succeeded
    recovery = await choices.until("off")
    assert recovery.message == "my-node was deleted on purpose, so it will not be recreated."
    with pytest.raises(NodeNotFound):
        await fleet.delete(bench.name())
    assert lives(bench) == [False]


class DeletesFirst:
    """Has another process delete the node when a creation is checked, before its intent is in the journal."""

    notices = ()

    def __init__(self, other: Fleet) -> None:
        self._other = other
        self.has_deleted = False

    async def check_create(self, spec: NodeSpec, *, accept_unknown_price: bool) -> None:
        if not self.has_deleted:
            self.has_deleted = True
            await self._other.wait((await self._other.delete(spec.name)).intent_id)

    async def check_start(self, name: NodeName) -> None:
        """Nothing is started here."""


async def test_an_attempt_that_a_deletion_came_before_is_cancelled(bench: Any, choices: Choices) -> None:
    other = await bench.fleet()
    await made(bench, other)
    await choices.choose()
    check = DeletesFirst(other)
    await bench.fleet(quick, admission_checks=[check])
    bench.emulator.control.preempt(str(bench.name()))
    await choices.until("off")
    await bench.until(lambda: not any(not each.settled for each in other.snapshot().intents))
    await bench.until(lambda: not bench.emulator.control.state()["nodes"])
    assert check.has_deleted
    assert not any(lives(bench))


async def test_what_went_while_nobody_looked_may_have_ended_by_its_rules(bench: Any, choices: Choices) -> None:
    fleet = await bench.fleet()
    await made(bench, fleet, spot=True)
    await choices.choose()
    await fleet.close()
    operation = await bench.cloud.delete_node(bench.name())  # as its own guard asks for it
    async with asyncio.timeout(120):
        while not operation.done:
            operation = await bench.cloud.get_operation(operation.name)
    await bench.fleet(quick)
    recovery = await choices.until("given_up")
    assert "while unmonitored" in recovery.message
    assert lives(bench) == [False]


@pytest.mark.parametrize(("asleep_s", "why"), [(10.0, "was deleted"), (8 * 3600.0, "while unmonitored")])
async def test_a_spot_node_that_was_deleted_between_two_polls_is_not_made_again(
    bench: Any, choices: Choices, asleep_s: float, why: str
) -> None:
    fleet = await bench.fleet()
    await made(bench, fleet)
    await choices.choose()
    recovering = RecreateController(bench.cloud, choices.journal, QUICK)
    now = time.time()
    await recovering.reconcile(fleet, now)
    await bench.cloud.delete_node(bench.name())
    while (await fleet.refresh()).node(bench.name()):
        bench.emulator.control.advance(60)
    for later_s in (0.0, 5.0):
        await recovering.reconcile(fleet, now + asleep_s + later_s)
    recovery = choices.of()
    assert (recovery.phase, recovery.attempts) == ("given_up", 0)
    assert why in recovery.message


async def queued_node(bench: Any, fleet: Fleet, journal: Journal) -> None:
    await Queue(fleet, bench.cloud, journal).add(bench.spec(spot=True))
    bench.emulator.control.advance(600)
    await bench.until(lambda: (node := fleet.snapshot().node(bench.name())) is not None and node.state == "READY")


async def test_a_queued_node_that_somebody_deleted_elsewhere_is_not_made_again(bench: Any, choices: Choices) -> None:
    fleet = await bench.fleet()
    await queued_node(bench, fleet, choices.journal)
    assert (await choices.choose()).is_queued
    recovering = RecreateController(bench.cloud, choices.journal, QUICK)
    now = time.time()
    await recovering.reconcile(fleet, now)
    await bench.cloud.delete_node(bench.name())
    while (await bench.cloud.list_queued_resources()).items[0].state != "SUSPENDED":
        bench.emulator.control.advance(60)
    await fleet.refresh()
    for later_s in (1.0, 5.0):
        await recovering.reconcile(fleet, now + later_s)
    recovery = choices.of()
    assert recovery.phase == "given_up"
    assert "may have done this on purpose" in recovery.message
    # the queued resource is the other person's too
    assert [each.state for each in (await bench.cloud.list_queued_resources()).items] == ["SUSPENDED"]


async def test_what_a_queue_made_is_made_again_once_its_leftover_is_gone(bench: Any, choices: Choices) -> None:
    fleet = await bench.fleet(quick)
    await queued_node(bench, fleet, choices.journal)
    assert (await choices.choose()).is_queued
    bench.emulator.control.preempt(str(bench.name()))
    recovery = await choices.until("watching", attempts=1)
    assert not recovery.is_queued
    assert (await bench.cloud.list_queued_resources()).items == ()
    assert lives(bench) == [False, True]


async def test_a_stock_out_is_tried_again_later(bench: Any, choices: Choices) -> None:
    fleet = await bench.fleet(quick)
    await made(bench, fleet)
    await choices.choose()
    bench.emulator.control.stock_out(bench.emulator.zone)
    bench.emulator.control.preempt(str(bench.name()))
    recovery = await choices.until("waiting", attempts=1)
    assert "The node will be recreated in 60 s (attempt 2 of 3)." in recovery.message
    assert recovery_view(recovery)["state"] == "waiting"
    assert bench.emulator.control.state()["nodes"] == []
    await choices.choose(is_on=False)
    assert choices.of().phase == "off"


async def test_the_cap_in_dollars_counts_an_unknown_price_as_too_much(bench: Any, choices: Choices) -> None:
    fleet = await bench.fleet(quick)
    await made(bench, fleet)
    await choices.choose(max_usd=1.0)
    span = (bench.cloud.settings.endpoint, str(bench.name()), "1", time.time(), time.time() + 9, 0, None, "{}")
    journal = Journal.open(bench.folder)
    with journal.writing() as database:
        database.execute("INSERT INTO spans VALUES (?, ?, ?, ?, ?, ?, ?, ?)", span)
    journal.close()
    bench.emulator.control.preempt(str(bench.name()))
    assert "an unknown amount" in (await choices.until("given_up")).message


async def test_a_cap_that_cannot_be_checked_is_refused_when_it_is_chosen(bench: Any, choices: Choices) -> None:
    fleet = await bench.fleet(quick)
    bench.emulator.control.reserve("ours", bench.emulator.zone, "v5e", 8)
    await made(bench, fleet, spot=False, reserved=True)  # no list has its price
    with pytest.raises(BadInput, match="There is no list price for my-node") as refused:
        await choices.choose(max_usd=50.0)
    assert "Omit the cap" in refused.value.hint
    assert (await choices.choose()).is_on


async def test_a_cap_counts_only_what_no_grant_has_paid_for(bench: Any, choices: Choices) -> None:
    fleet = await bench.fleet(quick)
    zone = "southamerica-west1-a"
    row = {"chips": 8, "generation": "v6e", "spot": True, "zone": zone}
    body = {"kind": "trc", "starts_on": day_text(day_of(time.time()) - 1), "days": 90, "rows": [row]}
    place = {"endpoint": bench.cloud.settings.endpoint, "project": bench.emulator.project}
    Grants(choices.journal, **place).put(grant_from_json("trc", body), now=1.0)
    name = bench.name(zone=zone)
    unpriced = bench.spec(name=name, accelerator_type="v6e-1", runtime_version="v2-alpha-tpuv6e", spot=True)
    assert (await fleet.wait((await fleet.create(unpriced)).intent_id)).succeeded

    node = await bench.cloud.get_node(name)
    recovery = await set_recovery(bench.cloud, choices.journal, name, is_on=True, max_usd=50.0, now=time.time())
    books = SpendLedger(choices.journal, bench.cloud.settings)
    for hour in (0.0, 1.0):
        books.record(observation_of(NodeList(nodes=(node,)), as_of=recovery.chosen_at + hour * 3600.0))
    recoveries = Recoveries(choices.journal, **place)
    assert recoveries.spent_usd(name, recovery.chosen_at) == 0.0
    Grants(choices.journal, **place).remove("trc", now=2.0)
    assert recoveries.spent_usd(name, recovery.chosen_at) is None


async def test_what_can_be_no_choice_is_refused(bench: Any, choices: Choices) -> None:
    with pytest.raises(NodeNotFound):
        await choices.choose("nobody")
    for caps in ({"max_attempts": 0}, {"max_attempts": 101}, {"max_usd": 0.0}, {"max_usd": float("nan")}):
        with pytest.raises(BadInput):
            await choices.choose(**caps)
