"""A slice on an emulated v4-16 whose workers fail, hang or are lost, with JAX as it is, until a restart of all."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from jupyter_client.manager import KernelManager
from raw_slice import SliceClient

from jupyter_tpu.errors import EnvironmentFailed
from jupyter_tpu.models import Node

from .conftest import Cloud
from .test_full_disk import full_disk
from .test_slice_kernels import Homes, gone

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]

SUM_OF_ALL = """
import os
import numpy
from jax.experimental import multihost_utils
worker = int(os.environ.get("TPU_SLICE_WORKER", 0))

def sum_of_all():
    return multihost_utils.process_allgather(numpy.ones(1)).sum()

print(sum_of_all())
"""


@pytest.fixture
def homes(cloud: Cloud, slice_node: Node) -> Homes:
    return Homes(cloud, slice_node)


@pytest.fixture
def manager(slice_kernel_name: str) -> Iterator[KernelManager]:
    manager = KernelManager(kernel_name=slice_kernel_name)
    yield manager
    if manager.has_kernel:
        manager.shutdown_kernel(now=True)


@pytest.fixture
def notebook(manager: KernelManager) -> Iterator[SliceClient]:
    manager.start_kernel()
    notebook = SliceClient(manager.client())
    notebook.client.start_channels(hb=False)
    notebook.client.wait_for_ready(timeout=120)
    yield notebook
    notebook.client.stop_channels()


def sums_over_all(notebook: SliceClient) -> None:
    notebook.run("%tpu_init jax", timeout=240)
    assert "2.0\n" in notebook.run(SUM_OF_ALL, timeout=120).printed


def restarted(manager: KernelManager, notebook: SliceClient) -> None:
    manager.restart_kernel()
    notebook.client.wait_for_ready(timeout=120)
    assert notebook.run("import os", timeout=120).error == ""


def test_the_exit_handlers_of_all_workers_run_before_a_restart(
    manager: KernelManager, notebook: SliceClient, homes: Homes
) -> None:
    mark = "import atexit, pathlib\natexit.register((pathlib.Path.home() / 'ended').touch)"
    assert notebook.run(mark, timeout=120).error == ""
    sums_over_all(notebook)  # JAX's own handler, which is the first to run, waits for the others

    restarted(manager, notebook)

    assert [(home.parent / "ended").exists() for home in homes.homes] == [True, True]


@pytest.mark.parametrize("failing", [1, 0])
def test_workers_that_wait_for_one_that_failed_are_named_until_a_restart(
    manager: KernelManager, notebook: SliceClient, homes: Homes, failing: int
) -> None:
    sums_over_all(notebook)
    processes = [homes.engine(), *homes.processes(0, "ipyparallel.controller")]
    request = notebook.send(f"if worker == {failing}: 1/0\nsum_of_all()")
    queued = notebook.send("print('never')")
    notebook.wait_for_output(request, "ZeroDivisionError")
    notebook.wait_for_output(request, f"worker {1 - failing}: still running, probably waiting for worker {failing}")
    if failing == 0:
        assert notebook.result(request).error == "ZeroDivisionError: division by zero"
        assert notebook.run("%%worker 0\n1").error == ""
    else:
        assert notebook.result(queued).error.startswith("WorkerBusy: worker 0: still running")
    assert notebook.run("print('never')").error.startswith(f"WorkerBusy: worker {1 - failing}: still running")

    restarted(manager, notebook)

    gone(processes)
    sums_over_all(notebook)


def test_a_worker_killed_in_a_collective_operation_is_named_and_all_restart(
    manager: KernelManager, notebook: SliceClient, homes: Homes
) -> None:
    sums_over_all(notebook)
    request = notebook.send("print('begun', flush=True)\nwhile True: sum_of_all()")
    notebook.wait_for_output(request, "begun")
    homes.engine().kill()
    notebook.wait_for_output(request, "worker 1: WorkerLost")

    restarted(manager, notebook)

    sums_over_all(notebook)


def test_nothing_is_left_of_a_frozen_worker_after_a_restart(
    manager: KernelManager, notebook: SliceClient, homes: Homes
) -> None:
    request = notebook.send("import time\nprint('begun', flush=True)\ntime.sleep(1000)")
    notebook.wait_for_output(request, "begun", timeout=120)
    engine = homes.engine()
    frozen = [engine, *engine.children(recursive=True)]
    for each in frozen:
        each.send_signal(signal.SIGSTOP)
    notebook.wait_for_output(request, "worker 1: WorkerLost")

    restarted(manager, notebook)

    gone(frozen)


def test_a_cut_network_between_the_workers_is_named(cloud: Cloud, slice_node: Node, manager: KernelManager) -> None:
    cloud.control.fault_worker(str(slice_node.name), "cut", 0, other_worker_id=1)
    try:
        manager.start_kernel()
        notebook = SliceClient(manager.client())
        notebook.client.start_channels(hb=False)
        notebook.client.wait_for_ready(timeout=120)
        request = notebook.send("print('together')")
        notebook.wait_for_output(request, "JAX would fail too", timeout=60)
    finally:
        cloud.control.fault_worker(str(slice_node.name), "clear", 0)
    assert notebook.result(request, timeout=120).others == "worker 1: same output"
    notebook.client.stop_channels()


def message_of(notebook: SliceClient) -> str:
    """The next message's text, no matter which cell it belongs to."""
    return str(notebook.client.get_iopub_msg(timeout=60)["content"].get("text", ""))


