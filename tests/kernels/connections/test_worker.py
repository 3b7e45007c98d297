from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_tpu.errors import HostKeyChanged, WorkerUnreachable
from jupyter_tpu.kernels.connections.worker import host_key_alias, login_of, worker_address, worker_alias
from jupyter_tpu.models import Node, NodeName, Worker, WorkerIdentity
from jupyter_tpu.ssh import UserKey

NAME = NodeName(project="demo-project", zone="us-central1-a", node_id="my-node")
ONE_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEuTblCATK/CEXt5+8IA9M85RaW8bP3+H+SYY+RQsFsU"
OTHER_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJxpB71+Vhb59Qvi9QU9sVkM9ZzuHfHQoh9BmnJvKWc/"


@pytest.fixture(autouse=True)
def own_folders(data_dir: Path) -> None:
    """Every test has its own pinned host keys."""


def node(*workers: Worker, uid: str = "4711", ssh_keys: str = "") -> Node:
    return Node(name=NAME, state="READY", uid=uid, workers=workers, metadata={"ssh-keys": ssh_keys})


def test_workers_have_names_that_plain_ssh_takes() -> None:
    assert worker_alias(NAME) == "my-node.us-central1-a.tpu"
    assert worker_alias(NAME, 3) == "my-node-w3.us-central1-a.tpu"


def test_a_worker_is_reached_by_its_external_address_where_it_has_one() -> None:
    identity = WorkerIdentity(worker_id=0, host_keys=(ONE_KEY,), ssh_port=2222)
    both = node(Worker(worker_id=0, ip_address="10.0.0.2", external_ip="203.0.113.7"))
    inner = node(Worker(worker_id=0, ip_address="10.0.0.2"))
    assert (worker_address(both, identity, "ada").host, worker_address(inner, identity, "ada").host) == (
        "203.0.113.7",
        "10.0.0.2",
    )
    assert worker_address(both, identity, "ada").port == 2222


def test_a_worker_without_an_address_is_unreachable() -> None:
    with pytest.raises(WorkerUnreachable, match="no IP address"):
        worker_address(node(Worker(worker_id=0)), WorkerIdentity(worker_id=0, host_keys=(ONE_KEY,)), "ada")


def test_host_keys_are_pinned_by_the_nodes_uid() -> None:
    worker = Worker(worker_id=0, external_ip="203.0.113.7")
    first, second = (WorkerIdentity(worker_id=0, host_keys=(key,)) for key in (ONE_KEY, OTHER_KEY))
    assert worker_address(node(worker), first, "ada").host_keys == (ONE_KEY,)
    with pytest.raises(HostKeyChanged):
        worker_address(node(worker), second, "ada")
    assert worker_address(node(worker, uid="4712"), second, "ada").host_keys == (OTHER_KEY,)
    assert host_key_alias(node(worker), 0) == "tpu-4711-w0"


def test_the_login_is_the_one_our_key_was_given_to(tmp_path: Path) -> None:
    key = UserKey.load_or_create(tmp_path / "ssh")
    lines = f"grace:{ONE_KEY} grace@example\nada:{key.public_line}\n"
    assert login_of(node(ssh_keys=lines), key) == "ada"
    assert login_of(node(ssh_keys=f"grace:{ONE_KEY}"), key) == ""
    assert login_of(node(), key) == ""
