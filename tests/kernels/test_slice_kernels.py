"""A kernel on both workers of an emulated v4-16: it starts, restarts and ends on all of them, or on none."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import ipyparallel
import psutil
import pytest
from agent_processes import agent_stopped
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from jupyter_tpu.errors import EnvironmentFailed, WorkerUnreachable
from jupyter_tpu.kernels.agents.agent_calls import call_agent
from jupyter_tpu.kernels.connections.pool import link_thread
from jupyter_tpu.kernels.connections.worker import WorkerKey
from jupyter_tpu.kernels.kernelspecs import write_kernelspec
from jupyter_tpu.models import Node

from .conftest import Cloud


@pytest.fixture
def manager(slice_kernel_name: str) -> Iterator[KernelManager]:
    manager = KernelManager(kernel_name=slice_kernel_name)
    yield manager
    if manager.has_kernel:
        manager.shutdown_kernel(now=True)


class Homes:
    """What is on the two workers, seen from their disks and processes."""

    def __init__(self, cloud: Cloud, node: Node) -> None:
        self.homes = [cloud.home_of(node, worker_id) / ".jupyter-tpu" for worker_id in range(2)]

    def engine(self) -> psutil.Process:
        (found,) = self.processes(1, "--engine")
        return found

    def processes(self, worker: int, word: str) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                line = " ".join(process.cmdline())
                if word in line and str(self.homes[worker]) in line:
                    found.append(process)
        return found

    def on_engine(self, code: str) -> Any:
        """The value of an expression on worker 1, once it has joined."""
        (told,) = (self.homes[0] / "kernels").glob("*/slice.json")
        client_file = Path(json.loads(told.read_text())["client_file"])
        wait_for(client_file)
        with ipyparallel.Client(str(client_file), timeout=60) as cluster:
            cluster.wait_for_engines(1, timeout=60, interactive=False)
            return cluster[1].apply_sync(eval, code)

    def kept(self) -> list[Path]:
        """What the agents keep of kernels."""
        return [path for home in self.homes for name in ("kernels", "slices") for path in (home / name).glob("*")]


def wait_for(path: Path) -> None:
    """Wait for the file and its content, which the controller writes in one piece after it has created the file."""
    until = time.monotonic() + 60
    while not (path.exists() and path.stat().st_size) and time.monotonic() < until:
        time.sleep(0.05)  # nothing announces a file


def wait_for_spare(cloud: Cloud, node: Node) -> None:
    """Wait until worker 0, to which a kernel is connected, has a spare."""
    shared = link_thread.enter().find_up(node.name, cloud.settings.endpoint)
    link_thread.leave()
    assert shared
    while shared.link.spare is None:
        time.sleep(0.05)  # a property that is looked at when needed


@pytest.fixture
def homes(cloud: Cloud, slice_node: Node) -> Homes:
    return Homes(cloud, slice_node)


def started(manager: KernelManager, *arguments: str) -> BlockingKernelClient:
    manager.start_kernel(extra_arguments=[*arguments], env={**os.environ, "JPY_SESSION_NAME": "/home/me/my.ipynb"})
    client = manager.client()
    client.start_channels(hb=False)
    client.wait_for_ready(timeout=120)
    return client


def run(client: BlockingKernelClient, code: str) -> str:
    """Run a cell; everything that it shows as text."""
    shown: list[str] = []

    def keep(message: dict[str, Any]) -> None:
        content = message["content"]
        shown.append(content.get("text", "") + content.get("data", {}).get("text/plain", ""))

    reply = client.execute_interactive(code, timeout=240, output_hook=keep)
    assert reply["content"]["status"] == "ok", reply
    return "".join(shown)


def gone(processes: list[psutil.Process]) -> None:
    assert processes
    _, left = psutil.wait_procs(processes, 60)
    assert left == []


def test_a_kernel_starts_restarts_and_ends_on_all_workers(manager: KernelManager, homes: Homes) -> None:
    client = started(manager)
    assert homes.on_engine("__import__('os').environ['TPU_SLICE_WORKER']") == "1"
    first = [homes.engine(), *homes.processes(0, "ipyparallel.controller")]
    manager.restart_kernel()
    client.wait_for_ready(timeout=120)
    assert homes.on_engine("6 * 7") == 42
    gone(first)
    second = [homes.engine(), *homes.processes(0, "ipyparallel.controller")]
    client.stop_channels()
    manager.shutdown_kernel()
    gone(second)
    assert homes.kept() == []


def test_what_is_there_for_a_notebook_on_one_worker_is_there_on_all(
    manager: KernelManager, homes: Homes, cloud: Cloud, slice_node: Node
) -> None:
    profile = cloud.home_of(slice_node, 1) / ".ipython" / "profile_default"
    (profile / "startup").mkdir(parents=True, exist_ok=True)
    (profile / "startup" / "mine.py").write_text("started_up = True")
    (profile / "ipython_config.py").write_text(
        "c.InteractiveShellApp.extensions = ['autoreload']\n"
        "c.InteractiveShellApp.exec_lines = ['configured = True']\n"
        "c.InteractiveShell.ast_node_interactivity = 'last'\n"
    )
    (profile / "ipython_kernel_config.py").write_text("c.InteractiveShell.ast_node_interactivity = 'all'\n")
    client = started(manager, "--cache-size=7")

    def agent(worker: int, method: str, **params: Any) -> dict[str, Any]:
        key = WorkerKey(node=slice_node.name, endpoint=cloud.settings.endpoint, worker_id=worker)
        return asyncio.run(call_agent(key, method, params))

    # a worker's startup files and IPython configuration are read there, too
    shown = run(client, "%%worker 1\nprint(started_up, configured)\n%autoreload 0\n'first'\n'second'")
    assert "True True" in shown
    assert "first" in shown

    # arguments for the kernel count everywhere, with ipykernel's short names
    assert "7\nworker 1: same output" in run(client, "print(get_ipython().cache_size)")

    # the processes that use the chips are named by their notebook, and end together
    take_chip = (
        "import glob, os, time\nheld = open(sorted(glob.glob(os.environ['JUPYTER_TPU_DEVICES'] + '/accel*'))[0])"
    )
    run(client, take_chip)
    (holder,) = agent(1, "who")["holders"]
    assert (holder["pid"], holder["notebook"], holder["is_kernel"]) == (homes.engine().pid, "/home/me/my.ipynb", True)
    assert run(client, "%tpu ps").count("/home/me/my.ipynb (this one)") == 2
    assert run(client, "%tpu release --yes").count("This kernel itself uses the chips.") == 2
    run(client, "held.close()")
    program = (
        f"import subprocess, sys\nother = subprocess.Popen([sys.executable, '-c', {take_chip + '; time.sleep(999)'!r}])"
    )
    run(client, f"%%worker 1\n{program}")
    while not agent(1, "who")["holders"]:
        pass
    assert "The chips are free." in run(client, "%tpu release --yes")

    # checkpoint hooks run on all workers before the node ends
    run(client, "%%tpu_on_preempt\nimport os\nif 'TPU_SLICE_WORKER' in os.environ: 1/0")
    while not (told := agent(0, "prepare_to_end", reason="the budget is used up", ends_in_s=600))["is_ready"]:
        pass
    assert [(hook["status"], "worker 1: ZeroDivisionError" in hook["error"]) for hook in told["hooks"]] == [
        ("failed", True)
    ]

    # the node is busy while only its other worker is
    wait = "print('begun', flush=True); time.sleep(999)"
    for cell in (f"%%worker 1\n{wait}", f"if 'TPU_SLICE_WORKER' in os.environ: {wait}"):
        request = client.execute(cell)
        while "begun" not in str(client.get_iopub_msg(timeout=60)["content"].get("data")):
            pass
        assert agent(0, "activity")["sources"]["execution"]["state"] == "active"
        manager.interrupt_kernel()
        while client.get_shell_msg(timeout=60)["parent_header"]["msg_id"] != request:
            pass
    client.stop_channels()


def test_a_notebook_runs_on_all_workers_of_a_node_that_was_made_larger(cloud: Cloud) -> None:
    node = cloud.create_node("four", accelerator_type="v5litepod-16")
    kernel_name = write_kernelspec(node, cloud.settings)
    manager = KernelManager(kernel_name=kernel_name)
    assert manager.kernel_spec.display_name == "Python 3 · v5litepod-16 · four · 4 workers"
    manager = KernelManager(kernel_name=write_kernelspec(node, cloud.settings, workers=2))
    client = started(manager)
    shown = run(client, "import os\nprint('I am number', os.environ['TPU_WORKER_ID'])")
    assert all(f"I am number {worker}" in shown for worker in range(4))
    assert "four now has 4 workers (before: 2)" in shown
    client.stop_channels()
    manager.shutdown_kernel()
    cloud.delete_node(node.name)


def test_an_engine_that_ends_before_it_has_joined_ends_the_cell_with_its_last_words(
    manager: KernelManager, homes: Homes
) -> None:
    startup = homes.homes[1].parent / ".ipython" / "profile_default" / "startup" / "last.py"
    startup.parent.mkdir(parents=True, exist_ok=True)
    startup.write_text("import os\nos.write(2, b'my last words\\n')\nos.kill(os.getpid(), 9)")
    client = started(manager)
    reply = client.execute_interactive("print('together')", timeout=60)["content"]
    startup.unlink()
    text = "The process of worker 1 ended (SIGKILL). Restart the kernel. Its last output:\nmy last words"
    assert (reply["ename"], reply["evalue"]) == ("WorkerLost", text)
    client.stop_channels()


@pytest.mark.nightly
def test_the_end_of_another_workers_process_is_reported_with_its_last_words(
    manager: KernelManager, homes: Homes
) -> None:
    client = started(manager)
    homes.on_engine("__import__('os').write(2, b'my last words\\n')")
    engine = homes.engine()
    for helper in engine.children():
        helper.suspend()  # so that it does not report the end to the controller
    engine.kill()
    while True:
        message = client.get_iopub_msg(timeout=60)
        if "worker 1 ended (SIGKILL)" in message["content"].get("text", ""):
            break
    assert "my last words" in message["content"]["text"]
    # the next cell says the same, for pages that were not open
    refused = client.execute_interactive("1", timeout=60)["content"]
    text = "The process of worker 1 ended (SIGKILL). Restart the kernel. Its last output:\nmy last words"
    assert (refused["ename"], refused["evalue"]) == ("WorkerLost", text)
    client.stop_channels()


def test_where_one_worker_has_no_disk_nothing_starts_and_it_is_named(
    manager: KernelManager, homes: Homes, no_room: Path
) -> None:
    no_room.mkdir(parents=True)
    no_room.parent.chmod(0o700)
    with pytest.raises(EnvironmentFailed, match=r"Worker 1 of my-slice: .* can't be written"):
        manager.start_kernel()
    no_room.rmdir()
    assert homes.kept() == []
    assert homes.processes(0, "ipyparallel.controller") == homes.processes(1, "--engine") == []


@pytest.fixture
def no_room(homes: Homes) -> Iterator[Path]:
    """Worker 1 can't store anything for engines, while the returned folder is there."""
    room = homes.homes[1] / "slices" / "room"
    yield room
    if room.exists():
        room.rmdir()


