"""The client's cursor in a kernel's record: each entry is applied once and in order, despite disconnects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from jupyter_tpu.wire.entries import Entry, EntryDecoder, Room
from jupyter_tpu.wire.frames import ProtocolError

MAX_SEQ = 2**63
"""Half of the range of the wire's 64 bits.

A worker that sends a higher seq is broken; adding to a valid seq can't overflow.
"""


@dataclass(frozen=True, slots=True)
class Cut:
    """A gap in the record: its messages were removed because of the size limit, or were damaged."""

    first_seq: int
    last_seq: int


class Replay:
    """The progress of applying slices of a record; one instance serves a stream over all its connections.

    Args:
        next_seq: the first requested message; earlier messages count as applied.
        room: the memory shared by all streams of a link; None means separate memory.

    Attributes:
        next_seq: the message to apply next.
        offset: where the next slice must start in the stream's bytes; None until the agent has sent a position.
    """

    def __init__(self, next_seq: int, room: Room | None = None) -> None:
        self._room = room or Room()
        self.next_seq = max(next_seq, 1)
        self.offset: int | None = None
        self._decoder = EntryDecoder(self._room)

    def disconnected(self) -> None:
        """Reset the position in the byte stream; an incomplete entry will be sent again."""
        self.offset = None
        self._decoder.close()
        self._decoder = EntryDecoder(self._room)

    def position(self, offset: int, seq: int) -> Cut | None:
        """Continue at `offset`, where the entry `seq` starts; return the gap before this entry, or None.

        Raises:
            ProtocolError: `seq` is above `MAX_SEQ`.
        """
        self.offset = offset
        self._decoder.close()
        self._decoder = EntryDecoder(self._room)
        return self._skip_to(seq)

    def data(self, offset: int, data: bytes) -> Iterator[Entry | Cut]:
        """Apply a slice of the record; yield the new entries in order, with a `Cut` in place of missing entries.

        Raises:
            DamagedEntry: the entry `next_seq` is damaged; see `skip`.
            ProtocolError: the slice does not start where the previous slice ended.
        """
        if offset != self.offset:
            raise ProtocolError(f"record data at {offset}, expected at {self.offset}")
        self.offset += len(data)
        for entry in self._decoder.feed(data):
            yield from self._apply(entry)

    def skip(self) -> Cut:
        """Skip the entry `next_seq`; the client next requests the entry after it."""
        self.next_seq += 1
        return Cut(self.next_seq - 1, self.next_seq - 1)

    def _apply(self, entry: Entry) -> Iterator[Entry | Cut]:
        if cut := self._skip_to(entry.seq):
            yield cut
        # A lower seq was applied before a disconnect: drop it, because each message is delivered only once.
        if entry.seq == self.next_seq:
            self.next_seq += 1
            yield entry

    def _skip_to(self, seq: int) -> Cut | None:
        if seq <= self.next_seq:
            return None
        if seq > MAX_SEQ:
            raise ProtocolError(f"a record of {seq} messages")
        cut = Cut(self.next_seq, seq - 1)
        self.next_seq = seq
        return cut
