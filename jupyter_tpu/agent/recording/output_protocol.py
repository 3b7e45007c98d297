"""The output protocol between kernel and agent: numbered messages that the kernel stores until they are on disk.

ZMQ's publisher drops messages while no subscriber is connected, and messages in the queues of a killed agent are lost
too. So the kernel numbers and stores its messages. An attaching agent sends the last number in its record, receives the
later messages again, and then acknowledges messages that it has written. This module has the code for both the agent
(frames, which an XSUB socket sends upstream on iopub) and the kernel (`ResendBuffer`). It also runs in the kernel's
Python, so it uses only the standard library.
"""

from __future__ import annotations

import struct
import threading
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence

# The first byte of a message from XSUB to XPUB: 0 and 1 are ZMQ's own (unsubscribe, subscribe). ZMQ passes other values
# through.
ATTACH = b"\x03"
ACKNOWLEDGE = b"\x02"

# No plain iopub message starts with this mark, because plain messages start with a topic such as "stream.stdout".
_MARK = b"\x02jt"
_HEAD = struct.Struct("!3sBQ")
_NUMBER = struct.Struct("!Q")

ROOM_BYTES = 16 * 1024 * 1024
"""If more bytes than this are unacknowledged, printing threads wait for the agent.

Bounds the kernel's memory use; ZMQ may store a second copy of the messages.
"""
MOST_BYTES = 64 * 1024 * 1024
"""If more bytes than this are unacknowledged, the oldest output is dropped: the agent has been gone for too long."""


def head(channel: int, number: int) -> bytes:
    """Return the first frame of a numbered message."""
    return _HEAD.pack(_MARK, channel, number)


def parse_head(frame: bytes) -> tuple[int, int] | None:
    """Return ``(channel, number)`` from a message's first frame, or None if the kernel doesn't number its messages."""
    if len(frame) != _HEAD.size or not frame.startswith(_MARK):
        return None
    _, channel, number = _HEAD.unpack(frame)
    return channel, number


def attach(number: int, identity: bytes) -> bytes:
    """Return the frame with which the agent attaches: the last recorded `number` and the agent's `identity`."""
    return ATTACH + _NUMBER.pack(number) + identity


def acknowledge(number: int) -> bytes:
    """Return the agent's acknowledgement that all messages up to `number` are on disk."""
    return ACKNOWLEDGE + _NUMBER.pack(number)


def parse_number(frame: bytes) -> tuple[int, bytes]:
    """Return the number and the identity of a frame made by `attach` or `acknowledge`.

    Raises:
        struct.error: the frame is too short.
    """
    (number,) = _NUMBER.unpack_from(frame, 1)
    return number, frame[1 + _NUMBER.size :]


class ResendBuffer:
    """The kernel's buffer of messages that the agent hasn't acknowledged, in order.

    This class is not thread-safe, except for `wait_for_room`.

    Attributes:
        identity: routing id of the attached agent; empty until an agent attaches.
        kept_bytes: number of bytes in the buffer.
    """

    def __init__(self) -> None:
        self.identity = b""
        self.buffered_bytes = 0
        self._number = 0
        self._kept: OrderedDict[int, tuple[list[bytes], int]] = OrderedDict()
        self._output: deque[int] = deque()
        self._room = threading.Event()
        self._room.set()
        self._has_patience = True

    def add(self, channel: int, parts: Sequence[bytes], *, is_output: bool) -> list[bytes]:
        """Number and store a message, and return the frames to send.

        Args:
            is_output: whether the message may be dropped when the buffer is full.
        """
        self._number += 1
        frames = [head(channel, self._number), *parts]
        size = sum(map(len, frames))
        self._kept[self._number] = (frames, size)
        self.buffered_bytes += size
        # Never drop replies and states, because a front end would wait for them forever.
        if is_output:
            self._output.append(self._number)
        if self.buffered_bytes >= ROOM_BYTES:
            self._room.clear()
            self._drop_output()
        return frames

    def reset(self) -> None:
        """Drop all messages and restart the numbering from 1."""
        self.acknowledged(self._number)
        self._number = 0

    def attached(self, number: int, identity: bytes) -> Iterator[list[bytes]]:
        """Accept an agent that has all messages up to `number`, and return the later messages."""
        self.identity = identity
        self.acknowledged(number)
        return (frames for frames, _ in list(self._kept.values()))

    def acknowledged(self, number: int) -> None:
        """Drop all messages up to `number`, which are on disk."""
        while self._kept and next(iter(self._kept)) <= number:
            _, (_, size) = self._kept.popitem(last=False)
            self.buffered_bytes -= size
        while self._output and self._output[0] <= number:
            self._output.popleft()
        self._has_patience = True
        if self.buffered_bytes < ROOM_BYTES:
            self._room.set()

    @property
    def has_room(self) -> bool:
        """Whether a thread may print without waiting."""
        return self._room.is_set()

    def wait_for_room(self, patience_s: float) -> None:
        """Wait for up to `patience_s` until the agent has caught up.

        After a timeout, no thread waits again until the agent acknowledges a message, because the agent may be gone for
        good.
        """
        if self._has_patience and not self._room.wait(patience_s):
            self._has_patience = False

    def _drop_output(self) -> None:
        while self.buffered_bytes > MOST_BYTES and self._output:
            _, size = self._kept.pop(self._output.popleft())
            self.buffered_bytes -= size
