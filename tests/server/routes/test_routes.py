"""The routes on a real Jupyter server and an emulated cloud."""

from __future__ import annotations

import json
import resource
import shutil
import sqlite3
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rest_api import assert_fits

from jupyter_tpu.server.events import FLEET_EVENT

if TYPE_CHECKING:
    from emulator import Elsewhere

    from conftest import Cloud, Server

ZONE = "us-central1-a"
NEW_NODE = {
    "node_id": "my-node",
    "zone": ZONE,
    "accelerator_type": "v5litepod-8",
    "runtime_version": "v2-alpha-tpuv5-lite",
    "spot": False,
}
HOSTILE = "<img src=x onerror=alert(1)>\u001b]52;c;eA==\u0007 line\nbreak \u202e"


def reaches(phase: str, node_id: str) -> Callable[[dict[str, Any]], bool]:
    def is_it(event: dict[str, Any]) -> bool:
        ours = event["schema_id"] == FLEET_EVENT and event["node_name"].endswith(f"/{node_id}")
        return ours and event["phase"] == phase

    return is_it


def create_elsewhere(cloud: Cloud, node_id: str, **fields: str) -> None:
    """Somebody makes a node with another tool."""
    url = f"{cloud.rest}/v2/projects/{cloud.project}/locations/{ZONE}/nodes?nodeId={node_id}"
    body = {"acceleratorType": "v5litepod-8", "runtimeVersion": "v2-alpha-tpuv5-lite", **fields}
    request = urllib.request.Request(
        url, data=json.dumps(body).encode(), headers={"Content-Type": "application/json"}, method="POST"
    )
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=120):
        pass


def node_ids(server: Server) -> list[str]:
    return [node["node_id"] for node in server.tpu("GET", "nodes").json["nodes"]]


def kernelspecs(server: Server) -> list[str]:
    return [name for name in server.request("GET", "api/kernelspecs").json["kernelspecs"] if name.startswith("tpu-")]


async def test_a_node_lives_and_its_kernelspec_with_it(server: Server) -> None:
    async with server.events() as events:
        asked = server.tpu("POST", "nodes", NEW_NODE)
        assert asked.status == 202
        assert_fits(asked.json, "Intent")
        await events.until(reaches("ready", "my-node"))
        await events.until_true(lambda: kernelspecs(server) == [f"tpu-my-node-{ZONE}"])

        listed = server.tpu("GET", "nodes").json
        assert_fits(listed, "Nodes")
        assert [(node["node_id"], node["state"]) for node in listed["nodes"]] == [("my-node", "READY")]
        assert listed["nodes"][0]["managed"] is True

        one = server.tpu("GET", f"nodes/{ZONE}/my-node").json
        assert_fits(one, "Node")
        assert one["kernelspec"] == f"tpu-my-node-{ZONE}"

        assert server.tpu("POST", f"nodes/{ZONE}/my-node/stop").status == 202
        await events.until(reaches("stopped", "my-node"))
        await events.until_true(lambda: kernelspecs(server) == [])

        assert server.tpu("POST", f"nodes/{ZONE}/my-node/start").status == 202
        await events.until(reaches("ready", "my-node"))

        assert server.tpu("DELETE", f"nodes/{ZONE}/my-node").status == 202
        await events.until(reaches("deleted", "my-node"))
        await events.until_true(lambda: kernelspecs(server) == [])

    assert node_ids(server) == []
    by_user = [each for each in server.tpu("GET", "audit").json["entries"] if each["subject"].endswith("/my-node")]
    assert [each["action"] for each in by_user] == ["delete", "start", "stop", "create"]
    assert by_user[-1]["reason"] == f"The user requested a {NEW_NODE['accelerator_type']}."


async def test_a_double_click_makes_one_node(server: Server, cloud: Cloud) -> None:
    async with server.events() as events:
        cloud.control.pause()  # the node is not READY before the second click
        first = server.tpu("POST", "nodes", {**NEW_NODE, "node_id": "twice"})
        second = server.tpu("POST", "nodes", {**NEW_NODE, "node_id": "twice"})
        cloud.control.resume()
        assert first.json["intent_id"] == second.json["intent_id"]
        entries = server.tpu("GET", "audit").json["entries"]
        assert len([each for each in entries if each["subject"].endswith("/twice")]) == 1
        await events.until(reaches("ready", "twice"))

        assert node_ids(server) == ["twice"]

        server.tpu("DELETE", f"nodes/{ZONE}/twice")
        await events.until(reaches("deleted", "twice"))


