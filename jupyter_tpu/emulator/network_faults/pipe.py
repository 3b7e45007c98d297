"""One direction of a proxied connection: a bandwidth limit followed by a delay line.

Without faults, a chunk is forwarded immediately. Otherwise it waits in the line until it is due. Many chunks may be in
flight at once, so latency does not reduce throughput. The line is bounded: while it is full, the proxy does not read
from the sender.
"""

from __future__ import annotations

import asyncio
import enum
import random
import socket
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from jupyter_tpu.emulator.network_faults.verbs import FAIR, Conditions, LinkFault

# Our choices; each bounds the memory or the timers of one direction.
FLIGHT_BYTES = 64 * 1024 * 1024  # maximum number of bytes in flight without a bottleneck: 1 s at 500 Mbit/s
QUEUE_BYTES = 64 * 1024  # maximum number of bytes queued before a bottleneck, plus what it carries in 0.25 s
WRITE_BUFFER_BYTES = 1024 * 1024  # asyncio's default of 64 KiB would constantly pause a fast link
PIECES_PER_S = 100  # a slow link delivers at least this often, so that bytes arrive steadily and not in bursts


class Mark(enum.Enum):
    """The end of the data in one direction: a normal end or a reset. It is queued after the bytes that were sent."""

    END_OF_FILE = enum.auto()
    RESET = enum.auto()


@dataclass(slots=True)
class Trap:
    """A fault that happens when a connection reaches a given byte; `times` is how often it can still happen."""

    fault: LinkFault
    times: int