def test_a_second_kernel_answers_before_the_other_worker_does(manager: KernelManager, homes: Homes) -> None:
    first, second = started(manager), KernelManager(kernel_name=manager.kernel_name)
    with agent_stopped(homes.homes[1]):
        client = started(second)
        request = client.is_complete("1")
        assert client.get_shell_msg(timeout=60)["parent_header"]["msg_id"] == request
    shown = run(client, "import os\nprint('I am number', os.environ['TPU_WORKER_ID'])")
    assert all(f"I am number {worker}" in shown for worker in range(2))
    client.stop_channels()
    second.shutdown_kernel(now=True)
    first.stop_channels()


@pytest.mark.nightly
def test_a_second_kernel_ends_if_the_disk_of_another_worker_has_become_full(
    manager: KernelManager, no_room: Path, cloud: Cloud, slice_node: Node
) -> None:
    first, second = started(manager), KernelManager(kernel_name=manager.kernel_name)
    wait_for_spare(cloud, slice_node)  # with a spare, the start succeeds before the check can fail
    no_room.mkdir()
    second.start_kernel()
    client, shown = second.client(), ""
    client.start_channels(hb=False)
    while "not all workers could start" not in shown:
        shown = client.get_iopub_msg(timeout=60)["content"].get("text", "")
    assert "Worker 1 of my-slice" in shown
    while second.is_alive():
        time.sleep(0.05)  # nothing announces that the agent has reported the exit
    client.stop_channels()
    second.shutdown_kernel(now=True)
    # the next kernel waits for the other workers, and doesn't start
    with pytest.raises(EnvironmentFailed, match=r"Worker 1 of my-slice: .* can't be written"):
        KernelManager(kernel_name=manager.kernel_name).start_kernel()
    first.stop_channels()