@contextmanager
def full_disk(server: Server) -> Iterator[None]:
    """Whatever the server writes fails, as on a full disk."""
    soft, hard = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (1, hard))
    try:
        yield
    finally:
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (soft, hard))


def until(check: Callable[[], bool]) -> None:
    """Until `check` holds; a file never calls."""
    for _ in range(1200):
        if check():
            return
        time.sleep(0.1)
    raise TimeoutError


async def test_a_full_disk_keeps_no_node_billed(server: Server, cloud: Cloud) -> None:
    async with server.events() as events:
        for node_id in ("forgotten", "unwanted"):
            server.tpu("POST", "nodes", {**NEW_NODE, "node_id": node_id})
            await events.until(reaches("ready", node_id))
    with full_disk(server):
        stopped = server.tpu("POST", f"nodes/{ZONE}/forgotten/stop")
        deleted = server.tpu("DELETE", f"nodes/{ZONE}/unwanted")
    for sent, phase in ((stopped, "stopping"), (deleted, "deleting")):
        assert sent.status == 202
        assert_fits(sent.json, "Intent")
        assert (sent.json["phase"], sent.json["settled"]) == (phase, True)
        assert "cannot be written" in sent.json["message"]
        assert sent.json["message"].endswith("The request is sent anyway.")
    cloud.control.advance(3600)
    assert cloud.control.billing() == []


async def test_a_node_is_in_the_list_and_in_the_spend_before_it_is_recorded(
    server: Server, cloud: Cloud, elsewhere: Elsewhere
) -> None:
    server.tpu("GET", "spend")  # the journal is there before the disk is full
    with full_disk(server):
        name = elsewhere.create("just-ready")
        server.tpu("POST", "refresh")
        cloud.control.advance(3600)
        listed, spend = (server.tpu("GET", route).json for route in ("nodes", "spend"))
        with closing(sqlite3.connect(server.folder / "tpu" / "journal.db")) as database:
            assert not database.execute("SELECT 1 FROM spans WHERE node_name = ?", (name,)).fetchall()
    ((shown,), (counted,)) = ([node for node in body["nodes"] if node["name"] == name] for body in (listed, spend))
    assert (shown["billing"], counted["is_open"]) == (True, True)
    assert counted["usd_per_hour"] == shown["price"]["usd_per_hour"]
    billed = [node["price"]["usd_per_hour"] for node in listed["nodes"] if node["billing"]]
    assert spend["usd_per_hour"] == pytest.approx(sum(billed))
    # the second answer is a moment later
    assert 0 < shown["cost_usd"] <= counted["usd"] == pytest.approx(shown["cost_usd"], abs=1)
    async with server.events() as events:
        server.tpu("DELETE", f"nodes/{ZONE}/just-ready")
        await events.until(reaches("deleted", "just-ready"))


async def test_what_ends_here_on_a_full_disk_is_not_said_to_be_ended_by_others(server: Server, cloud: Cloud) -> None:
    def journal(query: str) -> list[str]:
        with closing(sqlite3.connect(server.folder / "tpu" / "journal.db")) as database:
            return sorted(row[0].rpartition("/")[2] for row in database.execute(query))

    ours, lost = ["full-stop", "full-zap"], "lost"
    async with server.events() as events:
        for node_id in (*ours, lost):
            server.tpu("POST", "nodes", {**NEW_NODE, "node_id": node_id})
            await events.until(reaches("ready", node_id))
    until(lambda: {*ours, lost} <= set(journal("SELECT node_name FROM spans WHERE is_open = 1")))
    with full_disk(server):
        server.tpu("POST", f"nodes/{ZONE}/{ours[0]}/stop")
        server.tpu("DELETE", f"nodes/{ZONE}/{ours[1]}")
    cloud.control.advance(60)
    cloud.control.preempt(f"projects/{cloud.project}/locations/{ZONE}/nodes/{lost}")

    # the spans are judged in their order, so the others were judged when this line is there
    until(lambda: lost in journal("SELECT subject FROM audit WHERE action = 'ended'"))
    assert not set(ours) & set(journal("SELECT subject FROM audit WHERE action = 'ended'"))
    assert set(ours) <= set(journal("SELECT node_name FROM intents WHERE verb IN ('stop', 'delete') AND settled = 1"))


