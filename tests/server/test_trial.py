"""The emulated cloud beside the user's own: it starts, is used, and leaves nothing when it ends."""

from __future__ import annotations

import contextlib
import json
import resource
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from tiers import mostly_nightly

from jupyter_tpu.cloud.emulator_address import ADDRESS_VARIABLE

if TYPE_CHECKING:
    from conftest import Cloud, Server, StartServer

NEW_NODE = {
    "node_id": "my-node",
    "zone": "us-central1-a",
    "accelerator_type": "v5litepod-8",
    "runtime_version": "v2-alpha-tpuv5-lite",
}
NO_CLOUD = {"JUPYTER_TPU_ENDPOINT": "", "JUPYTER_TPU_PROJECT": "some-project", "NO_GCE_CHECK": "true"}


def node_when_ready(server: Server) -> dict[str, Any]:
    end = time.monotonic() + 120
    while time.monotonic() < end:
        for node in server.tpu("GET", "nodes").json["nodes"]:
            if node["state"] == "READY" and node["kernelspec"]:
                found: dict[str, Any] = node
                return found
        time.sleep(0.2)
    raise AssertionError(server.log())


def kernelspecs(server: Server) -> set[str]:
    return {path.name for path in (server.folder / "data" / "kernels").glob("tpu-*")}


def test_the_set_up_says_what_is_missing_and_the_emulated_cloud_needs_none_of_it(start_server: StartServer) -> None:
    server = start_server(**NO_CLOUD)
    setup = server.tpu("GET", "setup").json
    assert [step["state"] for step in setup["steps"]] == ["to_do", "unknown", "unknown", "unknown", "unknown"]

    # the server runs in the folder of notebooks, which may have a module with the name of one of Python's
    (server.folder / "random.py").write_text("raise SystemExit('not this one')")
    status = server.tpu("POST", "trial").json
    assert (status["emulated"], status["trial"], status["switchboard"], status["error"]) == (True, True, True, None)
    assert server.tpu("POST", "trial").json["endpoint"] == status["endpoint"]  # again: the same one
    assert server.tpu("POST", "nodes", NEW_NODE).status == 202
    node_when_ready(server)
    kernel = server.request("POST", "api/kernels", {"name": "tpu-my-node-us-central1-a"}).json["id"]
    # its journal is its own
    assert not (server.folder / "tpu" / "journal.db").exists()
    assert (server.folder / "tpu" / "emulated-cloud" / "journal.db").exists()

    back = server.tpu("DELETE", "trial").json

    assert (back["emulated"], back["trial"], back["error"]["code"]) == (False, False, "credentials_missing")
    assert server.request("GET", f"api/kernels/{kernel}").status == 404
    assert kernelspecs(server) == set()
    assert not list((server.folder / "tpu" / "kernels").glob("*.json"))
    assert not (server.folder / "tpu" / "emulated-cloud" / "cloud.json").exists()
    assert server.tpu("GET", "emulator/state").status == 404
    # the emulated node is there again next time
    assert server.tpu("POST", "trial").status == 200
    assert [node["node_id"] for node in server.tpu("POST", "refresh").json["nodes"]] == ["my-node"]
    assert "Traceback" not in server.log()


def test_the_example_is_put_beside_the_users_notebooks_and_replaces_none(start_server: StartServer) -> None:
    server = start_server(**NO_CLOUD)
    example = server.folder / "digits.ipynb"
    example.write_text("mine")
    assert server.tpu("POST", "trial").status == 200
    assert example.read_text() == "mine"
    example.unlink()
    server.tpu("POST", "trial")
    assert "sklearn" in example.read_text()


@contextlib.contextmanager
def full_disk(server: Server) -> Iterator[None]:
    """Whatever the server and its new children write fails, as on a full disk."""
    soft, hard = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (1, hard))
    yield
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (soft, hard))


def test_the_emulated_cloud_on_a_full_disk_is_refused_with_what_to_do(start_server: StartServer) -> None:
    server = start_server(**NO_CLOUD)
    with full_disk(server):
        refused = server.tpu("POST", "trial")
    assert refused.status == 507, refused.text
    assert refused.json["error"]["code"] == "journal_unwritable"
    assert "Free disk space" in refused.json["error"]["hint"]
    assert server.tpu("GET", "status").json["trial"] is False