def test_where_one_worker_has_no_link_nothing_starts_and_it_is_named(
    manager: KernelManager, homes: Homes, cloud: Cloud, slice_node: Node
) -> None:
    cloud.control.close_ssh(str(slice_node.name), 1)
    with pytest.raises(WorkerUnreachable, match=r"Worker 1 of my-slice: "):
        manager.start_kernel()
    cloud.control.open_ssh(str(slice_node.name), 1)
    assert homes.kept() == []


def outputs_of(client: BlockingKernelClient, code: str) -> str:
    """What a cell shows, as text."""
    shown: list[str] = []

    def take(message: dict[str, Any]) -> None:
        content = message["content"]
        shown.append(content.get("text", ""))  # one print may arrive in several messages
        blocks = (content.get("data", {}).get("text/plain"), *content.get("traceback", ()))
        shown.extend(f"{block}\n" for block in blocks if block)

    client.execute_interactive(code, output_hook=take, timeout=150)
    return "".join(shown)


def test_tpu_init_starts_jax_on_all_workers_and_only_there(
    manager: KernelManager, homes: Homes, cloud: Cloud, slice_node: Node
) -> None:
    # the kernelspec is of a node of that name that had more workers
    manager.kernel_name = write_kernelspec(slice_node, cloud.settings, workers=4)
    client = started(manager)
    assert "this cell runs only on some of them" in outputs_of(client, "%%worker 0\n%tpu_init jax")

    report = outputs_of(client, "%tpu_init jax\nprint('ready')")

    assert "JAX is ready on 8 devices of v4-16" in report
    assert "the sum of 0 to 1023, spread over all devices, is 523776" in report
    hosts = [line.split()[1] for line in report.splitlines() if "4 × cpu" in line]
    assert len(hosts) == len(set(hosts)) == 2
    assert "worker 1: same output" in report
    workers = outputs_of(client, "%tpu workers")
    assert [line.split()[-1] for line in workers.splitlines()[1:]] == hosts
    assert "2 8 4" in outputs_of(
        client, "import jax; print(jax.process_count(), len(tpu.devices), len(jax.local_devices()))"
    )
    client.stop_channels()
