"""`jupyter tpu search` and `jupyter tpu queue` on an emulated cloud, as typed in a terminal."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from jupyter_tpu.cli.command_line import run

if TYPE_CHECKING:
    from terminal import Terminal

ZONE, ELSEWHERE = "us-central1-a", "us-west4-a"
HERE = ("--type", "v5litepod-8", "--zone", ZONE)
WANTED = ("--types", "v5litepod-8", "--zones", f"{ZONE},{ELSEWHERE}")


@dataclass(frozen=True)
class Ended:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def tpu(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Ended]:
    """The same commands in the terminal's folders, without a process each."""
    for name, value in terminal.environment.items():
        monkeypatch.setenv(name, value)

    def tpu(*arguments: str) -> Ended:
        code = run(arguments)
        return Ended(code, *capsys.readouterr())

    return tpu


@pytest.fixture(autouse=True)
def empty_cloud(terminal: Terminal) -> Iterator[None]:
    yield
    terminal.cloud.reset()


def test_a_search_shows_each_try_and_ends_with_a_node(terminal: Terminal, tpu: Callable[..., Ended]) -> None:
    terminal.cloud.set_capacity(ZONE, "v5e", 0)
    searched = terminal.tpu("search", "my-node", *WANTED)
    assert searched.returncode == 0, searched.stderr
    assert searched.stdout.strip() == "my-node in us-west4-a is READY and costs $9.60/h until it is stopped or deleted."
    said = searched.stderr
    assert f"Trying v5litepod-8 in {ZONE} ($9.60/h) …" in said
    assert 'no capacity. Message from the cloud: There is no more capacity in the zone "us-central1-a"' in said
    assert f"v5litepod-8 in {ELSEWHERE} ($9.60/h): READY." in said
    (node,) = json.loads(tpu("list", "--json").stdout)["nodes"]
    assert (node["zone"], node["kernelspec"]) == (ELSEWHERE, f"tpu-my-node-{ELSEWHERE}")

    (listed,) = json.loads(tpu("search", "--json").stdout)["searches"]
    assert (listed["phase"], [each["outcome"] for each in listed["tries"]]) == ("found", ["stockout", "won"])
    assert "my-node  found" in tpu("search").stdout


def test_a_search_in_vain_says_what_to_do(terminal: Terminal, tpu: Callable[..., Ended]) -> None:
    terminal.cloud.set_capacity(ZONE, "v5e", 0)
    terminal.cloud.add_fault("CreateNode", "quota", target=ELSEWHERE)
    searched = tpu("search", "in-vain", *WANTED)
    assert (searched.returncode, searched.stdout) == (1, "")
    assert "no capacity" in searched.stderr
    assert "quota used up" in searched.stderr
    assert "jupyter tpu queue add" in searched.stderr
    assert terminal.cloud.billing() == []


def test_to_delete_a_node_that_may_still_come_its_request_is_cancelled(
    terminal: Terminal, tpu: Callable[..., Ended]
) -> None:
    terminal.cloud.pause()
    tpu("queue", "add", "queued", *HERE)
    refused = tpu("delete", "queued", "--yes")
    assert (refused.returncode, f"`jupyter tpu queue remove queued --zone {ZONE}`" in refused.stderr) == (1, True)
    terminal.cloud.reset()

    terminal.cloud.set_capacity(ZONE, "v5e", 0)
    with terminal.start("search", "sought", "--types", "v5litepod-8", "--zones", ZONE, "--for", "1h") as it:
        assert it.stderr is not None
        while "no capacity" not in (line := it.stderr.readline()):
            assert line, "the search ended"
        searches = json.loads(tpu("search", "--json").stdout)["searches"]
        refused = tpu("delete", "sought", "--yes")
        it.send_signal(signal.SIGINT)
        it.communicate(timeout=100)
    (sought,) = [each["search_id"] for each in searches if each["node_id"] == "sought"]
    cancel = f"`jupyter tpu search --cancel {sought}`"
    assert (refused.returncode, cancel in refused.stderr) == (1, True), refused.stderr


def test_the_removal_of_what_is_not_queued_says_that(terminal: Terminal) -> None:
    refused = terminal.tpu_json("queue", "remove", "nosuch")["error"]
    assert (refused["code"], refused["exists"]) == ("queued_resource_not_found", "Nothing was removed.")
    assert refused["message"] == "There is no queued resource nosuch."


def test_a_search_as_json_is_one_document_also_in_vain(terminal: Terminal, tpu: Callable[..., Ended]) -> None:
    terminal.cloud.add_fault("CreateNode", "not_allowlisted", times=2)
    searched = tpu("search", "json", *WANTED, "--json")
    view = json.loads(searched.stdout)
    assert (searched.returncode, view["phase"], view["node_name"]) == (1, "failed", None)
    assert [each["outcome"] for each in view["tries"]] == ["not_allowed", "not_allowed"]
    assert "does not have permission" in view["tries"][0]["raw"]


