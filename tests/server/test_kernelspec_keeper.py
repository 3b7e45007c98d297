"""Kernelspecs follow the nodes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from jupyter_tpu.cloud.settings import CloudSettings
from jupyter_tpu.errors import CloudUnavailable
from jupyter_tpu.fleet import FleetSnapshot, Intent
from jupyter_tpu.kernels.kernelspecs import kernels_folder, remove_kernelspec
from jupyter_tpu.models import Node, NodeName
from jupyter_tpu.server.kernelspec_sync import KernelspecSync

SETTINGS = CloudSettings(project="demo-project", endpoint="127.0.0.1:1")
NAME = NodeName(project="demo-project", zone="us-central1-a", node_id="my-node")
NODE = Node(name=NAME, state="READY", accelerator_type="v5litepod-8", uid="1")
SPEC = "tpu-my-node-us-central1-a"


def seen(*nodes: Node) -> FleetSnapshot:
    return FleetSnapshot(nodes=nodes, as_of=1.0)


def kernel_json() -> str:
    return (kernels_folder() / SPEC / "kernel.json").read_text()


async def test_a_ready_node_has_a_kernelspec_until_it_is_not(data_dir: Path) -> None:
    keeper = KernelspecSync()

    await keeper.update(seen(NODE), SETTINGS)
    assert keeper.names() == {str(NAME): SPEC}

    await keeper.update(seen(replace(NODE, state="STOPPED")), SETTINGS)
    assert keeper.names() == {}
    assert not (kernels_folder() / SPEC).exists()


async def test_a_node_whose_workers_still_boot_has_none_yet(data_dir: Path) -> None:
    keeper = KernelspecSync()
    creating = Intent(intent_id="i", verb="create", node_name=NAME, phase="booting")

    await keeper.update(replace(seen(NODE), intents=(creating,)), SETTINGS)
    assert keeper.names() == {}

    await keeper.update(seen(NODE), SETTINGS)
    assert keeper.names() == {str(NAME): SPEC}


async def test_the_servers_own_settings_are_written_into_it(data_dir: Path) -> None:
    await KernelspecSync(proxy_command="corp-proxy %h %p", ssh_user="ada").update(seen(NODE), SETTINGS)

    config = json.loads(kernel_json())["metadata"]["kernel_provisioner"]["config"]
    assert (config["proxy_command"], config["ssh_user"]) == ("corp-proxy %h %p", "ada")


async def test_one_that_was_removed_meanwhile_comes_back_with_the_servers_own_settings(data_dir: Path) -> None:
    keeper = KernelspecSync(proxy_command="corp-proxy %h %p", ssh_user="ada")
    await keeper.update(seen(NODE), SETTINGS)
    written = kernel_json()
    remove_kernelspec(NAME, SETTINGS.endpoint)

    await keeper.update(seen(NODE), SETTINGS)

    assert kernel_json() == written


async def test_a_node_made_again_under_its_name_gets_a_new_one(data_dir: Path) -> None:
    keeper = KernelspecSync()
    await keeper.update(seen(NODE), SETTINGS)

    await keeper.update(seen(replace(NODE, uid="2", accelerator_type="v6e-4")), SETTINGS)

    assert "v6e-4" in kernel_json()


@pytest.mark.parametrize(
    "partial",
    [
        FleetSnapshot(as_of=1.0, unreachable=("us-central1-a",)),
        FleetSnapshot(as_of=1.0, error=CloudUnavailable("no answer")),
        FleetSnapshot(),
    ],
)
async def test_nothing_is_removed_for_a_list_that_may_be_partial(data_dir: Path, partial: FleetSnapshot) -> None:
    keeper = KernelspecSync()
    await keeper.update(seen(NODE), SETTINGS)

    await keeper.update(partial, SETTINGS)

    assert keeper.names() == {str(NAME): SPEC}


async def test_a_keeper_that_is_switched_off_writes_nothing(data_dir: Path) -> None:
    await KernelspecSync(enabled=False).update(seen(NODE), SETTINGS)

    assert not kernels_folder().exists()
