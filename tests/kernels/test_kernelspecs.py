from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from jupyter_client.kernelspec import KernelSpecManager

from jupyter_tpu.cloud import CloudSettings
from jupyter_tpu.kernels.kernelspecs import (
    kernelspec_name,
    kernelspec_names,
    list_kernelspecs,
    remove_kernelspec,
    sync_kernelspecs,
    write_kernelspec,
)
from jupyter_tpu.models import Node, NodeName, Worker

EMULATED = CloudSettings(project="demo-project", endpoint="127.0.0.1:8470")
REAL = CloudSettings(project="demo-project", endpoint="")


@pytest.fixture(autouse=True)
def own_folders(data_dir: Path) -> None:
    """Every test has a fresh Jupyter data folder."""


def node(node_id: str = "my-node", state: str = "READY", project: str = "demo-project") -> Node:
    name = NodeName(project=project, zone="us-central1-a", node_id=node_id)
    return Node(name=name, state=state, accelerator_type="v5litepod-8", uid="4711")


def test_jupyter_finds_the_kernelspec_of_a_node() -> None:
    name = write_kernelspec(node(), EMULATED)
    spec = KernelSpecManager().get_kernel_spec(name)
    assert name == "tpu-my-node-us-central1-a"
    assert spec.display_name == "Python 3 · v5litepod-8 · my-node"
    assert (spec.language, spec.interrupt_mode) == ("python", "message")
    assert spec.metadata["kernel_provisioner"]["provisioner_name"] == "tpu"
    assert spec.metadata["debugger"] is True
    assert spec.metadata["jupyter_tpu"]["emulated"] is True
    assert (Path(spec.resource_dir) / "logo-svg.svg").read_text().startswith("<svg")


def test_a_display_name_is_short_and_reads_in_one_direction() -> None:
    hostile = replace(node(), accelerator_type="v5\u202elitepod\x1b[2J" + "x" * 5000)
    spec = KernelSpecManager().get_kernel_spec(write_kernelspec(hostile, EMULATED))
    assert spec.display_name.startswith("Python 3 · v5litepod[2Jxxx")
    assert len(spec.display_name) <= 100


def test_its_argv_starts_the_launcher_for_the_same_node() -> None:
    spec = KernelSpecManager().get_kernel_spec(write_kernelspec(node(), EMULATED, proxy_command="tunnel %h"))
    assert spec.argv[1:3] == ["-m", "jupyter_tpu.kernels.launcher"]
    assert spec.argv[-2:] == ["-f", "{connection_file}"]
    options = dict(zip(spec.argv[3:-2:2], spec.argv[4:-2:2], strict=True))
    assert options == {"--node": str(node().name), "--endpoint": EMULATED.endpoint, "--proxy-command": "tunnel %h"}


def test_writing_it_again_renews_it() -> None:
    later = CloudSettings(project=EMULATED.project, endpoint="127.0.0.1:2")
    assert write_kernelspec(node(), EMULATED) == write_kernelspec(node(), later)
    assert [spec.endpoint for spec in list_kernelspecs()] == [later.endpoint]


def test_an_emulated_node_does_not_take_the_kernelspec_of_a_real_one_with_its_name() -> None:
    real, emulated = write_kernelspec(node(), REAL), write_kernelspec(node(), EMULATED)
    assert {spec.name: spec.endpoint for spec in list_kernelspecs()} == {real: "", emulated: EMULATED.endpoint}
    assert remove_kernelspec(node().name, EMULATED.endpoint)
    assert [spec.name for spec in list_kernelspecs()] == [real]


def test_nodes_of_two_projects_with_the_same_name_have_a_kernelspec_each() -> None:
    write_kernelspec(node(), EMULATED)

    name = write_kernelspec(node(project="other.org:lab"), CloudSettings(project="other.org:lab", endpoint=""))

    assert name == "tpu-my-node-us-central1-a-other.org-lab"
    assert (
        KernelSpecManager().get_kernel_spec(name).metadata["jupyter_tpu"]["node"].startswith("projects/other.org:lab")
    )
    assert len(list_kernelspecs()) == 2


