"""The launcher as a front end uses it that runs a kernelspec's argv itself."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from jupyter_client.blocking.client import BlockingKernelClient

from jupyter_tpu.models import Node


@pytest.fixture
def connection_file(tmp_path: Path) -> Path:
    """A connection file such as VS Code writes."""
    names = ("shell_port", "iopub_port", "stdin_port", "hb_port", "control_port")
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in names]
    ports = {name: probe.getsockname()[1] for name, probe in zip(names, probes, strict=True)}
    for probe in probes:
        probe.close()
    path = tmp_path / "connection.json"
    path.write_text(json.dumps({"transport": "tcp", "ip": "127.0.0.1", "key": "k", **ports}))
    return path


def launch(*options: str, cwd: Path | None = None) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "jupyter_tpu.kernels.launcher", *options]
    return subprocess.Popen(command, cwd=cwd, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def launcher(cloud: Any, node: Node, connection_file: Path) -> Iterator[subprocess.Popen[str]]:
    options = ["--node", str(node.name), "--endpoint", cloud.settings.endpoint, "-f", str(connection_file)]
    process = launch(*options, "--cache-size=7")
    yield process
    process.terminate()
    process.communicate(timeout=60)


@pytest.fixture
def client(connection_file: Path) -> Iterator[BlockingKernelClient]:
    found = BlockingKernelClient()
    found.load_connection_file(str(connection_file))
    found.start_channels(hb=False)  # one that misses a beat of a second calls the kernel dead
    yield found
    found.stop_channels()


def until_said(process: subprocess.Popen[str], words: str) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if words in line:
            return
    raise AssertionError(f"the launcher ended without saying {words!r}")


def test_the_launcher_ends_its_kernel_when_told_to_end(
    launcher: subprocess.Popen[str], client: BlockingKernelClient, cloud: Any, node: Node
) -> None:
    until_said(launcher, "Starting the kernel")
    client.wait_for_ready(timeout=60)
    launcher.send_signal(signal.SIGTERM)
    assert launcher.wait(60) == 0
    assert cloud.kernels_on(node) == []


def printed(client: BlockingKernelClient, code: str) -> str:
    texts: list[str] = []

    def keep(message: dict[str, Any]) -> None:
        if message["msg_type"] == "stream":
            texts.append(message["content"]["text"])
        elif message["msg_type"] == "display_data":
            texts.append(message["content"]["data"]["text/plain"])

    client.execute_interactive(code, timeout=60, output_hook=keep)
    return "".join(texts)


def test_a_notebook_without_a_server_has_its_arguments_and_knows_what_its_node_costs(
    launcher: subprocess.Popen[str], client: BlockingKernelClient
) -> None:
    until_said(launcher, "Starting the kernel")
    client.wait_for_ready(timeout=60)
    assert printed(client, "print(get_ipython().cache_size)") == "7\n"
    texts = (printed(client, "import time; time.sleep(0.5)\n%tpu cost") for _ in range(120))
    text = next(text for text in texts if "no data yet" not in text)
    assert "per hour" in text or "/h" in text
    assert "$" in text


@pytest.mark.nightly
def test_the_launcher_leaves_no_kernel_when_told_to_end_while_it_starts(
    launcher: subprocess.Popen[str], cloud: Any, node: Node
) -> None:
    until_said(launcher, "Starting the kernel")
    launcher.send_signal(signal.SIGTERM)
    assert launcher.wait(60) == 0
    assert cloud.kernels_on(node) == []


@pytest.mark.nightly
def test_the_launcher_passes_an_interrupt_signal_on(
    launcher: subprocess.Popen[str], client: BlockingKernelClient
) -> None:
    until_said(launcher, "Starting the kernel")
    client.wait_for_ready(timeout=60)
    request = client.execute("import time; print('asleep', flush=True); time.sleep(600)")
    while client.get_iopub_msg(timeout=60)["msg_type"] != "stream":
        pass
    launcher.send_signal(signal.SIGINT)
    while (reply := client.get_shell_msg(timeout=60))["parent_header"]["msg_id"] != request:
        pass
    assert reply["content"]["ename"] == "KeyboardInterrupt"


@pytest.mark.nightly
def test_the_launcher_ends_with_its_kernel(launcher: subprocess.Popen[str], client: BlockingKernelClient) -> None:
    until_said(launcher, "Starting the kernel")
    client.wait_for_ready(timeout=60)
    client.execute("import os; os._exit(5)")
    assert launcher.wait(60) == 5


@pytest.fixture
def follower(launcher: subprocess.Popen[str], client: BlockingKernelClient) -> Iterator[subprocess.Popen[str]]:
    """The launcher that a front end starts after having killed the first one, whose kernel has a `leftover`."""
    until_said(launcher, "Starting the kernel")
    client.wait_for_ready(timeout=60)
    client.execute("leftover = 1", reply=True, timeout=60)
    launcher.kill()
    launcher.wait(60)
    process = subprocess.Popen(launcher.args, stderr=subprocess.PIPE, text=True)
    yield process
    process.terminate()
    process.communicate(timeout=60)


def test_a_launcher_replaces_the_kernel_of_one_that_was_killed(
    follower: subprocess.Popen[str], client: BlockingKernelClient, cloud: Any, node: Node
) -> None:
    until_said(follower, "Starting the kernel")
    client.wait_for_ready(timeout=60)
    assert client.execute("leftover", reply=True, timeout=60)["content"]["status"] == "error"
    assert len(cloud.kernels_on(node)) == 1


@pytest.mark.nightly
def test_the_worker_ends_the_idle_kernel_of_a_launcher_that_was_killed(
    cloud: Any, node: Node, connection_file: Path, client: BlockingKernelClient
) -> None:
    options = ["--node", str(node.name), "--endpoint", cloud.settings.endpoint, "-f", str(connection_file)]
    process = launch(*options, "--end-alone-after", "5")  # the start and its client come within that
    until_said(process, "Starting the kernel")
    client.wait_for_ready(timeout=60)
    asked = client.execute("", user_expressions={"pid": "__import__('os').getpid()"}, reply=True, timeout=60)
    kernel = psutil.Process(int(asked["content"]["user_expressions"]["pid"]["data"]["text/plain"]))
    process.kill()
    process.communicate(timeout=60)
    psutil.wait_procs([kernel], timeout=60)
    assert not kernel.is_running()


@pytest.fixture
def port_holder(connection_file: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has a port of the connection file."""
    port = json.loads(connection_file.read_text())["shell_port"]
    code = f"import socket, sys; s = socket.create_server(('127.0.0.1', {port})); print('has it'); sys.stdin.read()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen([sys.executable, "-uc", code], text=True, **pipes)
    assert process.stdout is not None
    assert process.stdout.readline() == "has it\n"
    yield process
    process.communicate(timeout=60)


