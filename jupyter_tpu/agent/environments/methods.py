"""The agent's methods for frameworks' environments: one of each framework, made in the background."""

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
from jupyter_tpu.agent.environments.request import Order, framework_of
from jupyter_tpu.agent.paths import Home
from jupyter_tpu.errors import TpuError, WrongState
from jupyter_tpu.frameworks import FRAMEWORKS

log = logging.getLogger(__name__)

Params = Mapping[str, Any]
Result = TypeVar("Result")


@dataclass
class _Progress:
    """How far one environment has come."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    step: dict[str, Any] = field(default_factory=dict)


class FrameworkEnvironments:
    """Those below `home`. What a killed agent had begun goes on when somebody first asks."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._progress = {framework: _Progress() for framework in FRAMEWORKS}
        self._going_on: set[asyncio.Task[None]] = set()
        self._has_looked = False

    def methods(self) -> dict[str, Callable[[Params], Any]]:
        return {
            "environments": self.environments,
            "make_environment": self.make_environment,
            "remove_environment": self.remove_environment,
        }

    async def environments(self, params: Params) -> dict[str, Any]:
        """Those that are there, whole or in part, or being made, or the one of ``framework``."""
        self._go_on()
        wanted = [framework_of(params)] if params.get("framework") else FRAMEWORKS
        rows = [await self._describe(framework) for framework in wanted]
        return {"environments": [row for row in rows if row["is_ready"] or row["making"] or row["is_unfinished"]]}

    async def make_environment(self, params: Params) -> dict[str, Any]:
        """Make one, see `Order`; answers when it is there, with what could not be had in ``notes``."""
        self._go_on()
        order = Order.from_params(params)
        notes = await self._make(order)
        return {**await self._describe(order.framework), "notes": notes}

    async def remove_environment(self, params: Params) -> dict[str, Any]:
        """Remove one that nothing runs in."""
        framework = framework_of(params)
        files = EnvironmentFiles(self._home, framework)
        async with self._progress[framework].lock:
            was_there = files.folder.exists()
            if users := await _in_daemon(lambda: _processes_in(files)):
                raise WrongState(
                    f"The environment {framework} is in use on the worker by process {', '.join(map(str, users))}.",
                    exists="It is as it was.",
                    hint="Shut down the kernels that run in it: `jupyter tpu kernels` lists them.",
                )
            await _in_daemon(files.remove)
        return {"was_there": was_there}

    async def _make(self, order: Order) -> list[str]:
        progress, loop = self._progress[order.framework], asyncio.get_running_loop()

        def report(phase: str, message: str, fraction: float) -> None:
            step = {"phase": phase, "message": message, "fraction": fraction}
            with suppress(RuntimeError):  # the agent ends; what it has begun goes on in the next
                loop.call_soon_threadsafe(setattr, progress, "step", step)

        async with progress.lock:
            build = Build(EnvironmentFiles(self._home, order.framework), order, report)
            progress.step = {"phase": PHASE, "message": "Looking at what is there", "fraction": 0.0}
            await _in_daemon(build.run)
        return build.notes

    async def _describe(self, framework: str) -> dict[str, Any]:
        progress, files = self._progress[framework], EnvironmentFiles(self._home, framework)
        seen = await _in_daemon(files.describe)
        is_unfinished = await _in_daemon(files.is_unfinished)
        return {**seen, "making": progress.step if progress.lock.locked() else None, "is_unfinished": is_unfinished}

    def _go_on(self) -> None:
        """Once in this agent's life: what fails then is tried again only when somebody asks for it."""
        if self._has_looked:
            return
        self._has_looked = True
        for framework in FRAMEWORKS:
            if order := EnvironmentFiles(self._home, framework).order():
                task = asyncio.create_task(self._finish(order))
                self._going_on.add(task)
                task.add_done_callback(self._going_on.discard)

    async def _finish(self, order: Order) -> None:
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


async def _in_daemon(work: Callable[[], Result]) -> Result:
    """Do blocking work in a thread that the agent's end does not wait for."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[Result] = loop.create_future()

    def settle(result: Result | None, error: BaseException | None) -> None:
        if not outcome.done():
            outcome.set_exception(error) if error else outcome.set_result(result)  # type: ignore[arg-type]

    def do() -> None:
        try:
            told: tuple[Result | None, BaseException | None] = work(), None
        except Exception as error:  # noqa: BLE001 - it is raised where the work is awaited
            told = None, error
        with suppress(RuntimeError):  # the agent ends
            loop.call_soon_threadsafe(settle, *told)

    threading.Thread(target=do, name="environments", daemon=True).start()
    return await outcome
