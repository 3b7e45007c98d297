"""Keep one pre-warmed kernel on each worker: the spare, a process with ipykernel imported.

A spare is used only if it makes no difference to the kernel: it has the same Python, no arguments, and no environment
variable that affects how Python and IPython start. Starting a spare must not compete with a running cell on a small
machine, so it starts only while no kernel is busy and memory is sufficient.
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
from jupyter_tpu.agent.kernels.launch_request import Launch
from jupyter_tpu.agent.kernels.process import Process
from jupyter_tpu.agent.paths import Home, private_folder

log = logging.getLogger(__name__)

StartSpare = Callable[[Path, Path, int], Process]

# Delay before the first spare: after the agent's start, adopted kernels and waiting clients have priority.
_FIRST_AFTER_S = 0.5
# Delay before the next spare: after a spare was used, the first cells of its kernel have priority.
_NEXT_AFTER_S = 1.0
# How long a busy kernel may delay the next spare.
_QUIET_WITHIN_S = 30.0
# Time limit for the start of a spare. A start takes well under a second on an idle machine; the limit allows for a busy
# machine.
_BOOT_S = 60.0
# Time limit for a handover, which takes a few milliseconds on an idle machine. If the machine is busy, starting a new
# process would take even longer.
_HAND_OVER_S = 10.0
# Delay before the next attempt if a spare failed to start.
_AFTER_FAILURE_S = 10.0
# Memory that must be available before a spare is started. A spare needs about 50 MiB; if memory is short, the user's
# kernels need it.
_MEMORY_BYTES = 1024 * 1024 * 1024
# Prefixes of the variables that Python and IPython read while they start.
_MATTERS_AT_START = ("PYTHON", "IPYTHON", "JUPYTER", "LD_")


@dataclass
class Spare:
    """A pre-warmed kernel's process.

    Attributes:
        sockets: folder of the sockets.
        output: the file with the process's output.
        agent_end: the agent's end of the socket used as the spare's standard input.
        kernel_info: content of the spare's kernel_info_reply.
        watched: modification times of the files read by the spare, by path.
    """

    process: Process
    sockets: Path
    output: Path
    agent_end: socket.socket
    kernel_info: Mapping[str, Any] = field(default_factory=dict)
    watched: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_outdated(self) -> bool:
        """Whether packages or startup files have changed since the spare read them, or its files were removed."""
        are_there = self.sockets.is_dir() and self.output.exists()
        return not are_there or any(_changed_at(path) != then for path, then in self.watched.items())

    async def receive(self, timeout_s: float) -> dict[str, Any]:
        """Receive the spare's next JSON line.

        Raises:
            EOFError, OSError, ValueError, TimeoutError: the spare doesn't reply, or its reply isn't JSON.
        """
        loop, answer = asyncio.get_running_loop(), b""
        while not answer.endswith(b"\n"):
            piece = await asyncio.wait_for(loop.sock_recv(self.agent_end, 65536), timeout_s)
            if not piece:
                raise EOFError("it exited")
            answer += piece
        content: dict[str, Any] = json.loads(answer)
        return content

    async def hand_over(self, kernel: Mapping[str, Any]) -> None:
        """Turn the spare into a kernel, by sending it the environment variables, folder, key, connection file and pipe.

        Raises:
            EOFError, OSError, ValueError, TimeoutError: the spare doesn't reply.
        """
        await asyncio.get_running_loop().sock_sendall(self.agent_end, json.dumps(kernel).encode() + b"\n")
        await self.receive(_HAND_OVER_S)

    def discard(self) -> None:
        """Terminate the spare and remove its files."""
        self.process.send_signal(signal.SIGKILL)
        self.process.close()
        self.agent_end.close()
        shutil.rmtree(self.sockets, ignore_errors=True)
        self.output.unlink(missing_ok=True)


class Spares:
    """A manager that keeps one spare ready.

    Args:
        python: the Python that spares run on.
        start: starts a process, given its connection file, output file and the descriptor of its standard input.
        is_quiet: returns whether no kernel is busy.
        on_change: called when a spare becomes ready, and when it is used.
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
        """Return the spare's Python and kernel info for clients, or None if there is no spare."""
        return {"python": self._python, "kernel_info": self._ready.kernel_info} if self._ready else None

    def begin(self) -> None:
        """Remove an earlier agent's leftover files, and schedule the start of the first spare."""
        for left in self._home.run.glob("spare-*"):
            shutil.rmtree(left, ignore_errors=True)
        for log_file in self._home.root.glob("spare-*.log"):
            log_file.unlink(missing_ok=True)
        self._make_after(_FIRST_AFTER_S)

    async def claim(self, folder: KernelDirectory, launch: Launch, env: Mapping[str, str]) -> Process | None:
        """Turn the spare into the kernel of `folder`, and return its process; return None if the spare doesn't fit."""
        spare = self._fitting(launch)
        if spare is None:
            return None
        try:
            folder.adopt_files(spare.sockets, spare.output)
            await spare.hand_over(
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

    def withdraw(self) -> None:
        """Terminate the spare after a failed start, because clients take a spare as proof that a start succeeds."""
        if self._ready is not None:
            spare, self._ready = self._ready, None
            spare.discard()
            self._on_change()
            self._make_after(_AFTER_FAILURE_S)

    async def close(self) -> None:
        """Terminate the spare."""
        if self._making is not None:
            self._making.cancel()
            await asyncio.gather(self._making, return_exceptions=True)
        if self._ready is not None:
            self._ready.discard()

    def _fitting(self, launch: Launch) -> Spare | None:
        """Return the spare if it fits the launch, and schedule the start of the next spare."""
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
        """Start a spare and wait until it is warm; only log a failure, because kernels don't need a spare to start."""
        spare = None
        try:
            spare = self._launch()
            answer = await spare.receive(_BOOT_S)
            spare.kernel_info, spare.watched = answer["kernel_info"], dict(answer["watched"])
        except (EOFError, OSError, ValueError, KeyError, TypeError, RecursionError, asyncio.TimeoutError) as error:
            log.warning("no spare kernel could be started: %s", error)
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
