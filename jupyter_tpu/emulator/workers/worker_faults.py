"""The faults of running workers: killed processes, a slow or frozen machine, a wrong clock, or a cut network."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from jupyter_tpu.emulator.resources import fields
from jupyter_tpu.emulator.workers.cut_connections import (
    cut_connections,
    refuse_if_impossible,
    restore_connections,
)
from jupyter_tpu.emulator.workers.process_tree import kill_workers, processes_of
from jupyter_tpu.worker_clock import set_error

if TYPE_CHECKING:  # the command line needs only the verbs and must not load an SSH server
    from jupyter_tpu.emulator.workers.machine import Machine

MEANINGS: Mapping[str, str] = {
    "kill": "all processes of the worker are killed; its SSH server stays up",
    "slow": "the worker's processes take this many times as long",
    "freeze": "the worker's processes are paused, as if the machine hung",
    "clock": "the wall clock of jupyter_tpu's own code on the worker is this many seconds ahead; may be negative",
    "cut": "no packets pass between the worker and another worker; both ends of each connection wait",
    "clear": "remove all faults of the worker",
}
FIELDS: Mapping[str, Mapping[str, fields.Check]] = {
    "slow": {"factor": fields.counting},
    "clock": {"ahead_s": fields.difference},
    "cut": {"other_worker_id": fields.whole},
}
"""The fields that each verb requires."""

_PERIOD_S = 0.1
_ROUNDS = 10  # number of stop signals before searching for new processes, which takes a while
_LOOK_EVERY_S = 0.1

_Key = tuple[str, str, str]
"""A verb, the worker's token, and the other worker's token (empty if there is none)."""


class WorkerFaults:
    """The faults of all workers. Each lasting fault is a task that also affects new processes and connections."""

    def __init__(self) -> None:
        self._lasting: dict[_Key, tuple[asyncio.Task[None], dict[str, Any]]] = {}

    async def kill(self, machine: Machine) -> None:
        """Kill all processes of a worker."""
        await kill_workers([machine.token])

    async def slow(self, machine: Machine, factor: int) -> None:
        """Slow down the processes of a worker, so that they take `factor` times as long."""
        await self._pace(machine, "slow", {"factor": factor}, factor)

    async def freeze(self, machine: Machine) -> None:
        """Freeze the processes of a worker."""
        await self._pace(machine, "freeze", {}, math.inf)

    async def _pace(self, machine: Machine, verb: str, values: dict[str, Any], factor: float) -> None:
        # the latest fault replaces earlier ones
        await self._end(lambda key: key[0] in ("slow", "freeze") and key[1] == machine.token)
        self._begin((verb, machine.token, ""), values, _paced(machine, factor))

    async def set_clock(self, machine: Machine, ahead_s: float) -> None:
        """Set by how many seconds a worker's wall clock is ahead."""
        await self._end(lambda key: key[0] == "clock" and key[1] == machine.token)
        set_error(machine.clock_error, ahead_s)
        self._begin(("clock", machine.token, ""), {"ahead_s": ahead_s}, _clock_set(machine))

    async def cut(self, machine: Machine, other: Machine) -> None:
        """Cut the network between two workers.

        Raises:
            CannotCut: this system does not allow it.
        """
        refuse_if_impossible()
        # cut the connections once before responding, so that the caller gets an error if this fails
        await asyncio.to_thread(cut_connections, machine.token, other.token)
        key = ("cut", machine.token, other.token)
        await self._end(lambda each: each == key)
        self._begin(key, {"other_worker_id": other.worker_id}, _cut(machine.token, other.token))

    async def clear(self, *tokens: str) -> None:
        """Remove all faults of these workers."""
        await self._end(lambda key: not {key[1], key[2]}.isdisjoint(tokens))

    async def close(self) -> None:
        """Remove all faults."""
        await self._end(lambda _: True)

    def of(self, machine: Machine) -> list[dict[str, Any]]:
        """Return the lasting faults of a worker."""
        return [{"verb": key[0], **values} for key, (_, values) in self._lasting.items() if key[1] == machine.token]

    def _begin(self, key: _Key, values: dict[str, Any], acting: Coroutine[Any, Any, None]) -> None:
        self._lasting[key] = (asyncio.ensure_future(acting), values)

    async def _end(self, is_meant: Callable[[_Key], bool]) -> None:
        tasks = [self._lasting.pop(key)[0] for key in list(self._lasting) if is_meant(key)]
        for task in tasks:
            task.cancel()
        # each task undoes its fault before it finishes
        await asyncio.gather(*tasks, return_exceptions=True)


async def resume_after_crash(machine: Machine) -> None:
    """Resume a worker's processes that were still stopped when the previous emulator was killed."""
    if _mark(machine).exists():
        await asyncio.to_thread(_resume, machine)


async def _paced(machine: Machine, factor: float) -> None:
    """Alternately stop and resume a worker's processes, until cancelled."""
    stopped_s, running_s = _PERIOD_S * (1 - 1 / factor), _PERIOD_S / factor
    await asyncio.to_thread(_mark(machine).touch)
    try:
        while True:
            # search repeatedly, because processes exit and new ones start
            processes = await asyncio.to_thread(processes_of, [machine.token])
            for _ in range(_ROUNDS):
                _for_each(processes, psutil.Process.suspend)
                await asyncio.sleep(stopped_s)
                if running_s:
                    _for_each(processes, psutil.Process.resume)
                    await asyncio.sleep(running_s)
    finally:
        await asyncio.to_thread(_resume, machine)


def _resume(machine: Machine) -> None:
    _for_each(processes_of([machine.token]), psutil.Process.resume)
    _mark(machine).unlink(missing_ok=True)


def _for_each(processes: list[psutil.Process], act: Callable[[psutil.Process], None]) -> None:
    for process in processes:
        with suppress(psutil.Error):  # the process has exited
            act(process)


def _mark(machine: Machine) -> Path:
    return machine.folder / "stopped"


async def _clock_set(machine: Machine) -> None:
    """Wait until cancelled, then correct the worker's clock."""
    try:
        await asyncio.Event().wait()
    finally:
        set_error(machine.clock_error, 0.0)


async def _cut(first: str, second: str) -> None:
    """Cut each connection between two workers, including later ones, until cancelled."""
    try:
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            await asyncio.to_thread(cut_connections, first, second)
    finally:
        await asyncio.to_thread(restore_connections, first, second)
