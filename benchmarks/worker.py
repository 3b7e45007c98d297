"""The worker for all transports: an emulated node with a real OpenSSH server, behind a connection with latency.

The connection is the emulator's own fault proxy, which is the same for every transport.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.cpu import EMULATOR_PID, ssh_servers

PROJECT = "benchmarks"
NODE = "bench"
_ALIAS = f"{NODE}.us-central1-a.tpu"
LAUNCHER = "launcher"
"""The kernelspec whose argv is run directly, without jupyter_tpu's provisioner, as VS Code does."""
_MASTER = "Host *\n    ControlMaster auto\n    ControlPath {folder}/m-%C\n    ControlPersist 60\n\n"


FIRST_ONLY = "first-only"
"""The kernelspec for worker 0 of the node only."""


def kernel_name_of(node: str) -> str:
    """Return the name of jupyter_tpu's kernelspec for a node."""
    return f"tpu-{node}-us-central1-a"


class Place:
    """The folders and processes of one run; `environ` is the environment in which a measurement finds the kernels."""

    def __init__(self, folder: Path, sshpyk: Path | None, sshd: str, accelerator_type: str) -> None:
        self._folder = folder
        self._accelerator_type = accelerator_type
        self._sshd = sshd
        self._sshpyk = sshpyk
        self.environ: dict[str, str] = {**os.environ, **_own_folders(folder), "JUPYTER_TPU_PROJECT": PROJECT}
        paths = [str(Path(__file__).parents[1]), *([str(sshpyk)] if sshpyk else [])]
        self.environ["PYTHONPATH"] = os.pathsep.join(paths)
        self._emulator: subprocess.Popen[str] | None = None

    def open(self) -> None:
        """Start the cloud, create the node, and write a kernelspec for each transport."""
        options = ["--sshd", self._sshd, "--link-faults", "--time-scale", "200", "--project", PROJECT, "--json"]
        command = [sys.executable, "-m", "jupyter_tpu.emulator", "--state-dir", str(self._folder / "cloud"), *options]
        self._emulator = subprocess.Popen(command, stdout=subprocess.PIPE, env=self.environ, text=True)
        assert self._emulator.stdout is not None
        ready = json.loads(self._emulator.stdout.readline())
        self.environ |= {"JUPYTER_TPU_ENDPOINT": ready["grpc"], "JUPYTER_TPU_EMULATOR": ready["rest"]}
        self.environ[EMULATOR_PID] = str(self._emulator.pid)
        self.tpu("create", NODE, "--type", self._accelerator_type, "--zone", "us-central1-a", "--yes")
        self.tpu("kernelspec")
        Path(self.environ["JUPYTER_RUNTIME_DIR"]).mkdir()  # sshpyk writes to this folder but does not create it
        config = self._folder / "ssh_config"
        config.write_text(_MASTER.format(folder=self._folder) + self.tpu("ssh-config", NODE))
        self._write_kernelspecs(config)

    def close(self) -> None:
        self.hang_up()
        if self._emulator is not None:
            self._emulator.terminate()
            self._emulator.wait(30)

    def tpu(self, *arguments: str) -> str:
        """Run ``jupyter tpu …`` and return its output."""
        command = [sys.executable, "-m", "jupyter_tpu.cli", *arguments]
        return subprocess.run(command, env=self.environ, check=True, stdout=subprocess.PIPE, text=True).stdout

    def ssh_servers(self) -> list[int]:
        """Return the pids of OpenSSH's server processes that currently serve connections."""
        assert self._emulator is not None
        return ssh_servers(self._emulator.pid)

    def hang_up(self) -> None:
        """Close the ssh client's shared connection, so that the next connection is cold."""
        command = ["ssh", "-F", str(self._folder / "ssh_config"), "-O", "exit", _ALIAS]
        if (self._folder / "ssh_config").exists():
            subprocess.run(command, check=False, stderr=subprocess.DEVNULL)

    def _write_kernelspecs(self, config: Path) -> None:
        forwards = {"ssh_config": str(config), "host": _ALIAS}
        self._write("ssh-mux", "ssh-forwards", forwards)
        self._write_launcher()
        self._write_first_only()
        if self._sshpyk:
            there = self.over_ssh("command -v python3").strip()
            sshpyk = {"ssh_config": str(config), "ssh_host_alias": _ALIAS, "raise_on_ssh_config_error": False}
            self._write(
                "sshpyk", "sshpyk-provisioner", {**sshpyk, "remote_python": there, "remote_kernel_name": "python3"}
            )

    def _write_launcher(self) -> None:
        kernels = Path(self.environ["JUPYTER_DATA_DIR"], "kernels")
        spec = json.loads((kernels / kernel_name_of(NODE) / "kernel.json").read_text())
        del spec["metadata"]["kernel_provisioner"]
        (kernels / LAUNCHER).mkdir()
        (kernels / LAUNCHER / "kernel.json").write_text(json.dumps(spec))

    def _write_first_only(self) -> None:
        kernels = Path(self.environ["JUPYTER_DATA_DIR"], "kernels")
        spec = json.loads((kernels / kernel_name_of(NODE) / "kernel.json").read_text())
        self._write(FIRST_ONLY, "tpu", {**spec["metadata"]["kernel_provisioner"]["config"], "workers": 1})

    def over_ssh(self, command: str) -> str:
        """Run a command on the worker over ssh, and return its output."""
        ssh = ["ssh", "-F", str(self._folder / "ssh_config"), _ALIAS, command]
        return subprocess.run(ssh, check=True, stdout=subprocess.PIPE, text=True).stdout

    def _write(self, name: str, provisioner: str, config: Mapping[str, Any]) -> None:
        folder = Path(self.environ["JUPYTER_DATA_DIR"], "kernels", name)
        folder.mkdir(parents=True)
        metadata = {"kernel_provisioner": {"provisioner_name": provisioner, "config": config}}
        spec = {"argv": ["ssh"], "display_name": name, "language": "python", "metadata": metadata}
        (folder / "kernel.json").write_text(json.dumps(spec))


@contextmanager
def opened_place(
    sshpyk: Path | None = None, *, sshd: str = "system", accelerator_type: str = "v5litepod-8"
) -> Iterator[Place]:
    """Yield a place, and remove all its processes and files at the end."""
    folder = Path(tempfile.mkdtemp(prefix="jtb-"))  # a short path, because the paths of Unix sockets are limited
    place = Place(folder, sshpyk, sshd, accelerator_type)
    try:
        place.open()
        yield place
    finally:
        place.close()
        shutil.rmtree(folder, ignore_errors=True)


def _own_folders(folder: Path) -> dict[str, str]:
    names = ("JUPYTER_TPU_DATA", "JUPYTER_DATA", "JUPYTER_CONFIG", "JUPYTER_RUNTIME")
    return {f"{name}_DIR": str(folder / name.lower()) for name in names} | {"IPYTHONDIR": str(folder / "ipython")}
