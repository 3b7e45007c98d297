"""What a page has got: not what was written, which may have ended in a cable that hangs in the air.

A WebSocket ping follows what was written; the pong says that all of it has arrived. Browsers and libraries answer pings
by themselves, in their turn.
"""

from __future__ import annotations

_WORD = b"jupyter_tpu"


class Acknowledgements:
    """Counts for one WebSocket. Seqs begin anew with each record that the kernel gets.

    Attributes:
        arrived: everything up to this seq has arrived.
        written: everything up to this seq is written, or about to be.
    """

    def __init__(self, arrived: int) -> None:
        self.arrived = self.written = arrived
        self._record = 0

    def write(self, seq: int, *, says_something: bool) -> bytes | None:
        """Everything up to `seq` is about to be written; `says_something` unless none of it is for this page.

        Returns what to send as a ping then, or None when there is nothing to ask.
        """
        if not says_something and self.arrived == self.written:
            self.arrived = self.written = seq
            return None
        self.written = seq
        return b"%s %d %d" % (_WORD, self._record, seq) if says_something else None

    def returned(self, payload: bytes) -> bool:
        """A pong; returns whether it answers a ping of ours. Anybody may send pongs of any kind."""
        word, _, numbers = payload.partition(b" ")
        record, _, seq = numbers.partition(b" ")
        if word != _WORD or not (record.isdigit() and seq.isdigit()) or int(record) != self._record:
            return False
        if int(seq) > self.written:
            return False
        self.arrived = max(self.arrived, int(seq))
        return True

    def begin_anew(self) -> None:
        """The record was removed; the next one counts from 1."""
        self._record += 1
        self.arrived = self.written = 0
