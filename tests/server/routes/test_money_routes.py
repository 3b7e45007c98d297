"""What nodes have cost and what they may, over REST."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from rest_api import assert_fits

from jupyter_tpu.server.events import FLEET_EVENT

if TYPE_CHECKING:
    from conftest import Cloud, Events, Server

ZONE = "us-central1-a"
NEW_NODE = {
    "node_id": "my-node",
    "zone": ZONE,
    "accelerator_type": "v5litepod-8",
    "runtime_version": "v2-alpha-tpuv5-lite",
}
WEEKLY = {"amount": 1000, "unit": "usd", "period": "week", "resets_on": "friday", "resets_at": "09:00"}


async def reached(events: Events, phase: str) -> None:
    await events.until(lambda event: event["schema_id"] == FLEET_EVENT and event["phase"] == phase)


@pytest.fixture(autouse=True)
def no_budgets_left(server: Server) -> Iterator[None]:
    yield
    for budget in server.tpu("GET", "spend").json["budgets"]:
        assert server.tpu("DELETE", f"budgets/{budget['name']}").status == 204
    deadline = time.monotonic() + 120
    while notices := server.tpu("GET", "nodes").json["notices"]:  # the budget enforcer looks once a second
        assert time.monotonic() < deadline, notices
        time.sleep(0.05)


async def test_at_the_cap_a_node_is_stopped_and_no_other_is_created(server: Server, cloud: Cloud) -> None:
    async with server.events() as events:
        assert server.tpu("POST", "nodes", NEW_NODE).status == 202
        await reached(events, "ready")
        budget = server.tpu("PUT", "budgets/tiny", {"amount": 0.000001, "unit": "usd", "period": "total"})
        assert budget.status == 200
        await reached(events, "stopped")

    spend = server.tpu("GET", "spend").json
    assert_fits(spend, "Spend")
    ((node,), (tiny,)) = spend["nodes"], spend["budgets"]
    assert (node["node_id"], node["usd_per_hour"]) == ("my-node", 9.6)
    assert server.tpu("GET", f"nodes/{ZONE}/my-node").json["cost_usd"] is not None
    assert server.tpu("GET", "nodes").json["nodes"][0]["cost_usd"] is not None
    assert (tiny["name"], tiny["level"], tiny["error"]) == ("tiny", "100", None)
    assert cloud.control.billing() == []
    entries = {each["action"]: each for each in server.tpu("GET", "audit").json["entries"]}
    assert entries["stop"]["reason"].startswith("The budget tiny is used up")
    assert entries["budget"]["texts"]["action"]["template"].startswith("stops billed nodes")

    refused = server.tpu("POST", "nodes", {**NEW_NODE, "node_id": "another"})
    assert (refused.status, refused.json["reason"]) == (402, "budget_exceeded")
    assert server.tpu("POST", f"nodes/{ZONE}/my-node/start").status == 402
    notices = [each["message"] for each in server.tpu("GET", "nodes").json["notices"]]
    assert any("The budget tiny is used up" in notice for notice in notices)
    async with server.events() as events:
        server.tpu("DELETE", f"nodes/{ZONE}/my-node")
        await reached(events, "deleted")


def test_a_budget_is_written_and_taken_away(server: Server) -> None:
    made = server.tpu("PUT", "budgets/my%20week", WEEKLY)
    assert made.status == 200
    assert_fits(made.json, "Budget")
    assert (made.json["name"], made.json["resets_on"], made.json["action"]) == ("my week", "friday", "stop")
    assert [each["name"] for each in server.tpu("GET", "spend").json["budgets"]] == ["my week"]
    assert server.tpu("DELETE", "budgets/my%20week").status == 204
    assert server.tpu("DELETE", "budgets/my%20week").status == 404


@pytest.mark.parametrize(
    "changes", [{"amount": -1}, {"amount": "20"}, {"unit": "eur"}, {"period": None}, {"currency": "USD"}]
)
def test_what_makes_no_sense_is_refused(server: Server, changes: dict[str, Any]) -> None:
    refused = server.tpu("PUT", "budgets/mine", {**WEEKLY, **changes})
    assert (refused.status, refused.json["reason"]) == (400, "bad_input")
    assert refused.json["error"]["hint"]
    assert server.tpu("GET", "spend").json["budgets"] == []


def test_an_unknown_price_has_to_be_accepted(server: Server, cloud: Cloud) -> None:
    server.tpu("PUT", "budgets/mine", WEEKLY)
    unpriced = {
        "accelerator_type": "v6e-1",
        "zone": "southamerica-west1-a",
        "runtime_version": "v2-alpha-tpuv6e",
        "spot": True,
    }
    refused = server.tpu("POST", "nodes", {**NEW_NODE, **unpriced})
    assert (refused.status, refused.json["reason"]) == (400, "bad_input")
    assert "--accept-unknown-price" in refused.json["error"]["hint"]
    assert [action["label"] for action in refused.json["error"]["actions"]] == ["Show budgets"]
    assert cloud.control.billing() == []


def test_budgets_that_damage_may_have_taken_are_shown_and_allow_nothing_until_confirmed(
    server: Server, cloud: Cloud
) -> None:
    with sqlite3.connect(server.folder / "tpu" / "journal.db") as database:
        database.execute("INSERT INTO documents VALUES ('*', '*', 'loss', '/kept/journal.db.damaged-1', '{}', 1.0)")
    database.close()
    spend = server.tpu("GET", "spend").json
    assert_fits(spend, "Spend")
    (lost,) = spend["budgets"]
    assert (lost["name"], lost["amount"], lost["level"]) == ("lost-budgets", None, "100")
    assert "/kept/journal.db.damaged-1" in lost["error"]
    refused = server.tpu("POST", "nodes", NEW_NODE)
    assert (refused.status, refused.json["reason"]) == (507, "journal_unwritable")
    assert "may be lost" in refused.json["error"]["message"]
    assert cloud.control.billing() == []
    assert server.tpu("DELETE", "budgets/lost-budgets").status == 204
    assert server.tpu("GET", "spend").json["budgets"] == []
    assert server.tpu("DELETE", "budgets/lost-budgets").status == 404


def test_a_wrong_clock_of_the_servers_computer_is_told_until_it_is_set_right(server: Server, cloud: Cloud) -> None:
    def nodes() -> Any:
        server.tpu("DELETE", f"nodes/{ZONE}/no-such-node")  # the cloud's answer, a refusal, tells what time it is
        body = server.tpu("GET", "nodes").json
        assert_fits(body, "Nodes")
        return body

    assert (nodes()["clock_ahead_s"], nodes()["notices"]) == (0, [])
    cloud.control.add_fault("*", "clock_skew", seconds=3600)
    wrong = nodes()
    assert wrong["clock_ahead_s"] == pytest.approx(-3600, abs=20)
    (notice,) = wrong["notices"]
    assert notice["message"].startswith("This computer's clock is 1 h behind.")
    cloud.control.clear_faults()
    assert (nodes()["clock_ahead_s"], nodes()["notices"]) == (0, [])
