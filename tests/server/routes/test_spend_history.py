"""What was spent over time, over REST."""

from __future__ import annotations

from typing import TYPE_CHECKING

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


async def reached(events: Events, phase: str) -> None:
    await events.until(lambda event: event["schema_id"] == FLEET_EVENT and event["phase"] == phase)


@pytest.mark.nightly
async def test_what_a_node_cost_is_in_the_hours_the_days_and_the_course_of_a_budget(
    server: Server, cloud: Cloud
) -> None:
    async with server.events() as events:
        assert server.tpu("POST", "nodes", NEW_NODE).status == 202
        await reached(events, "ready")
        server.tpu("DELETE", f"nodes/{ZONE}/my-node")
        await reached(events, "deleted")
    assert server.tpu("PUT", "budgets/all", {"amount": 50, "unit": "usd", "period": "total"}).status == 200

    hours, days = (server.tpu("GET", f"spend/history?by={by}").json for by in ("hour", "day"))
    course = server.tpu("GET", "budgets/all/course").json
    total = server.tpu("GET", "spend").json["total"]
    assert server.tpu("DELETE", "budgets/all").status == 204

    for history, length in ((hours, 24), (days, 30)):
        assert_fits(history, "SpendHistory")
        assert len(history["slots"]) == length
        assert history["sum"]["usd"] == pytest.approx(total["usd"])
    assert_fits(course, "BudgetCourse")
    assert course["points"][-1]["watched"] == pytest.approx(total["usd"])
    assert course["budget"]["amount"] == 50


@pytest.mark.parametrize(
    ("route", "status", "says"),
    [
        ("spend/history?by=week", 400, "must be hour or day"),
        ("spend/history?by=", 400, "must be hour or day"),
        ("spend/history?last=many", 400, "must be a whole number"),
        ("spend/history?last=-1", 400, "must be a whole number"),
        ("spend/history?last=%C2%B2", 400, "must be a whole number"),
        ("spend/history?last=0", 400, "cannot be shown"),
        ("spend/history?by=day&last=" + "9" * 500, 400, "cannot be shown"),
        ("budgets/none/course", 404, "There is no budget named 'none'"),
        ("budgets/%3Cb%3E/course", 404, "There is no budget named '<b>'"),
    ],
)
def test_what_makes_no_sense_is_refused(server: Server, route: str, status: int, says: str) -> None:
    answer = server.tpu("GET", route)
    assert (answer.status, says in answer.json["message"]) == (status, True)
