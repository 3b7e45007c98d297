"""Requests are numbered by the client and remembered by the worker, so that none is ever given to a kernel twice.

The id is the link's own, (client id, counter): Jupyter's msg_ids are not unique, because a manager and its clients
count from the same start in clones of one session.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

_SLOT = struct.Struct("!16sQ")
SLOT_BYTES = _SLOT.size


@dataclass(frozen=True, slots=True)
class Request:
    """A message on its way to a kernel; `asked_at` is by a clock that runs on while the machine sleeps."""

    number: int
    stream: int
    payload: bytes
    asked_at: float


class Outbox:
    """The client's side: what the agent has not acknowledged yet, in the order it was sent.

    Attributes:
        size: bytes of it.
        unsent: numbers of those that were never sent, because there was no connection.
    """

    def __init__(self) -> None:
        self.size = 0
        self.unsent: set[int] = set()
        self._last_number = 0
        self._pending: dict[int, Request] = {}

    @property
    def last_number(self) -> int:
        """Of the newest request, acknowledged or not."""
        return self._last_number

    def add(self, stream: int, payload: bytes, *, asked_at: float) -> Request:
        """Number a message and keep it."""
        self._last_number += 1
        request = Request(self._last_number, stream, payload, asked_at)
        self._pending[request.number] = request
        self.size += len(payload)
        return request

    def acknowledged(self, number: int) -> None:
        """The agent has it. An unknown number is an old one and means nothing."""
        if request := self._pending.pop(number, None):
            self.size -= len(request.payload)
            self.unsent.discard(number)

    def drop(self, stream: int) -> None:
        """The stream is closed: nobody waits for these any more."""
        for request in self.pending():
            if request.stream == stream:
                self.acknowledged(request.number)

    def pending(self) -> Iterator[Request]:
        """What must be sent again after a cut."""
        return iter(tuple(self._pending.values()))


class SeenRequests:
    """The worker's side, one per kernel: the highest number of each client.

    Enough, because a client sends in order and repeats in order. Kept as fixed slots, one per client, so that the
    file behind it is written in place before the kernel gets the request: a crash may lose a request, never double it.
    """

    def __init__(self, slots: bytes = b"") -> None:
        whole = len(slots) - len(slots) % SLOT_BYTES
        self._slots = {
            client.hex(): (position, last) for position, (client, last) in enumerate(_SLOT.iter_unpack(slots[:whole]))
        }

    def accept(self, client_id: str, number: int) -> tuple[int, bytes] | None:
        """None for a request that was seen before; else where in the file to write what, before passing it on."""
        position, last = self._slots.get(client_id, (len(self._slots), 0))
        if number <= last:
            return None
        self._slots[client_id] = (position, number)
        return position * SLOT_BYTES, _SLOT.pack(bytes.fromhex(client_id), number)
