"""Starts the processes of kernels: a fresh one each time, or the spare where it fits."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from jupyter_tpu.agent.kernels.kernel_dir import KernelDirectory
from jupyter_tpu.agent.kernels.prewarm import Spares
from jupyter_tpu.agent.kernels.process import Process, ReportedExits
from jupyter_tpu.agent.kernels.request import Launch
from jupyter_tpu.agent.paths import Home
from jupyter_tpu.errors import KernelFailed

_BOOTSTRAP = Path(__file__).with_name("kernel_bootstrap.py")
_CODE_COMES_WITHIN_S = 20.0
_LOOK_EVERY_S = 0.1
_EXTENSION = "--IPKernelApp.extra_extensions=jupyter_tpu.notebook"


class Launcher:
    """All that a kernel's process is started with.

    Args:
        python: what kernels run on unless they ask for another.
        is_quiet: whether no kernel is at work.
        on_spare: called when there is a spare, or none any more.
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
        """Wait, after somebody has removed the agent's folder, until its code is there again (`home_watch`).

        Raises:
            KernelFailed: it does not come.
        """
        until = time.monotonic() + _CODE_COMES_WITHIN_S
        while not _BOOTSTRAP.exists() and time.monotonic() < until:  # noqa: ASYNC110 - the file system tells nobody
            await asyncio.sleep(_LOOK_EVERY_S)
        if not _BOOTSTRAP.exists():
            raise KernelFailed(
                f"The agent's folder {self._home.root} was removed from the worker, and is not restored yet.",
                hint="Start the kernel again in a minute.",
            )

    async def launch(self, kernel_id: str, folder: KernelDirectory, launch: Launch) -> Process:
        """A process for the kernel.

        Raises:
            KernelFailed: the command cannot be run.
        """
        python = self.python_of(launch)
        own = {
            **launch.env,
            "JUPYTER_TPU_KERNEL_ID": kernel_id,
            "JUPYTER_TPU_HOOK_SOCKET": str(folder.hook_socket),
        }
        try:
            connection_file = folder.prepare_launch(launch)
            if spare := await self.spares.take(folder, launch, own):
                return spare
            folder.clear_sockets()
            arguments = [launch.cwd, str(connection_file), _EXTENSION, *launch.extra_arguments]
            return self._start(python, arguments, own, folder.output)
        except OSError as error:
            raise KernelFailed(
                f"No kernel could be started on the worker with {python}.",
                hint="Look whether this Python exists there, and whether the disk is full.",
                raw=str(error),
            ) from error

    def python_of(self, launch: Launch) -> str:
        """The Python that the kernel runs on."""
        return launch.python or self._python

    def _start_spare(self, connection_file: Path, output: Path, agent: int) -> Process:
        return self._start(self._python, ["--spare", "", str(connection_file), _EXTENSION], {}, output, agent)

    def _start(
        self,
        python: str,
        arguments: Sequence[str],
        env: Mapping[str, str],
        output: Path,
        stdin: int = subprocess.DEVNULL,
    ) -> Process:
        # ipykernel's own kernelspec turns frozen modules off too: the debugger cannot stop in them.
        argv = [python, "-Xfrozen_modules=off", str(_BOOTSTRAP), *arguments]
        environment = {
            **os.environ,
            **env,
            "JUPYTER_TPU_AGENT_SOCKET": str(self._home.socket),
            # ipykernel would end itself with its parent, which for us is only the agent; 1 means "do not watch".
            "JPY_PARENT_PID": "1",
        }
        return Process.start(argv, env=environment, cwd=Path.home(), output=output, reports=self._reports, stdin=stdin)
