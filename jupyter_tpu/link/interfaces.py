"""The interfaces of a link: the connection that it needs, and the states and messages that it delivers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from jupyter_tpu.ssh import FileAccess

LinkState = Literal["connecting", "live", "down", "resuming", "lost"]
"""The state of a link.

- ``connecting``: first attempt
- ``live``: connected
- ``down``: disconnected, reconnecting
- ``resuming``: connected, but missed messages are still arriving
- ``lost``: closed, or given up
"""

OnMessage = Callable[[int, str, list[bytes]], None]
"""A function that is called with ``(seq, channel, parts)`` of each message; it must not block or raise.

The channel is shell, control, stdin, iopub, event or request. An ``event`` has one part, a JSON object with the key
``event``:

- ``started`` {pid, generation}
- ``exited`` {pid, generation, exit_code, signal, stderr, asked, kept}; ``kept`` has the msg_ids of the cells that wait
  for the next process, and is missing if there are none
- ``disk_full`` {message}: new messages are only in the agent's memory; sent once until the disk has space again
- ``cut`` {first_seq, last_seq}: messages that the worker no longer has or that are damaged
- ``gone`` {message, error}: the worker does not have this kernel; the stream is closed

``cut`` and ``gone`` come from the link and are not in the record; their seq is that of the last message applied.
"""


class ByteStream(Protocol):
    """A stream of bytes in both directions; implemented by `jupyter_tpu.ssh.ByteStream`."""

    async def read(self, n: int) -> bytes:
        """Return up to `n` bytes, or ``b""`` at the end of the stream."""

    def write(self, data: bytes) -> None:
        """Queue `data` without waiting."""

    async def drain(self) -> None:
        """Wait until the queue is short enough to write more."""

    def close(self) -> None:
        """Close both directions."""

    async def wait_closed(self) -> None:
        """Wait until either side has closed the stream."""


class ProcessStream(ByteStream, Protocol):
    """A running command on the worker, with its standard input and output as a byte stream."""

    def write_eof(self) -> None:
        """Close the command's standard input."""

    async def exit_status(self) -> int:
        """Wait until the command exits, and return its exit status, which is negative if a signal killed it."""

    async def read_stderr(self) -> str:
        """Wait until the command exits, and return the end of its standard error."""


class Connection(Protocol):
    """A connection to a worker. Implemented by the return value of `jupyter_tpu.ssh.connect`."""

    async def execute(self, command: str) -> ProcessStream:
        """Run a fixed shell command on the worker."""

    async def open_unix(self, path: str) -> ByteStream:
        """Connect to the Unix socket at `path` on the worker."""

    async def open_files(self) -> FileAccess:
        """Open an SFTP session."""

    async def close(self) -> None:
        """Close the connection and all its streams."""