class Pipe:
    """Forward data from `source` to `sink`; each is None until it is connected.

    Calls `on_end` when this direction has ended, and `on_swallowed_end` when a simulated black hole has dropped an EOF
    or a reset.
    """

    def __init__(
        self, rng: random.Random, on_end: Callable[[Pipe, Mark], None], on_swallowed_end: Callable[[], None]
    ) -> None:
        self._rng = rng
        self._on_end = on_end
        self._on_swallowed_end = on_swallowed_end
        self._loop = asyncio.get_running_loop()
        self.source: asyncio.Transport | None = None
        self.sink: asyncio.Transport | None = None
        self.conditions = FAIR
        self.carried_bytes = 0
        self.turns_arrived = 0
        """How often the two ends have taken turns in sending, up to the last delivered byte."""
        self._delivered_bytes = 0
        self._turns_sent: deque[tuple[int, int]] = deque()
        self.has_lost_bytes = False
        self._sink_is_full = False
        self._ended = False
        self._traps: list[tuple[int, Trap]] = []
        self._line: deque[tuple[float, bytes | memoryview | Mark]] = deque()
        self._held_bytes = 0
        self._bottleneck_free_at = 0.0
        self._last_due = 0.0
        self._timer: asyncio.TimerHandle | None = None

    # -- methods for the connection

    def connect(self, *, source: asyncio.Transport | None = None, sink: asyncio.Transport | None = None) -> None:
        """Set the source, the sink or both."""
        self.source, self.sink = source or self.source, sink or self.sink
        self._pump()

    def wait_until(self, moment: float) -> None:
        """Delay data until this time of the event loop."""
        self._bottleneck_free_at = max(self._bottleneck_free_at, moment)

    def set_trap(self, trap: Trap) -> None:
        """Set a fault that happens once a certain number of further bytes have been forwarded."""
        position = trap.fault.after if trap.fault.verb == "cut" else trap.fault.at
        self._traps.append((self.carried_bytes + position, trap))

    def change(self, conditions: Conditions) -> None:
        """Replace the network conditions. Data in flight is then delayed according to the new conditions."""
        if conditions == self.conditions:
            return
        self.conditions = conditions
        waiting, self._line = self._line, deque()
        self._held_bytes, self._bottleneck_free_at, self._last_due = 0, 0.0, 0.0
        # the new conditions also apply to bytes in flight, as on a real network
        for _, payload in waiting:
            self._put(payload)
        self._pump()

    def sink_is_full(self, full: bool) -> None:
        """Record whether the receiving socket's buffer is full; delivery pauses while it is full."""
        self._sink_is_full = full
        self._pump()

    def abandon(self) -> None:
        """Drop all data in flight and all later data."""
        self._ended = True
        self._line.clear()
        self._held_bytes = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def feed(self, data: bytes, turn: int = 0) -> None:
        """Forward data from the source; `turn` is how often the two ends have taken turns in sending so far."""
        if self._ended or self._is_swallowed():
            return
        if not self._turns_sent or self._turns_sent[-1][1] != turn:
            self._turns_sent.append((self.carried_bytes, turn))
        if self._traps:
            self._feed_to_traps(data)
        else:
            self._pass_on(data)

    def feed_mark(self, mark: Mark) -> None:
        """Forward EOF or a reset, whether it comes from the source or from a fault."""
        if self._is_swallowed():
            self._on_swallowed_end()
        elif not self._ended:
            self._put(mark)
            self._pump()
        elif mark is Mark.RESET:  # a reset still counts after an end of file, because the other direction was open
            self._on_end(self, mark)

    # -- faults at a certain byte

    def _feed_to_traps(self, data: bytes) -> None:
        first = self.carried_bytes
        self._traps = [each for each in self._traps if each[1].times]
        ready = [each for each in self._traps if _reached(each, first + len(data))]
        # a cut closes the connection, so faults at later bytes must not count as used
        cuts = [each for each in ready if each[1].fault.verb == "cut"]
        end = min((position for position, _ in cuts), default=first + len(data))
        for each in ready:
            if each[0] < end or each in cuts:
                each[1].times -= 1
                self._traps.remove(each)
        flipped = [position - first for position, trap in ready if trap.fault.verb == "corrupt" and position < end]
        self._pass_on(_with_flipped_bits(data, flipped)[: end - first])
        if cuts:
            self.feed_mark(Mark.RESET)

    # -- delivery of the bytes

    def _is_swallowed(self) -> bool:
        self.has_lost_bytes = self.has_lost_bytes or self.conditions.black_hole
        return self.has_lost_bytes

    def _pass_on(self, data: bytes) -> None:
        self.carried_bytes += len(data)
        if not self._line and self.conditions is FAIR and self._is_open() and not self._bottleneck_free_at:
            self._deliver(data)
        else:
            self._put(data)
            self._pump()

    def _is_open(self) -> bool:
        return self.sink is not None and not self._sink_is_full and not self.conditions.blocked

    def _put(self, payload: bytes | memoryview | Mark) -> None:
        if isinstance(payload, Mark):
            self._line.append((self._due(0), payload))
            return
        self._held_bytes += len(payload)
        size = self._piece_bytes() or len(payload)
        if size >= len(payload):
            self._line.append((self._due(len(payload)), payload))
            return
        # pieces are views, so that a slow link doesn't copy waiting data
        view = memoryview(payload)
        for start in range(0, len(view), size):
            piece = view[start : start + size]
            self._line.append((self._due(len(piece)), piece))

    def _piece_bytes(self) -> int:
        sizes = (self.conditions.slice_bytes, int(self.conditions.bytes_per_s / PIECES_PER_S))
        return min((size for size in sizes if size), default=1 if self.conditions.bytes_per_s else 0)

    def _due(self, size: int) -> float:
        """Book the transmission of this many bytes, and return when they arrive."""
        now = self.conditions
        free_at = max(self._loop.time(), self._bottleneck_free_at)
        if now.bytes_per_s:
            free_at += size / now.bytes_per_s
        if now.slice_bytes:
            free_at += now.slice_gap_s
        self._bottleneck_free_at = free_at
        jitter = self._rng.uniform(-now.jitter_s, now.jitter_s) if now.jitter_s else 0.0
        # never deliver a byte before an earlier byte: jitter delays bytes, but TCP keeps their order
        self._last_due = max(self._last_due, free_at + now.latency_s + jitter)
        return self._last_due

    def _pump(self) -> None:
        """Deliver the data that is due."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now = self._loop.time()
        while self._line and self._is_open() and self._line[0][0] <= now:
            self._deliver_first()
        if self._line and self._is_open():
            # one timer, for the first chunk, is enough, because later chunks are never due earlier
            self._timer = self._loop.call_at(self._line[0][0], self._pump)
        # the link is idle, so the next chunk can use the fast path in `_pass_on`
        elif not self._line and self._bottleneck_free_at <= now:
            self._bottleneck_free_at = 0.0
        self._read_or_not()

    def _deliver_first(self) -> None:
        _, payload = self._line.popleft()
        if isinstance(payload, Mark):
            self.abandon()
            self._on_end(self, payload)
        else:
            self._held_bytes -= len(payload)
            self._deliver(payload)

    def _deliver(self, data: bytes | memoryview) -> None:
        assert self.sink is not None, "only an open pipe delivers"
        self._delivered_bytes += len(data)
        while self._turns_sent and self._turns_sent[0][0] < self._delivered_bytes:
            self.turns_arrived = self._turns_sent.popleft()[1]
        self.sink.write(data)

    def _read_or_not(self) -> None:
        if self.source is None or self.source.is_closing():
            return
        if self._sink_is_full or self.conditions.stalled or self._held_bytes > self._most_bytes():
            self.source.pause_reading()
        else:
            self.source.resume_reading()

    def _most_bytes(self) -> float:
        now = self.conditions
        if not now.bytes_per_s:
            return FLIGHT_BYTES
        # the size of a router's queue plus the bytes on the wire, so that the bottleneck slows the sender as on a real
        # network
        return QUEUE_BYTES + now.bytes_per_s * (0.25 + now.latency_s)


def _reached(each: tuple[int, Trap], end: int) -> bool:
    position, trap = each
    return position <= end if trap.fault.verb == "cut" else position < end


def _with_flipped_bits(data: bytes, positions: list[int]) -> bytes:
    if not positions:
        return data
    changed = bytearray(data)
    for position in positions:
        changed[position] ^= 1
    return bytes(changed)


def reset_transport(transport: asyncio.Transport, *, flush: bool = False) -> None:
    """Close a connection; for TCP, with RST. If `flush` is true, first send the data already written."""
    connection = transport.get_extra_info("socket")
    if connection is not None and connection.family != socket.AF_UNIX and not transport.is_closing():
        # a linger time of 0 s makes the kernel send RST instead of FIN
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    if flush:
        transport.close()
    else:
        transport.abort()
