"""The agent's methods for environments: one environment per framework, built in the background."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import psutil

from jupyter_tpu.agent.environments.build import PHASE, Build
from jupyter_tpu.agent.environments.files import EnvironmentFiles
from jupyter_tpu.agent.environments.request import EnvironmentRequest, framework_of
from jupyter_tpu.agent.paths import Home
from jupyter_tpu.errors import TpuError, WrongState
from jupyter_tpu.frameworks import FRAMEWORKS

log = logging.getLogger(__name__)

Params = Mapping[str, Any]
Result = TypeVar("Result")


@dataclass
class _Progress:
    """The build of one environment: its latest step, and a lock to allow only one build at a time."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    step: dict[str, Any] = field(default_factory=dict)


class FrameworkEnvironments:
    """The environments in `home`. An agent's first call resumes the builds that an earlier agent didn't finish."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._progress = {framework: _Progress() for framework in FRAMEWORKS}
        self._continued: set[asyncio.Task[None]] = set()
        self._has_continued = False

    def methods(self) -> dict[str, Callable[[Params], Any]]:
        """Return the RPC methods by name."""
        return {
            "environments": self.environments,
            "make_environment": self.make_environment,
            "remove_environment": self.remove_environment,
        }

    async def environments(self, params: Params) -> dict[str, Any]:
        """Return all environments or that of ``framework``, including incomplete ones and ones being built."""
        self._continue_unfinished()
        wanted = [framework_of(params)] if params.get("framework") else FRAMEWORKS
        rows = [await self._describe(framework) for framework in wanted]
        return {"environments": [row for row in rows if row["is_ready"] or row["making"] or row["is_unfinished"]]}

    async def make_environment(self, params: Params) -> dict[str, Any]:
        """Build an environment (see `EnvironmentRequest`); the reply's ``notes`` list failed packages."""
        self._continue_unfinished()
        order = EnvironmentRequest.from_params(params)
        notes = await self._make(order)
        return {**await self._describe(order.framework), "notes": notes}

    async def remove_environment(self, params: Params) -> dict[str, Any]:
        """Remove the environment of ``framework``.

        Raises:
            WrongState: a process is using the environment.
        """
        framework = framework_of(params)
        files = EnvironmentFiles(self._home, framework)
        async with self._progress[framework].lock:
            was_there = files.folder.exists()
            if users := await in_daemon(lambda: _processes_in(files)):
                raise WrongState(
                    f"The environment {framework} is in use on the worker by process {', '.join(map(str, users))}.",
                    exists="It was not changed.",
                    hint="Shut down the kernels that run in the environment: `jupyter tpu kernels` lists all kernels.",
                )
            await in_daemon(files.remove)
        return {"was_there": was_there}

    async def _make(self, order: EnvironmentRequest) -> list[str]:
        progress, loop = self._progress[order.framework], asyncio.get_running_loop()

        def report(phase: str, message: str, fraction: float) -> None:
            step = {"phase": phase, "message": message, "fraction": fraction}
            with suppress(RuntimeError):  # the agent is exiting; the next one continues the build
                loop.call_soon_threadsafe(setattr, progress, "step", step)

        async with progress.lock:
            build = Build(EnvironmentFiles(self._home, order.framework), order, report)
            progress.step = {"phase": PHASE, "message": "Checking what is installed", "fraction": 0.0}
            await in_daemon(build.run)
        return build.notes

    async def _describe(self, framework: str) -> dict[str, Any]:
        progress, files = self._progress[framework], EnvironmentFiles(self._home, framework)
        seen = await in_daemon(files.describe)
        is_unfinished = await in_daemon(files.is_unfinished)
        return {**seen, "making": progress.step if progress.lock.locked() else None, "is_unfinished": is_unfinished}

    def _continue_unfinished(self) -> None:
        """Resume unfinished builds once per agent process; a build that fails again is retried only on request."""
        if self._has_continued:
            return
        self._has_continued = True
        for framework in FRAMEWORKS:
            if order := EnvironmentFiles(self._home, framework).pending_request():
                task = asyncio.create_task(self._finish(order))
                self._continued.add(task)
                task.add_done_callback(self._continued.discard)

    async def _finish(self, order: EnvironmentRequest) -> None:
        try:
            await self._make(order)
        except TpuError as error:
            log.warning("the environment %s could not be finished: %s", order.framework, error)


def _processes_in(files: EnvironmentFiles) -> list[int]:
    found: list[int] = []
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or [""]
        if command[0] == files.python:
            found.append(process.pid)
    return found


async def in_daemon(work: Callable[[], Result]) -> Result:
    """Run blocking work in a daemon thread, so that the agent can exit during an installation."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[Result] = loop.create_future()

    def settle(result: Result | None, error: BaseException | None) -> None:
        if not outcome.done():
            outcome.set_exception(error) if error else outcome.set_result(result)  # type: ignore[arg-type]

    def do() -> None:
        try:
            settled: tuple[Result | None, BaseException | None] = work(), None
        except Exception as error:  # noqa: BLE001 - it is raised where the work is awaited
            settled = None, error
        with suppress(RuntimeError):  # the agent is exiting
            loop.call_soon_threadsafe(settle, *settled)

    threading.Thread(target=do, name="environments", daemon=True).start()
    return await outcome
