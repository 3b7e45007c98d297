"""The line from a kernel to the agent: everything the kernel says, numbered, and kept by it until it is on disk.

ZMQ's publisher drops what it sends while nobody listens, and what waits in the queues of an agent that is killed is
lost as well. So the kernel's bootstrap numbers its messages and keeps them; the agent, when it attaches, says up to
which number its record goes, gets the rest again, and then acknowledges what it has written. Both ends are here: the
agent's frames, which travel on the iopub socket, upwards as an XSUB socket sends them, and `Line`, the kernel's memory.
Runs in the kernel's Python as well, so it needs no more than the standard library.
"""

from __future__ import annotations

import struct
import threading
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence

ATTACH = b"\x03"
ACKNOWLEDGE = b"\x02"

_MARK = b"\x02jt"
_HEAD = struct.Struct("!3sBQ")
_NUMBER = struct.Struct("!Q")

ROOM_BYTES = 16 * 1024 * 1024
"""With more than this unacknowledged, whoever prints waits for the agent; ZMQ may hold a second copy of it."""
MOST_BYTES = 64 * 1024 * 1024
"""With more than this, output is dropped, oldest first: the agent has been away for long."""


def head(channel: int, number: int) -> bytes:
    """The first frame of a message on the line."""
    return _HEAD.pack(_MARK, channel, number)


def parse_head(frame: bytes) -> tuple[int, int] | None:
    """``(channel, number)``; None where the kernel does not number its messages."""
    if len(frame) != _HEAD.size or not frame.startswith(_MARK):
        return None
    _, channel, number = _HEAD.unpack(frame)
    return channel, number


def attach(number: int, identity: bytes) -> bytes:
    """ "I have everything up to `number`; what is for me is what you would route to `identity`.\""""
    return ATTACH + _NUMBER.pack(number) + identity


def acknowledge(number: int) -> bytes:
    """ "Everything up to `number` is on disk.\""""
    return ACKNOWLEDGE + _NUMBER.pack(number)


def parse_number(frame: bytes) -> tuple[int, bytes]:
    """Number and identity of a frame that `attach` or `acknowledge` made.

    Raises:
        struct.error: it is too short.
    """
    (number,) = _NUMBER.unpack_from(frame, 1)
    return number, frame[1 + _NUMBER.size :]


class Line:
    """What the agent has not acknowledged, in order.

    Only `wait_for_room` may be called from several threads.
    """

    def __init__(self) -> None:
        self.identity = b""
        self.kept_bytes = 0
        self._number = 0
        self._kept: OrderedDict[int, tuple[list[bytes], int]] = OrderedDict()
        self._output: deque[int] = deque()
        self._room = threading.Event()
        self._room.set()
        self._has_patience = True

    def add(self, channel: int, parts: Sequence[bytes], *, is_output: bool) -> list[bytes]:
        """Number and keep a message; returns it as it is to be sent. Of too many, output alone may be dropped."""
        self._number += 1
        frames = [head(channel, self._number), *parts]
        size = sum(map(len, frames))
        self._kept[self._number] = (frames, size)
        self.kept_bytes += size
        if is_output:
            self._output.append(self._number)
        if self.kept_bytes >= ROOM_BYTES:
            self._room.clear()
            self._drop_output()
        return frames

    def forget(self) -> None:
        """Begin anew, with number 1."""
        self.acknowledged(self._number)
        self._number = 0

    def attached(self, number: int, identity: bytes) -> Iterator[list[bytes]]:
        """An agent has come that has everything up to `number`; what it must be sent."""
        self.identity = identity
        self.acknowledged(number)
        return (frames for frames, _ in list(self._kept.values()))

    def acknowledged(self, number: int) -> None:
        """Everything up to `number` is on disk."""
        while self._kept and next(iter(self._kept)) <= number:
            _, (_, size) = self._kept.popitem(last=False)
            self.kept_bytes -= size
        while self._output and self._output[0] <= number:
            self._output.popleft()
        self._has_patience = True
        if self.kept_bytes < ROOM_BYTES:
            self._room.set()

    @property
    def has_room(self) -> bool:
        return self._room.is_set()

    def wait_for_room(self, patience_s: float) -> None:
        """Wait until the agent has caught up; not again once it has let us wait in vain, until it gives a sign."""
        if self._has_patience and not self._room.wait(patience_s):
            self._has_patience = False

    def _drop_output(self) -> None:
        while self.kept_bytes > MOST_BYTES and self._output:
            _, size = self._kept.pop(self._output.popleft())
            self.kept_bytes -= size
