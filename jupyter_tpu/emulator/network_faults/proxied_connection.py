"""One connection through the fault proxy: a client, its server, and a pipe in each direction."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from jupyter_tpu.emulator.network_faults.pipe import WRITE_BUFFER_BYTES, Mark, Pipe, Trap, reset_transport
from jupyter_tpu.emulator.network_faults.verbs import DOWN, UP, LinkFault, conditions

Address = tuple[str, int] | Path
"""Host and port, or the path of a Unix socket."""


class Connection:
    """A connection, opened by `open` and closed by either end or by a fault.

    Calls `on_closed` once, when both sides are closed.
    """

    def __init__(self, target: Address, rng: random.Random, on_closed: Callable[[Connection], None]) -> None:
        self._target = target
        self._on_closed = on_closed
        self._unblocked = asyncio.Event()
        self._closed = asyncio.Event()
        self._opening: asyncio.Task[None] | None = None
        self._transports: set[asyncio.Transport] = set()
        self._directions_to_end = 2
        self._is_reset = False
        self._swallowed_an_end = False
        self._up, self._down = (Pipe(rng, self._end_direction, self._swallow_end) for _ in (UP, DOWN))
        self._pipes = {UP: self._up, DOWN: self._down}

    def open(self, accepted: socket.socket) -> None:
        """Start connecting an accepted client to the target."""
        self._opening = asyncio.ensure_future(self._open(accepted))
        self._opening.add_done_callback(lambda _: self._finish_if_empty())

    async def wait_closed(self) -> None:
        """Wait until the connection is closed on both sides."""
        await self._closed.wait()

    @property
    def round_trips(self) -> int:
        """The number of times that the client waited for a reply before it sent more data, plus TCP's handshake.

        Data sent while replies are in flight does not count, so the number is exact only on a link with latency.
        """
        return self._down.turns_arrived + (0 if isinstance(self._target, Path) else 1)

    # -- faults

    def change(self, lasting: list[LinkFault]) -> None:
        """Replace the faults that stay active until they are cleared or expire."""
        for direction, pipe in self._pipes.items():
            pipe.change(conditions(lasting, direction))
        # a handshake needs both directions
        if any(pipe.conditions.blocked for pipe in self._pipes.values()):
            self._unblocked.clear()
        else:
            self._unblocked.set()
        if not self._is_in_black_hole():
            self._reset_if_lost()

    def set_trap(self, trap: Trap) -> None:
        """Set a fault that takes effect at a certain byte of this connection."""
        for direction, pipe in self._pipes.items():
            if trap.fault.hits(direction):
                pipe.set_trap(trap)

    def strike(self, fault: LinkFault) -> None:
        """Apply an instantaneous fault."""
        if fault.verb == "reset":
            self.reset()
            return
        for direction, pipe in self._pipes.items():
            if fault.hits(direction):
                pipe.feed_mark(Mark.END_OF_FILE)

    def reset(self) -> None:
        """Break both ends with RST."""
        self._tear_down()
        for transport in self._transports:
            reset_transport(transport)

    def _tear_down(self) -> None:
        self._is_reset = True
        if self._opening is not None:
            self._opening.cancel()
        for pipe in self._pipes.values():
            pipe.abandon()

    def _is_in_black_hole(self) -> bool:
        return any(pipe.conditions.black_hole for pipe in self._pipes.values())

    def _reset_if_lost(self) -> None:
        """When a black hole ends, block a connection that has lost bytes; reset it if one of its ends has closed.

        If bytes were lost in one direction, all later data in both directions is dropped. When one end closes later,
        the other end is reset.
        """
        if any(pipe.has_lost_bytes for pipe in self._pipes.values()):
            for pipe in self._pipes.values():
                pipe.has_lost_bytes = True
        if self._swallowed_an_end:
            self.reset()

    def _swallow_end(self) -> None:
        self._swallowed_an_end = True
        if not self._is_in_black_hole():
            self.reset()

    # -- opening and closing

    async def _open(self, accepted: socket.socket) -> None:
        """Wait while the link is blocked; then connect, with the delay of a real TCP handshake."""
        loop = asyncio.get_running_loop()
        with accepted:
            await self._unblocked.wait()
            there, back = self._up.conditions.latency_s, self._down.conditions.latency_s
            # the client may send at once, but its bytes leave only after the handshake
            self._up.wait_until(loop.time() + there + back)
            await loop.connect_accepted_socket(lambda: End(self, out=self._up, into=self._down, turn=1), accepted.dup())
        # wait for SYN, SYN-ACK and ACK, because the server would see the connection only after these packets
        await asyncio.sleep(there + back + there)
        try:
            await self._reach_target()
        except OSError:
            self.reset()

    async def _reach_target(self) -> None:
        loop = asyncio.get_running_loop()

        def end() -> End:
            return End(self, out=self._down, into=self._up)

        if isinstance(self._target, Path):
            await loop.create_unix_connection(end, str(self._target))
        else:
            await loop.create_connection(end, *self._target)

    def end_made(self, transport: asyncio.Transport) -> None:
        """Record that one of the two sockets is open."""
        self._transports.add(transport)
        if self._is_reset:
            transport.abort()

    def end_lost(self, transport: asyncio.Transport) -> None:
        """Record that one of the two sockets is closed."""
        self._transports.discard(transport)
        self._finish_if_empty()

    def _end_direction(self, pipe: Pipe, mark: Mark) -> None:
        # a reset closes both directions, but an end of file closes only one direction
        if mark is Mark.RESET:
            self._reset_behind(pipe)
            return
        if pipe.sink is not None and not pipe.sink.is_closing():
            with suppress(OSError):  # the peer has reset the connection; connection_lost follows
                pipe.sink.write_eof()
        # each direction closes separately: a client may close its side and still read
        self._directions_to_end -= 1
        if not self._directions_to_end:
            for transport in self._transports:
                transport.close()

    def _reset_behind(self, pipe: Pipe) -> None:
        """Reset the connection after the receiver has received all data sent so far."""
        self._tear_down()
        for transport in self._transports:
            reset_transport(transport, flush=transport is pipe.sink)

    def _finish_if_empty(self) -> None:
        if self._transports or self._closed.is_set() or self._opening is None or not self._opening.done():
            return
        self._closed.set()
        self._on_closed(self)


class End(asyncio.Protocol):
    """One of a connection's two sockets; it sends its data to the pipe `out` and gets data from the pipe `into`.

    Args:
        turn: 1 for the client, which begins each round trip; 0 for the server.
    """

    def __init__(self, connection: Connection, *, out: Pipe, into: Pipe, turn: int = 0) -> None:
        self._connection = connection
        self._out = out
        self._into = into
        self._turn = turn
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connect this socket to its two pipes."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        self._connection.end_made(transport)
        self._out.connect(source=transport)
        self._into.connect(sink=transport)

    def data_received(self, data: bytes) -> None:
        """Feed the pipe; called by asyncio."""
        self._out.feed(data, self._into.turns_arrived + self._turn)

    def eof_received(self) -> bool:
        """Forward the end of file and keep the other direction open."""
        self._out.feed_mark(Mark.END_OF_FILE)
        return True  # True keeps the other direction open

    def pause_writing(self) -> None:
        """Stop the pipe from writing to this socket, because the socket's buffer is full."""
        self._into.sink_is_full(True)

    def resume_writing(self) -> None:
        """Let the pipe write to this socket again, because the socket can take more data."""
        self._into.sink_is_full(False)

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop data in flight to this socket and forward a reset."""
        self._into.abandon()
        if exc is not None:
            self._out.feed_mark(Mark.RESET)
        assert self._transport is not None
        self._connection.end_lost(self._transport)
