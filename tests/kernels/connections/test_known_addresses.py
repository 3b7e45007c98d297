"""Where a worker was found last is known to the next process, and never believed against the cloud."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jupyter_tpu.kernels.connections.known_addresses import KnownAddresses, SavedWorker
from jupyter_tpu.link import Ready
from jupyter_tpu.ssh import WorkerAddress

ADDRESS = WorkerAddress(
    host="203.0.113.7", port=22, user="ada", host_keys=("ssh-ed25519 AAAA",), alias="my-node.us-central1-a.tpu"
)


KNOWN = SavedWorker(ADDRESS, Ready("/home/ada/.jupyter-tpu/agent.sock", "/usr/bin/python3", wish="abc "))


@pytest.mark.parametrize("known", [KNOWN, SavedWorker(ADDRESS)])
def test_an_address_is_found_again_by_the_workers_name_alone(tmp_path: Path, known: SavedWorker) -> None:
    KnownAddresses(tmp_path / "workers").save("my-node 0", known)
    again = KnownAddresses(tmp_path / "workers")
    assert again.load("my-node 0") == known
    assert again.load("my-node 1") is None


def test_a_file_of_an_older_version_still_has_the_address(tmp_path: Path) -> None:
    known = KnownAddresses(tmp_path)
    known.save("my-node 0", KNOWN)
    (file,) = tmp_path.glob("*.json")
    content = json.loads(file.read_text())
    del content["ready"]
    file.write_text(json.dumps(content))
    assert known.load("my-node 0") == SavedWorker(ADDRESS)


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "{}", '{"host": "-oProxyCommand=x", "host_keys": []}', '{"ready": 1}', '{"ready": {"socket": ""}}'],
)
def test_a_file_that_makes_no_sense_is_as_good_as_none(tmp_path: Path, content: str) -> None:
    known = KnownAddresses(tmp_path)
    known.save("my-node 0", KNOWN)
    (file,) = tmp_path.glob("*.json")
    file.write_text(content)
    assert known.load("my-node 0") is None


def test_a_folder_that_cannot_be_written_to_costs_nothing_but_time(tmp_path: Path) -> None:
    (tmp_path / "workers").write_text("a file, not a folder")
    known = KnownAddresses(tmp_path / "workers")
    known.save("my-node 0", KNOWN)
    assert known.load("my-node 0") is None
