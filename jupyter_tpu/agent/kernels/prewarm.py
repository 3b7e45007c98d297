"""Kernels in reserve: one process with ipykernel imported waits on each worker, so that a start takes no start.

A spare is used only where the kernel could not tell: the same Python, no arguments, and no variable that matters while
Python and IPython start. It must not compete with somebody's cell for a small machine, so it is made in a quiet moment,
and it is not made where memory is short.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import shutil
import signal
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from jupyter_tpu.agent.kernels.kernel_dir import KernelDirectory, write_connection_file
from jupyter_tpu.agent.kernels.process import Process
from jupyter_tpu.agent.kernels.request import Launch
from jupyter_tpu.agent.paths import Home, private_folder

log = logging.getLogger(__name__)

StartSpare = Callable[[Path, Path, int], Process]

_FIRST_AFTER_S = 0.5
_NEXT_AFTER_S = 1.0
_QUIET_WITHIN_S = 30.0
_BOOT_S = 60.0
_HAND_OVER_S = 2.0
_AFTER_FAILURE_S = 10.0
_MEMORY_BYTES = 1024 * 1024 * 1024
# What Python and IPython read while they start.
_MATTERS_AT_START = ("PYTHON", "IPYTHON", "JUPYTER", "LD_")


@dataclass
class Spare:
    """A kernel's process that nobody uses yet."""

    process: Process
    sockets: Path
    output: Path
    agent_end: socket.socket
    kernel_info: Mapping[str, Any] = field(default_factory=dict)
    watched: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_outdated(self) -> bool:
        """Whether packages or startup files have changed since it read them, or its files were removed."""
        are_there = self.sockets.is_dir() and self.output.exists()
        return not are_there or any(_changed_at(path) != then for path, then in self.watched.items())

    async def hear(self, timeout_s: float) -> dict[str, Any]:
        """The next thing it says.

        Raises:
            EOFError, OSError, ValueError, TimeoutError: it says nothing, or nonsense.
        """
        loop, said = asyncio.get_running_loop(), b""
        while not said.endswith(b"\n"):
            piece = await asyncio.wait_for(loop.sock_recv(self.agent_end, 65536), timeout_s)
            if not piece:
                raise EOFError("it ended")
            said += piece
        content: dict[str, Any] = json.loads(said)
        return content

    async def become(self, kernel: Mapping[str, Any]) -> None:
        """Make it that kernel.

        Raises:
            EOFError, OSError, ValueError, TimeoutError: it does not answer.
        """
        await asyncio.get_running_loop().sock_sendall(self.agent_end, json.dumps(kernel).encode() + b"\n")
        await self.hear(_HAND_OVER_S)

    def discard(self) -> None:
        """End it and remove what is left of it."""
        self.process.send_signal(signal.SIGKILL)
        self.process.close()
        self.agent_end.close()
        shutil.rmtree(self.sockets, ignore_errors=True)
        self.output.unlink(missing_ok=True)


