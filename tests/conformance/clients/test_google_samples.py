"""What Google's samples of the Cloud TPU clients ask for, with the values that they have by default."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.api_core.retry import Retry
from google.cloud import tpu_v2, tpu_v2alpha1

RUN = Path(__file__).with_name("samples_run.py")
TYPE, VERSION = "v5litepod-4", "v2-tpuv5-litepod"
TF_VERSION = "tpu-vm-tf-2.17.0-pjrt"
SCRIPT = {"startup-script": "#!/bin/bash\necho hello\n"}
SOON = Retry(predicate=lambda error: type(error).__name__ == "_OperationNotComplete", initial=0.05, maximum=0.2)


@pytest.fixture
def channel(emulator: Any) -> Iterator[Any]:
    with grpc.insecure_channel(emulator.grpc) as channel:
        yield channel


def client_of(package: Any, channel: Any, emulator: Any) -> Any:
    transport = package.TpuClient.get_transport_class("grpc")
    return package.TpuClient(transport=transport(channel=channel, host=emulator.grpc))


@pytest.mark.shows("runtime-versions")
def test_the_nodes_of_googles_samples_live_and_end(emulator: Any, channel: Any) -> None:
    client = client_of(tpu_v2, channel, emulator)
    plain = {"accelerator_type": TYPE, "runtime_version": VERSION}
    zones = {"topology": emulator.parent.replace(emulator.zone, "us-central1-b")}
    config = tpu_v2.AcceleratorConfig(type_=tpu_v2.AcceleratorConfig.Type.V2, topology="2x2")
    wanted = {
        "plain": tpu_v2.Node(**plain),
        "spot": tpu_v2.Node(**plain, scheduling_config=tpu_v2.SchedulingConfig(preemptible=True)),
        "topology": tpu_v2.Node(accelerator_config=config, runtime_version=TF_VERSION),
        "script": tpu_v2.Node(**plain, metadata=SCRIPT, network_config=tpu_v2.NetworkConfig(enable_external_ips=True)),
    }
    name = emulator.node_name("plain")

    made = [
        client.create_node(
            request=tpu_v2.CreateNodeRequest(parent=zones.get(node_id, emulator.parent), node_id=node_id, node=node)
        ).result(polling=SOON)
        for node_id, node in wanted.items()
    ]
    assert [node.state.name for node in made] == ["READY"] * 4
    assert len(list(client.list_nodes(parent=emulator.parent))) == 3
    assert client.get_node(name=name).runtime_version == VERSION
    stopped = client.stop_node(request=tpu_v2.StopNodeRequest(name=name)).result(polling=SOON)
    started = client.start_node(request=tpu_v2.StartNodeRequest(name=name)).result(polling=SOON)
    assert (stopped.state.name, started.state.name) == ("STOPPED", "READY")
    client.delete_node(name=name).result(polling=SOON)


def test_the_queued_resources_of_googles_samples_wait_and_end(emulator: Any, channel: Any) -> None:
    emulator.control.stock_out(emulator.zone)
    client = client_of(tpu_v2alpha1, channel, emulator)
    types = tpu_v2alpha1
    plain = {"accelerator_type": TYPE, "runtime_version": VERSION}
    network = types.NetworkConfig(
        network="default", subnetwork="default", enable_external_ips=True, can_ip_forward=True
    )
    open_network = types.NetworkConfig(enable_external_ips=True)
    policy = types.QueuedResource.QueueingPolicy(valid_until_duration="90s")
    wanted: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "q1": ({}, {}),
        "q2": ({"network_config": network}, {}),
        "q3": ({}, {"spot": types.QueuedResource.Spot()}),
        "q4": ({"metadata": SCRIPT, "network_config": open_network}, {}),
        "q5": ({}, {"queueing_policy": policy}),
    }

    for queued_id, (of_node, of_queued) in wanted.items():
        spec = types.QueuedResource.Tpu.NodeSpec(
            parent=emulator.parent, node_id=f"node-{queued_id}", node=types.Node(**plain, **of_node)
        )
        queued = types.QueuedResource(tpu=types.QueuedResource.Tpu(node_spec=[spec]), **of_queued)
        request = types.CreateQueuedResourceRequest(
            parent=emulator.parent, queued_resource_id=queued_id, queued_resource=queued
        )
        made = client.create_queued_resource(request=request).result(polling=SOON)
        assert made.name.endswith(f"/{queued_id}")
    listed = [each.tpu.node_spec[0].node_id for each in client.list_queued_resources(parent=emulator.parent)]
    assert listed == [f"node-{queued_id}" for queued_id in wanted]
    name = f"{emulator.parent}/queuedResources"
    assert client.get_queued_resource(name=f"{name}/q1").name == f"{name}/q1"
    with pytest.raises(TypeError):  # the client expects a queued resource, and the API answers Empty
        client.delete_queued_resource(name=f"{name}/q1").result(polling=SOON)
    forced = types.DeleteQueuedResourceRequest(name=f"{name}/q2", force=True)
    with pytest.raises(TypeError):
        client.delete_queued_resource(request=forced).result(polling=SOON)


@pytest.mark.timeout(600)
@pytest.mark.optional("google-samples")
@pytest.mark.parametrize(("part", "calls"), [("nodes", 9), ("queue", 11)])
def test_googles_own_samples_run(emulator: Any, part: str, calls: int) -> None:
    if part == "queue":
        emulator.control.stock_out(emulator.zone)  # else they are active at once, and one is deleted without force
    folder = os.environ["JUPYTER_TPU_GOOGLE_SAMPLES"]
    command = [sys.executable, str(RUN), folder, emulator.grpc, emulator.project, emulator.zone, part]

    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {"calls": calls, "failures": []}