def test_a_search_that_is_interrupted_undoes_what_it_began(terminal: Terminal) -> None:
    terminal.cloud.set_time_scale(0.1)  # the node stays CREATING
    with terminal.start("search", "stopped", *WANTED) as searching:
        assert searching.stderr is not None
        assert "Trying" in searching.stderr.readline()
        searching.send_signal(signal.SIGINT)
        terminal.cloud.set_time_scale(200)
        _, said = searching.communicate(timeout=100)
    assert searching.returncode == 130, said
    assert "The search was cancelled and left no resources behind." in said
    assert terminal.cloud.state()["nodes"] == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("search", "x"), "requires --types"),
        (("search", "x"), "v6e-1"),
        (("create", "x"), "requires --type"),
        (("create", "x"), "v6e-1"),
        (("search", "x", "--types", "v5litepod-7"), "v5litepod-8"),
        (("search", "Bad_Name", *WANTED), "not a valid node name"),
        (("search", "x", *WANTED, "--for", "soon"), "is not a duration"),
        (("search", *WANTED), "requires a name"),
        (("queue", "add", "x"), "requires --zone and --type"),
        (("queue", "add", "x"), "v6e-1"),
        (("queue", "add"), "requires a name"),
        (("queue", "add", "x", *HERE, "--valid-for", "6"), "is not a duration"),
        (("search", "x", *WANTED, "--provisioning", "cheap"), "is not a provisioning model"),
        (("search", "x", *WANTED, "--provisioning", "reserved", "--spot"), "contradict each other"),
        (("search", "x", *WANTED, "--provisioning", "flex-start"), "jupyter tpu queue add"),
        (("create", "x", *HERE, "--provisioning", "flex-start"), "jupyter tpu queue add"),
        (("create", "x", *HERE, "--provisioning", "preemptible", "--spot"), "contradict each other"),
        (("queue", "add", "x", *HERE, "--provisioning", "flex-start"), "Add --run-for TIME"),
        (
            ("queue", "add", "x", *HERE, "--provisioning", "preemptible", "--run-for", "4h"),
            "--run-for applies to flex-start",
        ),
        (
            ("queue", "add", "x", *HERE, "--provisioning", "on-demand", "--run-for", "4h"),
            "--run-for applies to flex-start",
        ),
        (("queue", "add", "x", *HERE, "--spot", "--run-for", "4h"), "--run-for applies to flex-start"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anybody_is_asked(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 1
    assert words in capsys.readouterr().err


def test_a_node_is_queued_listed_and_removed(terminal: Terminal, tpu: Callable[..., Ended]) -> None:
    terminal.cloud.pause()
    added = tpu("queue", "add", "waiting", "--zone", ZONE, "--type", "v5litepod-8", "--valid-for", "1h")
    assert added.returncode == 0, added.stderr
    assert "waiting is CREATING in us-central1-a, until " in added.stdout
    assert "$9.60/h once it is READY" in added.stderr

    (queued,) = json.loads(tpu("queue", "--json").stdout)["items"]
    assert (queued["queued_id"], queued["node_ids"], queued["holds_quota"]) == ("waiting", ["waiting"], True)
    terminal.cloud.set_capacity(ZONE, "v5e", 0)
    terminal.cloud.advance(4000)
    table = tpu("queue").stdout
    assert "FAILED" in table
    assert (
        "uses quota until it is removed. waiting timed out: no capacity in us-central1-a before its deadline." in table
    )

    removed = tpu("queue", "remove", "waiting")
    assert removed.stdout.strip() == "waiting in us-central1-a is being deleted."
    terminal.cloud.advance(60)
    assert json.loads(tpu("queue", "--json").stdout)["items"] == []


def test_a_queued_node_that_is_there_is_not_removed_without_a_yes(
    terminal: Terminal, tpu: Callable[..., Ended]
) -> None:
    terminal.cloud.pause()
    tpu("queue", "add", "there", "--zone", ZONE, "--type", "v5litepod-8")
    terminal.cloud.advance(300)
    refused = tpu("queue", "remove", "there")
    assert refused.returncode == 1
    assert "was not confirmed" in refused.stderr
    assert json.loads(tpu("queue", "remove", "there", "--yes", "--json").stdout)["state"] == "DELETING"
    terminal.cloud.advance(300)
    assert terminal.cloud.billing() == []


def test_a_reserved_node_is_queued_once_its_unknown_price_is_accepted(
    terminal: Terminal, tpu: Callable[..., Ended]
) -> None:
    terminal.cloud.pause()
    terminal.cloud.reserve("ours", ZONE, "v5e", 8)
    wanted = ("queue", "add", "booked", *HERE, "--provisioning", "reserved", "--reservation", "ours")
    assert "There is no list price for a reserved v5litepod-8" in tpu(*wanted).stderr
    added = tpu(*wanted, "--yes")
    assert added.returncode == 0, added.stderr
    assert "billed with its reservation, price unknown once it is READY" in added.stderr
    terminal.cloud.advance(3600)
    (queued,) = json.loads(tpu("queue", "--json").stdout)["items"]
    assert (queued["provisioning"], queued["state"]) == ("reserved", "ACTIVE")


def test_a_search_for_preemptible_nodes_says_what_they_cost(terminal: Terminal) -> None:
    searched = terminal.tpu(
        "search", "cheap", "--types", "v5litepod-8", "--zones", ZONE, "--provisioning", "preemptible"
    )
    assert searched.returncode == 0, searched.stderr
    assert (
        searched.stdout.strip() == "cheap in us-central1-a is READY and costs $4.80/h until it is stopped or deleted."
    )
    assert f"v5litepod-8 in {ZONE} (preemptible, $4.80/h): READY." in searched.stderr
    (node,) = terminal.tpu_json("list")["nodes"]
    assert node["provisioning"] == "preemptible"
