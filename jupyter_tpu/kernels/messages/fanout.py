"""Distribute one kernel's record to several readers. Each reader gets every message once, in order, at its own speed.

Fast readers share one live stream. A slow reader leaves the live stream, keeps its position, and catches up over a
separate stream. This uses more of the link's bandwidth, but no reader has to wait for other readers, and memory use is
limited. The fan-out runs in the event loop of its link.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Literal

from jupyter_tpu.agent.recording.jupyter_messages import json_object
from jupyter_tpu.link import KernelStream, OnMessage

Seq = int | Literal["end"]
Attach = Callable[[Seq, OnMessage, OnMessage], KernelStream]
"""Opens a stream of the record at a seq or at the record's end.

The second callback gets messages early, out of order.
"""

Watch = Callable[[str, list[bytes]], None]

SLACK_BYTES = 4 * 1024 * 1024
"""Bytes that a paused reader still accepts before it leaves the live stream; these messages are in flight.

It is small compared with the link's window of 32 MiB. Messages dropped here are read from the record again.
"""


class RecordFanout:
    """The readers of a kernel's record, and the live stream that the fast readers share.

    Args:
        watch: called with the channel and parts of each message of the live stream, before readers get the message.
    """

    def __init__(self, watch: Watch | None = None) -> None:
        self._watch: Watch = watch or _ignore_watch
        self._readers: list[Subscriber] = []
        self._attach: Attach | None = None
        self._live: KernelStream | None = None
        self._next_seq: Seq = 0
        self._on_message: OnMessage = _ignore

    @property
    def next_seq(self) -> int | None:
        """The sequence number of the live stream's next message; None until the worker has reported it."""
        if self._live and self._live.has_begun:
            return self._live.applied_seq + 1
        return None if self._next_seq == "end" else max(self._next_seq, 1)

    @property
    def stream(self) -> KernelStream | None:
        """The live stream, or None if it is not open."""
        return self._live

    def begin_at_end(self) -> None:
        """At the next `connect`, skip all messages that the record already contains."""
        self._next_seq = "end"

    def connect(self, attach: Attach, on_message: OnMessage) -> None:
        """Open a live stream that starts where the previous one ended. Readers get each message before `on_message`."""
        self._attach, self._on_message = attach, on_message
        self._live = attach(self._next_seq, self._receive, self._receive_early)
        for reader in tuple(self._readers):
            reader.catch_up()
        self.balance()

    def disconnect(self) -> None:
        """Close all streams. Readers keep their positions for the next `connect`."""
        # If the stream has not started, its requested position ("end") is still valid.
        self._next_seq = self.next_seq or self._next_seq
        live, self._live, self._attach = self._live, None, None
        for reader in self._readers:
            reader.fall_out()
        if live:
            live.close()

    def reset(self) -> None:
        """Restart at sequence number 1, because the old record is gone and the next record starts at 1."""
        self.disconnect()
        self._next_seq = 0
        for reader in self._readers:
            reader.reset()

    def read(self, deliver: OnMessage, from_seq: Seq, *, early: Iterable[int] = ()) -> Subscriber:
        """Add a reader that starts at `from_seq`, or at the live stream's next message.

        Args:
            deliver: called with each message; must not block or raise.
            early: sequence numbers of messages that the reader has already received out of order.
        """
        reader = Subscriber(self, deliver, None if from_seq == "end" else max(from_seq, 1))
        reader.early |= {*early}
        self._readers.append(reader)
        reader.catch_up()
        self.balance()
        return reader

    def publish_event(self, event: str, **content: Any) -> None:
        """Send an event to all readers. The event is not part of the record."""
        for reader in tuple(self._readers):
            reader.deliver_event([json.dumps({"event": event, **content}).encode()])

    # -- methods for readers

    def open_stream(self, from_seq: int, on_message: OnMessage, on_express: OnMessage) -> KernelStream | None:
        """Open a separate stream of the record for one reader, or return None if there is no link."""
        return self._attach(from_seq, on_message, on_express) if self._attach else None

    def balance(self) -> None:
        """Pause the live stream if no reader needs more messages from it; otherwise resume it."""
        if self._live is None:
            return
        if self._readers and not any(reader.wants_live(self.next_seq) for reader in self._readers):
            self._live.hold()
        else:
            self._live.resume()

    def remove(self, reader: Subscriber) -> None:
        """Remove a reader. Do nothing if it was already removed."""
        if reader in self._readers:
            self._readers.remove(reader)
            self.balance()

    def _receive(self, seq: int, channel: str, parts: list[bytes]) -> None:
        if self._live is None:  # closed in the middle of a slice; the remaining messages still arrive
            return
        is_gone = self._live.is_closed
        if not is_gone:
            self._watch(channel, parts)
        for reader in tuple(self._readers):
            reader.deliver_event(parts) if is_gone else reader.offer(seq, channel, parts)
        if is_gone:
            self.reset()
        self._on_message(seq, channel, parts)

    def _receive_early(self, seq: int, channel: str, parts: list[bytes]) -> None:
        for reader in tuple(self._readers):
            reader.offer_early(seq, channel, parts)


