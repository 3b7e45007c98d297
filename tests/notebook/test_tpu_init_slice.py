"""``%tpu_init`` on all workers of a slice: a process for each, with the environment of emulated workers."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from jupyter_tpu.notebook.node.this_slice import this_slice

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers need loopback addresses of their own")

WORKERS = 2
ADDRESS = f"127.{64 + os.getpid() // 256 % 128}.{os.getpid() % 256}"
SHELL = """
import json, os, sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance(colors="nocolor")
shell.run_line_magic("load_ext", "jupyter_tpu")
# only now: the extension would look for the other workers' engines
os.environ.update(json.loads(sys.argv[1]))
sys.exit(not all([shell.run_cell(cell).success for cell in sys.argv[2:]]))
"""
LISTENERS = """
import psutil
places = [each.laddr for each in psutil.Process().net_connections() if each.status == psutil.CONN_LISTEN]
print("listens on", [f"{each.ip.removeprefix('::ffff:')}:{each.port}" for each in places if each.port < 9000])
"""


class NoMultislice(BaseHTTPRequestHandler):
    """A metadata server that JAX asks whether there are several slices."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def metadata() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), NoMultislice) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def start(tmp_path: Any, metadata: str) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a worker of a slice that runs these cells in a shell of its own."""
    (tmp_path / "client.json").write_text(json.dumps({"location": f"{ADDRESS}.1"}))
    (tmp_path / "slice.json").write_text(json.dumps({"workers": WORKERS, "client_file": str(tmp_path / "client.json")}))
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "TPU_", "XLA_"))}
    started: list[subprocess.Popen[str]] = []

    def perform(worker: int, *cells: str, **variables: str) -> subprocess.Popen[str]:
        place = {"TPU_SLICE_FILE": str(tmp_path / "slice.json")}
        if worker:
            place = {"TPU_SLICE_WORKER": str(worker), "TPU_SLICE_WORKERS": "2", "TPU_SLICE_ADDRESS": f"{ADDRESS}.1"}
        environ = {
            "JUPYTER_TPU_EMULATED": "1",
            "TPU_ACCELERATOR_TYPE": "v4-16",
            "TPU_WORKER_ID": str(worker),
            "HOSTNAME": f"t1v-w-{worker}",
            "JUPYTER_TPU_KERNEL_ID": "the-kernel",
            "JAX_FORCE_TPU_INIT": "1",
            "GCE_METADATA_IP": metadata,
            "TPU_WORKER_HOSTNAMES": f"{ADDRESS}.1,{ADDRESS}.2",
            "IPYTHONDIR": str(tmp_path / f"ipython-{worker}"),
        }
        command = [sys.executable, "-c", SHELL, json.dumps(place), *cells]
        started.append(
            subprocess.Popen(
                command,
                env={**inherited, **environ, **variables},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
        return started[-1]

    yield perform
    for each in started:
        each.kill()
        each.communicate()


def texts(*workers: subprocess.Popen[str]) -> list[str]:
    """What each has printed, when all have ended."""
    return [each.communicate(timeout=240)[0] for each in workers]


def until_open(port: int) -> socket.socket:
    """A connection to worker 0, as soon as it listens."""
    while True:
        connection = socket.socket()
        if not connection.connect_ex((f"{ADDRESS}.1", port)):
            return connection
        connection.close()
        time.sleep(0.05)


def test_worker_0_reports_for_all_and_every_worker_has_all_devices(start):
    cells = ("%tpu_init jax", "import jax; print(len(tpu.devices), tpu.mesh.size, tpu.device in jax.local_devices())")
    worker_0 = start(0, *cells, LISTENERS)
    with until_open(8484) as stranger:
        stranger.sendall(b'{"kernel_id": "another", "worker": 1}\n')
        assert stranger.recv(1) == b""
    first, second = texts(worker_0, start(1, *cells))

    assert "JAX is ready on 8 devices of v4-16 (emulated" in first
    assert "the sum of 0 to 1023, spread over all devices, is 523776" in first
    assert re.search(r"^0 +t1v-w-0 +4 × cpu \(emulated\) +unknown$", first, re.MULTILINE)
    assert re.search(r"^1 +t1v-w-1 +4 × cpu", first, re.MULTILINE)
    assert "8 8 True" in first
    # the default of JAX's coordinator is every address of the machine
    assert f"listens on ['{ADDRESS}.1:8482']" in first
    assert second == "8 8 True\n"


@pytest.mark.nightly
def test_another_port_is_taken_on_all_workers_if_jax_finds_its_own_in_use(start):
    with socket.create_server((f"{ADDRESS}.1", 8482)):
        first, second = texts(start(0, "%tpu_init jax", LISTENERS), start(1, "%tpu_init jax"))

    assert "JAX is ready on 8 devices" in first
    assert f"Note: port 8482 of worker 0 is in use by process {os.getpid()}" in first
    assert f"listens on ['{ADDRESS}.1:8483']" in first
    assert second == ""


def test_jax_that_has_started_on_one_worker_alone_is_refused_before_the_others_wait(start):
    (text,) = texts(start(0, "import jax; jax.devices()", "%tpu_init jax", JAX_PLATFORMS="cpu"))
    assert "It is too late to run %tpu_init: JAX has started on this worker alone" in text


def test_an_interrupt_ends_the_wait_for_the_other_workers(start):
    alone = start(0, "%tpu_init jax", "print('the kernel lives')")
    until_open(8484).close()
    alone.send_signal(signal.SIGINT)

    (text,) = texts(alone)
    assert "KeyboardInterrupt" in text
    assert text.endswith("the kernel lives\n")


@pytest.mark.parametrize(
    ("framework", "words"),
    [
        ("tf", "TensorFlow can't be started on several workers"),
        ("torch_tpu", "TorchTPU can't be started on several workers"),
        ("torch_xla", "PyTorch/XLA can't be started on several workers"),
    ],
)
def test_a_framework_for_one_worker_is_refused_with_the_way_out(start, framework, words):
    (text,) = texts(start(0, f"%tpu_init {framework}"))
    assert words in text
    assert "%tpu_init jax" in text


def test_a_slice_whose_controller_is_starting_has_no_address_yet(tmp_path: Path) -> None:
    file = tmp_path / "slice.json"
    file.write_text(json.dumps({"version": 1, "workers": 4, "client_file": str(tmp_path / "client.json")}))
    place = this_slice({"TPU_SLICE_FILE": str(file)})
    assert place is not None
    assert (place.worker, place.workers, place.address) == (0, 4, "")
