"""The command lines of controllers and engines. Secrets are passed in files that only this user can read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_tpu.agent.kernels.launch_request import Launch
from jupyter_tpu.agent.kernels.launcher import BOOTSTRAP, EXTENSION
from jupyter_tpu.errors import BadInput

ENGINE_FILE = "connection.json"
"""The engine's connection file in its folder. Any process that can read it can run code on all workers."""
_HEARTBEAT_MS = 1000
# Number of heartbeats that an engine may miss. At one heartbeat per second, a hanging machine is noticed after 15 s.
_MISSES = 10
# How long an engine waits for the controller's reply.
_REGISTERS_WITHIN_S = 300
# The controller silently drops an engine whose first heartbeat arrives later than this after its registration. In
# between, the engine creates its kernel. With 8 workers on one busy machine, that took longer than the default of 30 s.
_FIRST_HEARTBEAT_S = 600


@dataclass(frozen=True)
class EngineLaunch:
    """A client's request to start an engine: a kernel's request plus the position in the slice.

    Attributes:
        kernel: settings shared with the kernel: Python, folder and environment variables.
        worker: this worker's number, from 1.
        connection: the content of the controller's connection file for engines.
        start_id: the id of the slice's start; empty if the client is of an earlier version.
    """

    kernel: Launch
    worker: int
    connection: Mapping[str, Any]
    start_id: str = ""

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> EngineLaunch:
        """Parse the parameters of a call.

        Raises:
            BadInput: a parameter is missing or invalid.
        """
        kernel = Launch.from_params({"key": "", **params})
        worker, connection = params.get("worker"), params.get("connection")
        if type(worker) is not int or not 1 <= worker < kernel.workers:
            raise BadInput("The field 'worker' must be a number from 1 to one less than the number of workers.")
        if not isinstance(connection, dict):
            raise BadInput("The field 'connection' must be an object.")
        return cls(kernel, worker, connection, str(params.get("start_id", "")))

    @property
    def notebook(self) -> str:
        """The notebook's path, as given by the front end that started the kernel, or an empty string."""
        return str(self.kernel.env.get("JPY_SESSION_NAME", ""))

    def environment(self, environ: Mapping[str, str], kernel_id: str, agent_socket: str) -> dict[str, str]:
        """Return the engine's environment variables."""
        return {
            **environ,
            **self.kernel.env,
            "JUPYTER_TPU_KERNEL_ID": kernel_id,
            "JUPYTER_TPU_AGENT_SOCKET": agent_socket,
            "TPU_SLICE_WORKER": str(self.worker),
            "TPU_SLICE_WORKERS": str(self.kernel.workers),
            "TPU_SLICE_ADDRESS": str(self.connection.get("location", "")),
        }


def engine_argv(launch: EngineLaunch, folder: Path, default_python: str) -> list[str]:
    """Return the command line of an engine whose connection file is in `folder`."""
    return [
        launch.kernel.python or default_python,
        str(BOOTSTRAP),
        "--engine",
        launch.kernel.cwd,
        f"--file={folder / ENGINE_FILE}",
        f"--profile-dir={folder / 'profile'}",
        f"--IPEngine.id={launch.worker}",
        f"--IPEngine.max_heartbeat_misses={_MISSES}",
        f"--timeout={_REGISTERS_WITHIN_S}",
        "--log-level=30",
        EXTENSION,
        "--",
        *launch.kernel.extra_arguments,
    ]


def share_startup_files(profile: Path, env: Mapping[str, str]) -> None:
    """Make an engine run the user's IPython startup files, as the kernel does; it has a profile folder of its own."""
    ipython = Path(env.get("IPYTHONDIR") or Path.home() / ".ipython").expanduser()
    startup = ipython / "profile_default" / "startup"
    if startup.is_dir():
        (profile / "startup").symlink_to(startup, target_is_directory=True)


def controller_argv(python: str, folder: Path, address: str) -> list[str]:
    """Return the command line of a controller that listens on `address` only."""
    return [
        python,
        "-m",
        "ipyparallel.controller",
        f"--profile-dir={folder / 'profile'}",
        f"--IPController.ip={address}",
        f"--IPController.location={address}",
        # Run two processes instead of nine.
        "--IPController.use_threads=True",
        # The default database would keep every output.
        "--IPController.db_class=ipyparallel.controller.dictdb.NoDB",
        f"--HeartMonitor.period={_HEARTBEAT_MS}",
        f"--IPController.registration_timeout={_FIRST_HEARTBEAT_S}",
        "--log-level=30",
    ]


def controller_env(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the controller's environment variables. They enable CURVE, whose keys are in the connection file."""
    return {**environ, "IPP_ENABLE_CURVE": "1"}
