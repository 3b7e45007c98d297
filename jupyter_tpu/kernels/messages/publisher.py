"""Publish a kernel's output to local subscribers, without losing messages if a subscriber is slow.

ZMQ reports that a subscriber's queue is full, but not which subscriber's. If there is only one subscriber, output waits
for it without a time limit. If there are several subscribers, a subscriber that reads nothing for some seconds loses
messages, as with any local kernel, so that it doesn't block the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

import zmq

from jupyter_tpu.kernels.messages.loop_socket import LoopSocket, Parts

log = logging.getLogger(__name__)

# Pause the source above the first limit and resume it below the second.
FULL_BYTES = 4 * 1024 * 1024
_LOW_BYTES = 1024 * 1024
# The timeout is counted in this many steps, see `_start_patience`.
_TICKS = 10


class Publisher:
    """A publisher that buffers messages while a queue is full, and pauses the source while the buffer is full.

    Args:
        hold, resume: pause and resume the source of messages. After `hold`, only a few more messages may arrive.
        starve: called if the only subscriber has read nothing for `patience_s` seconds.
        patience_s: how long one of several subscribers may read nothing before it loses messages, in seconds.

    Attributes:
        socket: the XPUB socket; None before it is open and after `close`.
        subscriptions: the current number of subscriptions.
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
        self._may_lose = False  # whether the slow subscriber's time is up, so that messages may be dropped
        self._backlog: deque[Parts] = deque()
        self._backlog_bytes = 0
        self._is_holding = False
        self._ticks_left = 0
        self._tick: asyncio.TimerHandle | None = None

    def send(self, parts: Parts) -> None:
        """Send a message, or buffer it while a queue is full."""
        if self.socket is None:
            return
        if self._backlog or not self._try(self.socket, parts):
            self._wait_with(parts)

    def flush(self) -> None:
        """Send buffered messages until a queue is full. Called when the socket may be writable."""
        waiting = len(self._backlog)
        while self._backlog and self.socket and self._try(self.socket, self._backlog[0]):
            self._backlog_bytes -= _size(self._backlog.popleft())
        if len(self._backlog) < waiting:  # a client has read messages, so its time starts again
            self._stop_patience()
            if self._backlog:
                self._start_patience()
            if self._is_holding and self._backlog_bytes <= _LOW_BYTES:
                self._is_holding = False
                self._resume()

    def close(self) -> None:
        """Stop publishing. Buffered messages are discarded."""
        self._stop_patience()
        self.socket = None

    def _try(self, socket: LoopSocket, parts: Parts) -> bool:
        if socket.send(parts):
            self._may_lose = False
            return True
        if not self._may_lose:
            return False
        # Without NODROP, ZMQ drops the message only for the full queue and sends it to all others.
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
        """Start the timeout of a slow client. It doesn't advance while this process is suspended."""
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
            self._start_patience()  # when this time is up, a second subscriber may have connected


def _size(parts: Parts) -> int:
    return sum(map(len, parts))
