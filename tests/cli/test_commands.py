"""`jupyter tpu …` on an emulated cloud, as typed in a terminal."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tiers import mostly_nightly

if TYPE_CHECKING:
    from terminal import Terminal

ZONE = "us-central1-a"
HERE = ("--zone", ZONE)
V5E = ("--type", "v5litepod-8", *HERE)
HOSTILE = "\u001b]52;c;eA==\u0007<b>line\nbreak\u202e"


def create_elsewhere(terminal: Terminal, node_id: str, zone: str = ZONE, **fields: str) -> None:
    """Somebody makes a node with another tool."""
    project = terminal.environment["JUPYTER_TPU_PROJECT"]
    url = f"{terminal.rest}/v2/projects/{project}/locations/{zone}/nodes?nodeId={node_id}"
    body = {"acceleratorType": "v5litepod-8", "runtimeVersion": "v2-alpha-tpuv5-lite", **fields}
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, data=json.dumps(body).encode(), headers=headers, method="POST")
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60):
        pass


def test_a_node_lives_from_create_to_delete(terminal: Terminal) -> None:
    created = terminal.tpu("create", "my-node", *V5E)
    assert created.returncode == 0, created.stderr
    assert "READY" in created.stdout
    assert "$9.60/h" in created.stdout
    assert len(created.stderr.splitlines()) > 2  # phases
    assert "the cloud is emulated" in created.stderr

    described = terminal.tpu_json("describe", "my-node")
    assert (described["state"], described["kernelspec"]) == ("READY", f"tpu-my-node-{ZONE}")

    assert described["emulated"] is True
    assert "the cloud is emulated" in terminal.tpu("describe", "my-node").stderr

    listed = terminal.tpu("list")
    assert "the cloud is emulated" in listed.stderr
    assert listed.stdout.splitlines()[1].split()[:4] == ["my-node", ZONE, "v5litepod-8", "READY"]
    assert "1 READY: $9.60/h" in listed.stderr

    assert terminal.tpu("stop", "my-node", "--yes").returncode == 0
    assert terminal.tpu_json("describe", "my-node")["kernelspec"] is None
    assert terminal.tpu("start", "my-node").returncode == 0
    assert terminal.tpu_json("kernelspec")["kernelspecs"][0]["name"] == f"tpu-my-node-{ZONE}"

    deleted = terminal.tpu_json("delete", "my-node", *HERE, "--yes")
    assert (deleted["verb"], deleted["phase"], deleted["error"]) == ("delete", "deleted", None)
    assert terminal.tpu_json("list")["nodes"] == []
    assert terminal.tpu_json("kernelspec")["kernelspecs"] == []
    assert terminal.cloud.billing() == []


@pytest.mark.skipif(shutil.which("ssh") is None, reason="needs the OpenSSH client")
def test_ssh_reaches_the_node_with_its_host_key_pinned(terminal: Terminal) -> None:
    terminal.tpu("create", "door", *V5E)
    try:
        said = terminal.tpu("ssh", "door", "--", "echo", "$TPU_ACCELERATOR_TYPE")
        assert (said.returncode, said.stdout.strip()) == (0, "v5litepod-8"), said.stderr

        (host,) = terminal.tpu_json("ssh-config", "--write")["hosts"]
        config = terminal.home / ".ssh" / "config"
        assert config.read_text().count("Include") == 1
        plain = subprocess.run(
            ["ssh", "-F", str(config), host["alias"], "true"], stdin=subprocess.DEVNULL, capture_output=True, timeout=60
        )
        assert plain.returncode == 0, plain.stderr
        terminal.tpu("ssh-config", "--write")
        assert config.read_text().count("Include") == 1
        assert "StrictHostKeyChecking yes" in terminal.tpu("ssh-config", "door").stdout

        node_name = f"projects/{terminal.environment['JUPYTER_TPU_PROJECT']}/locations/{ZONE}/nodes/door"
        terminal.cloud.change_host_key(node_name)
        refused = terminal.tpu("ssh", "door", "--", "true")
        assert refused.returncode == 255
        assert "HOST IDENTIFICATION HAS CHANGED" in refused.stderr
    finally:
        terminal.tpu("delete", "door", "--yes")


def test_hostile_words_of_the_cloud_do_not_steer_the_terminal(terminal: Terminal) -> None:
    create_elsewhere(terminal, "foreign", description=HOSTILE)
    try:
        shown = terminal.tpu("describe", "foreign")
        assert "]52;c;eA==<b>line break" in shown.stdout
        assert not set(shown.stdout + shown.stderr) & set("\x1b\x07\u202e")
        assert terminal.tpu_json("describe", "foreign")["description"].strip() == "]52;c;eA==<b>line break"
    finally:
        terminal.tpu("delete", "foreign", "--yes")


def test_a_node_made_elsewhere_gets_our_key_only_when_it_is_named(terminal: Terminal) -> None:
    create_elsewhere(terminal, "theirs")
    try:
        terminal.cloud.advance(3600)
        everything = terminal.tpu("ssh-config", "--json")
        assert json.loads(everything.stdout)["hosts"] == []
        assert "skipped: " in everything.stderr

        (host,) = terminal.tpu_json("ssh-config", "theirs")["hosts"]
        assert host["alias"] == f"theirs.{ZONE}.tpu"
        assert terminal.tpu_json("ssh-config")["hosts"] == [host]

        assert terminal.tpu("stop", "theirs", "--yes").returncode == 0
        assert "skipped, not READY: theirs\n" in terminal.tpu("ssh-config").stderr
    finally:
        terminal.tpu("delete", "theirs", "--yes")


def test_a_name_in_two_zones_wants_the_zone(terminal: Terminal) -> None:
    create_elsewhere(terminal, "twin", ZONE)
    create_elsewhere(terminal, "twin", "us-west4-a")
    try:
        refused = terminal.tpu("describe", "twin")
        assert refused.returncode == 1
        assert "us-west4-a" in refused.stderr
        assert "--zone" in refused.stderr
    finally:
        terminal.tpu("delete", "twin", "--yes", *HERE)
        terminal.tpu("delete", "twin", "--yes", "--zone", "us-west4-a")


@pytest.fixture
def two_nodes(terminal: Terminal) -> Iterator[tuple[str, str]]:
    """Two READY nodes of one name, and the kernelspecs' names for them."""
    zones = (ZONE, "us-west4-a")
    for zone in zones:
        create_elsewhere(terminal, "twin", zone)
    terminal.cloud.advance(3600)
    yield (f"tpu-twin-{zones[0]}", f"tpu-twin-{zones[1]}")
    for zone in zones:
        terminal.tpu("delete", "twin", "--yes", "--zone", zone)