class Subscriber:
    """A reader's position in the record. `deliver` is called with each message, and must not block or raise.

    A subscriber reads the live stream, or reads a separate stream until it reaches the live stream, or is paused
    without a stream.

    Attributes:
        next_seq: the sequence number of the first undelivered message; None until it is known.
        early: sequence numbers of later messages that were already delivered out of order.
    """

    def __init__(self, fanout: RecordFanout, deliver: OnMessage, next_seq: int | None) -> None:
        self.next_seq = next_seq
        self._fanout = fanout
        self._deliver = deliver
        self._is_live = False
        self._is_paused = False
        self._slack = SLACK_BYTES
        self._own: KernelStream | None = None
        self._opened = 0
        self.early: set[int] = set()

    def wants_live(self, live_seq: int | None) -> bool:
        """Return whether the live stream must continue for this reader: it reads the stream, or is ahead of it."""
        is_ahead = self._own is not None and (self.next_seq or 0) > (live_seq or 0)
        return is_ahead or (self._is_live and not self._is_paused)

    def pause(self) -> None:
        """Accept at most `SLACK_BYTES` more bytes until `resume` is called."""
        if not self._is_paused:
            self._is_paused, self._slack = True, SLACK_BYTES
            if self._own:
                self._own.hold()
            self._fanout.balance()

    def resume(self) -> None:
        """Continue delivery after `pause`. If the reader has left the live stream, continue over a separate stream."""
        self._is_paused = False
        if self._own:
            self._own.resume()
        self.catch_up()
        self._fanout.balance()

    def close(self) -> None:
        """Stop delivery and leave the fan-out."""
        self.fall_out()
        self._fanout.remove(self)

    def catch_up(self) -> None:
        """Join the live stream if it is at this reader's position; otherwise catch up over a separate stream."""
        if self._is_live or self._own or self._is_paused:
            return
        live_seq = self._fanout.next_seq
        if self.next_seq is None:
            self.next_seq = live_seq
        if self.next_seq is None or self.next_seq == live_seq:
            self._is_live = True
        else:
            # The number distinguishes streams: a closed stream may still deliver the remaining messages of a slice.
            self._opened += 1
            receive = partial(self._receive, self._opened)
            self._own = self._fanout.open_stream(self.next_seq, receive, self.offer_early)

    def reset(self) -> None:
        """Restart at sequence number 1 of the next record."""
        self.next_seq = 1
        self.early.clear()

    def fall_out(self) -> None:
        """Stop reading all streams, but keep the position in the record."""
        self._is_live = False
        own, self._own = self._own, None
        if own:
            own.close()

    def offer(self, seq: int, channel: str, parts: list[bytes]) -> None:
        """Accept a message from the live stream if it is the next message for this reader; otherwise ignore it."""
        if _is_cut(channel, parts):
            self._cut(seq)
        # The live stream is ahead, so messages were missed: fetch them over a separate stream.
        elif self._is_live and self.next_seq is not None and seq > self.next_seq:
            self.fall_out()
            self.catch_up()
        elif self._is_live or (self._own and seq == self.next_seq):
            self._apply(seq, channel, parts)
        if self._own and self.next_seq == seq + 1:
            self._join()

    def offer_early(self, seq: int, channel: str, parts: list[bytes]) -> None:
        """Deliver a message before earlier messages have arrived, and skip it later, when its turn comes."""
        if seq >= (self.next_seq or 1) and seq not in self.early:
            self.early.add(seq)
            self._deliver(seq, channel, parts)

    def _cut(self, last_seq: int) -> None:
        """Report missing messages of the live stream to its readers. Separate streams do this themselves."""
        if self._is_live and (self.next_seq or 1) <= last_seq:
            event = {"event": "cut", "first_seq": self.next_seq or 1, "last_seq": last_seq}
            self._apply(last_seq, "event", [json.dumps(event).encode()])

    def deliver_event(self, parts: list[bytes]) -> None:
        """Deliver an event that is not in the record. Its sequence number is that of the last delivered message."""
        self._deliver((self.next_seq or 1) - 1, "event", parts)

    def _receive(self, opened: int, seq: int, channel: str, parts: list[bytes]) -> None:
        """Accept a message from the reader's separate stream, unless the stream has been closed."""
        if self._own is None or opened != self._opened:
            return
        if self._own.is_closed:
            self._restart_at_new_record()
        else:
            self._apply(seq, channel, parts)
            live_seq = self._fanout.next_seq
            if self._own and live_seq and self._own.applied_seq + 1 >= live_seq:
                self._join()

    def _restart_at_new_record(self) -> None:
        """Restart at sequence number 1. The worker no longer has this position: the old record was deleted."""
        self._own = None
        if self.next_seq != 1:
            self.deliver_event([json.dumps({"event": "new_record"}).encode()])
            self.reset()
            self.catch_up()

    def _join(self) -> None:
        self.fall_out()
        self._is_live = True
        self._fanout.balance()

    def _apply(self, seq: int, channel: str, parts: list[bytes]) -> None:
        if self.next_seq and seq < self.next_seq:  # the message was delivered over the other stream
            return
        self.next_seq = seq + 1
        # An event has the seq of the message before it, which may have arrived early.
        if seq in self.early and channel != "event":
            self.early.discard(seq)
            return
        self._deliver(seq, channel, parts)
        if self._is_paused:
            self._slack -= sum(map(len, parts))
            if self._slack < 0:  # `resume` will read these messages from the record
                self.fall_out()
                self._fanout.balance()


def _ignore(seq: int, channel: str, parts: list[bytes]) -> None:
    pass


def _ignore_watch(channel: str, parts: list[bytes]) -> None:
    pass


def _is_cut(channel: str, parts: list[bytes]) -> bool:
    """Return whether this is the link's ``cut`` event, whose sequence number is that of the last missing message."""
    return channel == "event" and json_object(parts[0]).get("event") == "cut"