class Spares:
    """Keeps one spare.

    Args:
        is_quiet: whether no kernel is at work.
        on_change: called when there is a spare, or none any more.
    """

    def __init__(
        self,
        home: Home,
        python: str,
        start: StartSpare,
        is_quiet: Callable[[], bool],
        on_change: Callable[[], None],
    ) -> None:
        self._home = home
        self._python = python
        self._start = start
        self._is_quiet = is_quiet
        self._on_change = on_change
        self._ready: Spare | None = None
        self._making: asyncio.Task[None] | None = None

    def describe(self) -> dict[str, Any] | None:
        """What clients are told of the spare, if there is one."""
        return {"python": self._python, "kernel_info": self._ready.kernel_info} if self._ready else None

    def begin(self) -> None:
        """Remove what an earlier agent left, and make the first spare soon."""
        for left in self._home.run.glob("spare-*"):
            shutil.rmtree(left, ignore_errors=True)
        for log_file in self._home.root.glob("spare-*.log"):
            log_file.unlink(missing_ok=True)
        self._make_after(_FIRST_AFTER_S)

    async def take(self, folder: KernelDirectory, launch: Launch, env: Mapping[str, str]) -> Process | None:
        """Make the spare the kernel of `folder`, whose connection file is written; None if there is none that fits."""
        spare = self._fitting(launch)
        if spare is None:
            return None
        try:
            folder.take_over(spare.sockets, spare.output)
            await spare.become(
                {
                    "env": dict(env),
                    "cwd": launch.cwd,
                    "key": launch.key,
                    "signature_scheme": launch.signature_scheme,
                    "connection_file": str(folder.connection_file),
                    "pipe": f"{folder.socket_prefix}-pipe",
                }
            )
        except (EOFError, OSError, ValueError, RecursionError, asyncio.TimeoutError) as error:
            log.warning("the spare kernel %s could not be used: %s", spare.process.pid, error)
            spare.discard()
            return None
        spare.agent_end.close()
        return spare.process

    async def close(self) -> None:
        """End the spare."""
        if self._making is not None:
            self._making.cancel()
            await asyncio.gather(self._making, return_exceptions=True)
        if self._ready is not None:
            self._ready.discard()

    # -- inside --------------------------------------------------------------------------------------------------------

    def _fitting(self, launch: Launch) -> Spare | None:
        """The spare, if it can be what is asked for; there is none from then on."""
        if self._ready is None or not _could_be(launch, self._python):
            return None
        spare, self._ready = self._ready, None
        self._on_change()
        self._make_after(_NEXT_AFTER_S)
        if spare.is_outdated or not spare.process.is_running:
            spare.discard()
            return None
        return spare

    def _make_after(self, delay_s: float) -> None:
        if self._making is None or self._making.done():
            self._making = asyncio.create_task(self._make(delay_s))

    async def _make(self, delay_s: float) -> None:
        while self._ready is None:
            await asyncio.sleep(delay_s)
            await self._until_quiet()
            if psutil.virtual_memory().available > _MEMORY_BYTES:
                await self._try_to_make()
            delay_s = _AFTER_FAILURE_S

    async def _until_quiet(self) -> None:
        until = time.monotonic() + _QUIET_WITHIN_S
        while not self._is_quiet() and time.monotonic() < until:  # noqa: ASYNC110 - it changes with every message
            await asyncio.sleep(_NEXT_AFTER_S)

    async def _try_to_make(self) -> None:
        spare = None
        try:
            spare = self._launch()
            said = await spare.hear(_BOOT_S)
            spare.kernel_info, spare.watched = said["kernel_info"], dict(said["watched"])
        except (EOFError, OSError, ValueError, KeyError, TypeError, RecursionError, asyncio.TimeoutError) as error:
            log.warning("no spare kernel could be made: %s", error)
        except asyncio.CancelledError:
            _discard(spare)
            raise
        else:
            self._ready = spare
            self._on_change()
            return
        _discard(spare)

    def _launch(self) -> Spare:
        name = f"spare-{secrets.token_hex(5)}"
        sockets, output = private_folder(self._home.run / name), self._home.root / f"{name}.log"
        connection_file = sockets / "connection.json"
        write_connection_file(connection_file, sockets / "k", secrets.token_hex(32))
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs:
            process = self._start(connection_file, output, theirs.fileno())
        return Spare(process, sockets, output, ours)


def _discard(spare: Spare | None) -> None:
    if spare is not None:
        spare.discard()


def _could_be(launch: Launch, python: str) -> bool:
    return (
        launch.python in ("", python)
        and not launch.extra_arguments
        and not any(name.startswith(_MATTERS_AT_START) for name in launch.env)
    )


def _changed_at(path: str) -> float:
    with suppress(OSError):
        return Path(path).stat().st_mtime
    return 0.0
