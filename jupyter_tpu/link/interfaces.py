"""What a link needs of a connection, and what its users hear from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

LinkState = Literal["connecting", "live", "down", "resuming", "lost"]
"""``connecting`` first opening · ``live`` · ``down`` cut, coming back by itself · ``resuming`` back, what was missed is
on its way · ``lost`` closed or given up."""

OnMessage = Callable[[int, str, list[bytes]], None]
"""Called with ``(seq, channel, parts)``; channel is shell, control, stdin, iopub, event or request. Must not block
or raise.

An ``event`` has one part, a JSON object with the key ``event``:

- ``started`` {pid, generation}
- ``exited`` {pid, generation, exit_code, signal, stderr, asked, kept}; ``kept`` has the msg_ids of the cells that wait
  for the next process, and is left out where there are none
- ``disk_full`` {message}: what the kernel says is held in the agent's memory only; once until the disk has room again
- ``cut`` {first_seq, last_seq}: messages the worker no longer has, or has damaged
- ``gone`` {message, error}: the worker knows no such kernel; the stream is closed

``cut`` and ``gone`` are the link's own words and are not in the record; their seq is that of the last message applied.
"""


class ByteStream(Protocol):
    """Bytes both ways, as `jupyter_tpu.ssh` gives them; `read` gives ``b""`` at the end."""

    async def read(self, n: int) -> bytes: ...
    def write(self, data: bytes) -> None: ...
    async def drain(self) -> None: ...
    def close(self) -> None: ...
    async def wait_closed(self) -> None: ...


class ProcessStream(ByteStream, Protocol):
    """A command that runs on the worker: its output is read, its input is written."""

    def write_eof(self) -> None: ...
    async def exit_status(self) -> int: ...
    async def read_stderr(self) -> str: ...


class Connection(Protocol):
    """A connection to a worker: what `jupyter_tpu.ssh.connect` returns."""

    async def execute(self, command: str) -> ProcessStream: ...
    async def open_unix(self, path: str) -> ByteStream: ...
    async def close(self) -> None: ...
