"""The real gcloud against the emulated cloud, where it is installed. It reaches nothing beyond loopback."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.nightly, pytest.mark.optional("gcloud"), pytest.mark.timeout(600)]

TPUS = ("compute", "tpus")
NODE = ("--accelerator-type=v5litepod-8", "--spot")
NOWHERE = "http://127.0.0.1:9"
"""A proxy that is not there: a call to any other host fails."""

Gcloud = Callable[..., str]


@pytest.fixture
def gcloud(emulator: Any, tmp_path: Path) -> Gcloud:
    """Runs one command in the emulator's project and zone; returns its standard output."""
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "CLOUDSDK_CONFIG": str(tmp_path / "gcloud"),
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU": f"{emulator.rest}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": f"{emulator.rest}/compute/v1/",
        "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
        "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "true",
        "CLOUDSDK_CORE_CHECK_GCE_METADATA": "false",
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "true",
        "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "true",
        "CLOUDSDK_CORE_PROJECT": emulator.project,
        "https_proxy": NOWHERE,
        "http_proxy": NOWHERE,
        "no_proxy": "127.0.0.1",
    }

    def run(*words: str, after: tuple[str, ...] = ()) -> str:
        command = ["gcloud", *words, f"--zone={emulator.zone}", *after]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def ssh_port(gcloud: Gcloud, node_id: str) -> int:
    """gcloud dials port 22 unless told otherwise; the emulated worker tells its own in a guest attribute."""
    items = json.loads(gcloud(*TPUS, "tpu-vm", "get-guest-attributes", node_id, "--format=json"))
    return next(int(item["value"]) for item in items if (item["namespace"], item["key"]) == ("emulator", "ssh-port"))


def test_a_node_is_created_listed_described_logged_in_to_and_deleted(gcloud: Gcloud, emulator: Any) -> None:
    gcloud(*TPUS, "tpu-vm", "create", "n1", *NODE, "--version=v2-alpha-tpuv5-lite", "--labels=owner=me")
    [listed] = json.loads(gcloud(*TPUS, "tpu-vm", "list", "--format=json"))
    described = json.loads(gcloud(*TPUS, "tpu-vm", "describe", "n1", "--format=json"))
    port = ssh_port(gcloud, "n1")
    said = gcloud(*TPUS, "tpu-vm", "ssh", "n1", "--command=echo $((6 * 7))", after=("--", "-p", str(port)))
    gcloud(*TPUS, "tpu-vm", "delete", "n1")

    assert (listed["name"], listed["state"]) == (emulator.node_name("n1"), "READY")
    assert described["labels"] == {"owner": "me"}
    assert said.split()[-1] == "42"  # after the words of ssh-keygen
    assert json.loads(gcloud(*TPUS, "tpu-vm", "list", "--format=json")) == []


def test_queued_resources_are_created_described_and_deleted(gcloud: Gcloud, emulator: Any) -> None:
    asked = ("--node-id=n1", "--accelerator-type=v5litepod-8", "--runtime-version=v2-alpha-tpuv5-lite")
    flex = ("--provisioning-model=FLEX_START", "--max-run-duration=4h", "--valid-until-duration=4h")
    gcloud("alpha", *TPUS, "queued-resources", "create", "q1", *asked, *flex)
    described = json.loads(gcloud("alpha", *TPUS, "queued-resources", "describe", "q1", "--format=json"))
    gcloud(*TPUS, "queued-resources", "delete", "q1", "--force")

    assert described["provisioningModel"] == "FLEX_START"
    assert described["runDuration"]["maxRunDuration"] == "14400s"
    assert json.loads(gcloud(*TPUS, "queued-resources", "list", "--format=json")) == []
