"""Sends a kernel's output to local subscribers without losing what a slow one has not read yet.

ZMQ does not say whose queue is full, only that one is. A subscriber that is alone is waited for as long as it takes;
where there are several, one that reads nothing at all for some seconds loses messages, as with any local kernel, or it
would stop the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

import zmq

from jupyter_tpu.kernels.messages.sockets import LoopSocket, Parts

log = logging.getLogger(__name__)

FULL_BYTES = 4 * 1024 * 1024
_LOW_BYTES = 1024 * 1024
_TICKS = 10


class Publisher:
    """Keeps what does not fit in a full queue, and holds its source when that has become much.

    Args:
        hold, resume: stop the source and let it go on; little comes after `hold`.
        starve: called when the only subscriber has read nothing for `patience_s`.
    """

    def __init__(
        self, hold: Callable[[], None], resume: Callable[[], None], starve: Callable[[], None], patience_s: float
    ) -> None:
        self.socket: LoopSocket | None = None
        self.subscriptions = 0
        self._hold = hold
        self._resume = resume
        self._starve = starve
        self._patience_s = patience_s
        self._may_lose = False
        self._backlog: deque[Parts] = deque()
        self._backlog_bytes = 0
        self._is_holding = False
        self._ticks_left = 0
        self._tick: asyncio.TimerHandle | None = None

    def send(self, parts: Parts) -> None:
        if self.socket is None:
            return
        if self._backlog or not self._try(self.socket, parts):
            self._wait_with(parts)

    def flush(self) -> None:
        """Send what waits, as far as the queues take it."""
        waiting = len(self._backlog)
        while self._backlog and self.socket and self._try(self.socket, self._backlog[0]):
            self._backlog_bytes -= _size(self._backlog.popleft())
        if len(self._backlog) < waiting:
            self._stop_patience()
            if self._backlog:
                self._start_patience()
            if self._is_holding and self._backlog_bytes <= _LOW_BYTES:
                self._is_holding = False
                self._resume()

    def close(self) -> None:
        self._stop_patience()
        self.socket = None

    def _try(self, socket: LoopSocket, parts: Parts) -> bool:
        if socket.send(parts):
            self._may_lose = False
            return True
        if not self._may_lose:
            return False
        socket.set_option(zmq.XPUB_NODROP, 0)
        sent = socket.send(parts)
        socket.set_option(zmq.XPUB_NODROP, 1)
        return sent

    def _wait_with(self, parts: Parts) -> None:
        if not self._backlog:
            self._start_patience()
        self._backlog.append(parts)
        self._backlog_bytes += _size(parts)
        if self._backlog_bytes > FULL_BYTES and not self._is_holding:
            self._is_holding = True
            self._hold()

    def _start_patience(self) -> None:
        """Patience is counted in ticks of the loop: while this process stands still nobody can read."""
        self._ticks_left = _TICKS
        self._wait_for_tick()

    def _wait_for_tick(self) -> None:
        self._tick = asyncio.get_running_loop().call_later(self._patience_s / _TICKS, self._ticked)

    def _ticked(self) -> None:
        self._ticks_left -= 1
        if self._ticks_left:
            self._wait_for_tick()
        else:
            self._tick = None
            self._give_up()

    def _stop_patience(self) -> None:
        if self._tick:
            self._tick.cancel()
            self._tick = None

    def _give_up(self) -> None:
        if self.subscriptions > 1:
            log.warning(
                "A client has read no output for %s s; it loses some, so that others continue.", self._patience_s
            )
            self._may_lose = True
            self.flush()
        else:
            self._starve()
            self._start_patience()  # others may come


def _size(parts: Parts) -> int:
    return sum(map(len, parts))
