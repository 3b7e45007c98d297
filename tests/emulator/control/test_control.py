"""The control API: everything that it sets it shows, and nothing that makes no sense is taken."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
import requests
from google.api_core import exceptions
from google.cloud import tpu_v2

from jupyter_tpu.emulator.control.client import ControlRefused

State = tpu_v2.Node.State
ZONE = "us-central1-a"
QUOTA = "TPUV5sLitepodServingPerProjectPerZoneForTPUAPI"
REGION_QUOTA = "TPUV5sLitepodServingPerProjectPerRegionForTPUAPI"
READ = ["info", "state", "behaviours", "ledger", "faults", "clock", "project", "quotas", "capacity", "maintenance"]
CHANGED = ["clock", "project", "quotas", "capacity", "stockout", "preempt", "maintenance", "reservations", "workers"]


def post(emulator: Any, path: str, body: Any) -> requests.Response:
    data = body if isinstance(body, bytes) else json.dumps(body)
    headers = {"Content-Type": "application/json"}
    return requests.post(f"{emulator.rest}/emulator/v1/{path}", data=data, headers=headers, timeout=120)


def test_all_that_can_be_read_is_there(emulator: Any) -> None:
    for path in [*READ, "reservations", "links"]:
        assert requests.get(f"{emulator.rest}/emulator/v1/{path}", timeout=120).status_code == 200, path


async def test_the_state_shows_all_at_once(cloud: Any) -> None:
    cloud.control.pause()
    await cloud.ask_for_node(scheduling_config=tpu_v2.SchedulingConfig(spot=True))
    cloud.control.advance(90)
    cloud.control.add_fault("GetNode", "latency", seconds=1)
    cloud.control.set_capacity(ZONE, "v5e", 16)
    cloud.control.set_quota(QUOTA, ZONE, 4)
    cloud.control.reserve("mine", ZONE, "v5e", 8)
    cloud.control.announce_maintenance("n1", "SCHEDULED", 3600)

    state = cloud.control.state()

    name = cloud.emulator.node_name("n1")
    assert (state["project"], state["node_count"], state["clock"]["paused"]) == ("demo-project", 1, True)
    (node,) = state["nodes"]
    assert (node["name"], node["state"], node["spot"]) == (name, "READY", True)
    assert [fault["kind"] for fault in state["faults"]] == ["latency"]
    assert [(pool["family"], pool["chips"], pool["used"]) for pool in state["capacity"]] == [("v5e", 16, 8)]
    assert {"quota_id": QUOTA, "zone": ZONE, "limit": 4, "used": 0, "unit": "chips"} in state["quotas"]
    assert state["switches"]["api_enabled"] is True
    assert [each["reservation_id"] for each in state["reservations"]] == ["mine"]
    assert [each["node"] for each in state["maintenance"]] == [name]
    assert (state["ledger"]["billing"], state["ledger"]["usd_per_hour"]) == (1, 4.8)


async def test_the_state_shows_queued_resources_with_their_nodes(cloud: Any) -> None:
    cloud.control.pause()
    spec = tpu_v2.QueuedResource.Tpu.NodeSpec(
        parent=cloud.emulator.parent,
        node_id="n1",
        node=tpu_v2.Node(
            accelerator_type=cloud.emulator.accelerator_type, runtime_version=cloud.emulator.runtime_version
        ),
    )
    await cloud.client.create_queued_resource(
        parent=cloud.emulator.parent,
        queued_resource_id="q1",
        queued_resource=tpu_v2.QueuedResource(tpu={"node_spec": [spec]}),
    )
    cloud.control.advance(1000)

    (queued,) = cloud.control.state()["queued_resources"]

    assert queued["name"] == f"{cloud.emulator.parent}/queuedResources/q1"
    assert (queued["state"], queued["nodes"]) == ("ACTIVE", [cloud.emulator.node_name("n1")])


async def test_a_node_may_be_named_alone_or_in_full(cloud: Any) -> None:
    cloud.control.pause()
    await cloud.ask_for_node("n1")
    await cloud.ask_for_node("n2")
    cloud.control.advance(90)

    cloud.control.preempt("n1")
    cloud.control.preempt(cloud.emulator.node_name("n2"))

    assert [(await cloud.get(name)).state for name in ("n1", "n2")] == [State.PREEMPTED] * 2


async def test_a_name_that_two_zones_have_must_be_said_in_full(cloud: Any) -> None:
    cloud.control.pause()
    await cloud.ask_for_node("n1")
    other = cloud.emulator.parent.replace(ZONE, "us-west4-a")
    node = tpu_v2.Node(accelerator_type="v5litepod-8", runtime_version=cloud.emulator.runtime_version)
    await cloud.client.create_node(parent=other, node_id="n1", node=node)

    with pytest.raises(ControlRefused, match=rf"2 nodes are called 'n1'; give the full name: .*, {other}/nodes/n1"):
        cloud.control.preempt("n1")


def test_a_node_that_is_not_there_is_not_found_and_those_that_are_there_are_named(emulator: Any) -> None:
    answer = post(emulator, "preempt", {"node": "ghost"})

    assert answer.status_code == 404
    assert answer.json()["error"]["message"] == "There is no node 'ghost'; there are no nodes"


async def test_a_zone_is_stocked_out_for_a_while(cloud: Any) -> None:
    cloud.control.pause()
    cloud.control.stock_out(ZONE, "v5e", for_s=600)
    await cloud.ask_for_node("n1")
    cloud.control.advance(600)
    await cloud.ask_for_node("n2")
    cloud.control.advance(90)

    assert (await cloud.get("n2")).state == State.READY
    with pytest.raises(exceptions.NotFound):
        await cloud.get("n1")


async def test_a_stock_out_may_leave_some_chips_and_be_ended(cloud: Any) -> None:
    cloud.control.pause()
    cloud.control.stock_out(ZONE, chips=8)
    await cloud.ask_for_node("n1")
    await cloud.ask_for_node("n2")
    cloud.control.advance(90)
    cloud.control.set_capacity(ZONE, "v5e", None)
    await cloud.ask_for_node("n3")
    cloud.control.advance(90)

    nodes = {node.name.rpartition("/")[2] async for node in await cloud.client.list_nodes(parent=cloud.emulator.parent)}
    assert nodes == {"n1", "n3"}


async def test_a_quota_of_a_region_refuses_what_the_zone_would_allow(cloud: Any) -> None:
    cloud.control.set_quota(REGION_QUOTA, "us-central1", 4)

    with pytest.raises(exceptions.ResourceExhausted, match="Limit: 4 in region us-central1"):
        await cloud.ask_for_node()

    cloud.control.set_quota(REGION_QUOTA, "us-central1", None)
    await cloud.ask_for_node()


async def test_an_api_that_is_switched_off_refuses_every_call(cloud: Any) -> None:
    cloud.control.set_project(api_enabled=False)

    with pytest.raises(exceptions.PermissionDenied, match="has not been used in project"):
        await cloud.client.list_nodes(parent=cloud.emulator.parent)
    assert cloud.control.project()["api_enabled"] is False


async def test_a_reset_takes_back_everything_that_was_set(cloud: Any) -> None:
    fresh = {name: value for name, value in cloud.control.state().items() if name != "clock"}
    cloud.control.set_time_scale(3)
    cloud.control.pause()
    await cloud.ask_for_node()
    cloud.control.set_project(api_enabled=False, denied_locations=["us-east5-a"])
    cloud.control.set_quota(QUOTA, ZONE, 4)
    cloud.control.stock_out(ZONE)
    cloud.control.reserve("mine", ZONE, "v5e", 8)
    cloud.control.announce_maintenance("n1")
    cloud.control.add_fault("*", "unavailable", times=None)
    cloud.control.advance(1000)

    cloud.control.reset()

    state = cloud.control.state()
    assert {name: value for name, value in state.items() if name != "clock"} == fresh
    assert (state["clock"]["scale"], state["clock"]["paused"]) == (200, False)


async def test_what_is_set_outlives_the_process(cloud: Any) -> None:
    cloud.control.pause()
    cloud.control.set_project(addresses_per_region=4, allowlist=["v5e"])
    cloud.control.set_quota(QUOTA, ZONE, 4)
    cloud.control.set_capacity(ZONE, "v5e", 16)
    before = {name: value for name, value in cloud.control.state().items() if name != "links"}

    cloud.emulator.kill()
    cloud.emulator.start()

    assert {name: value for name, value in cloud.control.state().items() if name != "links"} == before


NONSENSE = [
    ("clock", {"scale": 0}, "scale: 0 is not a positive number"),
    ("clock", {"scale": 1e9 - 1}, "is more than 100000"),
    ("clock", {"paused": 1}, "paused: 1 is neither true nor false"),
    ("clock", {"speed": 1}, "unknown field 'speed'; fields: scale, advance_s, paused, settle"),
    ("project", {"api_enabled": "no"}, "api_enabled: 'no' is neither true nor false"),
    ("project", {"moon": True}, "unknown field 'moon'; fields: api_enabled, "),
    (
        "project",
        {"denied_permissions": "tpu.nodes.list"},
        "denied_permissions: 'tpu.nodes.list' is not a list of strings",
    ),
    ("project", {"addresses_per_region": -1}, "-1 is not a whole number"),
    ("quotas", {"limit": 1}, "quota_id is missing"),
    ("quotas", {"quota_id": "CPUS", "zone": ZONE, "limit": 1}, "'CPUS' is not the id of a quota"),
    ("quotas", {"quota_id": QUOTA, "limit": 1}, f"zone is missing: {QUOTA} counts per zone"),
    ("quotas", {"quota_id": QUOTA, "zone": "mars", "limit": 1}, "'mars' is not a zone with TPUs; there are"),
    ("quotas", {"quota_id": REGION_QUOTA, "region": ZONE, "limit": 1}, f"'{ZONE}' is not a region with TPUs"),
    ("quotas", {"quota_id": QUOTA, "zone": ZONE, "limit": 1.5}, "limit: 1.5 is not a whole number"),
    ("capacity", {"zone": ZONE, "family": "v5e"}, "chips (null: unlimited) or a script is missing"),
    ("capacity", {"zone": ZONE, "family": "v9", "chips": 1}, "has no chips of 'v9'"),
    ("capacity", {"zone": ZONE, "family": "v5e", "chips": -8}, "chips: -8 is not a whole number"),
    ("capacity", {"zone": ZONE, "family": "v5e", "script": "0:8"}, "script: '0:8' is not a list"),
    (
        "capacity",
        {"zone": ZONE, "family": "v5e", "script": [[1]]},
        "script: [1] is not of the form [seconds from now, chips or null]",
    ),
    ("capacity", {"zone": ZONE, "family": "v5e", "script": [7]}, "script: 7 is not of the form"),
    ("capacity", {"zone": ZONE, "family": "v5e", "script": [["now", 8]]}, "'now' is not a number"),
    ("capacity", {"zone": ZONE, "family": "v5e", "chips": None, "seed": 1}, "None is not a whole number"),
    ("stockout", {}, "zone is missing"),
    ("stockout", {"zone": "mars"}, "'mars' is not a zone with TPUs"),
    ("stockout", {"zone": ZONE, "for_s": "long"}, "for_s: 'long' is not a number"),
    ("preempt", {}, "node is missing"),
    ("preempt", {"node": 7}, "node: 7 is not a string"),
    ("preempt", {"node": "\ud800"}, "surrogates not allowed"),
    ("maintenance", {"node": "n1", "in_s": -1}, "in_s: -1 is not a number of at least 0"),
    ("reservations", {}, "is missing or unknown"),
    ("reservations", {"reservation_id": "a", "zone": ZONE, "family": "v9", "chips": 1}, "has no chips of 'v9'"),
    ("workers", {"node": "n1", "action": "explode"}, "is not one of close_ssh, open_ssh, change_host_key"),
    ("workers", {"node": "n1", "action": "close_ssh", "worker_id": -1}, "worker_id: -1 is not a whole number"),
    ("workers", {"node": "n1", "action": "slow"}, "factor is missing"),
    ("workers", {"node": "n1", "action": "slow", "factor": 0}, "factor: must be at least 1"),
    ("workers", {"node": "n1", "action": "kill", "factor": 2}, "unknown field 'factor'"),
    ("links", {}, "node is missing or unknown"),
]


@pytest.mark.parametrize(("path", "body", "words"), NONSENSE)
def test_what_makes_no_sense_is_refused_in_words_and_changes_nothing(
    emulator: Any, path: str, body: dict[str, Any], words: str
) -> None:
    emulator.control.pause()
    before = emulator.control.state()

    answer = post(emulator, path, body)

    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert (error["code"], error["status"]) == (400, "INVALID_ARGUMENT")
    assert words in error["message"]
    assert emulator.control.state() == before
    assert "Traceback" not in emulator.log()


@pytest.mark.parametrize(
    ("verb", "path", "words"),
    [
        ("GET", "workers", "node is missing"),
        ("DELETE", "faults?id=-1", "'-1' is not a whole number of at least 0"),
        ("DELETE", "faults?id=1000000000", "1000000000 is too large: the limit is 1000000000"),
    ],
)
def test_a_query_that_makes_no_sense_is_refused_in_words(emulator: Any, verb: str, path: str, words: str) -> None:
    answer = requests.request(verb, f"{emulator.rest}/emulator/v1/{path}", timeout=120)

    assert answer.status_code == 400
    assert words in answer.json()["error"]["message"]


@pytest.mark.parametrize("path", [*CHANGED, "faults", "links", "reset"])
@pytest.mark.parametrize("body", [b"{", b"[]", b'"x"', b"\xff", b"[" * 100_000])
def test_a_body_that_is_no_object_is_refused(emulator: Any, path: str, body: bytes) -> None:
    answer = post(emulator, path, body)

    assert (answer.status_code, answer.json()["error"]["status"]) == (400, "INVALID_ARGUMENT")


@pytest.mark.parametrize(("verb", "path"), [("GET", "nothing"), ("PUT", "clock"), ("DELETE", "ledger"), ("GET", "")])
def test_a_route_that_is_none_is_answered_with_an_error_envelope(emulator: Any, verb: str, path: str) -> None:
    answer = requests.request(verb, f"{emulator.rest}/emulator/v1/{path}", timeout=120)

    assert answer.status_code in (404, 405)
    assert answer.json()["error"]["code"] == answer.status_code


async def test_what_waits_is_not_lost_when_two_jump_at_once(cloud: Any) -> None:
    cloud.control.pause()
    before = cloud.control.now()
    await cloud.ask_for_node()

    await asyncio.gather(*(asyncio.to_thread(cloud.control.advance, 100) for _ in range(5)))

    assert cloud.control.now() == before + 500
    (bill,) = cloud.control.ledger()["nodes"]
    assert bill["ready_seconds"] == 410
