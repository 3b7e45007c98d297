"""An event loop in which hours pass in milliseconds, and always in the same way."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any

_STEP_S = 1e-6
"""What each look at the clock takes, so that no two moments are equal."""

OWNER: ContextVar[set[asyncio.Task[Any]] | None] = ContextVar("OWNER", default=None)
"""Where the tasks are noted that are begun within: they are those of one process."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """Its time stands still while something runs, and jumps ahead when everything waits.

    There are no threads: what would run in one runs in the loop, a turn later.
    """

    def __init__(self) -> None:
        self._moment = 0.0
        super().__init__(_JumpingSelector(self._jump))
        self.set_task_factory(_noted)

    def time(self) -> float:
        self._moment += _STEP_S
        return self._moment

    def _jump(self, seconds: float) -> None:
        self._moment += seconds

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        future = self.create_future()
        self.call_soon(_perform, future, func, args)
        return future


class _JumpingSelector(selectors.SelectSelector):
    """Nothing ever comes from outside, so the system is not asked."""

    def __init__(self, jump: Callable[[float], None]) -> None:
        super().__init__()
        self._jump = jump

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise AssertionError("everything waits for something that never comes")
        self._jump(max(timeout, 0.0))
        return []


def _perform(future: asyncio.Future[Any], func: Callable[..., Any], args: tuple[Any, ...]) -> None:
    if future.cancelled():
        return
    try:
        result = func(*args)
    except Exception as error:  # noqa: BLE001 - it is raised where the result is awaited
        future.set_exception(error)
    else:
        future.set_result(result)


def _noted(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **options: Any) -> asyncio.Task[Any]:
    task = asyncio.Task(coroutine, loop=loop, **options)
    owner = OWNER.get()
    if owner is not None:
        owner.add(task)
        task.add_done_callback(owner.discard)
    return task
