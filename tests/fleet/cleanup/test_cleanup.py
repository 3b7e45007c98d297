"""What the project has, ours or not, and what becomes of what the user marks in it."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest

from jupyter_tpu.cloud import CloudApi
from jupyter_tpu.errors import BadInput, CloudUnavailable
from jupyter_tpu.fleet import Fleet
from jupyter_tpu.fleet.capacity.recreate import set_recovery
from jupyter_tpu.fleet.capacity.search_service import SearchService
from jupyter_tpu.fleet.cleanup.billable import all_leftovers, billable_view, delete_items, items_of, marked
from jupyter_tpu.fleet.cleanup.stop_all import steps, stop_all
from jupyter_tpu.fleet.reconciler.inventory import Holdings, list_holdings
from jupyter_tpu.fleet.reconciler.records import FleetSnapshot
from jupyter_tpu.journal import Journal
from jupyter_tpu.journal.audit import Audit
from jupyter_tpu.journal.recovery_store import Recoveries
from jupyter_tpu.lifecycle.intents import Intent
from jupyter_tpu.lifecycle.search_state import Candidate
from jupyter_tpu.lifecycle.time_limits import Limits
from jupyter_tpu.models import Node, NodeName, NodeSpec, QueuedName, QueuedResource, QueuedSpec

ZONE, OTHER = "us-central1-a", "us-east1-d"
V5E = "v2-alpha-tpuv5-lite"


@dataclass(frozen=True)
class Hands:
    """What a clean-up needs from an open fleet."""

    fleet: Fleet
    cloud: CloudApi
    journal: Journal


@pytest.fixture
async def opened(bench: Any) -> AsyncIterator[Hands]:
    with closing(Journal.open(bench.folder)) as journal:
        fleet: Fleet = await bench.fleet()
        await fleet.refresh()
        yield Hands(fleet, bench.cloud, journal)


def theirs(bench: Any, path: str, body: dict[str, Any], zone: str = ZONE) -> None:
    """Something that somebody else makes with another tool."""
    url = f"{bench.emulator.rest}/v2/projects/{bench.emulator.project}/locations/{zone}/{path}"
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=120):
        pass


def their_node(bench: Any, node_id: str, zone: str = ZONE, **fields: Any) -> str:
    is_v6e = zone == OTHER
    body = {
        "acceleratorType": "v6e-4" if is_v6e else "v5litepod-8",
        "runtimeVersion": "v2-alpha-tpuv6e" if is_v6e else V5E,
        **fields,
    }
    theirs(bench, f"nodes?nodeId={node_id}", body, zone)
    bench.emulator.control.advance(3600)
    return f"projects/{bench.emulator.project}/locations/{zone}/nodes/{node_id}"


async def queue(bench: Any, queued_id: str) -> str:
    name = QueuedName(project=bench.emulator.project, zone=ZONE, queued_id=queued_id)
    node = NodeSpec(
        name=NodeName(project=bench.emulator.project, zone=ZONE, node_id=f"{queued_id}-node"),
        accelerator_type="v5litepod-8",
        runtime_version=V5E,
        spot=True,
    )
    await bench.cloud.create_queued_resource(QueuedSpec(name=name, node=node))
    return str(name)


async def names(bench: Any) -> list[str]:
    return [item.short_id for item in items_of(await list_holdings(bench.cloud))]


def audit(opened: Hands) -> list[tuple[str, str]]:
    settings = opened.cloud.settings
    entries = Audit(opened.journal, endpoint=settings.endpoint, project=settings.project).newest()
    return sorted((entry.action, entry.subject.rpartition("/")[2]) for entry in entries if entry.reason)


async def test_everything_is_listed_whoever_made_it_and_in_whatever_zone(bench: Any, opened: Hands) -> None:
    control = bench.emulator.control
    intent = await opened.fleet.create(bench.spec("ours"))
    await opened.fleet.wait(intent.intent_id)
    their_node(bench, "theirs", OTHER, description="a colleague's")
    leftover = their_node(bench, "leftover", schedulingConfig={"spot": True})
    control.preempt(leftover)
    lost = await queue(bench, "lost")
    control.advance(3600)
    control.preempt(str(bench.name("lost-node")))
    control.advance(3600)

    view = billable_view(await list_holdings(bench.cloud))

    assert view["is_complete"] is True
    found = {item["node_id"]: item for item in view["items"]}
    facts = ("kind", "zone", "state", "is_billed", "holds_quota", "is_leftover", "is_ours")
    assert {name: tuple(item[fact] for fact in facts) for name, item in found.items()} == {
        "ours": ("node", ZONE, "READY", True, True, False, True),
        "theirs": ("node", OTHER, "READY", True, True, False, False),
        "leftover": ("node", ZONE, "PREEMPTED", False, True, True, False),
        "lost": ("queued_resource", ZONE, "SUSPENDED", False, True, True, False),
    }
    assert found["lost"]["name"] == lost
    assert found["ours"]["usd_per_hour"] == pytest.approx(9.6)
    assert found["theirs"]["description"] == "a colleague's"
    assert [item["is_billed"] for item in view["items"]] == [True, True, False, False]


async def test_what_is_marked_is_deleted_and_nothing_else(bench: Any, opened: Hands) -> None:
    their_node(bench, "kept")
    their_node(bench, "marked")
    waiting = await queue(bench, "waiting")
    chosen = marked(await list_holdings(bench.cloud), ["marked", waiting])

    results = await delete_items(opened, chosen, reason="Swept by the user.", wait=True)

    assert [(result.name, result.error) for result in results] == [(item.name, None) for item in chosen]
    assert await names(bench) == ["kept"]
    assert bench.emulator.control.billing() == [str(bench.name("kept"))]
    assert audit(opened) == [("delete", "marked"), ("delete", "waiting")]


async def test_only_leftovers_that_are_dead_are_deleted_as_such(bench: Any, opened: Hands) -> None:
    their_node(bench, "alive")
    bench.emulator.control.preempt(their_node(bench, "dead", schedulingConfig={"spot": True}))
    their_node(bench, "resting")
    await bench.cloud.stop_node(bench.name("resting"))
    bench.emulator.control.advance(3600)

    results = await delete_items(opened, all_leftovers(await list_holdings(bench.cloud)), reason="Swept.", wait=True)

    assert [result.error for result in results] == [None]
    assert sorted(await names(bench)) == ["alive", "resting"]


async def test_one_failure_does_not_keep_the_others(bench: Any, opened: Hands) -> None:
    their_node(bench, "first")
    their_node(bench, "second")
    bench.emulator.control.add_fault("DeleteNode", "permission_denied", target=str(bench.name("first")))
    chosen = marked(await list_holdings(bench.cloud), ["first", "second"])

    first, second = await delete_items(opened, chosen, reason="Swept.", wait=True)

    assert first.error is not None
    assert first.error.code == "permission_denied"
    assert first.to_json()["ok"] is False
    assert second.to_json() == {"name": str(bench.name("second")), "ok": True, "error": None}
    assert await names(bench) == ["first"]


async def test_a_deletion_whose_answer_got_lost_is_looked_after(bench: Any, opened: Hands) -> None:
    await queue(bench, "lost-answer")
    await queue(bench, "never-asked")
    holdings = await list_holdings(bench.cloud)
    bench.emulator.control.add_fault("DeleteQueuedResource", "applied_then_drop")
    (first,) = await delete_items(opened, marked(holdings, ["lost-answer"]), reason="Swept.", wait=True)
    bench.emulator.control.add_fault("DeleteQueuedResource", "drop")
    (second,) = await delete_items(opened, marked(holdings, ["never-asked"]), reason="Swept.", wait=True)

    assert first.error is None
    assert second.error is not None
    assert second.error.code == "cloud_unavailable"


def name(node_id: str, zone: str = ZONE) -> NodeName:
    return NodeName(project="demo-project", zone=zone, node_id=node_id)


def node(node_id: str, state: str = "READY", zone: str = ZONE, **fields: Any) -> Node:
    return Node(name=name(node_id, zone), state=state, **{"accelerator_type": "v5litepod-8", **fields})


def queued(queued_id: str, state: str, **fields: Any) -> QueuedResource:
    named = QueuedName(project="demo-project", zone=ZONE, queued_id=queued_id)
    return QueuedResource(name=named, state=state, accelerator_type="v5litepod-8", **fields)


PARTS = {
    "a zone that is silent": {"unreachable": (OTHER,)},
    "a list that failed": {"error": CloudUnavailable("The list failed.")},
}


@pytest.mark.parametrize("part", PARTS)
def test_a_partial_list_is_never_deleted_but_by_name(part: str) -> None:
    holdings = Holdings(nodes=(node("dead", "PREEMPTED"), node("other")), **PARTS[part])  # type: ignore[arg-type]

    with pytest.raises(BadInput, match="is incomplete") as refused:
        all_leftovers(holdings)

    assert refused.value.exists == "Nothing was deleted."
    assert [item.short_id for item in marked(holdings, ["dead"])] == ["dead"]
    with pytest.raises(BadInput, match="the list is incomplete"):
        marked(holdings, ["missing"])


@pytest.mark.parametrize("text", ["all", "*", "-", "", "projects/demo-project/locations/-/nodes/-"])
def test_nothing_means_everything(text: str) -> None:
    with pytest.raises(BadInput, match="Nothing in the project is named"):
        marked(Holdings(nodes=(node("one"), node("two"))), [text])


def test_a_name_that_two_things_have_must_be_given_in_full() -> None:
    twins = Holdings(nodes=(node("twin"), node("twin", zone=OTHER)), queued=(queued("twin", "FAILED"),))

    with pytest.raises(BadInput, match="matches 3 items") as refused:
        marked(twins, ["twin"])

    assert str(name("twin", OTHER)) in refused.value.hint
    assert [item.zone for item in marked(twins, [str(name("twin", OTHER))])] == [OTHER]


def test_a_queued_resource_whose_node_is_there_does_not_hold_quota_twice() -> None:
    found = items_of(
        Holdings(nodes=(node("made"),), queued=(queued("q", "ACTIVE", node_ids=("made",)), queued("r", "ACTIVE")))
    )

    assert {item.short_id: item.holds_quota for item in found} == {"made": True, "q": False, "r": True}


async def test_stop_all_stops_what_can_be_stopped_and_deletes_the_rest(bench: Any, opened: Hands) -> None:
    control = bench.emulator.control
    their_node(bench, "single")
    their_node(bench, "spot", schedulingConfig={"spot": True})
    their_node(bench, "slice", acceleratorType="v5litepod-16")
    control.preempt(their_node(bench, "leftover", schedulingConfig={"spot": True}))
    await queue(bench, "waiting")

    results = await stop_all(opened)

    assert [(result.name.rpartition("/")[2], result.error) for result in results if result.error] == []
    assert control.billing() == []
    control.advance(24 * 3600)
    assert control.billing() == []
    left = {item.short_id: item.state for item in items_of(await list_holdings(bench.cloud))}
    assert left == {"single": "STOPPED", "leftover": "PREEMPTED"}
    assert audit(opened) == [("delete", "slice"), ("delete", "spot"), ("delete", "waiting"), ("stop", "single")]


async def test_stop_all_leaves_no_suspended_queued_resource(bench: Any, opened: Hands) -> None:
    await queue(bench, "made")
    bench.emulator.control.advance(3600)
    assert len(bench.emulator.control.billing()) == 1

    results = await stop_all(opened)

    assert [result.error for result in results] == [None]
    bench.emulator.control.advance(24 * 3600)
    assert bench.emulator.control.billing() == []
    assert await names(bench) == []


def test_stop_all_deletes_nodes_themselves_where_their_queued_resource_could_not_be(planned: Steps) -> None:
    held = node("made", spot=True)
    made = Holdings(nodes=(held,), queued=(queued("q", "ACTIVE", node_ids=("made",)),))
    assert [(step.kind, step.verb) for step in steps(made, FleetSnapshot())] == [("queued_resource", "delete")]
    (again,) = steps(made, FleetSnapshot(), [str(made.queued[0].name)])
    assert (again.kind, again.verb, again.name) == ("node", "delete", str(held.name))


async def test_stop_all_goes_on_over_a_node_that_cannot_be_deleted(bench: Any, opened: Hands) -> None:
    control = bench.emulator.control
    their_node(bench, "held", schedulingConfig={"spot": True})
    their_node(bench, "spot", schedulingConfig={"spot": True})
    their_node(bench, "stubborn")
    control.add_fault("DeleteNode", "permission_denied", target=str(bench.name("held")))
    refusal = {"code": "INVALID_ARGUMENT", "message": "stop is not supported for this node"}
    control.add_fault("StopNode", "error", target=str(bench.name("stubborn")), **refusal)

    results = {result.name.rpartition("/")[2]: result.error for result in await stop_all(opened)}

    assert results["held"] is not None
    assert results["held"].code == "permission_denied"
    assert (results["spot"], results["stubborn"]) == (None, None)  # the one was deleted, the other after its refusal
    assert control.billing() == [str(bench.name("held"))]
    assert [entry for entry in audit(opened) if entry[1] == "stubborn"] == [
        ("delete", "stubborn"),
        ("stop", "stubborn"),
    ]


async def test_stop_all_does_not_wait_long_for_a_cloud_that_does_not_answer(bench: Any, opened: Hands) -> None:
    control = bench.emulator.control
    their_node(bench, "silent")
    their_node(bench, "single")
    for method in ("StopNode", "DeleteNode"):
        control.add_fault(method, "unavailable", target=str(bench.name("silent")), times=1000)
    told: list[str] = []

    results = await stop_all(opened, lambda result: told.append(result.name.rpartition("/")[2]), accepted_s=8.0)

    codes = {result.name.rpartition("/")[2]: result.error and result.error.code for result in results}
    assert codes == {"silent": "cloud_unavailable", "single": None}
    assert sorted(told) == ["silent", "single"]
    assert control.billing() == [str(bench.name("silent"))]


async def test_stop_all_calls_off_what_is_on_its_way(bench: Any, opened: Hands) -> None:
    bench.emulator.control.pause()
    await opened.fleet.create(bench.spec("coming"))
    await bench.change("node", state="CREATING")
    bench.emulator.control.resume()

    results = await stop_all(opened)

    assert [result.error for result in results] == [None]
    bench.emulator.control.advance(3600)
    assert bench.emulator.control.billing() == []


async def test_stop_all_deletes_a_node_that_another_process_is_asking_for(bench: Any) -> None:
    bench.emulator.control.add_fault("CreateNode", "latency", seconds=1.5)
    elsewhere: Fleet = await bench.fleet()
    here: Fleet = await bench.fleet(limits=Limits(ask_again_s=0.1))
    created = await elsewhere.create(bench.spec("coming"))

    results = await stop_all(Hands(here, bench.cloud, bench.journal()), accepted_s=0.5)

    assert [(result.name, result.error) for result in results] == [(str(bench.name("coming")), None)]
    await elsewhere.wait(created.intent_id)
    bench.emulator.control.advance(3600)
    assert bench.emulator.control.billing() == []


async def test_stop_all_needs_no_journal(bench: Any) -> None:
    their_node(bench, "single")
    their_node(bench, "spot", schedulingConfig={"spot": True})
    journal = Journal.open(bench.folder)
    fleet = Fleet(bench.cloud, journal, ssh_user="me", public_key="")
    journal.close()

    results = await stop_all(Hands(fleet, bench.cloud, journal))

    assert [result.error.code if result.error else None for result in results] == ["journal_unwritable", None, None]
    assert bench.emulator.control.billing() == []


async def test_stop_all_ends_what_would_make_nodes_by_itself(bench: Any, opened: Hands) -> None:
    full = Candidate(zone=ZONE, accelerator_type="v5litepod-8", runtime_version=V5E, spot=True)
    desk = SearchService(opened.cloud, opened.journal)
    search = await desk.begin("wanted", [full])
    their_node(bench, "again", schedulingConfig={"spot": True})
    await set_recovery(opened.cloud, opened.journal, bench.name("again"), is_on=True, now=time.time())

    results = await stop_all(opened)

    assert [result.error for result in results] == [None, None, None]
    assert (await desk.get(search.search_id)).is_cancelled
    settings = opened.cloud.settings
    choices = Recoveries(opened.journal, endpoint=settings.endpoint, project=settings.project).all()
    assert [choice.is_on for choice in choices] == [False]
    assert bench.emulator.control.billing() == []


async def test_stop_all_says_what_it_did_not_see(bench: Any, opened: Hands) -> None:
    their_node(bench, "single")
    await opened.fleet.refresh()
    bench.emulator.control.add_fault("ListQueuedResources", "error", code=13, message="broken", times=10)

    results = await stop_all(opened)

    assert [(result.error.code if result.error else None) for result in results] == [None, "cloud_unavailable"]
    assert bench.emulator.control.billing() == []


Steps = Callable[..., list[tuple[str, str]]]


@pytest.fixture
def planned() -> Steps:
    def plan(holdings: Holdings, **snapshot: Any) -> list[tuple[str, str]]:
        return [(step.verb, step.name.rpartition("/")[2]) for step in steps(holdings, FleetSnapshot(**snapshot))]

    return plan


@pytest.mark.parametrize(
    ("state", "verbs"),
    [
        ("READY", ["stop"]),
        ("RESTARTING", ["stop"]),
        ("REPAIRING", ["stop"]),
        ("UNKNOWN(17)", ["stop"]),
        ("CREATING", ["delete"]),
        ("STOPPED", []),
        ("STOPPING", []),
        ("DELETING", []),
        ("PREEMPTED", []),
    ],
)
def test_what_stop_all_does_to_a_node_by_its_state(planned: Steps, state: str, verbs: list[str]) -> None:
    assert planned(Holdings(nodes=(node("one", state),))) == [(verb, "one") for verb in verbs]


def test_stop_all_acts_on_what_was_seen_before_in_a_zone_that_is_silent_now(planned: Steps) -> None:
    before = (node("there", zone=OTHER), node("gone"))

    assert planned(Holdings(unreachable=(OTHER,)), nodes=before) == [("stop", "there")]
    assert planned(Holdings(error=CloudUnavailable("no")), nodes=before) == [("stop", "there"), ("stop", "gone")]


def test_stop_all_calls_off_wishes_and_waiting_requests_before_it_ends_nodes(planned: Steps) -> None:
    waiting = tuple(queued(state.lower(), state) for state in ("WAITING_FOR_RESOURCES", "FAILED", "ACTIVE", "ACCEPTED"))
    wish = Intent(intent_id="abc", verb="create", node_name=name("wished"))
    start = Intent(intent_id="def", verb="start", node_name=name("waking"))
    unlisted = Intent(intent_id="jkl", verb="start", node_name=name("unlisted"))
    over = Intent(intent_id="ghi", verb="create", node_name=name("over"), settled=True)

    assert planned(
        Holdings(nodes=(node("ready"), node("waking", "STOPPED")), queued=waiting),
        intents=(wish, start, unlisted, over),
    ) == [
        ("delete", "waiting_for_resources"),
        ("delete", "accepted"),
        ("stop", "unlisted"),
        ("delete", "wished"),
        ("stop", "ready"),
        ("stop", "waking"),
    ]
