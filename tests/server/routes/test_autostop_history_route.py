"""What the guard of a node saw in the last hour, over REST."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from rest_api import assert_fits

if TYPE_CHECKING:
    from conftest import Server

ZONE = "us-central1-a"
NODE = {
    "node_id": "watched",
    "zone": ZONE,
    "accelerator_type": "v5litepod-8",
    "runtime_version": "v2-alpha-tpuv5-lite",
}


def past_of(server: Server) -> Any:
    """What is told, as rest-api.yml says."""
    answer = server.tpu("GET", f"nodes/{ZONE}/watched/autostop/history").json
    assert_fits(answer, "AutostopHistory")
    return answer


@pytest.mark.nightly
async def test_the_last_hour_of_a_node_is_told_once_its_agent_answers(server: Server) -> None:
    assert server.tpu("GET", f"nodes/{ZONE}/watched/autostop/history").status == 404
    async with server.events() as events:
        server.tpu("POST", "nodes", NODE)
        await events.until(lambda event: event.get("phase") == "ready")
        assert past_of(server)["idle_after_s"] == 3600
        async with asyncio.timeout(120):
            while not (past := await asyncio.to_thread(past_of, server))["stretches"]:
                assert past["why_unknown"]
                await asyncio.sleep(0.2)
        assert past["why_unknown"] is None
        assert all(past["now"] - 3600 <= each["starts_at"] <= each["ends_at"] for each in past["stretches"])

        server.tpu("DELETE", f"nodes/{ZONE}/watched")
        await events.until(lambda event: event.get("phase") == "deleted")
