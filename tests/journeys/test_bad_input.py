"""Whatever cannot be, the command line and the server's answers and log say what failed, what exists, what to do.

One table: every case meets every face but the panel, whose share is in tests/ui/panel/test_refusals.py.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tiers import mostly_nightly

from jupyter_tpu.emulator.control.client import EmulatorControl

if TYPE_CHECKING:
    from terminal import Terminal

    from conftest import Server

pytestmark = [pytest.mark.timeout(600), pytest.mark.parametrize("terminal", ["embedded"], indirect=True)]

ZONE = "us-central1-a"
NODE = f"projects/demo-project/locations/{ZONE}/nodes/my-node"
SPEC = {
    "node_id": "wished-for",
    "zone": ZONE,
    "accelerator_type": "v5litepod-8",
    "runtime_version": "v2-alpha-tpuv5-lite",
}
SIGNED_OUT = {
    "JUPYTER_TPU_ENDPOINT": "",
    "GOOGLE_APPLICATION_CREDENTIALS": "",
    "CLOUDSDK_CONFIG": "no-such-folder",
    "NO_GCE_CHECK": "true",
}


@dataclass(frozen=True, kw_only=True)
class Creation:
    """A node that cannot be made, and the words on what failed, what exists and what to do."""

    code: str
    failed: str
    hint: str
    exists: str = "No node was created; nothing is billed."
    spec: Mapping[str, str] = field(default_factory=dict)
    fault: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


CREATIONS = {
    "type": Creation(
        spec={"accelerator_type": "v5litepod-7"}, code="bad_input", failed="v5litepod-7", hint="v5litepod-8", exists=""
    ),
    "zone": Creation(spec={"zone": "mars-north1-a"}, code="bad_input", failed="mars-north1-a", hint="us-central1-a"),
    "runtime version": Creation(
        spec={"runtime_version": "tpu-windows"}, code="bad_input", failed="tpu-windows", hint="v2-alpha-tpuv5-lite"
    ),
    "name": Creation(
        spec={"node_id": "My Node!"}, code="bad_input", failed="My Node!", hint="lower-case letters", exists=""
    ),
    "no credentials": Creation(
        environment=SIGNED_OUT,
        code="credentials_missing",
        failed="No Google Cloud credentials",
        exists="No request was sent to the cloud.",
        hint="gcloud auth application-default login",
    ),
    "API disabled": Creation(
        fault="api_disabled", code="api_disabled", failed="not enabled", hint="gcloud services enable tpu"
    ),
    "permission denied": Creation(
        fault="permission_denied", code="permission_denied", failed="lack the permission", hint="roles/tpu.admin"
    ),
    "quota": Creation(fault="quota", code="quota_exceeded", failed="is used up", hint="jupyter tpu cleanup"),
    "stock-out": Creation(fault="stockout", code="out_of_capacity", failed="no capacity", hint="other zones"),
}


@pytest.fixture(params=CREATIONS.values(), ids=CREATIONS)
def creation(request: pytest.FixtureRequest, terminal: Terminal) -> Creation:
    wanted: Creation = request.param
    if wanted.fault:
        terminal.cloud.add_fault("CreateNode", wanted.fault)
    return wanted


def test_the_command_line_says_why_a_node_cannot_be(terminal: Terminal, creation: Creation) -> None:
    spec = SPEC | creation.spec
    options = ["--type", spec["accelerator_type"], "--zone", spec["zone"], "--runtime-version", spec["runtime_version"]]

    done = terminal.tpu("create", spec["node_id"], *options, "--yes", **creation.environment)

    assert done.returncode == 1
    failed, exists, hint = done.stderr.splitlines()[-3:]
    assert failed.startswith("error: ")
    assert creation.failed in failed
    assert exists.startswith("  now: ")
    assert creation.exists in exists
    assert hint.startswith("   do: ")
    assert creation.hint in hint
    assert "Traceback" not in done.stderr
    assert terminal.cloud.billing() == []


StartServer = Callable[..., "Server"]


@pytest.fixture(scope="module")
def server_for(start_server: StartServer) -> StartServer:
    """The server with these variables, which is started when it is first asked for."""
    # it connects to the worker when a kernel is asked for, as the command line does: no link that is up is cut
    return functools.cache(lambda **variables: start_server("--TPUApp.connect_ahead=False", **variables))


async def test_the_server_says_why_a_node_cannot_be(
    terminal: Terminal, server_for: StartServer, creation: Creation
) -> None:
    server = server_for(**creation.environment)
    logged_before = len(server.log())

    status, body = server.post("jupyter-tpu/v1/nodes", SPEC | creation.spec)

    if status == 202:  # the cloud says no later
        body = await server.settled(body["intent_id"])
    error = body["error"]
    assert error["code"] == creation.code
    assert creation.failed in error["message"]
    assert creation.exists in error["exists"]
    assert error["exists"]
    assert creation.hint in error["hint"]
    logged = server.log()[logged_before:]
    assert logged.count(error["message"]) >= 1
    assert "Traceback" not in server.log()
    assert terminal.cloud.billing() == []


@contextmanager
def dying_kernels(cloud: EmulatorControl) -> Iterator[None]:
    """Whatever the kernel is, it ends as soon as it reads its configuration."""
    profile = home_of(cloud) / ".ipython" / "profile_default"
    profile.mkdir(parents=True, exist_ok=True)
    (profile / "ipython_kernel_config.py").write_text("import os; os._exit(3)")
    yield
    (profile / "ipython_kernel_config.py").unlink()


@contextmanager
def closed_door(cloud: EmulatorControl) -> Iterator[None]:
    cloud.close_ssh(NODE)
    yield
    cloud.open_ssh(NODE)


@contextmanager
def broken_agent(cloud: EmulatorControl) -> Iterator[None]:
    """Something is in the way of the agent's folder, which no kernel has made yet."""
    folder = home_of(cloud) / ".jupyter-tpu"
    folder.write_text("in the way")
    yield
    folder.unlink()


