"""User, cloud, faults and clock in any order: nothing leaks, and no cap is broken.

The real fleet with all its controllers, the real journal, Google's client and the real emulated cloud, in one process
and in virtual time. The tests play the same 60 stories each time, so that a failure points to the latest change;
a failed one is printed as it is, since to shorten it takes minutes. `make soak` plays and shortens 2,000
others: ``JUPYTER_TPU_EXAMPLES=2000 python -m pytest tests/fleet/test_money_machine.py --hypothesis-seed=0``.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from money_judge import FAULT_S, End, Judge
from money_world import PROJECT, Process, World, folder_of_a_story

from jupyter_tpu.autostop import KeepRunning
from jupyter_tpu.emulator.resources.protos import NodePb
from jupyter_tpu.errors import BudgetNotFound, TpuError
from jupyter_tpu.fleet.capacity.recreate import set_recovery
from jupyter_tpu.lifecycle.intents import Intent
from jupyter_tpu.lifecycle.search_state import Candidate
from jupyter_tpu.models import NodeName, NodeSpec

CHECKED = 20
EXAMPLES = int(os.environ.get("JUPYTER_TPU_EXAMPLES", "0"))

ZONES = ("us-central1-a", "us-west4-a")
TYPE, VERSION = "v5litepod-8", "v2-alpha-tpuv5-lite"
PATIENCE_S = 3 * 3600.0
MUTATING_FAULTS = {
    "CreateNode": ("stockout", "operation_error", "applied_then_drop", "drop", "error", "quota", "not_allowlisted"),
    "StartNode": ("stockout", "operation_error", "applied_then_drop", "drop"),
    "StopNode": ("operation_error", "stuck", "applied_then_drop", "drop", "error"),
    "DeleteNode": ("operation_error", "stuck", "applied_then_drop", "drop", "error"),
}
READING_FAULTS = {
    "ListNodes": ("drop", "error", "html", "truncated"),
    "GetNode": ("drop", "error"),
    "GetOperation": ("drop", "error"),
    "ListQueuedResources": ("error",),
}
FAULTS = [
    (method, kind) for table in (MUTATING_FAULTS, READING_FAULTS) for method, kinds in table.items() for kind in kinds
]

NAMES = (
    NodeName(project=PROJECT, zone=ZONES[0], node_id="n1"),
    NodeName(project=PROJECT, zone=ZONES[1], node_id="n2"),
    NodeName(project=PROJECT, zone=ZONES[0], node_id="s1"),
)
node_names = st.sampled_from(NAMES)
indexes = st.integers(0, 1)
amounts = st.sampled_from([(0.05, "usd"), (0.2, "usd"), (0.5, "usd"), (2.0, "usd"), (0.02, "hours"), (0.1, "hours")])
coming = st.sampled_from([65.0, 100.0])
"""Seconds that pass while a node comes up, or shortly after."""
deaths = st.sampled_from([None, None, None, 0.01, 0.08, 0.12, 0.3, 2.0])
"""How long after the beginning of an act its process dies."""

Act = Callable[[Process], Coroutine[Any, Any, Any]]


class MoneyMachine(RuleBasedStateMachine):
    """What a user, a cloud and the clock may do; two processes at most share the user's journal."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = folder_of_a_story()
        self.world = World(Path(self._folder.name))
        self.judge = Judge(self.world)
        self.searches: list[str] = []

    @initialize(
        spots=st.tuples(st.booleans(), st.booleans()), amount=st.none() | amounts, seconds=st.just(10.0) | coming
    )
    def begin(self, spots: tuple[bool, bool], amount: tuple[float, str] | None, seconds: float) -> None:
        self.world.run(self.world.open())
        if amount is not None:
            self.set_a_budget("a", amount)
        for name, spot in zip(NAMES, spots, strict=False):
            self.create(name, spot, 0, None)
        self.time_passes(seconds)

    # -- the user

    @rule(name=node_names, spot=st.booleans(), index=indexes, dies_after=deaths)
    def create(self, name: NodeName, spot: bool, index: int, dies_after: float | None) -> None:
        asked = self.act(index, lambda process: process.fleet.create(spec(name, spot)), dies_after)
        if not isinstance(asked, TpuError):
            self.judge.deleted.pop(str(name), None)

    @rule(name=node_names, spot=st.booleans())
    def create_twice_at_once(self, name: NodeName, spot: bool) -> None:
        async def both() -> list[Any]:
            first, last = self.world.processes[0], self.world.processes[-1]
            asked = (first.does(first.fleet.create(spec(name, spot))), last.does(last.fleet.create(spec(name, spot))))
            return await asyncio.gather(*asked, return_exceptions=True)

        answers = self.world.run(both())
        assert all(isinstance(each, Intent | TpuError) for each in answers), answers
        wishes = {each.intent_id for each in answers if isinstance(each, Intent)}
        assert len([each for each in wishes if not self.has_failed(each)]) <= 1, answers
        if wishes:
            self.judge.deleted.pop(str(name), None)

    @rule(name=node_names, index=indexes, dies_after=deaths)
    def delete(self, name: NodeName, index: int, dies_after: float | None) -> None:
        asked = self.act(index, lambda process: process.fleet.delete(name), dies_after)
        if isinstance(asked, Intent):
            self.judge.deleted[str(name)] = asked.intent_id

    @rule(name=node_names, index=indexes, dies_after=deaths)
    def stop(self, name: NodeName, index: int, dies_after: float | None) -> None:
        self.act(index, lambda process: process.fleet.stop(name), dies_after)

    @rule(name=node_names, index=indexes, dies_after=deaths)
    def start(self, name: NodeName, index: int, dies_after: float | None) -> None:
        self.act(index, lambda process: process.fleet.start_node(name), dies_after)

    @rule(name=st.sampled_from(["a", "b"]), amount=amounts)
    def set_a_budget(self, name: str, amount: tuple[float, str]) -> None:
        wanted = {"amount": amount[0], "unit": amount[1], "period": "total"}
        self.world.processes[0].books.set_budget(name, wanted, now=self.world.now)
        self.judge.cap(name, *amount)

    @rule(name=st.sampled_from(["a", "b"]))
    def remove_a_budget(self, name: str) -> None:
        with contextlib.suppress(BudgetNotFound):
            self.world.processes[0].books.remove_budget(name, now=self.world.now)
        self.judge.caps.pop(name, None)

    @precondition(lambda self: self.world.nodes())
    @rule(
        index=st.integers(0, 3),
        deadline_in_s=st.sampled_from([None, -60.0, 20.0, 100.0, 400.0]),
        session_s=st.sampled_from([None, 30.0, 200.0]),
        action=st.sampled_from(["stop", "delete"]),
    )
    def set_autostop(self, index: int, deadline_in_s: float | None, session_s: float | None, action: str) -> None:
        node = self.some_node(index)
        now = self.world.now
        deadline_at = None if deadline_in_s is None else now + deadline_in_s
        rules = {"deadline_at": deadline_at, "session_s": session_s, "action": action}
        if not isinstance(self.on_node(node, lambda process, seen: process.braking.set_rules(seen, rules)), TpuError):
            self.judge.end(node, End(set_at=self.world.now, **rules))

    @precondition(lambda self: self.world.nodes())
    @rule(index=st.integers(0, 3), for_s=st.sampled_from([60.0, 300.0]))
    def keep(self, index: int, for_s: float) -> None:
        node = self.some_node(index)
        until = self.world.now + for_s
        kept = self.on_node(node, lambda process, seen: process.braking.extend(seen, KeepRunning(until=until)))
        if not isinstance(kept, TpuError):
            self.judge.keep(node, until)

    @precondition(lambda self: self.world.nodes())
    @rule(index=st.integers(0, 3), is_on=st.booleans(), max_attempts=st.sampled_from([1, 3]))
    def choose_recovery(self, index: int, is_on: bool, max_attempts: int) -> None:
        name = NodeName.parse(self.some_node(index).name)
        self.act(
            0,
            lambda process: set_recovery(
                process.cloud, process.journal, name, is_on=is_on, max_attempts=max_attempts, now=self.world.now
            ),
        )

    @rule(dies_after=deaths, spot=st.booleans(), for_s=st.sampled_from([None, 600.0]))
    def search(self, dies_after: float | None, spot: bool, for_s: float | None) -> None:
        wanted = [
            Candidate(zone=zone, accelerator_type=TYPE, runtime_version=VERSION, spot=spot) for zone in reversed(ZONES)
        ]
        begun = self.act(0, lambda process: process.desk.begin("s1", wanted, for_s=for_s), dies_after)
        if not isinstance(begun, TpuError):
            for zone in ZONES:
                self.judge.deleted.pop(str(NodeName(project=PROJECT, zone=zone, node_id="s1")), None)
        if begun is not None and not isinstance(begun, TpuError):
            self.searches.append(begun.search_id)

    @precondition(lambda self: self.searches)
    @rule()
    def cancel_the_search(self) -> None:
        self.act(0, lambda process: process.desk.cancel(self.searches[-1]))

    # -- the cloud

    @precondition(lambda self: self.world.nodes())
    @rule(index=st.integers(0, 3))
    def preempt(self, index: int) -> None:
        self.world.run(self.world.preempt(self.some_node(index).name))

    @rule(zone=st.sampled_from(ZONES), for_s=st.sampled_from([60.0, 600.0]))
    def stock_out(self, zone: str, for_s: float) -> None:
        self.world.stock_out(zone, for_s)

    @rule(fault=st.sampled_from(FAULTS), times=st.sampled_from([1, 1, 2]))
    def break_a_call(self, fault: tuple[str, str], times: int) -> None:
        method, kind = fault
        self.world.fault(method, kind, times=times, code="INTERNAL" if kind == "error" else "UNAVAILABLE")
        self.judge.excuse(FAULT_S * times)

    # -- the processes

    @precondition(lambda self: len(self.world.processes) == 1)
    @rule()
    def open_another(self) -> None:
        self.world.run(self.world.open())

    @rule(index=indexes)
    def die(self, index: int) -> None:
        self.world.run(self.die_and_open(self.process(index)))

    @rule(off_s=st.sampled_from([30.0, 200.0]))
    def all_is_off_for_a_while(self, off_s: float) -> None:
        async def off() -> None:
            for process in list(self.world.processes):
                await self.world.kill(process)
            await asyncio.sleep(off_s)
            await self.world.open()

        self.world.run(off())
        self.judge.excuse(off_s)

    async def die_and_open(self, process: Process) -> None:
        await self.world.kill(process)
        if not self.world.processes:
            await self.world.open()

    # -- the clock

    @rule(seconds=st.sampled_from([0.2, 6.0, 31.0]))
    def seconds_pass(self, seconds: float) -> None:
        self.time_passes(seconds)

    @rule(seconds=coming)
    def a_node_comes_up(self, seconds: float) -> None:
        self.time_passes(seconds)

    @rule(seconds=st.sampled_from([150.0, 240.0]))
    def minutes_pass(self, seconds: float) -> None:
        self.time_passes(seconds)

    def time_passes(self, seconds: float) -> None:
        self.world.run(asyncio.sleep(seconds))

    # -- what holds whatever happens

    @invariant()
    def nothing_leaks(self) -> None:
        if self.world.processes:
            self.judge.look()

    def teardown(self) -> None:
        try:
            if self.world.processes:
                self.come_to_rest()
                self.judge.look_at_the_end()
        finally:
            self.world.close()
            self._folder.cleanup()

    def come_to_rest(self) -> None:
        """Without faults everything that is under way ends, and what the user was told of has failed."""
        self.world.all_is_well()
        until = self.world.now + PATIENCE_S
        self.world.run(asyncio.sleep(40.0))
        while not self.world.is_at_rest():
            assert self.world.now < until
            self.world.run(asyncio.sleep(60.0))
        for name, intent_id in list(self.judge.deleted.items()):
            if self.has_failed(intent_id):
                del self.judge.deleted[name]

    # -- how

    def process(self, index: int) -> Process:
        return self.world.processes[index % len(self.world.processes)]

    def has_failed(self, intent_id: str) -> bool:
        intent = self.world.processes[0].journal.find(intent_id)
        assert intent is not None
        return intent.error is not None

    def some_node(self, index: int) -> NodePb:
        nodes = self.world.nodes()
        return nodes[index % len(nodes)]

    def act(self, index: int, act: Act, dies_after: float | None = None) -> Any:
        """What came of it, an error of ours as well; None when its process died before that was known."""
        return self.world.run(self.acted(self.process(index), act, dies_after))

    async def acted(self, process: Process, act: Act, dies_after: float | None) -> Any:
        acting = asyncio.ensure_future(process.does(act(process)))
        await asyncio.wait([acting], timeout=dies_after)
        is_known = acting.done()
        if dies_after is not None:
            await self.die_and_open(process)
        try:
            known = await acting
        except (TpuError, asyncio.CancelledError) as error:
            known = error
        return known if is_known else None

    def on_node(self, node: NodePb, act: Callable[[Process, Any], Coroutine[Any, Any, Any]]) -> Any:
        async def looked_at(process: Process) -> Any:
            return await act(process, await process.cloud.get_node(NodeName.parse(node.name)))

        return self.act(0, looked_at)


def spec(name: NodeName, spot: bool) -> NodeSpec:
    return NodeSpec(name=name, accelerator_type=TYPE, runtime_version=VERSION, spot=spot)


@pytest.fixture
def _without_a_second_look() -> Iterator[None]:
    """The collector of garbage need not look through all that is imported, again and again."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.timeout(0 if EXAMPLES else 900)
@pytest.mark.usefixtures("_without_a_second_look")
def test_no_order_of_events_leaks_money() -> None:
    run_state_machine_as_test(
        MoneyMachine,
        settings=settings(
            max_examples=EXAMPLES or CHECKED,
            derandomize=not EXAMPLES,
            database=None,
            stateful_step_count=16,
            print_blob=True,
            report_multiple_bugs=False,
            phases=(Phase.generate, *([Phase.shrink] if EXAMPLES else [])),
            suppress_health_check=list(HealthCheck),
        ),
    )
