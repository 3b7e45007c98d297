"""A process is killed before and after every step that it writes down; the next one adopts or deletes what there is."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tiers import mostly_nightly

from jupyter_tpu.fleet import Fleet, Polling
from jupyter_tpu.fleet.capacity.recreate import RecreateController, set_recovery
from jupyter_tpu.fleet.capacity.search_controller import SearchController
from jupyter_tpu.fleet.capacity.search_service import SearchService
from jupyter_tpu.journal import Journal
from jupyter_tpu.journal.owner import is_gone
from jupyter_tpu.journal.recovery_store import Recoveries
from jupyter_tpu.lifecycle.time_limits import Limits
from jupyter_tpu.models import NodeName

PROGRAM = Path(__file__).with_name("crash_points.py")
UNHURRIED = Polling(open_s=0.25, idle_s=2.0)  # there are many of them at once
LIMITS = Limits(unsure_s=0.5, vanished_s=0.5, ask_again_s=0.2)

_CREATE = ["create requested", "create asking", "create provisioning", "create booting", "create ready"]
_RECOVER = ["watching +", "clearing", "clearing -", "clearing +", "waiting", "waiting -", "waiting +", "making"]
_TRY = ["search trying 1 trying", "audit create", *_CREATE[:3], "search trying 1 trying wished"]
STEPS = {
    "create": _CREATE,
    "delete": ["delete requested", "delete asking", "delete deleting", "delete deleted"],
    "stop": ["stop requested", "stop asking", "stop stopping", "stop stopped"],
    "recover": [
        *(f"recovery {step}" for step in (*_RECOVER, "making -", "making +", "watching", "watching -")),
        *_CREATE,
    ],
    "queue": ["audit queue"],
    "search": [
        "search trying",
        "audit search",
        *_TRY,
        "create rolling_back",
        "create failed",
        "search trying 1 stockout wished",
        "search trying 1 stockout wished clean",
        "search trying 2 trying",
        "search trying 2 trying wished",
        *(f"{step} 2" for step in _CREATE),
        "search found 2 won wished clean",
    ],
}
CALLS = {
    "create": ["create_node"],
    "delete": ["delete_node"],
    "stop": ["stop_node"],
    "recover": ["delete_node", "create_node"],
    "queue": ["create_queued_resource"],
    "search": ["create_node"],
}
OTHER_ZONE = "us-west4-a"


@dataclass(frozen=True, kw_only=True)
class Case:
    """A process that does that and dies then; with no step it lives."""

    verb: str
    moment: str = ""
    step: str = ""
    name: NodeName
    folder: Path


def cases_of(bench: Any, verb: str) -> list[Case]:
    """One without a death, and one for each moment of each step."""
    deaths = [(moment, step) for step in STEPS[verb] for moment in ("before", "after")]
    deaths += [("answered", call) for call in CALLS[verb]]
    return [
        Case(
            verb=verb, moment=moment, step=step, name=bench.name(f"{verb}-{number}"), folder=bench.folder / f"{number}"
        )
        for number, (moment, step) in enumerate([("", ""), *deaths])
    ]


async def prepare(bench: Any, cases: Sequence[Case]) -> None:
    """Nodes to be deleted, stopped or recovered."""
    for case in cases:
        case.folder.mkdir()
        Journal.open(case.folder).close()
    if cases[0].verb == "search":
        bench.emulator.control.set_capacity(bench.emulator.zone, "v5e", 0)
    if cases[0].verb not in ("delete", "stop", "recover"):
        return
    is_spot = cases[0].verb == "recover"
    await asyncio.gather(*(bench.cloud.create_node(bench.spec(case.name.node_id, spot=is_spot)) for case in cases))
    fleet = await bench.fleet()
    await bench.until(lambda: all(state_of(fleet, case) == "READY" for case in cases))
    await fleet.close()
    if is_spot:
        await asyncio.gather(*(lose(bench, case) for case in cases))


def state_of(fleet: Fleet, case: Case) -> str:
    """As last seen; empty when there is no such node."""
    node = fleet.snapshot().node(case.name)
    return node.state if node else ""


async def lose(bench: Any, case: Case) -> None:
    journal = Journal.open(case.folder)
    await set_recovery(bench.cloud, journal, case.name, is_on=True, now=time.time())
    journal.close()
    await asyncio.to_thread(bench.emulator.control.preempt, str(case.name))


async def play(bench: Any, cases: Sequence[Case]) -> list[int]:
    """How each ended."""
    where = {"grpc": bench.emulator.grpc, "project": bench.emulator.project}
    told = [
        {
            **where,
            "verb": case.verb,
            "moment": case.moment,
            "step": case.step,
            "node": str(case.name),
            "folder": str(case.folder),
            "other_zone": OTHER_ZONE,
        }
        for case in cases
    ]
    environment = {**os.environ, "PYTHONPATH": str(PROGRAM.parents[2])}
    pipe = asyncio.subprocess.PIPE
    program = await asyncio.create_subprocess_exec(
        sys.executable, str(PROGRAM), stdin=pipe, stdout=pipe, env=environment
    )
    answer, _ = await program.communicate(json.dumps(told).encode())
    ends: list[int] = json.loads(answer)
    return ends


async def restarted(bench: Any, case: Case) -> Fleet:
    """The fleet of a new process, with all taken up that the dead one left."""
    bench.folder = case.folder
    controllers = [lambda cloud, journal: RecreateController(cloud, journal, LIMITS), SearchController]
    fleet: Fleet = await bench.fleet(*controllers, limits=LIMITS, polling=UNHURRIED)
    for intent in (await fleet.refresh()).intents:
        assert intent.settled or not is_gone(intent.owner), case
    return fleet


async def settle(bench: Any, case: Case) -> None:
    """What the dead process left comes to an end, and the right one."""
    fleet = await restarted(bench, case)
    for intent in fleet.snapshot().intents:
        await fleet.wait(intent.intent_id)
    if case.verb == "recover":
        await recovered(bench, fleet, case)
    if case.verb == "search":
        await searched(bench, case)
    await fleet.refresh()
    is_begun = (case.moment, case.step) != ("before", STEPS[case.verb][0])
    assert state_of(fleet, case) in (ENDS if is_begun else UNBEGUN)[case.verb], case
    await fleet.close()


ENDS = {
    "create": {"READY", ""},
    "delete": {""},
    "stop": {"STOPPED"},
    "recover": {"READY", ""},
    "queue": {"", "CREATING", "READY"},
    "search": {""},
}
# of those who died before they had written anything down
UNBEGUN = {**ENDS, "create": {""}, "delete": {"READY"}, "stop": {"READY"}}


async def searched(bench: Any, case: Case) -> None:
    """What was written down of a search goes on to its end."""
    journal = Journal.open(case.folder)
    desk = SearchService(bench.cloud, journal)
    for begun in await desk.all():
        async for search in desk.watch(begun.search_id, every_s=0.05):
            if search.has_ended:
                assert search.phase == "found", (case, search)
                break
    journal.close()


async def recovered(bench: Any, fleet: Fleet, case: Case) -> None:
    """Until the node is recreated, or waits for its next attempt."""
    journal = Journal.open(case.folder)
    settings = bench.cloud.settings
    recoveries = Recoveries(journal, endpoint=settings.endpoint, project=settings.project)

    def is_so() -> bool:
        known = recoveries.get(case.name)
        assert known is not None
        is_made = known.phase == "watching" and state_of(fleet, case) == "READY"
        return known.attempts > 0 and (is_made or known.phase == "waiting")

    await bench.until(is_so, timeout_s=120)
    journal.close()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("verb", mostly_nightly(STEPS, count=2))
async def test_whatever_step_a_process_dies_at_nothing_is_left(bench: Any, verb: str) -> None:
    cases = cases_of(bench, verb)
    await prepare(bench, cases)
    ends = await play(bench, cases)
    reached = json.loads((cases[0].folder / "steps.json").read_text())
    assert set(reached) == set(STEPS[verb]), "each step has its cases, and each case its step"
    assert ends == [0, *[-signal.SIGKILL] * (len(cases) - 1)]

    await asyncio.gather(*(settle(bench, case) for case in cases))
    ledger = bench.emulator.control.ledger()["nodes"]
    for case in cases:
        assert sum(bill["billing"] for bill in ledger if bill["name"].endswith(f"/{case.name.node_id}")) <= 1, case
    await cleanup(bench)
    assert bench.emulator.control.state()["nodes"] == []
    assert bench.emulator.control.state()["queued_resources"] == []
    assert bench.emulator.control.billing() == []


async def cleanup(bench: Any) -> None:
    bench.folder = bench.folder / "cleanup"
    bench.folder.mkdir()
    fleet = await bench.fleet()
    for queued in (await bench.cloud.list_queued_resources()).items:
        await bench.cloud.delete_queued_resource(queued.name, force=True)
    bench.emulator.control.advance(600)
    nodes = (await fleet.refresh()).nodes
    intents = await asyncio.gather(*(fleet.delete(node.name) for node in nodes))
    assert all([(await fleet.wait(intent.intent_id)).succeeded for intent in intents])
