"""The routes of quota, clean-up and stop-all on a real Jupyter server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from rest_api import assert_fits

if TYPE_CHECKING:
    from conftest import Cloud, Elsewhere, Server, StartServer

ZONE = "us-central1-a"
SERVING = "TPUV5sLitepodServingPerProjectPerZoneForTPUAPI"
AFTER = f"quota/after?zone={ZONE}&accelerator_type=v5litepod-8"
SPOT = {"schedulingConfig": {"spot": True}}


@pytest.fixture(scope="module")
def server(cloud: Cloud, start_lasting_server: StartServer) -> Server:
    """One that knows where the emulator's REST services are."""
    return start_lasting_server(**cloud.variables, JUPYTER_TPU_EMULATOR=cloud.rest)


@pytest.fixture(autouse=True)
def empty(cloud: Cloud) -> Iterator[None]:
    yield
    cloud.control.reset()


def deleted(server: Server) -> dict[str, str]:
    return {item["name"]: item["state"] for item in server.tpu("GET", "cleanup").json["items"]}


def in_use(quota: Any) -> list[Any]:
    return [user for row in quota["limits"] for user in row["users"] if user["state"] != "DELETING"]


def test_quota_is_told_with_what_uses_it_and_deleted_use_is_not_told_again(
    server: Server, cloud: Cloud, elsewhere: Elsewhere
) -> None:
    leftover = elsewhere.create("leftover", **SPOT)
    cloud.control.preempt(leftover)

    first = server.tpu("GET", "quota").json
    assert_fits(first, "Quota")
    assert first["source"] == "Cloud Quotas API"
    assert first["is_complete"] is True
    users = [user for row in first["limits"] for user in row["users"]]
    assert [(user["name"], user["is_leftover"]) for user in users] == [(leftover, True)] * 2

    results = server.tpu("POST", "cleanup", {"names": [leftover]}).json
    assert_fits(results, "Results")
    assert results == {"results": [{"name": leftover, "ok": True, "error": None}]}
    # the deletion is requested a moment after the response
    end = time.monotonic() + 120
    while holding := in_use(server.tpu("GET", "quota").json):
        assert time.monotonic() < end, holding
        time.sleep(0.1)


def test_what_a_node_would_leave(server: Server) -> None:
    answer = server.tpu("GET", AFTER).json

    assert_fits(answer, "QuotaAfter")
    by_zone, by_region = answer["rows"]
    assert (by_zone["quota_id"], by_zone["location"], by_zone["asked"]) == (SERVING, ZONE, 8)
    assert by_zone["after"] == by_zone["limit"] - by_zone["used"] - 8
    assert (by_region["location"], by_region["fits"]) == ("us-central1", True)
    spot = server.tpu("GET", f"{AFTER}&spot=true").json["rows"][0]
    assert server.tpu("GET", f"{AFTER}&provisioning=flex-start").json["rows"][0] == spot
    assert server.tpu("GET", f"{AFTER}&provisioning=reserved").json["rows"] == []
    assert spot["quota_id"] == "TPUV5sPreemptibleLitepodServingPerProjectPerZoneForTPUAPI"


@pytest.mark.parametrize(
    "query",
    [
        "",
        f"zone={ZONE}",
        f"zone={ZONE}&accelerator_type=v9x-1",
        "zone=..&accelerator_type=v5litepod-8",
        f"zone={ZONE}&accelerator_type=v5litepod-8&spot=perhaps",
    ],
)
def test_a_request_that_cannot_be_leaves_nothing(server: Server, query: str) -> None:
    refused = server.tpu("GET", f"quota/after?{query}")

    assert (refused.status, refused.json["reason"]) == (400, "bad_input")


def test_cleanup_lists_what_others_made_and_deletes_only_what_is_named(
    server: Server, cloud: Cloud, elsewhere: Elsewhere
) -> None:
    kept, marked = elsewhere.create("kept"), elsewhere.create("marked")

    listed = server.tpu("GET", "cleanup").json
    assert_fits(listed, "Cleanup")
    assert listed["is_complete"] is True
    assert [(item["name"], item["is_ours"], item["is_billed"]) for item in listed["items"]] == [
        (kept, False, True),
        (marked, False, True),
    ]

    missing = server.tpu("POST", "cleanup", {"names": [marked, f"{marked}-not"]})
    assert (missing.status, missing.json["error"]["exists"]) == (400, "Nothing was deleted.")
    assert deleted(server) == {kept: "READY", marked: "READY"}

    assert server.tpu("POST", "cleanup", {"names": [marked]}).json["results"][0]["ok"] is True


@pytest.mark.parametrize(
    "body", [{}, {"names": []}, {"names": "all"}, {"names": [""]}, {"names": [1]}, {"names": ["x"], "all": True}, []]
)
def test_there_is_no_word_for_everything(server: Server, cloud: Cloud, body: Any, elsewhere: Elsewhere) -> None:
    elsewhere.create("kept")

    refused = server.tpu("POST", "cleanup", body)

    assert (refused.status, refused.json["reason"]) == (400, "bad_input")
    assert len(cloud.control.billing()) == 1


def test_all_is_no_name_when_the_list_is_partial(server: Server, cloud: Cloud, elsewhere: Elsewhere) -> None:
    kept = elsewhere.create("kept")
    cloud.control.add_fault("ListQueuedResources", "error", code=13, message="broken", times=2)

    partial = server.tpu("GET", "cleanup").json
    refused = server.tpu("POST", "cleanup", {"names": ["all"]})

    assert_fits(partial, "Cleanup")
    assert (partial["is_complete"], partial["error"]["code"]) == (False, "cloud_unavailable")
    assert (refused.status, "the list is incomplete" in refused.json["message"]) == (400, True)
    assert cloud.control.billing() == [kept]


def test_stop_all_ends_all_spending_and_is_in_the_audit_log(server: Server, cloud: Cloud, elsewhere: Elsewhere) -> None:
    held = elsewhere.create("held", **SPOT)
    gone = elsewhere.create("gone", **SPOT)
    cloud.control.add_fault("DeleteNode", "permission_denied", target=held)

    done = server.tpu("POST", "stop-all", {}).json

    assert_fits(done, "Results")
    results = {result["name"]: result["error"] for result in done["results"]}
    assert results[gone] is None
    assert results[held]["code"] == "permission_denied"
    assert cloud.control.billing() == [held]
    entries = server.tpu("GET", "audit").json["entries"]
    stopped = {entry["subject"] for entry in entries if entry["reason"].startswith("The user stopped all spending")}
    assert stopped == {held, gone}


def test_without_a_cloud_there_is_an_answer(start_server: StartServer) -> None:
    nowhere = start_server(JUPYTER_TPU_ENDPOINT="nonsense", JUPYTER_TPU_PROJECT="demo-project")

    for route, schema in (("quota", "Quota"), ("cleanup", "Cleanup")):
        answer = nowhere.tpu("GET", route)
        assert answer.status == 200
        assert_fits(answer.json, schema)
        assert answer.json["error"]["code"] == "bad_input"
    assert nowhere.tpu("POST", "stop-all", {}).status == 400
