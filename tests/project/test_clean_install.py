"""The wheel works where there is nothing but Python: no checkout, no Node, no test packages."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Emulator

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).parents[2]
ZONE = "us-central1-a"
TOKEN = "clean-install"


@dataclass(frozen=True)
class CleanInstall:
    """An environment with the wheel and what it depends on, and a home of its own."""

    folder: Path
    variables: dict[str, str] = field(default_factory=dict)

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*argv), cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=100
        )

    def command(self, *argv: str) -> list[str]:
        return [str(self.binaries / argv[0]), *argv[1:]]

    @property
    def binaries(self) -> Path:
        return self.folder / "venv/bin"

    @property
    def environment(self) -> dict[str, str]:
        own = {"PATH": str(self.binaries), "HOME": str(self.folder), "LANG": "C.UTF-8", "NO_GCE_CHECK": "true"}
        return {**own, **self.variables}


def uv(*argv: str) -> None:
    command = [shutil.which("uv", path=str(Path(sys.executable).parent)) or "uv", *argv]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def clean_install(tmp_path_factory) -> CleanInstall:
    folder = tmp_path_factory.mktemp("clean")
    build = "from hatchling.build import build_wheel; import sys; print(build_wheel(sys.argv[1]))"
    environ = {**os.environ, "SKIP_JUPYTER_BUILDER": "1"}
    subprocess.run([sys.executable, "-c", build, str(folder)], cwd=ROOT, env=environ, check=True, capture_output=True)
    wheel = next(folder.glob("*.whl"))
    uv("venv", "--python", sys.executable, str(folder / "venv"))
    uv("pip", "install", "--python", str(folder / "venv"), "--constraint", "constraints.txt", str(wheel))
    return CleanInstall(folder)


def test_there_is_no_node_on_the_path(clean_install):
    assert shutil.which("node", path=clean_install.environment["PATH"]) is None


def test_the_command_line_runs(clean_install):
    done = clean_install.run("jupyter", "tpu", "list")
    assert "gcloud auth application-default login" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_the_demo_says_which_packages_it_needs(clean_install):
    done = clean_install.run("jupyter", "tpu", "demo", "--no-browser")
    assert done.returncode != 0
    assert "pip install 'jupyter-tpu[demo]'" in done.stdout + done.stderr


def test_the_server_extension_is_enabled(clean_install):
    done = clean_install.run("jupyter", "server", "extension", "list")
    assert re.search(r"jupyter_tpu \S+ \S*OK", done.stdout), done.stdout


def test_the_provisioner_is_found(clean_install):
    done = clean_install.run("jupyter", "kernelspec", "provisioners")
    assert "jupyter_tpu.kernels.provisioner:TPUProvisioner" in done.stdout + done.stderr


def test_the_front_end_lies_where_jupyterlab_looks(clean_install):
    folder = clean_install.folder / "venv/share/jupyter/labextensions/jupyter-tpu"
    assert (folder / "package.json").is_file()
    assert list((folder / "static").glob("remoteEntry.*.js"))


CELL = """
import sys
from jupyter_client.manager import start_new_kernel
manager, client = start_new_kernel(kernel_name=sys.argv[1], startup_timeout=60)
client.execute_interactive("import os; print(os.environ['TPU_ACCELERATOR_TYPE'])", timeout=120)
client.stop_channels()
manager.shutdown_kernel()
"""


@pytest.fixture
def connected(clean_install: CleanInstall, make_emulator: Callable[..., Emulator]) -> CleanInstall:
    """The clean environment, and a cloud for it; the emulator comes from the environment of the tests."""
    cloud = make_emulator()
    return CleanInstall(
        clean_install.folder, {"JUPYTER_TPU_ENDPOINT": cloud.grpc, "JUPYTER_TPU_PROJECT": cloud.project}
    )


def test_a_node_is_created_runs_a_cell_and_is_deleted(connected: CleanInstall) -> None:
    created = connected.run("jupyter", "tpu", "create", "my-node", "--type", "v5litepod-8", "--zone", ZONE)
    assert created.returncode == 0, created.stderr

    ran = connected.run("python", "-c", CELL, f"tpu-my-node-{ZONE}")
    assert ran.stdout == "v5litepod-8\n", ran.stderr

    deleted = connected.run("jupyter", "tpu", "delete", "my-node", "--yes")
    assert deleted.returncode == 0, deleted.stderr
    assert json.loads(connected.run("jupyter", "tpu", "list", "--json").stdout)["nodes"] == []


@pytest.fixture
def server_url(connected: CleanInstall, tmp_path: Path) -> Iterator[str]:
    """A Jupyter server of the clean environment."""
    options = ["--ip=127.0.0.1", "--port=0", "--no-browser", "--allow-root", f"--IdentityProvider.token={TOKEN}"]
    environment = {**connected.environment, "JUPYTER_RUNTIME_DIR": str(tmp_path)}
    log = tmp_path / "server.log"
    with (
        log.open("wb") as output,
        subprocess.Popen(
            connected.command("jupyter", "server", *options),
            cwd=connected.folder,
            env=environment,
            stdout=output,
            stderr=output,
        ) as server,
    ):
        try:
            yield address(server, tmp_path, log)
        finally:
            server.terminate()


def address(server: subprocess.Popen[bytes], runtime: Path, log: Path) -> str:
    """Where the server listens, from the file that it writes shortly before it does."""
    for _ in range(1800):
        try:
            server.wait(timeout=0.1)
            break
        except subprocess.TimeoutExpired:
            for info in runtime.glob("jpserver-*.json"):
                told = json.loads(info.read_text() or "{}")
                if told and listens(int(told["port"])):
                    return str(told["url"])
    raise AssertionError(f"the server does not listen:\n{log.read_text()}")


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_the_server_answers_for_the_extension(connected: CleanInstall, server_url: str) -> None:
    request = urllib.request.Request(f"{server_url}jupyter-tpu/v1/status", headers={"Authorization": f"token {TOKEN}"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=120) as answer:
        status = json.load(answer)
    assert (status["project"], status["emulated"]) == (connected.variables["JUPYTER_TPU_PROJECT"], True)
    assert status["error"] is None
