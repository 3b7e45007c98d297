"""The routes of standing choices, on a real Jupyter server whose node is taken away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from rest_api import assert_fits

from jupyter_tpu.errors import BadInput
from jupyter_tpu.server.routes.recovery import choice_from_body

if TYPE_CHECKING:
    from conftest import Cloud, Server

ZONE = "us-central1-a"
NODE = {
    "node_id": "taken",
    "zone": ZONE,
    "accelerator_type": "v5litepod-8",
    "runtime_version": "v2-alpha-tpuv5-lite",
    "spot": True,
}


async def test_a_preempted_node_is_made_again_by_the_server(server: Server, cloud: Cloud) -> None:
    assert server.tpu("PUT", f"nodes/{ZONE}/taken/recovery", {"is_on": True}).status == 404
    async with server.events() as events:
        server.tpu("POST", "nodes", NODE)
        await events.until(lambda event: event.get("phase") == "ready")
        chosen = server.tpu("PUT", f"nodes/{ZONE}/taken/recovery", {"is_on": True, "max_attempts": 2, "max_usd": 50})
        assert_fits(chosen.json, "Recovery")
        assert (chosen.json["state"], chosen.json["max_attempts"], chosen.json["max_usd"]) == ("watching", 2, 50)

        cloud.control.preempt(f"projects/{cloud.project}/locations/{ZONE}/nodes/taken")
        await events.until(lambda event: "recreated (attempt 1 of 2" in event.get("message", ""))
        listed = server.tpu("GET", "recovery").json
        assert_fits(listed, "Recoveries")
        assert [each["attempts"] for each in listed["choices"]] == [1]

        server.tpu("DELETE", f"nodes/{ZONE}/taken")
        await events.until(lambda event: event.get("phase") == "deleted")
        await events.until_true(lambda: server.tpu("GET", "recovery").json["choices"][0]["state"] == "off")
    assert cloud.control.billing() == []
    assert not server.tpu("PUT", f"nodes/{ZONE}/taken/recovery", {"is_on": False}).json["is_on"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"is_on": 1}',
        b'{"is_on": true, "max_attempts": 2.5}',
        b'{"is_on": true, "max_attempts": true}',
        b'{"is_on": true, "max_usd": "5"}',
        b'{"is_on": true, "spec": {}}',
    ],
)
def test_a_body_that_is_no_choice_is_refused(body: bytes) -> None:
    with pytest.raises(BadInput):
        choice_from_body(body)