@pytest.mark.parametrize("end", mostly_nightly(["kill", "stop"], count=1))
def test_the_next_server_goes_on_with_the_emulated_cloud(start_server: StartServer, end: str) -> None:
    server = start_server(**NO_CLOUD)
    server.tpu("POST", "trial")
    server.tpu("POST", "nodes", NEW_NODE)
    node_when_ready(server)
    server.kill() if end == "kill" else server.stop()

    after = start_server(after=server, **NO_CLOUD)

    assert after.tpu("GET", "status").json["trial"] is True
    assert node_when_ready(after)["node_id"] == "my-node"
    assert kernelspecs(after) == {"tpu-my-node-us-central1-a"}
    # until the user switches back
    after.tpu("DELETE", "trial")
    after.stop()
    last = start_server(after=after, **NO_CLOUD)
    assert last.tpu("GET", "status").json["trial"] is False
    assert kernelspecs(last) == set()


@pytest.mark.nightly
def test_an_emulated_cloud_that_cannot_be_started_again_is_in_the_log(start_server: StartServer) -> None:
    server = start_server(**NO_CLOUD)
    server.tpu("POST", "trial")
    server.stop()
    log = server.folder / "tpu" / "emulated-cloud" / "emulator.log"
    log.unlink()
    log.mkdir()

    after = start_server(after=server, **NO_CLOUD)

    assert after.tpu("GET", "status").json["trial"] is False
    assert "The emulated cloud was not started again" in after.log()


def test_a_server_whose_own_cloud_is_emulated_starts_no_other(start_server: StartServer, cloud: Cloud) -> None:
    server = start_server(**cloud.variables, **{ADDRESS_VARIABLE: cloud.rest})
    answer = server.tpu("POST", "trial")
    assert (answer.status, answer.json["trial"]) == (200, False)
    assert answer.json["endpoint"] == cloud.variables["JUPYTER_TPU_ENDPOINT"]
    assert server.tpu("DELETE", "trial").json["endpoint"] == answer.json["endpoint"]


@pytest.mark.nightly
def test_kernels_and_journal_of_the_own_cloud_go_on_meanwhile(start_server: StartServer, cloud: Cloud) -> None:
    # without the address of its controls, which no real cloud has
    server = start_server(**cloud.variables)
    server.tpu("POST", "nodes", {**NEW_NODE, "node_id": "own"})
    spec = node_when_ready(server)["kernelspec"]
    kernel = server.request("POST", "api/kernels", {"name": spec}).json["id"]

    server.tpu("POST", "trial")
    assert server.tpu("GET", "nodes").json["nodes"] == []
    assert server.request("GET", f"api/kernels/{kernel}").status == 200
    assert spec in kernelspecs(server)
    server.tpu("PUT", "budgets/mine", {"amount": 1, "unit": "usd", "period": "week", "action": "warn"})
    server.tpu("DELETE", "trial")

    assert server.request("GET", f"api/kernels/{kernel}").status == 200
    assert [node["node_id"] for node in server.tpu("GET", "nodes").json["nodes"]] == ["own"]
    assert server.tpu("GET", "spend").json["budgets"] == []
    server.request("DELETE", f"api/kernels/{kernel}")
    server.tpu("DELETE", "nodes/us-central1-a/own")


def test_a_refused_action_changes_nothing(start_server: StartServer) -> None:
    server = start_server(**NO_CLOUD)

    refused = server.tpu("POST", "setup/use_credentials", {"path": "/nowhere.json"})
    assert (refused.status, refused.json["reason"]) == (400, "bad_input")
    assert server.tpu("POST", "setup/use_credentials", {"secret": "x"}).status == 400
    assert server.tpu("POST", "setup/anything", {}).status == 400
    assert not (server.folder / "tpu" / "setup.json").exists()

    file = server.folder / "mine.json"
    file.write_text(
        json.dumps({"type": "authorized_user", "client_id": "a", "client_secret": "b", "refresh_token": "c"})
    )
    done = server.tpu("POST", "setup/use_credentials", {"path": str(file)}).json
    assert done["steps"][0]["key"] == "credentials"
    assert str(file) in (server.folder / "tpu" / "setup.json").read_text()