def installed(terminal: Terminal) -> list[str]:
    return sorted(path.parent.name for path in terminal.home.glob("jupyter/kernels/tpu-*/kernel.json"))


def test_a_kernelspec_of_one_node_leaves_those_of_others_as_they_are(
    terminal: Terminal, two_nodes: tuple[str, str]
) -> None:
    here, there = two_nodes
    written = terminal.tpu_json("kernelspec", "twin", *HERE)["kernelspecs"]
    assert [spec["name"] for spec in written] == installed(terminal) == [here]

    terminal.tpu("kernelspec")
    assert installed(terminal) == [here, there]


def test_only_the_kernelspec_that_was_named_is_removed(terminal: Terminal, two_nodes: tuple[str, str]) -> None:
    here, there = two_nodes
    specs = {spec["name"]: spec["node_name"] for spec in terminal.tpu_json("kernelspec")["kernelspecs"]}

    refused = terminal.tpu("kernelspec", "twin", "--remove")
    assert refused.returncode == 1
    assert "us-west4-a" in refused.stderr
    terminal.tpu("kernelspec", "twin", "--remove", "--project", "another-project")
    assert installed(terminal) == [here, there]

    terminal.tpu("kernelspec", "twin", "--remove", *HERE)
    assert installed(terminal) == [there]

    terminal.tpu("kernelspec", specs[there], "--remove")
    assert installed(terminal) == []


