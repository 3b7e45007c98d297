"""A search tries what the user would accept, one after the other, and leaves nothing of what it did not get."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tiers import mostly_nightly

from jupyter_tpu.errors import BadInput, NodeExists
from jupyter_tpu.fleet.capacity.search_controller import SearchController
from jupyter_tpu.fleet.capacity.search_service import SearchService
from jupyter_tpu.journal import Journal
from jupyter_tpu.journal.audit import Audit
from jupyter_tpu.lifecycle.search_state import Candidate, Search
from jupyter_tpu.lifecycle.time_limits import Limits
from jupyter_tpu.models import NodeOptions

SEARCHING_PROCESS = Path(__file__).with_name("searching_process.py")
ZONES = ("us-central1-a", "us-south1-a", "us-west1-c", "europe-west4-b", "us-west4-a")
V6E = Candidate(zone="us-central1-b", accelerator_type="v6e-8", runtime_version="v2-alpha-tpuv6e")


def candidates(*zones: str) -> tuple[Candidate, ...]:
    return tuple(
        Candidate(zone=zone, accelerator_type="v5litepod-8", runtime_version="v2-alpha-tpuv5-lite")
        for zone in zones or ZONES
    )


class Seeker:
    """A fleet that searches, and the desk at which searches begin."""

    def __init__(self, bench: Any, fleet: Any, journal: Journal) -> None:
        self.bench = bench
        self.fleet = fleet
        self.desk = SearchService(bench.cloud, journal)
        settings = bench.cloud.settings
        self.audit = Audit(journal, endpoint=settings.endpoint, project=settings.project)

    async def until(self, search_id: str, is_it: Callable[[Search], bool]) -> Search:
        """The search when that holds."""
        async with asyncio.timeout(120):
            async for search in self.desk.watch(search_id, every_s=0.02):
                if is_it(search):
                    return search
        raise AssertionError(search)

    async def end(self, search_id: str) -> Search:
        return await self.until(search_id, lambda search: search.has_ended)


@pytest.fixture
async def seek(bench: Any) -> Callable[..., Any]:
    """Opens seekers, each as a process of its own would be."""

    async def open_one(**options: Any) -> Seeker:
        journal = bench.journal()
        fleet = await bench.fleet(SearchController, journal=journal, **options)
        return Seeker(bench, fleet, journal)

    return open_one


def outcomes(search: Search) -> list[tuple[str, str]]:
    return [(search.candidates[each.index].zone, each.outcome) for each in search.tries]


def made(bench: Any) -> list[str]:
    """Zones of the nodes that were ever billed or are there."""
    return [bill["name"].split("/")[3] for bill in bench.emulator.control.ledger()["nodes"]]


async def test_of_six_zones_the_one_with_room_is_found_and_nothing_else_is_billed(bench: Any, seek: Any) -> None:
    for zone in ZONES[:4]:
        bench.emulator.control.set_capacity(zone, "v5e", 0)
    bench.emulator.control.set_capacity(V6E.zone, "v6e", 0)
    seeker = await seek()
    search = await seeker.end((await seeker.desk.begin("my-node", (*candidates(), V6E))).search_id)

    assert (search.phase, search.node_name) == ("found", str(bench.name(zone="us-west4-a")))
    assert outcomes(search) == [*((zone, "stockout") for zone in ZONES[:4]), ("us-west4-a", "won")]
    for tried in search.tries[:4]:
        assert f'no more capacity in the zone "{search.candidates[tried.index].zone}"' in tried.raw
    bills = [bill for bill in bench.emulator.control.ledger()["nodes"] if bill["ready_seconds"] or bill["billing"]]
    assert [bill["name"] for bill in bills] == [search.node_name]
    (node,) = (await seeker.fleet.refresh()).nodes
    assert str(node.name) == search.node_name
    assert [intent for intent in seeker.fleet.snapshot().intents if intent.error] == []
    assert [entry.action for entry in reversed(seeker.audit.newest())] == ["search", *["create"] * 5]


REFUSALS = [
    ("stockout", "stockout", "There is no more capacity"),
    ("quota", "quota", "Quota limit"),
    ("not_allowlisted", "not_allowed", "does not have permission to submit requests"),
    ("location_denied", "not_allowed", "Permission denied on 'locations/us-central1-a'"),
    ("unavailable", "other", ""),
]


@pytest.mark.parametrize(("fault", "outcome", "raw"), REFUSALS)
async def test_each_refusal_is_told_apart_and_the_next_candidate_is_tried(
    bench: Any, seek: Any, fault: str, outcome: str, raw: str
) -> None:
    bench.emulator.control.add_fault("CreateNode", fault)
    seeker = await seek(limits=Limits(unsure_s=0.3))
    search = await seeker.end((await seeker.desk.begin("my-node", candidates(*ZONES[:2]))).search_id)
    assert outcomes(search) == [(ZONES[0], outcome), (ZONES[1], "won")]
    assert raw in search.tries[0].raw
    assert search.tries[0].message
    assert made(bench).count(ZONES[1]) == 1


async def test_a_zone_where_one_may_not_even_look_is_passed_over(bench: Any, seek: Any) -> None:
    bench.emulator.control.set_project(denied_locations=[ZONES[0]])
    seeker = await seek()
    search = await seeker.end((await seeker.desk.begin("my-node", candidates(*ZONES[:2]))).search_id)
    assert outcomes(search) == [(ZONES[0], "not_allowed"), (ZONES[1], "won")]


async def test_a_region_without_addresses_is_not_tried_twice(bench: Any, seek: Any) -> None:
    bench.emulator.control.set_project(addresses_per_region=0)
    seeker = await seek()
    search = await seeker.end((await seeker.desk.begin("my-node", (*candidates(ZONES[0]), V6E))).search_id)
    assert (search.phase, outcomes(search)) == ("failed", [("us-central1-a", "address")])
    assert "IN_USE_ADDRESSES" in search.tries[0].raw
    assert bench.emulator.control.billing() == []


async def test_a_node_without_external_addresses_needs_none(bench: Any, seek: Any) -> None:
    bench.emulator.control.set_project(addresses_per_region=0)
    seeker = await seek()
    wanted = Candidate(
        zone=ZONES[0],
        accelerator_type="v5litepod-8",
        runtime_version="v2-alpha-tpuv5-lite",
        options=NodeOptions(internal_ips=True),
    )
    assert (await seeker.end((await seeker.desk.begin("my-node", [wanted])).search_id)).phase == "found"


async def test_what_a_failed_try_left_is_deleted_before_the_next_one(bench: Any, seek: Any) -> None:
    bench.emulator.control.add_fault("CreateNode", "half_created", seconds=1e6)
    seeker = await seek(limits=Limits(unsure_s=0.3))
    search = await seeker.end((await seeker.desk.begin("my-node", candidates(*ZONES[:2]))).search_id)
    assert outcomes(search) == [(ZONES[0], "other"), (ZONES[1], "won")]
    assert [str(node.name) for node in (await seeker.fleet.refresh()).nodes] == [search.node_name]
    assert "delete" in [entry.action for entry in seeker.audit.newest()]


async def test_a_node_that_was_made_without_an_answer_is_the_one_that_is_found(bench: Any, seek: Any) -> None:
    bench.emulator.control.add_fault("CreateNode", "applied_then_drop")
    seeker = await seek()
    search = await seeker.end((await seeker.desk.begin("my-node", candidates())).search_id)
    assert outcomes(search) == [(ZONES[0], "won")]
    assert made(bench) == [ZONES[0]]


async def test_a_node_that_comes_after_its_try_was_given_up_is_deleted(bench: Any, seek: Any) -> None:
    control = bench.emulator.control
    control.add_fault("CreateNode", "applied_then_drop")
    for method in ("GetNode", "ListNodes"):
        control.add_fault(method, "not_yet_visible", target=ZONES[0], seconds=1e6)
    seeker = await seek(limits=Limits(unsure_s=0.3))
    search = await seeker.end((await seeker.desk.begin("my-node", candidates(*ZONES[:2]))).search_id)
    assert outcomes(search) == [(ZONES[0], "other"), (ZONES[1], "won")]
    control.clear_faults()
    await bench.until(lambda: any(change.phase == "deleted" for change in bench.changes))
    assert control.billing() == [search.node_name]
    assert "It appeared after the search had given up on it." in [entry.reason for entry in seeker.audit.newest()]


async def test_a_cancelled_search_leaves_nothing(bench: Any, seek: Any) -> None:
    bench.emulator.control.set_time_scale(0.1)  # the node stays CREATING
    seeker = await seek()
    search = await seeker.desk.begin("my-node", candidates())
    await seeker.until(search.search_id, lambda now: bool(now.tries) and bool(now.tries[0].intent_id))
    await seeker.desk.cancel(search.search_id)
    bench.emulator.control.set_time_scale(200)
    search = await seeker.end(search.search_id)
    assert (search.phase, len(search.tries)) == ("cancelled", 1)
    assert (await seeker.fleet.refresh()).nodes == ()
    assert bench.emulator.control.billing() == []


async def test_a_search_with_time_waits_and_tries_again_until_it_is_over(bench: Any, seek: Any) -> None:
    bench.emulator.control.set_capacity(ZONES[0], "v5e", 0)
    seeker = await seek()
    search = await seeker.desk.begin("my-node", candidates(ZONES[0]), for_s=3600)
    waiting = await seeker.until(search.search_id, lambda now: now.round == 1)
    assert waiting.next_at > waiting.tries[0].at
    assert "tried again in 30 s" in waiting.message
    await seeker.desk.cancel(search.search_id)
    assert (await seeker.end(search.search_id)).phase == "cancelled"


async def test_twenty_searches_and_two_fleets_make_one_node(bench: Any, seek: Any) -> None:
    seekers = [await seek(), await seek()]
    bench.emulator.control.pause()  # the node is not READY before the last one asks
    begun = await asyncio.gather(*(seekers[at % 2].desk.begin("my-node", candidates()) for at in range(20)))
    bench.emulator.control.resume()
    assert len({search.search_id for search in begun}) == 1
    for seeker in seekers:
        assert (await seeker.end(begun[0].search_id)).phase == "found"
    assert made(bench) == [ZONES[0]]


async def test_fifty_creations_by_two_fleets_make_one_node(bench: Any, seek: Any) -> None:
    fleets = [(await seek()).fleet, (await seek()).fleet]
    bench.emulator.control.pause()  # the node is not READY before the last one asks
    begun = await asyncio.gather(*(fleets[at % 2].create(bench.spec()) for at in range(50)))
    bench.emulator.control.resume()
    assert len({intent.intent_id for intent in begun}) == 1
    assert (await fleets[0].wait(begun[0].intent_id)).succeeded
    assert made(bench) == [ZONES[0]]


async def test_a_name_that_is_taken_anywhere_is_not_searched_for(bench: Any, seek: Any) -> None:
    seeker = await seek()
    await seeker.end((await seeker.desk.begin("my-node", candidates(ZONES[1]))).search_id)
    with pytest.raises(NodeExists, match=f"{ZONES[1]} already has a node named"):
        await seeker.desk.begin("my-node", candidates(ZONES[0]))
    with pytest.raises(BadInput):
        await seeker.desk.begin("other", [])


@pytest.mark.parametrize(
    "point", mostly_nightly(["asking", "booting", "written", "requested", "answered", "ready"], count=2)
)
async def test_a_search_whose_process_was_killed_goes_on_in_the_next(bench: Any, seek: Any, point: str) -> None:
    bench.emulator.control.set_capacity(ZONES[0], "v5e", 0)
    await die_searching(bench, point)
    seeker = await seek(limits=Limits(unsure_s=0.3))
    (search,) = await seeker.desk.all()
    search = await seeker.end(search.search_id)
    assert search.phase == "found", search
    (node,) = (await seeker.fleet.refresh()).nodes
    assert str(node.name) == search.node_name
    bills = [bill for bill in bench.emulator.control.ledger()["nodes"] if bill["ready_seconds"] or bill["billing"]]
    assert [bill["name"] for bill in bills] == [search.node_name]


async def die_searching(bench: Any, point: str) -> None:
    """Another process begins to search in two zones, the first one empty, and kills itself in the second one."""
    arguments = [bench.emulator.grpc, bench.emulator.project, str(bench.folder), point, *ZONES[:2]]
    environment = {**os.environ, "PYTHONPATH": str(SEARCHING_PROCESS.parents[3])}
    process = await asyncio.create_subprocess_exec(sys.executable, str(SEARCHING_PROCESS), *arguments, env=environment)
    assert await process.wait() == -signal.SIGKILL
