"""`jupyter tpu quota`, `sweep` and `panic` as typed in a terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import urllib.request
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conftest import Terminal

ZONE = "us-central1-a"
SERVING = "TPUV5sLitepodServingPerProjectPerZoneForTPUAPI"
HOSTILE = "\u001b]52;c;eA==\u0007<b>line\nbreak\u202e"
SPOT = {"schedulingConfig": {"spot": True}}


@pytest.fixture(autouse=True)
def empty(terminal: Terminal) -> Iterator[None]:
    """Each test begins and ends with an empty cloud, whose REST address the terminal knows."""
    terminal.environment["JUPYTER_TPU_EMULATOR"] = terminal.rest
    yield
    terminal.cloud.reset()


def create_elsewhere(terminal: Terminal, node_id: str, **fields: Any) -> str:
    """Somebody makes a node with another tool, and it is READY."""
    parent = f"projects/{terminal.environment['JUPYTER_TPU_PROJECT']}/locations/{ZONE}"
    body = {"acceleratorType": "v5litepod-8", "runtimeVersion": "v2-alpha-tpuv5-lite", **fields}
    request = urllib.request.Request(
        f"{terminal.rest}/v2/{parent}/nodes?nodeId={node_id}",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
        method="POST",
    )
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60):
        pass
    terminal.cloud.advance(3600)
    return f"{parent}/nodes/{node_id}"


def stop_elsewhere(terminal: Terminal, node_id: str) -> None:
    parent = f"projects/{terminal.environment['JUPYTER_TPU_PROJECT']}/locations/{ZONE}"
    url = f"{terminal.rest}/v2/{parent}/nodes/{node_id}:stop"
    request = urllib.request.Request(url, b"{}", {"Content-Type": "application/json"}, method="POST")
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60):
        pass
    terminal.cloud.advance(3600)


def states(terminal: Terminal) -> dict[str, str]:
    return {node["name"].rpartition("/")[2]: node["state"] for node in terminal.cloud.state()["nodes"]}


def answered(terminal: Terminal, answer: bytes, *argv: str) -> subprocess.CompletedProcess[str]:
    """A command whose question a person at a terminal answers."""
    person, stdin = pty.openpty()
    try:
        os.write(person, answer)
        return subprocess.run(
            terminal.command(*argv), stdin=stdin, capture_output=True, text=True, env=terminal.environment, timeout=100
        )
    finally:
        os.close(person)
        os.close(stdin)


def test_quota_says_what_is_used_by_what(terminal: Terminal) -> None:
    terminal.cloud.set_project(quota_profile="new_project")
    terminal.cloud.set_quota(SERVING, ZONE, 16)
    create_elsewhere(terminal, "theirs")
    terminal.cloud.set_quota("TPUV5sPreemptibleLitepodServingPerProjectPerZoneForTPUAPI", ZONE, 8)
    terminal.cloud.preempt(create_elsewhere(terminal, "husk", **SPOT))

    shown = terminal.tpu("quota", "--zone", ZONE)

    assert shown.returncode == 0, shown.stderr
    header, *rows = shown.stdout.splitlines()
    assert header.split()[:3] == ["QUOTA", "WHERE", "LIMIT"]
    on_demand = next(row for row in rows if "on demand" in row and ZONE in row)
    assert on_demand.split()[-5:] == ["8", "8", "chips", "theirs", "8"]
    assert any(row.endswith("husk 8 (PREEMPTED husk)") for row in rows)
    assert "jupyter tpu sweep" in shown.stderr
    assert "as of" in shown.stderr

    in_json = terminal.tpu_json("quota", "--all")
    row = next(row for row in in_json["limits"] if (row["quota_id"], row["location"]) == (SERVING, ZONE))
    assert (row["limit"], row["used"], row["free"], row["unit"]) == (16, 8, 8, "chips")
    assert any(row["limit"] == 0 and not row["users"] for row in in_json["limits"])


def test_quota_without_its_limits_shows_the_use_and_says_why(terminal: Terminal) -> None:
    terminal.cloud.set_project(denied_permissions=["cloudquotas.quotas.get", "serviceusage.quotas.get"])

    nothing = terminal.tpu("quota", "--json")
    create_elsewhere(terminal, "theirs")
    shown = terminal.tpu("quota")

    assert (nothing.returncode, json.loads(nothing.stdout)["error"]["code"]) == (1, "permission_denied")
    assert (shown.returncode, "unknown" in shown.stdout) == (0, True)
    assert "roles/cloudquotas.viewer" in shown.stderr


def test_a_refusal_by_quota_names_the_commands_that_help(terminal: Terminal) -> None:
    terminal.cloud.set_quota(SERVING, ZONE, 8)
    create_elsewhere(terminal, "theirs")

    refused = terminal.tpu("create", "mine", "--type", "v5litepod-8", "--zone", ZONE)

    assert refused.returncode == 1
    assert "jupyter tpu quota" in refused.stderr
    assert "jupyter tpu sweep" in refused.stderr


def test_sweep_shows_all_and_deletes_what_is_named(terminal: Terminal) -> None:
    create_elsewhere(terminal, "kept", description=HOSTILE)
    create_elsewhere(terminal, "swept")

    shown = terminal.tpu("sweep")
    assert shown.returncode == 0, shown.stderr
    rows = {row.split()[0]: row for row in shown.stdout.splitlines()[1:]}
    assert set(rows) == {"kept", "swept"}
    assert "$9.60/h" in rows["kept"]
    assert rows["kept"].endswith("others")
    assert not set(shown.stdout + shown.stderr) & set("\x1b\x07\u202e")

    assert "was not confirmed" in terminal.tpu("sweep", "--delete", "swept").stderr
    assert "Nothing in the project is named 'all'" in terminal.tpu("sweep", "--delete", "all", "--yes").stderr
    assert states(terminal) == {"kept": "READY", "swept": "READY"}

    done = terminal.tpu("sweep", "--delete", "swept", "--yes")
    assert (done.returncode, done.stdout.startswith("deleted")) == (0, True), done.stderr
    assert states(terminal) == {"kept": "READY"}


def test_sweep_deletes_husks_and_leaves_what_is_stopped(terminal: Terminal) -> None:
    terminal.cloud.preempt(create_elsewhere(terminal, "husk", **SPOT))
    create_elsewhere(terminal, "resting")
    terminal.cloud.preempt(create_elsewhere(terminal, "second", **SPOT))
    stop_elsewhere(terminal, "resting")

    results = terminal.tpu_json("sweep", "--delete-husks", "--yes")["results"]

    assert [(result["name"].rpartition("/")[2], result["ok"]) for result in results] == [
        ("husk", True),
        ("second", True),
    ]
    assert states(terminal) == {"resting": "STOPPED"}
    assert "Nothing was to be deleted" in terminal.tpu("sweep", "--delete-husks", "--yes").stderr


def test_sweep_of_husks_refuses_a_list_that_is_not_complete(terminal: Terminal) -> None:
    terminal.cloud.preempt(create_elsewhere(terminal, "husk", **SPOT))
    terminal.cloud.add_fault("ListQueuedResources", "error", code=13, message="broken", times=2)

    shown = terminal.tpu("sweep")
    refused = terminal.tpu("sweep", "--delete-husks", "--yes")

    assert "The list is not complete" in shown.stderr
    assert (refused.returncode, "not complete" in refused.stderr) == (1, True)
    assert states(terminal) == {"husk": "PREEMPTED"}


def test_panic_asks_first_and_then_stops_everything(terminal: Terminal) -> None:
    create_elsewhere(terminal, "single")
    create_elsewhere(terminal, "spot", **SPOT)

    assert "It was not confirmed" in terminal.tpu("panic").stderr
    refused = answered(terminal, b"n\n", "panic")
    assert refused.returncode == 1
    assert "stop projects/" in refused.stderr
    assert len(terminal.cloud.billing()) == 2

    done = answered(terminal, b"y\n", "panic")
    assert done.returncode == 0, done.stderr
    assert sorted(line.split()[0] for line in done.stdout.splitlines()) == ["deleted", "stopped"]
    assert terminal.cloud.billing() == []
    assert states(terminal) == {"single": "STOPPED"}
    assert terminal.tpu_json("panic", "--yes") == {"results": []}


def test_panic_says_which_node_goes_on_costing(terminal: Terminal) -> None:
    held = create_elsewhere(terminal, "held", **SPOT)
    create_elsewhere(terminal, "spot", **SPOT)
    terminal.cloud.add_fault("DeleteNode", "permission_denied", target=held)

    done = terminal.tpu("panic", "--yes")

    assert done.returncode == 1
    assert sorted(line.split()[0] for line in done.stdout.splitlines()) == ["deleted", "failed"]
    assert "TPU Admin" in done.stderr
    assert terminal.cloud.billing() == [held]
