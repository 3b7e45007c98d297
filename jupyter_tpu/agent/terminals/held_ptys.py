"""Keep the pseudo-terminals of shells open while the agent restarts."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import suppress

# Size of the longest terminal ID.
_NAME_BYTES = 64


class HeldPtys:
    """Descriptors of pseudo-terminals, by the terminal's id, queued in a socket pair that the supervisor holds open.

    A shell gets SIGHUP when the last descriptor of its terminal's other end is closed. A descriptor in the queue counts
    as open, so a shell survives its agent without any work by the supervisor. Linux keeps the messages of a stream
    socket apart if they carry descriptors.

    Args:
        ends: both ends of a connected pair of stream sockets.
    """

    def __init__(self, ends: tuple[socket.socket, socket.socket]) -> None:
        self._in, self._out = ends
        for end in ends:
            end.setblocking(False)

    @classmethod
    def inherited(cls, descriptors: str) -> HeldPtys:
        """Use the socket pair inherited from the supervisor, as two descriptors; without them, create a pair."""
        if not descriptors:
            return cls(socket.socketpair())
        first, second = map(int, descriptors.split(","))
        return cls((socket.socket(fileno=first), socket.socket(fileno=second)))

    def add(self, name: str, descriptor: int) -> None:
        """Queue a copy of a descriptor.

        Raises:
            OSError: too many descriptors are queued.
        """
        socket.send_fds(self._in, [name.encode()], [descriptor])

    def copies(self) -> dict[str, int]:
        """Return a copy of each queued descriptor, which the caller must close."""
        found: dict[str, int] = {}
        for name, descriptor in self._taken():
            # Queue each descriptor again before taking the next: if the agent is killed meanwhile, it loses only one.
            self.add(name, descriptor)
            if name in found:  # the queue has come around
                os.close(descriptor)
                break
            found[name] = descriptor
        return found

    def remove(self, name: str) -> None:
        """Remove a terminal's descriptor from the queue; do nothing if it isn't queued."""
        kept = self.copies()
        for _, descriptor in self._taken():
            os.close(descriptor)
        for each, descriptor in kept.items():
            if each != name:
                self.add(each, descriptor)
            os.close(descriptor)

    def _taken(self) -> Iterator[tuple[str, int]]:
        with suppress(BlockingIOError):
            while True:
                name, descriptors, _, _ = socket.recv_fds(self._out, _NAME_BYTES, 1)
                if not descriptors:
                    return
                yield name.decode(), descriptors[0]

    def close(self) -> None:
        """Close this process's ends."""
        self._in.close()
        self._out.close()
