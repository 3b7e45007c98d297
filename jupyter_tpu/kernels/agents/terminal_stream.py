"""One page's connection to a terminal on a worker, over the link that the worker's kernels share."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from jupyter_tpu.kernels.connections.pool import LinkPool, WorkerLink, link_thread
from jupyter_tpu.kernels.connections.worker import WorkerKey
from jupyter_tpu.link import KernelStream

# If the page has not read this many bytes, pause the stream until it has read most of them.
_MOST_UNREAD_BYTES = 2 * 1024 * 1024
# Maximum size of a piece of output, so that a page can draw and accept keys between two pieces.
_PIECE_BYTES = 256 * 1024

RESET = b"\x1bc"
"""The sequence that clears a terminal's screen and scrolled lines."""


class Piece(NamedTuple):
    """Output for a page.

    Attributes:
        seq: the sequence number of the last output in it.
        is_old: whether it was printed before the page was opened.
    """

    data: bytes
    seq: int
    is_old: bool


class TerminalStream:
    """The output of a terminal, and input for it. Use `open_terminal`, and then only one event loop.

    Disconnects are not visible: output continues where it stopped, and input waits.
    """

    def __init__(self, key: WorkerKey, terminal_id: str) -> None:
        self._key = key
        self._terminal_id = terminal_id
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._pieces: deque[Piece] = deque()
        self._outgoing: deque[tuple[Literal["stdin", "control"], bytes]] = deque()
        self._unread_bytes = 0
        self._is_held = False
        self._has_ended = False
        self._old_until = 0
        self._pool: LinkPool | None = None
        self._shared: WorkerLink | None = None
        self._stream: KernelStream | None = None

    async def open(self, from_seq: int | None) -> None:
        """Begin to receive output.

        Args:
            from_seq: the first wanted output; None for the screen and the last lines, after a `RESET`.
        """
        self._pool = link_thread.enter()
        await link_thread.run(self._open(from_seq))

    async def read(self) -> Piece | None:
        """Wait for output; return None after the shell has exited."""
        while not self._pieces:
            if self._has_ended:
                return None
            self._news.clear()
            await self._news.wait()
        first = self._pieces.popleft()
        pieces, size, seq = [first.data], len(first.data), first.seq
        while self._pieces and self._pieces[0].is_old == first.is_old and size < _PIECE_BYTES:
            piece = self._pieces.popleft()
            pieces.append(piece.data)
            size, seq = size + len(piece.data), piece.seq
        self._unread_bytes -= size
        if self._is_held and self._unread_bytes < _MOST_UNREAD_BYTES // 4:
            self._is_held = False
            link_thread.submit(self._hold(False))
        return Piece(b"".join(pieces), seq, first.is_old)

    def send(self, text: str) -> None:
        """Send input, which the shell gets once, however often the connection is lost."""
        self._post("stdin", text.encode(errors="replace"))

    def resize(self, rows: int, columns: int) -> None:
        """Set the terminal's size in characters."""
        self._post("control", json.dumps({"rows": rows, "columns": columns}).encode())

    def _post(self, channel: Literal["stdin", "control"], data: bytes) -> None:
        self._outgoing.append((channel, data))
        if self._pool is not None:
            link_thread.submit(self._send())

    async def close(self) -> None:
        """Disconnect; the shell keeps running."""
        if self._pool is not None:
            await link_thread.run(self._close())
            await asyncio.to_thread(link_thread.leave)
            self._pool = None

    # -- in the link thread

    async def _open(self, from_seq: int | None) -> None:
        assert self._pool is not None
        self._shared = self._pool.join(self._key)
        if from_seq is None:
            recent = await self._find_recent()
            from_seq, self._old_until = recent.get("recent_seq", 0), recent.get("next_seq", 0)
            self._deliver(Piece(RESET, 0, True))
        self._stream = self._shared.link.attach(
            self._terminal_id, from_seq=from_seq, is_terminal=True, on_message=self._on_message
        )
        await self._send()

    async def _find_recent(self) -> Mapping[str, Any]:
        assert self._shared is not None
        found = (await self._shared.link.call("list_terminals")).get("terminals")
        rows = [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []
        return next((row for row in rows if row.get("terminal_id") == self._terminal_id), {})

    def _on_message(self, seq: int, channel: str, parts: list[bytes]) -> None:
        if channel == "terminal":
            self._deliver(Piece(parts[0], seq, seq < self._old_until))
        elif channel == "event":
            event = json.loads(parts[0]).get("event")
            if event == "cut":  # the page is too far behind: what the record no longer has is scrolled away
                self._deliver(Piece(RESET, seq, False))
            elif event in ("exited", "gone"):
                self._deliver(None)

    def _deliver(self, piece: Piece | None) -> None:
        self._loop.call_soon_threadsafe(self._receive, piece)

    async def _send(self) -> None:
        """Send the input; what arrives before the stream is open waits for it."""
        while self._stream is not None and self._outgoing:
            channel, data = self._outgoing.popleft()
            self._stream.send(channel, [data])

    async def _hold(self, held: bool) -> None:
        if self._stream is not None:
            self._stream.hold() if held else self._stream.resume()

    async def _close(self) -> None:
        if self._stream is not None:
            self._stream.close()
        if self._pool is not None and self._shared is not None:
            await self._pool.release(self._key, self._shared)

    # -- in the page's loop

    def _receive(self, piece: Piece | None) -> None:
        self._news.set()
        if piece is None:
            self._has_ended = True
            return
        self._pieces.append(piece)
        self._unread_bytes += len(piece.data)
        if self._unread_bytes > _MOST_UNREAD_BYTES and not self._is_held and self._pool is not None:
            self._is_held = True
            link_thread.submit(self._hold(True))