async def test_a_failed_creation_is_listed_until_it_is_dismissed(server: Server, cloud: Cloud) -> None:
    cloud.control.add_fault("CreateNode", "stockout")
    async with server.events() as events:
        intent_id = server.tpu("POST", "nodes", {**NEW_NODE, "node_id": "no-room"}).json["intent_id"]
        await events.until(reaches("failed", "no-room"))

    intent = server.tpu("GET", f"intents/{intent_id}").json
    assert_fits(intent, "Intent")
    assert intent["settled"] is True
    assert intent["error"]["code"] == "out_of_capacity"
    assert intent["error"]["hint"]
    assert intent["error"]["templates"]["message"] == "Could not {request}: {where} has no capacity now."
    assert intent["error"]["arguments"]["where"] == f"zone {ZONE}"
    assert [action["command"] for action in intent["error"]["actions"]] == ["tpu:open-form"] * 3
    assert intent_id in [each["intent_id"] for each in server.tpu("GET", "nodes").json["intents"]]

    assert server.tpu("DELETE", f"intents/{intent_id}").status == 204
    assert server.tpu("GET", "nodes").json["intents"] == []
    offers = server.tpu("GET", "offers").json["zones"][ZONE]
    (hint,) = [each for each in offers if each["accelerator_type"] == NEW_NODE["accelerator_type"]]
    assert (hint["out_of_capacity"], hint["created"] > 0) == (1, hint["last_created_at"] is not None)


async def test_hostile_words_of_the_cloud_stay_text(server: Server, cloud: Cloud) -> None:
    async with server.events() as events:
        create_elsewhere(cloud, "foreign", description=HOSTILE)
        await events.until_true(lambda: server.tpu("GET", f"nodes/{ZONE}/foreign").status == 200)

        answer = server.tpu("GET", f"nodes/{ZONE}/foreign")
        assert answer.headers["Content-Type"].startswith("application/json")
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.json["description"] == "<img src=x onerror=alert(1)>]52;c;eA== line break "
        assert answer.json["managed"] is False

        server.tpu("DELETE", f"nodes/{ZONE}/foreign")
        await events.until(reaches("deleted", "foreign"))


async def test_a_refresh_asks_the_cloud(server: Server, cloud: Cloud) -> None:
    node_ids(server)  # the first list
    async with server.events() as events:
        create_elsewhere(cloud, "just-made")

        refreshed = server.tpu("POST", "refresh").json

        assert_fits(refreshed, "Nodes")
        assert "just-made" in [node["node_id"] for node in refreshed["nodes"]]

        server.tpu("DELETE", f"nodes/{ZONE}/just-made")
        await events.until(reaches("deleted", "just-made"))


def test_offers_fit_their_description(server: Server) -> None:
    assert_fits(server.tpu("GET", "offers").json, "Offers")


def test_the_status_names_the_cloud(server: Server, cloud: Cloud) -> None:
    status = server.tpu("GET", "status").json

    assert_fits(status, "Status")
    assert (status["project"], status["endpoint"], status["emulated"]) == (cloud.project, cloud.grpc, True)
    assert status["error"] is None


