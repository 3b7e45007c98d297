"""The agent's methods for kernels on all workers of a slice.

On worker 0, the agent runs an ipyparallel controller beside the kernel; on every other worker, it runs an engine. A
client calls ``prepare_slice`` on all workers, then ``start_controller`` and ``start_kernel`` on worker 0, then
``start_engine`` on the other workers, and ``finish_start`` on worker 0. If the client is killed in between, the next
client starts the missing engines with the settings from ``unfinished_start``. The controller stops when its kernel
exits, even without a client; engines exit when they miss the controller's heartbeats. If an engine exits earlier, a
client tells worker 0 with ``report_loss``, because the controller does not notice the exit of an engine that has not
joined yet.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from typing import Any

from jupyter_tpu.agent.environments.methods import in_daemon
from jupyter_tpu.agent.kernels.kernel_dir import CLIENT_FILE, CONTROLLER, check_room, write_private
from jupyter_tpu.agent.kernels.kernels import Kernels, checked_kernel_id
from jupyter_tpu.agent.kernels.process import ReportedExits
from jupyter_tpu.agent.paths import Home, private_folder
from jupyter_tpu.agent.slices.engine_exits import report_exit
from jupyter_tpu.agent.slices.network import node_facts, own_address
from jupyter_tpu.agent.slices.packages import SlicePackages
from jupyter_tpu.agent.slices.process import SliceProcess
from jupyter_tpu.agent.slices.programs import (
    ENGINE_FILE,
    EngineLaunch,
    controller_argv,
    controller_env,
    engine_argv,
    share_startup_files,
)
from jupyter_tpu.errors import KernelFailed

log = logging.getLogger(__name__)

Params = Mapping[str, Any]

# Time limit for the start of a controller. It normally listens after 2 s, but a worker whose cores are all busy may
# need much longer.
_CONTROLLER_S = 60.0
_LOOK_EVERY_S = 0.05
# If the kernel has not started within this time, assume that its client has abandoned the controller.
_KERNEL_STARTS_WITHIN_S = 120.0
_CHECK_EVERY_S = 5.0
# How long to remember how an engine exited, for a user who returns later.
_KEPT_S = 24 * 3600


class Slices:
    """The controllers and engines of this worker, by the ids of their kernels.

    Args:
        python: the default Python for kernels.
    """

    def __init__(self, home: Home, python: str, kernels: Kernels, reports: ReportedExits) -> None:
        self._home = home
        self._python = python
        self._kernels = kernels
        self._reports = reports
        self._packages = SlicePackages(home, python)
        self._controllers: dict[str, SliceProcess] = {}
        self._engines: dict[str, SliceProcess] = {}
        self._changing = asyncio.Lock()

    @property
    def methods(self) -> Mapping[str, Callable[[Params], Awaitable[dict[str, Any]]]]:
        """The RPC methods by name."""
        return {
            "prepare_slice": self.prepare_slice,
            "start_controller": self.start_controller,
            "start_engine": self.start_engine,
            "unfinished_start": self.unfinished_start,
            "finish_start": self.finish_start,
            "report_loss": self.report_loss,
            "stop_slice": self.stop_slice,
            "slice_info": self.slice_info,
        }

    async def prepare_slice(self, params: Params) -> dict[str, Any]:
        """Check that this worker can take part in a kernel with ``python``, and install missing packages.

        Returns ``python``: the Python to use, or an empty string for the agent's default Python; ``workers``: the
        number of the node's workers, or 0 if it is unknown; ``env``: variables for all processes of the slice.

        Raises:
            EnvironmentFailed: the disk is full, or a package can't be installed.
        """
        check_room(private_folder(self._home.slices))
        wanted = str(params.get("python") or self._python)
        python = await in_daemon(lambda: self._packages.provide(wanted))
        workers, env = await asyncio.to_thread(node_facts)
        return {"python": "" if python == self._python else python, "workers": workers, "env": env}

    async def start_controller(self, params: Params) -> dict[str, Any]:
        """Start the controller for a kernel's next process, replacing an earlier controller.

        The parameter ``engines``, the settings of the engines, is stored for ``unfinished_start``.

        Returns ``engine_connection``, the secret content of the engines' connection file, and the ``address`` in it.

        Raises:
            EnvironmentFailed: the worker's address is unknown.
            KernelFailed: the controller can't be started.
        """
        kernel = self._kernels.get_or_make(params.get("kernel_id"))
        after = kernel.generation
        # Delete the file first: the kernel starts in the meantime and must not find a previous controller's file.
        (kernel.controller_folder / CLIENT_FILE).unlink(missing_ok=True)
        address = await asyncio.to_thread(own_address)
        controller = SliceProcess(kernel.controller_folder, self._reports)
        async with self._changing:
            await self._replace(self._controllers, kernel.kernel_id, controller)
            folder = controller.make_folder()
            python = str(params.get("python") or self._python)
            argv, engines = controller_argv(python, folder, address), params.get("engines")
            start_id = engines.get("start_id", "") if isinstance(engines, dict) else ""
            env = controller_env(os.environ)
            self._start(controller, argv, env, after=after, engines=engines, start_id=start_id)
        return {"engine_connection": await self._connection_of(controller), "address": address}

    async def start_engine(self, params: Params) -> dict[str, Any]:
        """Start this worker's engine for a kernel, replacing the engine of an earlier start; see `EngineLaunch`.

        If the engine of this start was started before, do nothing, even if it has exited: its variables are lost.
        """
        kernel_id = checked_kernel_id(params.get("kernel_id"))
        launch = EngineLaunch.from_params(params)
        engine = SliceProcess(self._home.slices / kernel_id, self._reports)
        async with self._changing:
            known = self._engines.get(kernel_id)
            if known and launch.start_id and known.state.get("start_id") == launch.start_id:
                return {"pid": known.pid}
            await self._replace(self._engines, kernel_id, engine)
            folder = engine.make_folder()
            private_folder(folder / "profile")
            write_private(folder / ENGINE_FILE, json.dumps(launch.connection))
            env = launch.environment(os.environ, kernel_id, str(self._home.socket))
            share_startup_files(folder / "profile", env)
            marks = {name: env[name] for name in ("JUPYTER_TPU_KERNEL_ID", "JUPYTER_TPU_AGENT_SOCKET")}
            argv = engine_argv(launch, folder, self._python)
            facts = {"worker": launch.worker, "notebook": launch.notebook, "marks": marks, "start_id": launch.start_id}
            self._start(engine, argv, env, **facts)
            self._report_exit_of(engine)
        return {"pid": engine.pid}

    async def unfinished_start(self, params: Params) -> dict[str, Any]:
        """Return the ``engines`` and ``engine_connection`` of a start that no client has finished; {} if there is none.

        Raises:
            KernelFailed: the controller has exited, so the engines can't be started.
        """
        controller = self._controllers.get(checked_kernel_id(params.get("kernel_id")))
        engines = controller and controller.state.get("engines")
        if not controller or not engines:
            return {}
        return {"engines": engines, "engine_connection": await self._connection_of(controller)}

    async def finish_start(self, params: Params) -> dict[str, Any]:
        """Record that all engines were started, and delete their settings, which may contain the user's secrets."""
        if controller := self._controllers.get(checked_kernel_id(params.get("kernel_id"))):
            controller.save(engines=None)
        return {}

    async def report_loss(self, params: Params) -> dict[str, Any]:
        """Store how the engine of a ``worker`` exited, for the kernel here; with ``is_shown``, show its user, too.

        Only the first ``message`` about a worker counts, and only if it is about the current start, ``start_id``.
        """
        kernel_id, worker = checked_kernel_id(params.get("kernel_id")), str(params.get("worker"))
        controller = self._controllers.get(kernel_id)
        # The id is empty if the agent of the other worker is of an earlier version.
        if controller is None or params.get("start_id") not in ("", controller.state.get("start_id")):
            return {}
        losses, message = controller.state.get("losses", {}), str(params.get("message"))
        if worker not in losses:
            controller.save(losses={**losses, worker: message})
            if params.get("is_shown"):
                self._kernels.get(kernel_id).event("words", message=message)
        return {}

    async def stop_slice(self, params: Params) -> dict[str, Any]:
        """Stop this worker's controller and engine for a kernel.

        With a ``reason``, also shut down the kernel if it runs here, and show its user the reason. ``has_ended`` in the
        result is whether that was done.
        """
        kernel_id = checked_kernel_id(params.get("kernel_id"))
        has_ended = False
        if reason := str(params.get("reason", "")):
            with suppress(KernelFailed):
                kernel = self._kernels.get(kernel_id)
                if has_ended := kernel.is_alive:
                    kernel.end_because(reason)
        async with self._changing:
            for found in (self._controllers, self._engines):
                if process := found.pop(kernel_id, None):
                    await process.stop()
                    process.close()
                    rmtree(process.folder, ignore_errors=True)
        return {"has_ended": has_ended}

    async def slice_info(self, params: Params) -> dict[str, Any]:
        """Return this worker's ``controller`` and ``engine`` for a kernel, or None for a process that doesn't exist.

        With ``wait``, if any process is running, return only once a process has exited.
        """
        kernel_id = checked_kernel_id(params.get("kernel_id"))
        found = {"controller": self._controllers.get(kernel_id), "engine": self._engines.get(kernel_id)}
        running = [process for process in found.values() if process and process.is_running]
        if params.get("wait") and running:
            await _first([process.ended for process in running])
        return {name: process.describe() if process else None for name, process in found.items()}

    # -- methods for other parts of the agent

    def adopt(self) -> None:
        """Find the processes that an earlier agent started; call this before kernels are adopted."""
        for kernel in self._home.kernels.glob("*"):
            if (kernel / CONTROLLER).is_dir():
                self._adopt(self._controllers, kernel.name, kernel / CONTROLLER)
        for folder in self._home.slices.glob("*"):
            if folder.is_dir():
                self._adopt(self._engines, folder.name, folder)
                self._report_exit_of(self._engines[folder.name])

    def _report_exit_of(self, engine: SliceProcess) -> None:
        """Report to the kernel when this engine has exited, unless that was requested."""
        worker = engine.state.get("worker")
        if isinstance(worker, int):  # an agent of an earlier version didn't store it
            engine.when_lost(lambda: report_exit(engine.folder / ENGINE_FILE, worker))

    def _adopt(self, processes: dict[str, SliceProcess], kernel_id: str, folder: Path) -> None:
        processes[kernel_id] = SliceProcess(folder, self._reports)
        processes[kernel_id].adopt()

    def kernel_ended(self, kernel_id: str, generation: int) -> None:
        """Stop the controller of an exited kernel process, unless the controller serves the kernel's next process."""
        controller = self._controllers.get(kernel_id)
        if controller is not None and generation > int(controller.state.get("after", 0)):
            controller.kill()

    def by_pid(self) -> dict[int, tuple[str, str]]:
        """Return each engine's kernel id and notebook by its pid. Any thread may call this."""
        engines = list(self._engines.items())
        return {engine.pid: (key, str(engine.state.get("notebook", ""))) for key, engine in engines if engine.pid}

    async def run(self) -> None:
        """Stop controllers without a kernel and remove leftovers of old engines, until cancelled."""
        while True:
            await asyncio.sleep(_CHECK_EVERY_S)
            for kernel_id, controller in self._controllers.items():
                if controller.is_running and not self._has_kernel(kernel_id, controller):
                    log.warning("the controller of kernel %s has no kernel: ended", kernel_id)
                    controller.kill()
            self._remove_old()

    def close(self) -> None:
        """Stop watching the processes, which keep running."""
        for process in (*self._controllers.values(), *self._engines.values()):
            process.close()

    def _has_kernel(self, kernel_id: str, controller: SliceProcess) -> bool:
        is_new = controller.state_for_s < _KERNEL_STARTS_WITHIN_S
        return is_new or any(kernel.kernel_id == kernel_id and kernel.is_alive for kernel in self._kernels.all())

    def _remove_old(self) -> None:
        for kernel_id, controller in tuple(self._controllers.items()):
            if not controller.is_running and not controller.folder.exists():
                del self._controllers[kernel_id]
        for kernel_id, engine in tuple(self._engines.items()):
            if not engine.is_running and engine.state_for_s > _KEPT_S:
                del self._engines[kernel_id]
                rmtree(engine.folder, ignore_errors=True)

    async def _replace(self, processes: dict[str, SliceProcess], kernel_id: str, new: SliceProcess) -> None:
        if old := processes.get(kernel_id):
            await old.stop()
            old.close()
        processes[kernel_id] = new

    def _start(self, process: SliceProcess, argv: list[str], env: Mapping[str, str], **facts: Any) -> None:
        try:
            process.start(argv, env, **facts)
        except OSError as error:
            process.ended.set()
            raise KernelFailed(
                f"The worker can't run {argv[0]}.",
                hint="Check that this Python exists there and that the disk is not full.",
                raw=str(error),
            ) from error

    async def _connection_of(self, controller: SliceProcess) -> dict[str, Any]:
        """Wait until the controller has written its connection files, and return the content of the engines' file."""
        until = time.monotonic() + _CONTROLLER_S
        engine_file = controller.folder / CLIENT_FILE.replace("-client", "-engine")
        while not controller.ended.is_set() and time.monotonic() < until:
            if (controller.folder / CLIENT_FILE).exists():
                with suppress(OSError, ValueError):  # the file has been written only partly
                    return dict(json.loads(engine_file.read_text()))
            await asyncio.sleep(_LOOK_EVERY_S)  # there is no event for a new file
        controller.kill()
        raise KernelFailed(
            "The connection between the workers could not be started on worker 0.",
            hint="Start the kernel again; `jupyter tpu ssh` shows whether worker 0 is short of memory.",
            raw=controller.last_output(),
        )


async def _first(events: list[asyncio.Event]) -> None:
    waiting = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
