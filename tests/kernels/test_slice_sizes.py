"""One notebook on nodes of several sizes: it starts, uses all devices, restarts, and leaves nothing on any worker."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from jupyter_client.manager import KernelManager
from raw_slice import SliceClient

from jupyter_tpu.kernels.kernelspecs import write_kernelspec

from .conftest import Cloud

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1200)]

PATIENCE_S = 600


@pytest.mark.parametrize(
    ("place", "accelerator_type", "workers", "devices"),
    [
        ("cloud", "v5litepod-8", 1, 8),
        pytest.param("openssh_cloud", "v5litepod-16", 4, 16, marks=pytest.mark.system("sshd")),
        ("cloud", "v5litepod-32", 8, 32),
        ("cloud", "v5litepod-64", 16, 64),
    ],
)
def test_the_same_notebook_runs_on_every_size_and_over_both_ssh_servers(
    request: pytest.FixtureRequest, place: str, accelerator_type: str, workers: int, devices: int
) -> None:
    cloud: Cloud = request.getfixturevalue(place)
    node = cloud.create_node(f"of-{workers}", accelerator_type=accelerator_type)
    manager = KernelManager(kernel_name=write_kernelspec(node, cloud.settings))
    manager.start_kernel()
    notebook = SliceClient(manager.client())
    notebook.client.start_channels(hb=False)
    notebook.client.wait_for_ready(timeout=PATIENCE_S)

    ran = notebook.run("%tpu_init jax", timeout=PATIENCE_S)
    assert ran.error == ""
    assert f"JAX is ready on {devices} devices of {accelerator_type}" in str(ran.outputs)
    assert notebook.run("print(len(tpu.devices))", timeout=PATIENCE_S).printed == f"{devices}\n"
    manager.restart_kernel()
    notebook.client.wait_for_ready(timeout=PATIENCE_S)
    assert notebook.run("print('all')", timeout=PATIENCE_S).printed == "all\n"

    homes = [cloud.home_of(node, worker) for worker in range(workers)]
    running = processes_of(homes)
    assert len(running) >= (workers if workers > 1 else 0)  # the controller, and an engine on each other worker
    notebook.client.stop_channels()
    manager.shutdown_kernel()
    _, left = psutil.wait_procs(running, timeout=60)
    assert left == []
    cloud.delete_node(node.name)


def processes_of(homes: list[Path]) -> list[psutil.Process]:
    """The controller and the engines on these workers."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            line = " ".join(process.cmdline())
            is_there = any(f"{home}/" in line for home in homes)
            if is_there and ("--engine" in line or "ipyparallel.controller" in line):
                found.append(process)
    return found