@pytest.mark.nightly
def test_the_launcher_waits_for_a_port_that_is_still_in_use(
    port_holder: subprocess.Popen[str], launcher: subprocess.Popen[str], client: BlockingKernelClient
) -> None:
    until_said(launcher, f"(pid {port_holder.pid})")
    port_holder.communicate(timeout=60)
    client.wait_for_ready(timeout=60)


@pytest.mark.nightly
def test_the_launcher_gives_up_by_naming_the_process_that_keeps_its_port(
    port_holder: subprocess.Popen[str], launcher: subprocess.Popen[str], connection_file: Path
) -> None:
    port = json.loads(connection_file.read_text())["shell_port"]
    until_said(launcher, f"Port {port} of the connection file is in use by python")
    assert launcher.wait(60) == 1
    assert port_holder.poll() is None


ORPHAN = """
import subprocess, sys
child = subprocess.Popen(sys.argv[1:], stderr=subprocess.PIPE, text=True)
for line in child.stderr:
    if "Starting the kernel" in line:
        break
print(child.pid)
"""


@pytest.mark.nightly
def test_the_launcher_ends_its_kernel_when_its_parent_is_gone(cloud: Any, node: Node, connection_file: Path) -> None:
    options = ["--node", str(node.name), "--endpoint", cloud.settings.endpoint, "-f", str(connection_file)]
    command = [sys.executable, "-m", "jupyter_tpu.kernels.launcher", *options]
    before = cloud.kernels_on(node)  # of kernels that ended by themselves
    parent = subprocess.run([sys.executable, "-c", ORPHAN, *command], capture_output=True, text=True, timeout=240)
    with suppress(psutil.NoSuchProcess):  # it may have ended by now
        psutil.Process(int(parent.stdout)).wait(60)
    assert cloud.kernels_on(node) == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--node", "projects/p-1/locations/us-central1-a/nodes/none"], "none"),
        (["--node", "$(touch canary)"], "is not a node name"),
    ],
)
def test_the_launcher_says_one_clear_thing_without_a_traceback(
    cloud: Any, connection_file: Path, options: list[str], words: str, tmp_path: Path
) -> None:
    process = launch(*options, "--endpoint", cloud.settings.endpoint, "-f", str(connection_file), cwd=tmp_path)
    _, text = process.communicate(timeout=60)
    assert process.returncode == 1
    assert words in text
    assert "Traceback" not in text
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"ip": "0.0.0.0", "shell_port": 1}'])
def test_the_launcher_refuses_a_connection_file_it_cannot_use(node: Node, tmp_path: Path, content: str) -> None:
    path = tmp_path / "connection.json"
    path.write_text(content)
    process = launch("--node", str(node.name), "-f", str(path))
    _, text = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "connection file" in text
    assert "Traceback" not in text


def test_the_launcher_opens_ports_to_this_machine_only(node: Node, connection_file: Path) -> None:
    connection = json.loads(connection_file.read_text())
    connection_file.write_text(json.dumps({**connection, "ip": "0.0.0.0"}))
    process = launch("--node", str(node.name), "-f", str(connection_file))
    _, text = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "other users could reach them" in text