def test_a_renewed_kernelspec_keeps_its_way_to_the_node(terminal: Terminal, two_nodes: tuple[str, str]) -> None:
    terminal.tpu("kernelspec", "twin", *HERE)
    file = terminal.home / "jupyter" / "kernels" / two_nodes[0] / "kernel.json"
    spec = json.loads(file.read_text())
    spec["metadata"]["kernel_provisioner"]["config"]["proxy_command"] = "corp-proxy %h %p"
    file.write_text(json.dumps(spec))

    terminal.tpu("kernelspec", "twin", *HERE)

    assert "corp-proxy %h %p" in json.loads(file.read_text())["argv"]


def test_deleting_asks_and_names_the_cost(terminal: Terminal) -> None:
    terminal.tpu("create", "keep", *V5E)
    try:
        unasked = terminal.tpu("delete", "keep")
        assert unasked.returncode == 1
        assert "was not confirmed" in unasked.stderr

        question = answered(terminal, "delete", "keep", answer="n\n")
        assert "$9.60/h" in question
        assert "Its disk and all kernels on it are lost." in question
        assert terminal.tpu_json("describe", "keep")["state"] == "READY"
    finally:
        answered(terminal, "delete", "keep", answer="y\n")
    assert terminal.tpu_json("list")["nodes"] == []


def test_a_slice_is_not_stopped_and_the_answer_is_how_to_delete_it(terminal: Terminal) -> None:
    terminal.tpu("create", "wide", "--type", "v5litepod-16", *HERE)
    try:
        refused = terminal.tpu("stop", "wide").stderr
        assert "wide has 4 workers: it can be deleted, but not stopped." in refused
        assert f"do: Run `jupyter tpu delete wide --zone {ZONE}`." in refused
        assert terminal.tpu_json("describe", "wide")["state"] == "READY"
    finally:
        terminal.tpu("delete", "wide", "--yes", *HERE)


@pytest.mark.parametrize("terms", mostly_nightly(["spot", "preemptible"], count=1))
def test_stopping_a_node_says_when_it_cannot_be_started_again(terminal: Terminal, terms: str) -> None:
    truth = f"A {terms} node can't be started again. Its disk is kept and billed until you delete the node."
    terminal.tpu("create", "brief", *V5E, "--provisioning", terms)
    try:
        said = answered(terminal, "stop", "brief", answer="y\n")
        question, _, done = said.partition("[y/N]")
        assert truth in question
        assert f"brief is stopped. {truth}" in done
        assert "create the node again" in terminal.tpu("start", "brief").stderr
    finally:
        terminal.tpu("delete", "brief", "--yes", *HERE)


def answered(terminal: Terminal, *argv: str, answer: str) -> str:
    """Run a command at a terminal of its own and answer its question; what it printed."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        terminal.command(*argv), stdin=theirs, stdout=theirs, stderr=theirs, env=terminal.environment
    ) as process:
        os.close(theirs)
        printed = b""
        while b"[y/N]" not in printed:
            printed += os.read(ours, 4096)
        os.write(ours, answer.encode())
        with suppress(OSError):  # Linux says so of a terminal that nobody writes to any more
            while more := os.read(ours, 4096):
                printed += more
        process.wait(timeout=60)
    os.close(ours)
    return printed.decode()


_INTERRUPTED_AT_IMPORT = """
import os, signal, sys

