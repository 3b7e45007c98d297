"""Requests, numbered by the client and recorded by the worker, so that no request reaches a kernel twice.

A request's id is (client id, counter) and belongs to the link: Jupyter's msg_ids are not unique, because a
`KernelManager` and its clients use clones of one session, whose counters start at the same number.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

_SLOT = struct.Struct("!16sQ")  # client id, highest number; the layout of the file on the worker's disk
SLOT_BYTES = _SLOT.size


@dataclass(frozen=True, slots=True)
class Request:
    """A message for a kernel; `requested_at` is in seconds, from a clock that also runs while the machine sleeps."""

    number: int
    stream: int
    payload: bytes
    requested_at: float


class Outbox:
    """The client's requests that the agent has not acknowledged yet, in the order of sending.

    Attributes:
        size: total bytes of these requests.
        unsent: numbers of requests that were never sent, because there was no connection.
    """

    def __init__(self) -> None:
        self.size = 0
        self.unsent: set[int] = set()
        self._last_number = 0
        self._pending: dict[int, Request] = {}

    @property
    def last_number(self) -> int:
        """The number of the newest request, even if it is acknowledged, or 0 before the first request."""
        return self._last_number

    def add(self, stream: int, payload: bytes, *, requested_at: float) -> Request:
        """Number a message and store it until it is acknowledged."""
        self._last_number += 1
        request = Request(self._last_number, stream, payload, requested_at)
        self._pending[request.number] = request
        self.size += len(payload)
        return request

    def acknowledged(self, number: int) -> None:
        """Remove a request that the agent has received. Ignore a number that was acknowledged before."""
        if request := self._pending.pop(number, None):
            self.size -= len(request.payload)
            self.unsent.discard(number)

    def drop(self, stream: int) -> None:
        """Remove the requests of a closed stream."""
        for request in self.pending():
            if request.stream == stream:
                self.acknowledged(request.number)

    def pending(self) -> Iterator[Request]:
        """Iterate over the requests to send again after a disconnect; requests may be removed during iteration."""
        return iter(tuple(self._pending.values()))


class SeenRequests:
    """The requests that a kernel has received. For each client, the worker stores only the highest request number.

    The highest number is enough, because a client sends and resends in order. The numbers are stored in fixed slots,
    one per client, so that the file can be written in place before the kernel gets the request: a crash may lose a
    request, but never run it twice.
    """

    def __init__(self, slots: bytes = b"") -> None:
        # A crash while writing a new slot leaves a partial slot: that request did not reach the kernel.
        whole = len(slots) - len(slots) % SLOT_BYTES
        self._slots = {
            client.hex(): (position, last) for position, (client, last) in enumerate(_SLOT.iter_unpack(slots[:whole]))
        }

    def accept(self, client_id: str, number: int) -> tuple[int, bytes] | None:
        """Return ``(position, bytes)`` to write to the file before passing on the request; None for a duplicate."""
        position, last = self._slots.get(client_id, (len(self._slots), 0))
        if number <= last:
            return None
        self._slots[client_id] = (position, number)
        return position * SLOT_BYTES, _SLOT.pack(bytes.fromhex(client_id), number)