def test_it_goes_with_its_node() -> None:
    write_kernelspec(node(), EMULATED)
    assert remove_kernelspec(node().name, EMULATED.endpoint)
    assert not remove_kernelspec(node().name, EMULATED.endpoint)
    assert list_kernelspecs() == ()


def test_ready_nodes_have_kernelspecs_and_others_have_none() -> None:
    assert sync_kernelspecs([node("a"), node("b"), node("c", "CREATING")], EMULATED)
    assert [spec.name for spec in list_kernelspecs()] == [kernelspec_name(node(x).name) for x in "ab"]
    assert sync_kernelspecs([node("a", "STOPPED")], EMULATED)
    assert list_kernelspecs() == ()
    assert not sync_kernelspecs([], EMULATED)


def test_a_partial_list_of_nodes_removes_nothing_it_does_not_name() -> None:
    sync_kernelspecs([node("a"), node("b")], EMULATED)
    assert sync_kernelspecs([node("a", "DELETING")], EMULATED, complete=False)
    assert [spec.name for spec in list_kernelspecs()] == [kernelspec_name(node("b").name)]


def test_kernelspecs_of_another_cloud_are_left_alone() -> None:
    sync_kernelspecs([node("real")], REAL)
    sync_kernelspecs([], EMULATED)
    assert [spec.node_name for spec in list_kernelspecs()] == [str(node("real").name)]


@pytest.mark.parametrize("text", ["{", "[]", '{"metadata": {"jupyter_tpu": {"node": "../.."}}}'])
def test_what_is_not_ours_is_passed_over(text: str) -> None:
    folder = Path(KernelSpecManager().user_kernel_dir) / "tpu-strange"
    folder.mkdir(parents=True)
    (folder / "kernel.json").write_text(text)
    assert list_kernelspecs() == ()
    assert not sync_kernelspecs([], EMULATED)


def test_a_renewed_kernelspec_is_whole_json() -> None:
    name = write_kernelspec(node(), EMULATED)
    path = Path(KernelSpecManager().user_kernel_dir) / name / "kernel.json"
    assert json.loads(path.read_text())["argv"]
    assert {entry.name for entry in path.parent.iterdir()} == {"kernel.json", "logo-svg.svg"}


def a_slice(workers: int) -> Node:
    """A node with so many workers."""
    found = tuple(Worker(worker_id=number, ip_address=f"10.0.0.{number}") for number in range(workers))
    return replace(node(), accelerator_type=f"v5litepod-{4 * workers}", workers=found)


def test_a_node_with_several_workers_has_one_for_all_and_one_for_worker_0_only() -> None:
    assert sync_kernelspecs([a_slice(4)], EMULATED)
    found = {spec.name: (spec.display_name, spec.workers) for spec in list_kernelspecs()}
    usual = "tpu-my-node-us-central1-a"
    assert found == {
        usual: ("Python 3 · v5litepod-16 · my-node · 4 workers", 4),
        f"{usual}-worker-0": ("Python 3 · v5litepod-16 · my-node · worker 0 only", 1),
    }
    assert kernelspec_names(EMULATED) == {str(node().name): usual}  # the one that is opened by default
    assert not sync_kernelspecs([a_slice(4)], EMULATED)
    spec = KernelSpecManager().get_kernel_spec(usual)
    assert spec.argv[spec.argv.index("--workers") + 1] == "4"
    assert spec.metadata["kernel_provisioner"]["config"]["workers"] == 4


def test_a_node_recreated_with_other_workers_and_one_of_an_earlier_version_get_the_same_names() -> None:
    sync_kernelspecs([a_slice(4)], EMULATED)
    sync_kernelspecs([a_slice(2)], EMULATED)
    assert sorted(spec.workers for spec in list_kernelspecs()) == [1, 2]
    sync_kernelspecs([node()], EMULATED)
    assert [spec.display_name for spec in list_kernelspecs()] == ["Python 3 · v5litepod-8 · my-node"]
    sync_kernelspecs([a_slice(2)], EMULATED)  # an earlier version had worker 0 only, under the usual name
    assert sorted(spec.workers for spec in list_kernelspecs()) == [1, 2]