@pytest.mark.parametrize(
    ("verb", "route", "body", "status", "code"),
    [
        ("POST", "nodes", {}, 400, "bad_input"),
        ("POST", "nodes", {**NEW_NODE, "node_id": "Bad Name"}, 400, "bad_input"),
        ("POST", "nodes", {**NEW_NODE, "zone": "nowhere-east1-z"}, 400, "bad_input"),
        ("POST", "nodes", {**NEW_NODE, "accelerator_type": "v99-8"}, 400, "bad_input"),
        ("POST", "nodes", {**NEW_NODE, "runtime_version": "windows-95"}, 400, "bad_input"),
        ("POST", "nodes", {**NEW_NODE, "metadata": {}}, 400, "bad_input"),
        ("GET", f"nodes/{ZONE}/nobody", None, 404, "node_not_found"),
        ("DELETE", f"nodes/{ZONE}/nobody", None, 404, "node_not_found"),
        ("POST", f"nodes/{ZONE}/nobody/stop", None, 404, "node_not_found"),
        ("POST", f"nodes/{ZONE}/nobody/start", None, 404, "node_not_found"),
        ("DELETE", f"nodes/{ZONE}/%24%28reboot%29", None, 400, "bad_input"),
        ("DELETE", "nodes/..%2f..%2fx/n", None, 400, "bad_input"),
        ("GET", "intents/none-such", None, 404, "intent_not_found"),
        ("DELETE", "intents/none-such", None, 404, "intent_not_found"),
    ],
)
def test_what_cannot_be_is_refused_in_words(
    server: Server, cloud: Cloud, verb: str, route: str, body: Any, status: int, code: str
) -> None:
    answer = server.tpu(verb, route, body)

    assert (answer.status, answer.json["reason"]) == (status, code)
    assert_fits(answer.json, "ErrorBody")
    assert answer.json["message"].startswith(answer.json["error"]["message"])
    assert cloud.control.billing() == []


def test_a_refusal_carries_its_template_and_arguments(server: Server, cloud: Cloud) -> None:
    error = server.tpu("GET", f"nodes/{ZONE}/nobody").json["error"]

    assert error["message"] == f"There is no node nobody in {ZONE}."
    assert error["templates"] == {"message": "There is no node {node} in {zone}."}
    assert error["arguments"] == {"node": "nobody", "zone": ZONE}


def test_a_refusal_leaves_no_traceback_in_the_log(server: Server) -> None:
    server.tpu("POST", "nodes", {**NEW_NODE, "node_id": "Bad Name"})

    assert "Bad Name" in server.log()
    assert "Traceback" not in server.log()


async def test_a_kernel_that_cannot_start_leaves_no_traceback_in_the_log(server: Server, cloud: Cloud) -> None:
    async with server.events() as events:
        server.tpu("POST", "nodes", {**NEW_NODE, "node_id": "asleep"})
        await events.until(reaches("ready", "asleep"))
        await events.until_true(lambda: kernelspecs(server) == [f"tpu-asleep-{ZONE}"])
        spec = server.folder / "data" / "kernels" / f"tpu-asleep-{ZONE}"
        kept = {file.name: file.read_bytes() for file in spec.iterdir()}
        server.tpu("POST", f"nodes/{ZONE}/asleep/stop")
        await events.until(reaches("stopped", "asleep"))
        await events.until_true(lambda: kernelspecs(server) == [])
        # As somebody sees it who has not looked since. Under its own name, the next refresh would remove it.
        copy = spec.with_name("asleep-copy")
        copy.mkdir()
        for name, content in kept.items():
            (copy / name).write_bytes(content)

        refused = server.request("POST", "api/kernels", {"name": copy.name})

        shutil.rmtree(copy)
        server.tpu("DELETE", f"nodes/{ZONE}/asleep")
        await events.until(reaches("deleted", "asleep"))
    assert refused.status == 409
    assert "asleep is STOPPED" in server.log()
    assert "Traceback" not in server.log()


def test_polling_is_not_activity_of_the_user_but_asking_for_something_is(server: Server) -> None:
    def last_activity() -> str:
        return str(server.request("GET", "api/status").json["last_activity"])

    server.tpu("DELETE", f"nodes/{ZONE}/nobody")
    before = last_activity()
    for route in ("status", "nodes", "offers"):
        server.tpu("GET", route)
    assert last_activity() == before

    server.tpu("DELETE", f"nodes/{ZONE}/nobody")
    assert last_activity() > before


def test_the_server_stops_cleanly(server: Server, cloud: Cloud, start_server: Any) -> None:
    other = start_server(**cloud.variables)
    other.tpu("GET", "status")

    assert other.stop() == 0
    assert "Traceback" not in other.log()


def test_the_key_lies_where_only_the_user_reads_it(server: Server) -> None:
    server.tpu("GET", "nodes")

    key = Path(server.folder) / "tpu" / "ssh" / "id_ed25519"
    assert key.stat().st_mode & 0o777 == 0o600
    assert key.read_text() not in server.log()
