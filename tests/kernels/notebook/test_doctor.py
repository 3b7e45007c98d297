"""The doctor on an emulated node, in a notebook there and from a terminal here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jupyter_client.manager import KernelManager
from warm_python import run_warm

from jupyter_tpu.models import Node

if TYPE_CHECKING:
    from conftest import Cloud

CHECKS_OF_A_WORKER = {"agent", "chips", "lock file", "guard", "auto-stop", "environment", "variables", "disk", "clock"}


@pytest.fixture(scope="module")
def client(kernel_name: str) -> Iterator[Any]:
    manager = KernelManager(kernel_name=kernel_name)
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=60)
    yield client
    client.stop_channels()
    manager.shutdown_kernel()


def shown(client: Any, code: str) -> str:
    texts: list[str] = []

    def hear(message: dict[str, Any]) -> None:
        if message["msg_type"] == "display_data":
            texts.append(message["content"]["data"]["text/plain"])

    reply = client.execute_interactive(code, output_hook=hear, timeout=60)
    assert reply["content"]["status"] == "ok"
    return "\n".join(texts)


def doctor(cloud: Cloud, *argv: str, **variables: str) -> subprocess.CompletedProcess[str]:
    settings = cloud.settings
    cloud_is = {"JUPYTER_TPU_PROJECT": settings.project, "JUPYTER_TPU_ENDPOINT": settings.endpoint}
    command = [sys.executable, "-m", "jupyter_tpu.cli", "doctor", *argv]
    return run_warm(command, env={**os.environ, **cloud_is, **variables}, timeout=240)


def test_a_notebook_is_told_what_is_so_on_its_node(client: Any) -> None:
    findings = {each["check"]: each for each in json.loads(shown(client, "%tpu doctor --json"))}
    assert findings.keys() >= CHECKS_OF_A_WORKER
    assert findings["agent"]["state"] == "ok"
    assert findings["clock"]["state"] == "ok"
    assert "jupyter tpu autostop NODE" in findings["auto-stop"]["fix"]
    assert "This node has received no auto-stop rules yet" in shown(client, "%tpu doctor")


def test_a_terminal_is_told_of_this_machine_the_project_and_the_node(cloud: Cloud, node: Node, client: Any) -> None:
    answer = json.loads(doctor(cloud, "my-node", "--json").stdout)
    findings = {each["check"]: each for each in answer["findings"]}
    here = {"version", "JupyterLab", "SSH key", "journal", "API", "quota", "budgets", "node", "SSH and agent", "clocks"}
    assert findings.keys() >= here | CHECKS_OF_A_WORKER
    assert (findings["API"]["state"], findings["SSH and agent"]["state"], findings["clocks"]["state"]) == ("ok",) * 3
    assert findings["runtime version"]["state"] == "ok"
    typed = f"`jupyter tpu autostop my-node --zone {node.name.zone}` shows the rules and sends them to the node."
    assert findings["auto-stop"]["fix"] == typed
    assert answer["has_fault"] == any(each["state"] == "fault" for each in answer["findings"])


@pytest.mark.parametrize(
    ("argv", "variables", "check", "text"),
    [
        (("no-such-node",), {}, "node", "no-such-node"),
        (("a/b",), {}, "node", "a/b"),
        ((), {"JUPYTER_TPU_ENDPOINT": "127.0.0.1:1"}, "cloud", "is not responding"),
        ((), {"JUPYTER_TPU_PROJECT": "NO PROJECT"}, "permissions", "NO PROJECT"),
    ],
)
def test_what_cannot_be_looked_at_is_a_finding(
    cloud: Cloud, argv: tuple[str, ...], variables: dict[str, str], check: str, text: str
) -> None:
    done = doctor(cloud, *argv, "--json", **variables)
    findings = [each for each in json.loads(done.stdout)["findings"] if each["check"] == check]
    assert findings, done.stdout
    assert text in findings[0]["text"]
    assert (findings[0]["state"], bool(findings[0]["fix"]), done.returncode) == ("fault", True, 1)
    assert "Traceback" not in done.stderr


def test_a_damaged_journal_is_a_finding(cloud: Cloud, tmp_path: Path) -> None:
    (tmp_path / "tpu").mkdir(mode=0o700)
    (tmp_path / "tpu" / "journal.db").write_bytes(b"no database" * 1000)
    done = doctor(cloud, "--json", JUPYTER_TPU_DATA_DIR=str(tmp_path / "tpu"))
    journal = [each for each in json.loads(done.stdout)["findings"] if each["check"] == "journal"]
    assert journal[0]["state"] == "warning"
    assert "damaged" in journal[0]["text"]
