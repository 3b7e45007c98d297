"""What a page has got: not what was written, which may have ended in a cable that hangs in the air.

A WebSocket ping follows what was written; the pong says that all of it has arrived. Browsers and libraries answer pings
by themselves, in their turn.
"""

from __future__ import annotations

_WORD = b"jupyter_tpu"


class Receipts:
    """Counts for one WebSocket. Seqs begin anew with each record that the kernel gets.

    Attributes:
        arrived: everything up to this seq has arrived.
    """

    def __init__(self, arrived: int) -> None:
        self.arrived = arrived
        self._written = arrived
        self._record = 0

    def written(self, seq: int, *, said_something: bool) -> bytes | None:
        """Everything up to `seq` is written; `said_something` unless none of it was for this page.

        Returns what to send as a ping, or None when there is nothing to ask.
        """
        if not said_something and self.arrived == self._written:
            self.arrived = self._written = seq
            return None
        self._written = seq
        return b"%s %d %d" % (_WORD, self._record, seq) if said_something else None

    def returned(self, payload: bytes) -> bool:
        """A pong; returns whether `arrived` has moved. Anybody may send pongs of any kind."""
        word, _, numbers = payload.partition(b" ")
        record, _, seq = numbers.partition(b" ")
        if word != _WORD or not (record.isdigit() and seq.isdigit()) or int(record) != self._record:
            return False
        if not self.arrived < int(seq) <= self._written:
            return False
        self.arrived = int(seq)
        return True

    def begin_anew(self) -> None:
        """The record was removed; the next one counts from 1."""
        self._record += 1
        self.arrived = self._written = 0
