"""The switchboard's routes pass on to the emulated cloud what is listed, and exist nowhere else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jupyter_tpu.cloud.emulator_address import ADDRESS_VARIABLE, TOKEN_FILE_VARIABLE, emulator_address
from jupyter_tpu.cloud.settings import CloudSettings
from jupyter_tpu.server.emulator_client import ALLOWED

if TYPE_CHECKING:
    from conftest import Cloud, Server, StartServer

NODE = {
    "node_id": "my-node",
    "zone": "us-central1-a",
    "accelerator_type": "v5litepod-8",
    "runtime_version": "v2-alpha-tpuv5-lite",
}
NAME = "projects/demo-project/locations/us-central1-a/nodes/my-node"
EMULATED = CloudSettings(project="demo-project", endpoint="127.0.0.1:8471")
REAL = CloudSettings(project="some-project")
PASSED_ON = [(verb, part) for verb, parts in ALLOWED.items() for part in sorted(parts)]


@pytest.fixture(scope="module")
def board(cloud: Cloud, start_lasting_server: StartServer) -> Server:
    """A server that knows where the control API of its cloud is, as that of the demo does."""
    return start_lasting_server(**cloud.variables, **{ADDRESS_VARIABLE: cloud.rest})


def test_the_status_says_that_there_is_a_switchboard(board: Server) -> None:
    assert board.tpu("GET", "status").json["switchboard"] is True


def test_the_clock_is_set(board: Server, cloud: Cloud) -> None:
    before = cloud.control.now()

    answer = board.tpu("POST", "emulator/clock", {"advance_s": 86_400})

    assert answer.status == 200
    assert answer.json["now"] >= before + 86_400
    assert cloud.control.now() >= before + 86_400


def test_a_fault_that_is_asked_for_hits_the_next_call(board: Server, cloud: Cloud) -> None:
    board.tpu("POST", "emulator/faults", {"method": "CreateNode", "kind": "quota"})
    assert [fault["kind"] for fault in cloud.control.faults()] == ["quota"]

    assert board.tpu("DELETE", "emulator/faults").status == 200
    assert cloud.control.faults() == []


def test_a_quota_has_the_name_that_the_panel_shows(board: Server) -> None:
    limited = {"quota_id": "TPUV5sPreemptibleLitepodPerProjectPerZoneForTPUAPI", "zone": NODE["zone"], "limit": 4}
    board.tpu("POST", "emulator/quotas", limited)

    [quota] = board.tpu("GET", "emulator/state").json["quotas"]

    assert (quota["label"], quota["quota_id"]) == ("v5e, more than 8 chips, spot", limited["quota_id"])
    assert (quota["templates"]["label"], quota["arguments"]["generation"]) == ("{generation}{sizes}, spot", "v5e")
    board.tpu("POST", "emulator/quotas", {**limited, "limit": None})


async def test_a_node_that_is_taken_back_is_listed_so_at_once(board: Server) -> None:
    def becomes(state: str) -> bool:
        return [node["state"] for node in board.tpu("GET", "nodes").json["nodes"]] == [state]

    async with board.events() as events:
        board.tpu("POST", "nodes", NODE)
        await events.until_true(lambda: becomes("READY"))

        assert board.tpu("POST", "emulator/preempt", {"node": NAME}).status == 200

        await events.until_true(lambda: becomes("PREEMPTED"))
    board.tpu("POST", "emulator/reset", {})


@pytest.mark.nightly
def test_a_token_that_cannot_be_read_is_told_where_it_is_needed_and_nowhere_else(
    cloud: Cloud, start_server: StartServer, tmp_path: Path
) -> None:
    variables = {ADDRESS_VARIABLE: cloud.rest, TOKEN_FILE_VARIABLE: str(tmp_path / "nowhere")}
    server = start_server(**cloud.variables, **variables)

    assert server.tpu("GET", "status").json["switchboard"] is True
    answer = server.tpu("GET", "emulator/state")
    assert (answer.status, answer.json["reason"]) == (401, "credentials_missing")
    assert "nowhere" in answer.json["message"]


def test_the_words_of_a_refusal_come_through(board: Server) -> None:
    missing = board.tpu("POST", "emulator/preempt", {"node": "nowhere"})
    assert (missing.status, missing.json["reason"]) == (404, "node_not_found")
    assert "nowhere" in missing.json["message"]

    wrong = board.tpu("POST", "emulator/clock", {"scale": "fast"})
    assert (wrong.status, wrong.json["reason"]) == (400, "bad_input")
    assert "fast" in wrong.json["message"]
    assert "Traceback" not in board.log()


@pytest.mark.parametrize("body", [None, [], "text", {"a": "b" * 20_000}])
def test_a_body_that_is_no_small_object_is_not_passed_on(board: Server, body: object) -> None:
    answer = board.tpu("POST", "emulator/clock", body)

    assert (answer.status, answer.json["reason"]) == (400, "bad_input")


@pytest.mark.parametrize(
    ("verb", "part", "status"),
    [
        ("GET", "workers", 405),  # it tells the token of a worker's processes
        ("GET", "info", 404),
        ("GET", "state/../workers", 404),
        ("GET", "clock", 405),
        ("POST", "state", 405),
        ("DELETE", "state", 405),
        ("DELETE", "faults?id=x", 400),
    ],
)
def test_nothing_else_is_passed_on(board: Server, verb: str, part: str, status: int) -> None:
    assert board.tpu(verb, f"emulator/{part}", {} if verb == "POST" else None).status == status


@pytest.mark.parametrize(("verb", "part"), PASSED_ON)
@pytest.mark.parametrize("token", ["", "wrong"])
def test_every_switch_is_closed_without_the_token(board: Server, verb: str, part: str, token: str) -> None:
    assert board.tpu(verb, f"emulator/{part}", token=token).status == 403


def test_a_page_of_another_site_turns_no_switch(board: Server, cloud: Cloud) -> None:
    before = cloud.control.now()
    headers = {"Origin": "https://evil.example"}

    answer = board.tpu("POST", "emulator/clock", {"advance_s": 10**9 - 1}, token="", headers=headers)

    assert answer.status in (403, 404)
    assert cloud.control.now() < before + 10**6


@pytest.mark.nightly
def test_a_cloud_that_has_ended_is_named(start_server: StartServer) -> None:
    nowhere = {"JUPYTER_TPU_ENDPOINT": "127.0.0.1:9", "JUPYTER_TPU_PROJECT": "demo-project"}
    server = start_server(**nowhere, **{ADDRESS_VARIABLE: "http://127.0.0.1:9"})

    answer = server.tpu("GET", "emulator/state")

    assert (answer.status, answer.json["reason"]) == (503, "cloud_unavailable")
    assert "is not responding" in answer.json["message"]


@pytest.mark.parametrize(("verb", "part"), PASSED_ON)
def test_without_an_address_there_is_no_switchboard(server: Server, verb: str, part: str) -> None:
    assert server.tpu(verb, f"emulator/{part}", {} if verb == "POST" else None).status == 404
    assert server.tpu("GET", "status").json["switchboard"] is False


@pytest.mark.parametrize(
    ("settings", "address", "used"),
    [
        (EMULATED, "http://127.0.0.1:8470", "http://127.0.0.1:8470"),
        (EMULATED, " http://127.0.0.1:8470/ ", "http://127.0.0.1:8470"),
        (EMULATED, "http://[::1]:8470", "http://[::1]:8470"),
        (EMULATED, "", ""),
        (REAL, "http://127.0.0.1:8470", ""),
        (EMULATED, "http://10.0.0.1:8470", ""),
        (EMULATED, "http://metadata.google.internal:80", ""),
        (EMULATED, "https://127.0.0.1:8470", ""),
        (EMULATED, "http://127.0.0.1:8470/elsewhere", ""),
        (EMULATED, "http://127.0.0.1:8470?x", ""),
        (EMULATED, "http://user@127.0.0.1:8470", ""),
        (EMULATED, "http://127.0.0.1", ""),
        (EMULATED, "http://127.0.0.1:port", ""),
        (EMULATED, "http://[", ""),
    ],
)
def test_only_an_emulator_on_this_machine_is_used(settings: CloudSettings, address: str, used: str) -> None:
    assert emulator_address(settings, {ADDRESS_VARIABLE: address}) == used
