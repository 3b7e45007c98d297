"""`jupyter tpu quota`, `cleanup` and `stop --all` as typed in a terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from tiers import NIGHTLY

if TYPE_CHECKING:
    from emulator import Elsewhere
    from terminal import Terminal

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


def states(terminal: Terminal) -> dict[str, str]:
    return {node["name"].rpartition("/")[2]: node["state"] for node in terminal.cloud.state()["nodes"]}


def answered(terminal: Terminal, answer: bytes, *argv: str) -> subprocess.CompletedProcess[str]:
    """A command whose question a person at a terminal answers."""
    person, stdin = pty.openpty()
    try:
        os.write(person, answer)
        return subprocess.run(
            terminal.command(*argv), stdin=stdin, capture_output=True, text=True, env=terminal.environment, timeout=240
        )
    finally:
        os.close(person)
        os.close(stdin)


def test_quota_says_what_is_used_by_what(terminal: Terminal, elsewhere: Elsewhere) -> None:
    terminal.cloud.set_project(quota_profile="new_project")
    terminal.cloud.set_quota(SERVING, ZONE, 16)
    elsewhere.create("theirs")
    terminal.cloud.set_quota("TPUV5sPreemptibleLitepodServingPerProjectPerZoneForTPUAPI", ZONE, 8)
    terminal.cloud.preempt(elsewhere.create("preempted", **SPOT))

    shown = terminal.tpu("quota", "--zone", ZONE)

    assert shown.returncode == 0, shown.stderr
    header, *rows = shown.stdout.splitlines()
    assert header.split()[:3] == ["QUOTA", "WHERE", "LIMIT"]
    on_demand = next(row for row in rows if "on-demand" in row and ZONE in row)
    assert on_demand.split()[-5:] == ["8", "8", "chips", "theirs", "8"]
    assert any(row.endswith("preempted 8 (PREEMPTED leftover)") for row in rows)
    assert "jupyter tpu cleanup" in shown.stderr
    assert "as of" in shown.stderr

    in_json = terminal.tpu_json("quota", "--all")
    row = next(row for row in in_json["limits"] if (row["quota_id"], row["location"]) == (SERVING, ZONE))
    assert (row["limit"], row["used"], row["free"], row["unit"]) == (16, 8, 8, "chips")
    assert any(row["limit"] == 0 and not row["users"] for row in in_json["limits"])


def test_quota_shows_what_is_in_use_and_the_zones_that_are_used(terminal: Terminal) -> None:
    terminal.cloud.set_quota("TPUV4sPodPerProjectPerZoneForTPUAPI", "us-central2-b", 64)

    shown, everything = terminal.tpu("quota"), terminal.tpu("quota", "--all")

    _, *rows = shown.stdout.splitlines()
    assert rows
    assert all(" us-central1 " in row or " us-central1-a " in row for row in rows)
    left_out = len(everything.stdout.splitlines()) - len(shown.stdout.splitlines())
    assert left_out > 0
    assert shown.stderr.splitlines()[-1].startswith(f"{left_out} limits are hidden. Use `--zone ZONE`")
    assert "hidden" not in everything.stderr
    assert "us-central2-b" in terminal.tpu("quota", "--zone", "us-central2-b").stdout
    nowhere = terminal.tpu("quota", "--zone", "mars-north1-a")
    assert (nowhere.returncode, nowhere.stdout) == (1, "")
    assert "The project has no TPU quota for mars-north1-a." in nowhere.stderr
    assert len(terminal.tpu_json("quota")["limits"]) == len(everything.stdout.splitlines()) - 1


def test_quota_without_its_limits_shows_the_use_and_says_why(terminal: Terminal, elsewhere: Elsewhere) -> None:
    terminal.cloud.set_project(denied_permissions=["cloudquotas.quotas.get", "serviceusage.quotas.get"])

    nothing = terminal.tpu("quota", "--json")
    elsewhere.create("theirs")
    shown = terminal.tpu("quota")

    assert (nothing.returncode, json.loads(nothing.stdout)["error"]["code"]) == (1, "permission_denied")
    assert (shown.returncode, "unknown" in shown.stdout) == (0, True)
    assert "roles/cloudquotas.viewer" in shown.stderr


def test_a_refusal_by_quota_names_the_commands_that_help(terminal: Terminal, elsewhere: Elsewhere) -> None:
    terminal.cloud.set_quota(SERVING, ZONE, 8)
    elsewhere.create("theirs")

    refused = terminal.tpu("create", "mine", "--type", "v5litepod-8", "--zone", ZONE)

    assert refused.returncode == 1
    assert "jupyter tpu quota" in refused.stderr
    assert "jupyter tpu cleanup" in refused.stderr


def test_cleanup_shows_all_and_deletes_what_is_named(terminal: Terminal, elsewhere: Elsewhere) -> None:
    elsewhere.create("kept", description=HOSTILE)
    elsewhere.create("swept")

    shown = terminal.tpu("cleanup")
    assert shown.returncode == 0, shown.stderr
    rows = {row.split()[0]: row for row in shown.stdout.splitlines()[1:]}
    assert set(rows) == {"kept", "swept"}
    assert "$9.60/h" in rows["kept"]
    assert rows["kept"].endswith("others")
    assert not set(shown.stdout + shown.stderr) & set("\x1b\x07\u202e")

    assert "was not confirmed" in terminal.tpu("cleanup", "--delete", "swept").stderr
    assert "Nothing in the project is named 'all'" in terminal.tpu("cleanup", "--delete", "all", "--yes").stderr
    assert states(terminal) == {"kept": "READY", "swept": "READY"}

    done = terminal.tpu("cleanup", "--delete", "swept", "--yes")
    assert (done.returncode, done.stdout.startswith("deleted")) == (0, True), done.stderr
    assert states(terminal) == {"kept": "READY"}


def test_cleanup_deletes_leftovers_and_leaves_what_is_stopped(terminal: Terminal, elsewhere: Elsewhere) -> None:
    terminal.cloud.preempt(elsewhere.create("preempted", **SPOT))
    elsewhere.create("resting")
    terminal.cloud.preempt(elsewhere.create("second", **SPOT))
    elsewhere.stop("resting")

    rows = {row.split()[0]: row for row in terminal.tpu("cleanup").stdout.splitlines()[1:]}
    assert {name: "leftover" in row for name, row in rows.items()} == {
        "preempted": True,
        "second": True,
        "resting": False,
    }
    asked = terminal.tpu("cleanup", "--delete", "resting").stderr
    assert "STOPPED not billed: deleted with its disk; to keep the disk, leave the node stopped" in asked
    assert "leftover" not in terminal.tpu("quota").stdout.partition("resting")[2].partition("\n")[0]

    results = terminal.tpu_json("cleanup", "--delete-leftovers", "--yes")["results"]

    assert [(result["name"].rpartition("/")[2], result["ok"]) for result in results] == [
        ("preempted", True),
        ("second", True),
    ]
    assert states(terminal) == {"resting": "STOPPED"}
    assert "There was nothing to delete" in terminal.tpu("cleanup", "--delete-leftovers", "--yes").stderr


def test_cleanup_of_leftovers_refuses_a_list_that_is_not_complete(terminal: Terminal, elsewhere: Elsewhere) -> None:
    terminal.cloud.preempt(elsewhere.create("preempted", **SPOT))
    terminal.cloud.add_fault("ListQueuedResources", "error", code=13, message="broken", times=2)

    shown = terminal.tpu("cleanup")
    refused = terminal.tpu("cleanup", "--delete-leftovers", "--yes")

    assert "The list is incomplete" in shown.stderr
    assert (refused.returncode, "is incomplete" in refused.stderr) == (1, True)
    assert states(terminal) == {"preempted": "PREEMPTED"}


def test_stop_all_asks_first_and_then_stops_everything(terminal: Terminal, elsewhere: Elsewhere) -> None:
    elsewhere.create("single")
    elsewhere.create("spot", **SPOT)

    assert "Stopping everything was not confirmed" in terminal.tpu("stop", "--all").stderr
    refused = answered(terminal, b"n\n", "stop", "--all")
    assert refused.returncode == 1
    assert "stop node single (us-central1-a)" in refused.stderr
    assert len(terminal.cloud.billing()) == 2

    done = answered(terminal, b"y\n", "stop", "--all")
    assert done.returncode == 0, done.stderr
    assert sorted(line.split()[0] for line in done.stdout.splitlines()) == ["deleted", "stopped"]
    assert terminal.cloud.billing() == []
    assert states(terminal) == {"single": "STOPPED"}
    assert terminal.tpu_json("stop", "--all", "--yes") == {"results": []}
    assert "The disks of single are still billed." in terminal.tpu("stop", "--all", "--yes").stderr


def test_stop_all_says_which_node_goes_on_costing(terminal: Terminal, elsewhere: Elsewhere) -> None:
    held = elsewhere.create("held", **SPOT)
    elsewhere.create("spot", **SPOT)
    terminal.cloud.add_fault("DeleteNode", "permission_denied", target=held)

    done = terminal.tpu("stop", "--all", "--yes")

    assert done.returncode == 1
    assert sorted(line.split()[0] for line in done.stdout.splitlines()) == ["deleted", "failed"]
    assert "TPU Admin" in done.stderr
    assert terminal.cloud.billing() == [held]


@pytest.mark.parametrize("kind", [(), pytest.param(("--spot",), marks=NIGHTLY)])
def test_a_stop_of_everything_is_not_fobbed_off_with_a_deletion_that_the_cloud_never_began(
    terminal: Terminal, kind: tuple[str, ...]
) -> None:
    assert terminal.tpu("create", "forgotten", "--type", "v5litepod-8", "--zone", ZONE, *kind).returncode == 0
    terminal.cloud.add_fault("DeleteNode", "empty")
    with terminal.start("delete", "forgotten", "--zone", ZONE, "--yes") as deleting:
        while terminal.cloud.faults():
            time.sleep(0.1)
        panicked = terminal.tpu("stop", "--all", "--yes")
        assert (panicked.returncode, terminal.cloud.billing()) == (0, []), panicked.stderr
        deleting.communicate(timeout=60)
    assert deleting.returncode == 0
