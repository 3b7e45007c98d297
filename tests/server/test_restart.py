"""A Jupyter server that is killed while it creates a node leaves nothing that nobody looks after."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tiers import mostly_nightly

from jupyter_tpu.cloud.settings import CloudSettings
from jupyter_tpu.kernels.kernelspecs import write_kernelspec
from jupyter_tpu.models import Node, NodeName

if TYPE_CHECKING:
    from conftest import Cloud, Server, StartServer

pytestmark = pytest.mark.timeout(600)

ZONE = "us-central1-a"
NEW_NODE = {
    "node_id": "orphan",
    "zone": ZONE,
    "accelerator_type": "v5litepod-8",
    "runtime_version": "v2-alpha-tpuv5-lite",
}


def has_phase(*phases: str) -> Callable[[dict[str, Any]], bool]:
    return lambda event: event.get("kind") == "intent" and event["phase"] in phases


def phase_of(server: Server, intent_id: str) -> str:
    return str(server.tpu("GET", f"intents/{intent_id}").json["phase"])


@pytest.mark.parametrize(
    ("moment", "outcomes"),
    mostly_nightly([("requested", {"failed", "ready"}), ("provisioning", {"ready"})], count=1),
)
async def test_the_next_server_settles_what_a_killed_one_began(
    start_server: StartServer, cloud: Cloud, moment: str, outcomes: set[str]
) -> None:
    cloud.control.set_time_scale(20)  # slow enough to be killed at each moment
    first = start_server(**cloud.variables)
    async with first.events() as events:
        intent_id = first.tpu("POST", "nodes", NEW_NODE).json["intent_id"]
        if moment != "requested":
            await events.until(has_phase(moment))
        first.kill()
    cloud.control.set_time_scale(1000)

    second = start_server(after=first, traits={"unsure_s": 10.0}, **cloud.variables)  # this cloud's lists do not lag
    async with second.events() as events:
        await events.until_true(lambda: phase_of(second, intent_id) in outcomes)
        for node in second.tpu("GET", "nodes").json["nodes"]:
            assert node["managed"] is True
            second.tpu("DELETE", f"nodes/{ZONE}/{node['node_id']}")
            await events.until(has_phase("deleted"))

    assert cloud.control.billing() == []


@pytest.mark.nightly
async def test_a_failure_is_told_once_and_not_with_every_look_at_the_journal(
    start_server: StartServer, cloud: Cloud
) -> None:
    server = start_server(**cloud.variables)
    cloud.control.add_fault("CreateNode", "quota")
    async with server.events() as events:
        server.tpu("POST", "nodes", {**NEW_NODE, "node_id": "too-much"})
        await events.until(has_phase("failed"))
        server.tpu("POST", "nodes", {**NEW_NODE, "node_id": "next"})
        await events.until(lambda event: event["phase"] == "ready")
        server.tpu("DELETE", f"nodes/{ZONE}/next")
        await events.until(has_phase("deleted"))

    told = [event for event in events.seen if event["phase"] == "failed"]
    assert len(told) <= 1


def test_a_kernelspec_whose_node_went_while_no_server_ran_is_removed(
    start_server: StartServer, cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "server-0" / "data"))
    gone = Node(name=NodeName(project=cloud.project, zone=ZONE, node_id="gone"), state="READY")
    name = write_kernelspec(gone, CloudSettings(project=cloud.project, endpoint=cloud.grpc))

    server = start_server(**cloud.variables)

    def is_gone() -> bool:
        time.sleep(0.05)  # nothing is told of it, since no node has changed
        return name not in server.request("GET", "api/kernelspecs").json["kernelspecs"]

    assert any(is_gone() for _ in range(2400))
