"""One terminal: a shell, and the record of what it has printed, across disconnects and restarts of the agent."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import shutil
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from jupyter_tpu.agent.kernels.process import Exit, Process
from jupyter_tpu.agent.paths import private_folder
from jupyter_tpu.agent.recording.record import Record
from jupyter_tpu.agent.terminals.shell import foreground_command, resize
from jupyter_tpu.wire.multipart import Channel
from jupyter_tpu.wire.requests import SeenRequests
from jupyter_tpu.worker_clock import wall_clock

log = logging.getLogger(__name__)

CAP_BYTES = 16 * 1024 * 1024
"""Maximum size of a terminal's record on the worker's disk: far more than the lines that a page can scroll back."""
RECENT_BYTES = 1024 * 1024
"""How much of the record a new page gets, in bytes."""
# A flood of output is read no faster than this, which is as fast as a page can draw it. A program that prints faster
# waits, as in any terminal.
_READ_BYTES = 64 * 1024
_READ_EVERY_S = 0.004
# Input for a program that doesn't read it. Beyond this size, input is dropped, as a terminal does.
_MOST_INPUT_BYTES = 1024 * 1024
# Bytes to read of the file of requests, which has one small slot per client (`wire.requests`).
_REQUESTS_BYTES = 1024 * 1024
# How long a shell may take to exit after SIGHUP.
_HANG_UP_S = 2.0
# A sequence that switches to the alternate screen (h) or back (l), as full-screen programs such as htop do.
_ALTERNATE_SCREEN = re.compile(rb"\x1b\[\?(?:1049|1047|47)([hl])")


class Terminal:
    """A terminal with a shell.

    Args:
        folder: the terminal's own folder.
        process: the shell's process, which is the leader of its session.
        descriptor: our end of the pseudo-terminal; this object closes it.
        on_output: called after each recorded batch.
        on_exit: called when the shell's exit is recorded.

    Attributes:
        record: what the shell has printed, in pieces that never split a UTF-8 character.
        is_closed: whether the terminal was removed.
        outputs: number of outputs since this agent started, except those of full-screen programs.
        user_requests: number of inputs since this agent started.
    """

    def __init__(
        self,
        folder: Path,
        process: Process,
        descriptor: int,
        on_output: Callable[[], None],
        on_exit: Callable[[Terminal], None],
    ) -> None:
        self.terminal_id = folder.name
        self.is_closed = False
        self.user_requests = 0
        self.outputs = 0
        self.started_at = wall_clock()
        self._folder = private_folder(folder)
        self.record = Record(folder / "record", cap_bytes=CAP_BYTES)
        self._requests = os.open(folder / "requests", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._seen = SeenRequests(os.pread(self._requests, _REQUESTS_BYTES, 0))
        self._process = process
        self._descriptor = descriptor
        self._on_output = on_output
        self._on_exit = on_exit
        self._partial = b""  # the first bytes of a character whose other bytes have not been read yet
        self._input = bytearray()
        self._is_full_screen = False
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        self._exited = asyncio.Event()
        self.is_running = True
        self._loop.add_reader(descriptor, self._read)
        self._watch = asyncio.create_task(self._wait())

    # -- state

    @property
    def command(self) -> str:
        """The command that runs in the foreground; empty if the shell waits for a command."""
        return foreground_command(self._descriptor, self._process.pid) if self.is_running else ""

    def save(self) -> None:
        """Store what a later agent needs to find the shell.

        Raises:
            OSError: the disk is full or read-only.
        """
        state = {"pid": self._process.pid, "started": self._process.started, "started_at": self.started_at}
        draft = self._folder / "terminal.json.new"
        draft.write_text(json.dumps(state))
        draft.replace(self._folder / "terminal.json")

    def describe(self) -> dict[str, Any]:
        """Return the terminal's state for `list_terminals`."""
        return {
            "terminal_id": self.terminal_id,
            "started_at": self.started_at,
            "command": self.command,
            "next_seq": self.record.next_seq,
            "recent_seq": self.record.known_seq(max(self.record.end - RECENT_BYTES, self.record.start)),
        }

    # -- output

    def _read(self) -> None:
        data = self._available()
        if data is None:
            self._loop.remove_reader(self._descriptor)
        elif data:
            self._add(data)
            if len(data) >= _READ_BYTES:
                self._loop.remove_reader(self._descriptor)
                self._pause = self._loop.call_later(_READ_EVERY_S, self._read_on)

    def _read_on(self) -> None:
        self._pause = None
        self._loop.add_reader(self._descriptor, self._read)

    def _available(self) -> bytes | None:
        """Return the output that can be read now, or None at its end."""
        pieces: list[bytes] = []
        size = 0
        try:
            while size < _READ_BYTES:
                pieces.append(os.read(self._descriptor, _READ_BYTES))
                size += len(pieces[-1])
        except BlockingIOError:
            pass
        except OSError:  # on Linux, reading fails with EIO when no process has the terminal open
            if not size:
                return None
        return b"".join(pieces)

    def _add(self, data: bytes) -> None:
        for found in _ALTERNATE_SCREEN.finditer(data):
            self._is_full_screen = found[1] == b"h"
        if not self._is_full_screen:
            self.outputs += 1
        data, self._partial = split_character(self._partial + data)
        if data:
            self._record(Channel.TERMINAL, data)

    def _record(self, channel: Channel, data: bytes) -> None:
        self.record.append(channel, [data], wall_clock())
        self.record.flush()
        self._on_output()

    # -- input

    def request(
        self,
        client_id: str,
        number: int,
        channel: Channel,
        parts: list[bytes],
        *,
        requested_at: float | None = None,  # noqa: ARG002 - input is passed on, however old it is
    ) -> None:
        """Pass on a client's input, or a new size on the control channel, unless it has already been passed on."""
        if self.is_closed or not self._is_new(client_id, number) or not self.is_running:
            return
        if channel == Channel.CONTROL:
            self._resize(parts[0])
        elif len(self._input) + len(parts[0]) <= _MOST_INPUT_BYTES:
            self.user_requests += 1
            self._input += parts[0]
            self._write()

    def _is_new(self, client_id: str, number: int) -> bool:
        """Record on disk that an input was seen, and return whether it is new; see `KernelDirectory`."""
        slot = self._seen.accept(client_id, number)
        if slot is None:
            return False
        with suppress(OSError):  # on a full disk, only this agent remembers it
            os.pwrite(self._requests, slot[1], slot[0])
        return True

    def _write(self) -> None:
        try:
            while self._input:
                del self._input[: os.write(self._descriptor, self._input)]
        except BlockingIOError:
            self._loop.add_writer(self._descriptor, self._write)
            return
        except OSError:  # the shell has exited
            self._input.clear()
        self._loop.remove_writer(self._descriptor)

    def _resize(self, size: bytes) -> None:
        with suppress(ValueError, TypeError, KeyError, OSError, RecursionError):
            content = json.loads(size)
            resize(self._descriptor, int(content["rows"]), int(content["columns"]))

    # -- exit

    async def _wait(self) -> None:
        exit_ = await self._process.wait()
        self._ended(exit_)

    def _ended(self, exit_: Exit) -> None:
        """Record the shell's last output and exit. Its terminal is hung up, so background jobs can't print more."""
        self._stop_reading()
        while data := self._available():
            self._add(data)
        if self._partial:
            self._record(Channel.TERMINAL, self._partial)
        self.is_running = False
        event = {"event": "exited", "exit_code": exit_.exit_code, "signal": exit_.signal}
        self._record(Channel.EVENT, json.dumps(event).encode())
        self._exited.set()
        self._on_exit(self)

    async def end(self) -> None:
        """Hang up: end the shell and its jobs, except those that ignore this, such as ``nohup``'s."""
        if not self.is_running:
            return
        # What happens when a terminal's window is closed: SIGHUP to the shell, which passes it on to its jobs.
        self._process.send_signal(signal.SIGHUP)
        self._process.send_signal(signal.SIGCONT)
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._exited.wait(), _HANG_UP_S)
            return
        self._process.send_signal(signal.SIGKILL)
        await self._exited.wait()

    def close(self) -> None:
        """Disconnect from the shell, which keeps running if another descriptor of the terminal is open."""
        if self.is_closed:
            return
        self.is_closed = True
        self._watch.cancel()
        self._stop_reading()
        self._process.close()
        self.record.close()
        os.close(self._descriptor)
        os.close(self._requests)

    def _stop_reading(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._descriptor)
        self._loop.remove_writer(self._descriptor)

    def remove(self) -> None:
        """Delete all files of a closed terminal."""
        shutil.rmtree(self._folder, ignore_errors=True)


def load_state(folder: Path) -> Mapping[str, Any]:
    """Return what `Terminal.save` stored.

    Raises:
        OSError, ValueError, KeyError, TypeError: there is no such file, or it is damaged.
    """
    state = json.loads((folder / "terminal.json").read_text())
    return {"pid": int(state["pid"]), "started": int(state["started"]), "started_at": float(state["started_at"])}


def split_character(data: bytes) -> tuple[bytes, bytes]:
    """Split off the first bytes of an incomplete UTF-8 character at the end of `data`."""
    for back in range(1, min(4, len(data) + 1)):
        byte = data[-back]
        if byte & 0xC0 != 0x80:  # not a continuation byte
            length = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
            return (data[:-back], data[-back:]) if length > back else (data, b"")
    return data, b""
