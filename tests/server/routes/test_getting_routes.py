"""The routes of searches and of the queue, on a real Jupyter server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from rest_api import assert_fits

if TYPE_CHECKING:
    from conftest import Cloud, Server

ZONE, ELSEWHERE = "us-central1-a", "us-west4-a"
V5E = {"accelerator_type": "v5litepod-8", "runtime_version": "v2-alpha-tpuv5-lite", "spot": False}
WANTED = [{"zone": zone, **V5E} for zone in (ZONE, ELSEWHERE)]


@pytest.fixture(autouse=True)
def empty_cloud(cloud: Cloud) -> Iterator[None]:
    yield
    cloud.control.reset()


def search(server: Server, search_id: str) -> dict[str, Any]:
    listed = server.tpu("GET", "searches").json
    assert_fits(listed, "Searches")
    found: dict[str, Any] = next(each for each in listed["searches"] if each["search_id"] == search_id)
    return found


def until(server: Server, search_id: str, outcome: str) -> dict[str, Any]:
    """The search when a try of it has that outcome; polled, as a panel does."""
    for _ in range(1800):
        found = search(server, search_id)
        if outcome in [each["outcome"] for each in found["tries"]]:
            return found
        time.sleep(0.1)
    raise AssertionError(found)


@pytest.mark.nightly
def test_a_search_finds_the_zone_with_room(server: Server, cloud: Cloud) -> None:
    cloud.control.set_capacity(ZONE, "v5e", 0)
    cloud.control.pause()  # no node is READY before the search is asked for again
    begun = server.tpu("POST", "searches", {"node_id": "sought", "candidates": WANTED})
    assert begun.status == 202, begun.text
    assert_fits(begun.json, "Search")
    assert [each["outcome"] for each in begun.json["tries"]] == ["waiting", "waiting"]
    again = server.tpu("POST", "searches", {"node_id": "sought", "candidates": WANTED})
    assert again.json["search_id"] == begun.json["search_id"]
    cloud.control.resume()
    found = until(server, begun.json["search_id"], "won")
    assert (found["phase"], found["node_name"].split("/")[3]) == ("found", ELSEWHERE)
    assert "There is no more capacity" in found["tries"][0]["raw"]
    assert cloud.control.billing() == [found["node_name"]]


def test_a_search_is_cancelled(server: Server, cloud: Cloud) -> None:
    cloud.control.set_capacity(ZONE, "v5e", 0)
    wanted = {"node_id": "unsought", "candidates": WANTED[:1], "queue_minutes": 60}
    begun = server.tpu("POST", "searches", wanted).json["search_id"]
    until(server, begun, "stockout")
    cancelled = server.tpu("DELETE", f"searches/{begun}")
    assert (cancelled.status, cancelled.json["message"]) == (202, "The search is being cancelled.")
    assert server.tpu("DELETE", "searches/nope").status == 404


def test_a_node_is_queued_and_removed(server: Server, cloud: Cloud) -> None:
    cloud.control.pause()
    wanted = {"node_id": "queued", "zone": ZONE, **V5E, "valid_for_s": 3600}
    queued = server.tpu("POST", "queue", wanted)
    assert queued.status == 202, queued.text
    assert_fits(queued.json, "Queued")
    assert server.tpu("POST", "queue", wanted).json["name"] == queued.json["name"]
    listed = server.tpu("GET", "queue").json
    assert_fits(listed, "Queue")
    assert [(each["queued_id"], each["state_since"]) for each in listed["items"]] == [("queued", None)]
    cloud.control.advance(60)
    assert server.tpu("GET", "queue").json["items"][0]["state_since"] is not None
    removed = server.tpu("DELETE", f"queue/{ZONE}/queued")
    assert (removed.status, removed.json["state"]) == (200, "DELETING")
    assert server.tpu("DELETE", f"queue/{ZONE}/ghost").status == 404


@pytest.mark.parametrize(
    ("route", "body", "words"),
    [
        ("searches", {"node_id": "x", "candidates": []}, "'candidates' is not a list of 1 to 64"),
        ("searches", {"node_id": "x", "candidates": ["x"]}, "'candidates' is not a list"),
        ("searches", {"node_id": "x", "candidates": [{**WANTED[0], "color": 1}]}, "unknown fields: 'color'"),
        ("searches", {"node_id": "X!", "candidates": WANTED}, "is not a valid node name"),
        ("searches", {"node_id": "x", "candidates": WANTED, "queue_minutes": -1}, "not a number above 0"),
        ("queue", {"node_id": "x", "zone": ZONE, **V5E, "valid_for_s": True}, "not a number above 0"),
        ("queue", {"node_id": "x", "zone": ZONE, **V5E, "valid_for_s": 1}, "1 minute to 30 days"),
        ("queue", {"node_id": "x", "zone": ZONE, "spot": False}, "'accelerator_type' is missing"),
    ],
)
def test_a_bad_body_is_refused(server: Server, route: str, body: Any, words: str) -> None:
    refused = server.tpu("POST", route, body)
    assert (refused.status, refused.json["reason"]) == (400, "bad_input")
    assert words in refused.json["message"]


def test_a_node_is_queued_on_all_terms_or_refused_in_words(server: Server, cloud: Cloud) -> None:
    cloud.control.pause()
    cloud.control.reserve("ours", ZONE, "v5e", 8)
    wanted = {"zone": ZONE, **V5E}
    for provisioning, more in (("preemptible", {}), ("reserved", {"reservation": "ours"})):
        body = {"node_id": provisioning, **wanted, "provisioning": provisioning, **more}
        queued = server.tpu("POST", "queue", body)
        assert queued.status == 202, queued.text
        assert_fits(queued.json, "Queued")
        assert queued.json["provisioning"] == provisioning
    for changes, said in (
        ({"provisioning": "flex-start"}, "requires a run duration"),
        ({"provisioning": "preemptible", "run_for_s": 3600}, "cannot also be a preemptible node"),
        ({"provisioning": "spot", "spot": False}, "contradict each other"),
        ({"reservation": "ours"}, "Only a reserved node can use"),
    ):
        refused = server.tpu("POST", "queue", {"node_id": "refused", **wanted, **changes})
        assert (refused.status, said in refused.json["message"]) == (400, True), refused.text
