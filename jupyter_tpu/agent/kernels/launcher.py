"""Start kernels' processes, or use the spare (the pre-warmed kernel) if it fits."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from jupyter_tpu.agent.kernels.kernel_dir import KernelDirectory
from jupyter_tpu.agent.kernels.launch_request import Launch
from jupyter_tpu.agent.kernels.prewarm import Spares
from jupyter_tpu.agent.kernels.process import Process, ReportedExits
from jupyter_tpu.agent.paths import Home, disk_full
from jupyter_tpu.errors import KernelFailed

BOOTSTRAP = Path(__file__).with_name("kernel_bootstrap.py")
# How long to wait for deleted code. `home_watch` restores it within seconds, unless the disk is full.
_CODE_COMES_WITHIN_S = 20.0
_LOOK_EVERY_S = 0.1
EXTENSION = "--IPKernelApp.extra_extensions=jupyter_tpu.notebook"


class Launcher:
    """A launcher for kernels' processes.

    Args:
        python: the default Python for kernels.
        reports: receives the exits of processes that are not our children.
        is_quiet: returns whether no kernel is executing.
        on_spare: called when a spare becomes ready, and when it is used.
    """

    def __init__(
        self,
        home: Home,
        python: str,
        reports: ReportedExits,
        is_quiet: Callable[[], bool],
        on_spare: Callable[[], None],
    ) -> None:
        self._home = home
        self._python = python
        self._reports = reports
        self.spares = Spares(home, python, self._start_spare, is_quiet, on_spare)

    async def wait_for_code(self) -> None:
        """Wait for the agent's code if its folder was removed (`home_watch` restores it).

        Raises:
            KernelFailed: the folder was not restored before the timeout.
        """
        until = time.monotonic() + _CODE_COMES_WITHIN_S
        while not BOOTSTRAP.exists() and time.monotonic() < until:  # noqa: ASYNC110 - nothing announces a file
            await asyncio.sleep(_LOOK_EVERY_S)
        if not BOOTSTRAP.exists():
            raise KernelFailed(
                f"The agent's folder {self._home.root} was removed from the worker and is not restored yet.",
                hint="Start the kernel again in a minute.",
            )

    async def launch(self, kernel_id: str, folder: KernelDirectory, launch: Launch) -> Process:
        """Start a process for the kernel, or use the spare.

        Raises:
            WorkerDiskFull: the disk is full or read-only.
            KernelFailed: the process can't be started.
        """
        python = self.python_of(launch)
        own = {
            **launch.env,
            "JUPYTER_TPU_KERNEL_ID": kernel_id,
            "JUPYTER_TPU_HOOK_SOCKET": str(folder.hook_socket),
            **({"TPU_SLICE_FILE": str(folder.slice_file)} if launch.workers > 1 else {}),
        }
        try:
            connection_file = folder.prepare_launch(launch)
            if spare := await self.spares.claim(folder, launch, own):
                return spare
            folder.clear_sockets()
            arguments = [launch.cwd, str(connection_file), EXTENSION, *launch.extra_arguments]
            return self._start(python, arguments, own, folder.output)
        except OSError as error:
            self.spares.withdraw()
            raise disk_full(folder.output.parent, error) or KernelFailed(
                f"Could not start a kernel on the worker with {python}.",
                hint="Check that this Python exists there and that the disk is not full.",
                raw=str(error),
            ) from error

    def python_of(self, launch: Launch) -> str:
        """Return the Python that a kernel runs on."""
        return launch.python or self._python

    def _start_spare(self, connection_file: Path, output: Path, agent: int) -> Process:
        return self._start(self._python, ["--spare", "", str(connection_file), EXTENSION], {}, output, agent)

    def _start(
        self,
        python: str,
        arguments: Sequence[str],
        env: Mapping[str, str],
        output: Path,
        stdin: int = subprocess.DEVNULL,
    ) -> Process:
        # As in ipykernel's own kernelspec: the debugger can't stop in frozen modules.
        argv = [python, "-Xfrozen_modules=off", str(BOOTSTRAP), *arguments]
        environment = {
            **os.environ,
            **env,
            "JUPYTER_TPU_AGENT_SOCKET": str(self._home.socket),
            # ipykernel exits when its parent exits. Here the parent is only the agent, so 1 disables this check.
            "JPY_PARENT_PID": "1",
        }
        return Process.start(argv, env=environment, cwd=Path.home(), output=output, reports=self._reports, stdin=stdin)
