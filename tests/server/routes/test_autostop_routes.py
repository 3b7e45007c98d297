"""The routes of auto-stop, on a real Jupyter server with a node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from rest_api import assert_fits

from jupyter_tpu.autostop import NO_KEEP_RUNNING, KeepRunning
from jupyter_tpu.errors import BadInput
from jupyter_tpu.server.routes.autostop import extension_from_body, rules_from_body

if TYPE_CHECKING:
    from conftest import Cloud, Server

ZONE = "us-central1-a"
NODE = {
    "node_id": "braked",
    "zone": ZONE,
    "accelerator_type": "v5litepod-8",
    "runtime_version": "v2-alpha-tpuv5-lite",
    "spot": False,
}


async def comes_true(check: Callable[[], bool]) -> None:
    """What guards and agents do is no event of the fleet."""
    async with asyncio.timeout(120):
        while not await asyncio.to_thread(check):  # noqa: ASYNC110 - a server answers questions
            await asyncio.sleep(0.2)


@pytest.mark.nightly
async def test_rules_reach_the_guard_of_a_node_which_then_ends_by_them(server: Server, cloud: Cloud) -> None:
    assert server.tpu("PUT", f"nodes/{ZONE}/braked/autostop", {"idle_after_s": 60}).status == 404

    def status() -> Any:
        listed = server.tpu("GET", "autostop").json
        assert_fits(listed, "AutostopOfNodes")
        return next((each for each in listed["nodes"] if each["node_id"] == "braked"), None)

    async with server.events() as events:
        server.tpu("POST", "nodes", NODE)
        await events.until(lambda event: event.get("phase") == "ready")
        assert status()["idle_after_s"] == 3600

        ruled = server.tpu("PUT", f"nodes/{ZONE}/braked/autostop", {"session_s": 7200, "action": "delete"}).json
        assert_fits(ruled, "Autostop")
        assert (ruled["idle_after_s"], ruled["session_s"], ruled["action"]) == (3600, 7200, "delete")
        kept = server.tpu("POST", f"nodes/{ZONE}/braked/extend", {"for_s": 9000}).json
        assert kept["kept_until"] == kept["ends_at"]
        await comes_true(lambda: status()["guard"]["state"] == "armed")
        await comes_true(lambda: {each["state"] for each in status()["sources"]} == {"quiet"})
        assert server.tpu("POST", f"nodes/{ZONE}/braked/extend", {}).json["kept_until"] is None

        server.tpu("PUT", f"nodes/{ZONE}/braked/autostop", {"idle_after_s": 2})
        await comes_true(lambda: cloud.control.billing() == [])
        await comes_true(lambda: status() is None)


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b'{"idle_after_s": "1h"}', b'{"session_s": true}', b'{"action": "explode"}', b'{"deadline_at": 1}'],
)
def test_a_body_that_holds_no_rules_is_refused(body: bytes) -> None:
    with pytest.raises(BadInput):
        rules_from_body(body)


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b'{"for_s": "1h"}',
        b'{"for_s": -1}',
        b'{"for_s": 1e300}',
        b'{"until": 999}',
        b'{"while_busy": false}',
        b'{"for_s": 1, "until": 2000}',
        b'{"forever": true}',
    ],
)
def test_a_body_that_is_no_wish_to_keep_is_refused(body: bytes) -> None:
    with pytest.raises(BadInput):
        extension_from_body(body, now=1000)


@pytest.mark.parametrize(
    ("body", "keep"),
    [
        (b"{}", NO_KEEP_RUNNING),
        (b'{"for_s": 60}', KeepRunning(until=1060)),
        (b'{"until": 5000}', KeepRunning(until=5000)),
        (b'{"while_busy": true}', KeepRunning(while_busy=True)),
    ],
)
def test_a_wish_to_keep_is_read(body: bytes, keep: KeepRunning) -> None:
    assert extension_from_body(body, now=1000) == keep


@pytest.mark.parametrize(("old", "now"), [("brakes", "autostop"), ("sweep", "cleanup")])
def test_a_route_by_its_old_name_answers_as_the_new_one_and_says_so(server: Server, old: str, now: str) -> None:
    before, answer = server.tpu("GET", old), server.tpu("GET", now)
    assert (before.status, before.json.keys()) == (answer.status, answer.json.keys())
    assert before.headers["Deprecation"] == "true"
    assert f"/{now}" in before.headers["Warning"]
    assert "Deprecation" not in answer.headers