class CtrlC:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["CTRL_C_AT"]:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, CtrlC())
"""


@pytest.mark.parametrize(
    "module", ["jupyter_tpu.cli.command_line", "jupyter_tpu.cli.nodes.list", "google.cloud.tpu_v2"]
)
def test_a_command_that_is_interrupted_while_it_imports_says_so_in_a_word(
    terminal: Terminal, tmp_path: Path, module: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(_INTERRUPTED_AT_IMPORT)
    done = terminal.tpu_in_fresh_python("list", *HERE, PYTHONPATH=str(tmp_path), CTRL_C_AT=module)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "Interrupted.\n")


@pytest.mark.nightly
def test_an_interrupted_creation_says_what_exists_and_how_to_delete_it(terminal: Terminal) -> None:
    terminal.cloud.add_fault("CreateNode", "latency", seconds=3)
    with terminal.start("create", "cut", *V5E) as process:
        assert process.stderr is not None
        while "cut: Asking" not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)

    assert process.returncode == 130
    assert "Traceback" not in said
    assert f"jupyter tpu delete cut --zone {ZONE}" in said
    assert "$9.60/h" in said
    assert terminal.tpu("delete", "cut", "--yes", *HERE).returncode == 0
    assert terminal.cloud.billing() == []
    terminal.cloud.clear_faults()  # it may have been interrupted before the cloud was asked


@pytest.mark.parametrize(
    ("argv", "fault", "code"),
    [
        (("create", "x", "--type", "v99-8"), None, "bad_input"),
        (("create", "Bad_Name", *V5E), None, "bad_input"),
        (("create", "x", "--type", "v5litepod-8", "--zone", "nowhere-east1-z", "--yes"), None, "bad_input"),
        (("create", "x", *V5E, "--runtime-version", "windows-95"), None, "bad_input"),
        (("create", "x", *V5E), "stockout", "out_of_capacity"),
        (("create", "x", *V5E), "quota", "quota_exceeded"),
        (("create", "x", *V5E), "api_disabled", "api_disabled"),
        (("create", "x", *V5E), "permission_denied", "permission_denied"),
        (("create", "x", *V5E), "not_allowlisted", "not_allowlisted"),
        (("describe", "nobody"), None, "node_not_found"),
        (("delete", "nobody", "--yes"), None, "node_not_found"),
        (("ssh-config", "nobody"), None, "node_not_found"),
    ],
)
def test_a_refusal_says_what_failed_and_what_to_do(
    terminal: Terminal, argv: tuple[str, ...], fault: str | None, code: str
) -> None:
    if fault:
        terminal.cloud.add_fault("CreateNode", fault)
    refused = terminal.tpu(*argv, "--json")

    assert refused.returncode == 1
    error = json.loads(refused.stdout)["error"]
    assert error["code"] == code
    assert error["message"]
    assert error["hint"]
    assert "Traceback" not in refused.stderr
    assert terminal.cloud.billing() == []


def test_an_unknown_price_wants_a_yes(terminal: Terminal) -> None:
    refused = terminal.tpu("create", "x", "--type", "v6e-1", "--spot", "--zone", "southamerica-west1-a")

    assert refused.returncode == 1
    assert "There is no list price for a spot v6e-1 in southamerica-west1-a, and no grant covers it." in refused.stderr
    assert "--yes" in refused.stderr
    assert terminal.cloud.billing() == []


def test_an_error_for_people_is_a_few_short_lines(terminal: Terminal) -> None:
    refused = terminal.tpu("describe", "nobody")

    assert refused.stdout == ""
    assert [line.split(":")[0].strip() for line in refused.stderr.splitlines()] == ["error", "now", "do"]


def test_without_credentials_it_says_how_to_sign_in(terminal: Terminal) -> None:
    refused = terminal.tpu("list", JUPYTER_TPU_ENDPOINT="")

    assert refused.returncode == 1
    assert "gcloud auth application-default login" in refused.stderr
    assert "jupyter tpu setup" in refused.stderr
    assert "jupyter tpu demo" in refused.stderr


@pytest.mark.parametrize("argv", [(), ("fly",), ("create",), ("list", "--colour"), ("list", "--", "x")])
def test_a_mistyped_command_line_is_exit_code_2(terminal: Terminal, argv: tuple[str, ...]) -> None:
    refused = terminal.tpu(*argv)

    assert refused.returncode == 2
    assert "usage: jupyter tpu" in refused.stderr


def test_help_imports_nothing_heavy(terminal: Terminal) -> None:
    shown = terminal.tpu_in_fresh_python("--help", PYTHONPROFILEIMPORTTIME="1")

    imported = {line.rpartition("|")[2].strip() for line in shown.stderr.splitlines()}
    assert "jupyter_tpu.cli.command_line" in imported
    assert not imported & {"grpc", "asyncssh", "jupyter_server", "traitlets", "zmq", "google.auth"}


def test_the_version_is_printed(terminal: Terminal) -> None:
    assert terminal.tpu_json("version")["version"]