DIES = "import os\ndie = lambda *_, **__: os.kill(os.getpid(), 9)\n"


@pytest.mark.parametrize(
    "death",
    [
        "import jax\njax.distributed.initialize = die",
        "import jax\njoin = jax.distributed.initialize\njax.distributed.initialize = lambda **o: (join(**o), die())",
        "import jax\njax.local_devices = die",
        "from jupyter_tpu.notebook.tpu_init import jax_start\njax_start._proved = die",
    ],
    ids=["before it joins", "when it has joined", "before it has devices", "before it computes"],
)
def test_cells_are_answered_although_a_worker_is_killed_while_jax_starts(
    manager: KernelManager, notebook: SliceClient, death: str
) -> None:
    assert notebook.run(f"%%worker 1\n{DIES}{death}", timeout=120).error == ""
    request, queued = notebook.send("%tpu_init jax"), notebook.send("print('never')")
    notebook.wait_for_output(request, "worker 1: WorkerLost", timeout=60)
    assert notebook.result(request).error.startswith("WorkerLost: ")
    ran = notebook.result(queued)
    assert (ran.reply["status"] != "ok", ran.printed) == (True, "")

    restarted(manager, notebook)

    assert notebook.run("print('together')").others == "worker 1: same output"


@pytest.mark.parametrize(
    ("full", "programs"),
    [(1, ("agent", "--engine")), (0, ("agent", "ipyparallel.controller"))],
    ids=["worker 1", "worker 0"],
)
def test_a_full_disk_on_a_worker_ends_no_cell_and_hides_no_loss(
    manager: KernelManager,
    notebook: SliceClient,
    homes: Homes,
    cloud: Cloud,
    slice_node: Node,
    full: int,
    programs: tuple[str, ...],
) -> None:
    assert notebook.run("import os\nkept = 41", timeout=120).error == ""
    with full_disk(cloud, slice_node, full, programs):
        ran = notebook.run("for number in range(20_000): print('line', number)")
        assert (ran.error, ran.others) == ("", "worker 1: same output")
        assert ran.printed.splitlines()[-1] == "line 19999"
        homes.engine().kill()
        while not notebook.run("1").error.startswith("WorkerLost: "):
            pass
        if full == 0:
            with pytest.raises(EnvironmentFailed, match="can't be written"):
                manager.restart_kernel()
            assert notebook.run("%%worker 0\nprint(kept)").printed == "41\n"
        else:
            manager.restart_kernel()
            while "not all workers could start. Worker 1 of my-slice: The disk" not in message_of(notebook):
                pass

    restarted(manager, notebook)

    assert notebook.run("print('together')").others == "worker 1: same output"
