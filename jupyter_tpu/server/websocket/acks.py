"""Track what each page has acknowledged; a successful write is not proof of delivery.

A WebSocket ping follows written messages; its pong proves that all of them have arrived. Browsers and libraries respond
to pings in the order in which the pings arrive, without involving the page.
"""

from __future__ import annotations

_WORD = b"jupyter_tpu"


class Acknowledgements:
    """The written and acknowledged messages of one WebSocket, by their seq in the kernel's current record.

    Attributes:
        arrived: all messages up to this seq are acknowledged.
        written: all messages up to this seq are written or about to be written.
    """

    def __init__(self, arrived: int) -> None:
        self.arrived = self.written = arrived
        self._record = 0

    def write(self, seq: int, *, has_messages: bool) -> bytes | None:
        """Record that all messages up to `seq` are about to be written.

        Args:
            has_messages: whether any of the messages are for this page.

        Returns:
            The payload of the ping to send afterwards, or None if no ping is needed.
        """
        # Messages for other pages count as arrived at once, unless this page still owes an acknowledgement: it would
        # then cover messages of its own too.
        if not has_messages and self.arrived == self.written:
            self.arrived = self.written = seq
            return None
        self.written = seq
        return b"%s %d %d" % (_WORD, self._record, seq) if has_messages else None

    def confirm(self, payload: bytes) -> bool:
        """Process a pong; return whether it matches a ping from the server. Clients may send pongs with any content."""
        word, _, numbers = payload.partition(b" ")
        record, _, seq = numbers.partition(b" ")
        if word != _WORD or not (record.isdigit() and seq.isdigit()) or int(record) != self._record:
            return False
        if int(seq) > self.written:  # ignore the acknowledgement of a message that was never sent
            return False
        self.arrived = max(self.arrived, int(seq))
        return True

    def reset(self) -> None:
        """Restart from 0, because the kernel has a new record, whose seqs start at 1."""
        self._record += 1
        self.arrived = self.written = 0