@contextmanager
def other_host_key(cloud: EmulatorControl) -> Iterator[None]:
    """There is no way back: the last of the table."""
    cloud.change_host_key(NODE)
    yield


def home_of(cloud: EmulatorControl) -> Path:
    return Path(cloud.workers(NODE)[0]["home"])


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """A kernel that cannot be, and the words on what failed and what to do."""

    sabotage: Callable[[EmulatorControl], AbstractContextManager[None]]
    failed: str
    hint: str


KERNELS = {
    "unreachable worker": Kernel(sabotage=closed_door, failed="is not responding over SSH", hint="firewall rule"),
    "broken agent": Kernel(sabotage=broken_agent, failed=".jupyter-tpu", hint="Check that path"),
    "kernel that dies": Kernel(sabotage=dying_kernels, failed="died during startup", hint=""),
    "wrong host key": Kernel(sabotage=other_host_key, failed="does not match the pinned key", hint="delete the node"),
}

NBCLIENT = """
import sys, nbformat.v4, nbclient
notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 + 1")])
nbclient.NotebookClient(notebook, kernel_name=sys.argv[1], timeout=120).execute()
"""


@pytest.fixture(params=mostly_nightly(KERNELS.values(), count=2), ids=KERNELS)
def kernel(request: pytest.FixtureRequest, terminal: Terminal, kernel_name: str) -> Iterator[Kernel]:
    with request.param.sabotage(terminal.cloud):
        yield request.param


def test_both_say_why_a_kernel_cannot_be(
    terminal: Terminal, server_for: StartServer, kernel_name: str, kernel: Kernel
) -> None:
    done = terminal.run(sys.executable, "-c", NBCLIENT, kernel_name, check=False)

    assert done.returncode != 0
    said = re.split(r"^jupyter_tpu\.errors\.\w+: ", done.stderr, flags=re.MULTILINE)[-1]  # after nbclient's traceback
    assert kernel.failed in said.splitlines()[0]
    assert kernel.hint in said
    assert "Traceback" not in said

    server = server_for()
    logged_before = len(server.log())
    body = {"name": "", "path": "untitled.ipynb", "type": "notebook", "kernel": {"name": kernel_name}}

    status, answer = server.post("api/sessions", body)

    assert status == 502
    assert kernel.failed in answer["message"].splitlines()[0]
    assert kernel.hint in answer["message"]
    logged = server.log()[logged_before:]
    assert kernel.failed in logged
    assert kernel.hint in logged
    assert "Traceback" not in logged
