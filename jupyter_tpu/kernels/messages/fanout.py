"""Readers of one kernel's record: each takes every message once and in order, at its own speed, in bounded memory.

Readers that keep up share one live stream. One that does not falls out of it, keeps its place, and comes back through a
stream of its own: it costs the link something, but nobody waits for anybody else. Lives in the loop of its link.
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
"""Opens a stream of the kernel's record from a seq, or from its end; the second receiver gets what overtakes others."""

Watch = Callable[[str, list[bytes]], None]

SLACK_BYTES = 4 * 1024 * 1024
"""What a reader still takes of what was on its way when it paused."""


class RecordFanout:
    """All readers of a kernel, and the live stream that is shared by those who keep up.

    Args:
        watch: called with the channel and the parts of each message of the live stream, before readers get it.
    """

    def __init__(self, watch: Watch | None = None) -> None:
        self._watch: Watch = watch or _look_away
        self._readers: list[Subscriber] = []
        self._attach: Attach | None = None
        self._live: KernelStream | None = None
        self._next_seq: Seq = 0
        self._hear: OnMessage = _ignore

    @property
    def next_seq(self) -> int | None:
        """Where the live stream goes on; None while only the worker knows."""
        if self._live and self._live.has_begun:
            return self._live.applied_seq + 1
        return None if self._next_seq == "end" else max(self._next_seq, 1)

    @property
    def stream(self) -> KernelStream | None:
        """The live stream, while there is one."""
        return self._live

    def begin_at_end(self) -> None:
        """Leave out what the record holds before `connect`."""
        self._next_seq = "end"

    def connect(self, attach: Attach, hear: OnMessage) -> None:
        """Open the live stream where the last one ended; `hear` is called with each of its messages, before readers."""
        self._attach, self._hear = attach, hear
        self._live = attach(self._next_seq, self._receive, self._receive_early)
        for reader in tuple(self._readers):
            reader.catch_up()
        self.balance()

    def disconnect(self) -> None:
        """Close all streams. Readers keep their places until `connect`."""
        self._next_seq = self.next_seq or self._next_seq
        live, self._live, self._attach = self._live, None, None
        for reader in self._readers:
            reader.fall_out()
        if live:
            live.close()

    def begin_anew(self) -> None:
        """The record that was followed is gone; the next one counts from 1."""
        self.disconnect()
        self._next_seq = 0
        for reader in self._readers:
            reader.begin_anew()

    def read(self, take: OnMessage, from_seq: Seq, *, early: Iterable[int] = ()) -> Subscriber:
        """A new reader from `from_seq`, or from what the live stream brings next; it has the seqs `early` already."""
        reader = Subscriber(self, take, None if from_seq == "end" else max(from_seq, 1))
        reader.early |= {*early}
        self._readers.append(reader)
        reader.catch_up()
        self.balance()
        return reader

    def tell(self, event: str, **content: Any) -> None:
        """Give all readers an event that is in no record."""
        for reader in tuple(self._readers):
            reader.tell([json.dumps({"event": event, **content}).encode()])

    # -- the readers' side -----------------------------------------------------------------------------------------

    def open_stream(self, from_seq: int, on_message: OnMessage, on_express: OnMessage) -> KernelStream | None:
        return self._attach(from_seq, on_message, on_express) if self._attach else None

    def balance(self) -> None:
        """Hold the live stream while nobody there wants more: those who catch up meet it where it stands."""
        if self._live is None:
            return
        if self._readers and not any(reader.wants_live(self.next_seq) for reader in self._readers):
            self._live.hold()
        else:
            self._live.resume()

    def remove(self, reader: Subscriber) -> None:
        if reader in self._readers:
            self._readers.remove(reader)
            self.balance()

    def _receive(self, seq: int, channel: str, parts: list[bytes]) -> None:
        if self._live is None:  # it was closed, and brings the rest of a slice
            return
        is_gone = self._live.is_closed
        if not is_gone:
            self._watch(channel, parts)
        for reader in tuple(self._readers):
            reader.tell(parts) if is_gone else reader.offer(seq, channel, parts)
        if is_gone:
            self.begin_anew()
        self._hear(seq, channel, parts)

    def _receive_early(self, seq: int, channel: str, parts: list[bytes]) -> None:
        for reader in tuple(self._readers):
            reader.offer_early(seq, channel, parts)


class Subscriber:
    """One place in the record; `take` is called with each message, and must not block or raise.

    Attributes:
        next_seq: the first message that was not taken yet; None for whatever comes first.
        early: those behind it that were taken ahead of their turn.
    """

    def __init__(self, following: RecordFanout, take: OnMessage, next_seq: int | None) -> None:
        self.next_seq = next_seq
        self._following = following
        self._take = take
        self._is_live = False
        self._is_paused = False
        self._slack = SLACK_BYTES
        self._own: KernelStream | None = None
        self._opened = 0
        self.early: set[int] = set()

    def wants_live(self, live_seq: int | None) -> bool:
        """Whether it waits for the live stream, there or ahead of it."""
        is_ahead = self._own is not None and (self.next_seq or 0) > (live_seq or 0)
        return is_ahead or (self._is_live and not self._is_paused)

    def pause(self) -> None:
        """Take no more than `SLACK_BYTES` until `resume`."""
        if not self._is_paused:
            self._is_paused, self._slack = True, SLACK_BYTES
            if self._own:
                self._own.hold()
            self._following.balance()

    def resume(self) -> None:
        """Go on after `pause`, wherever it led."""
        self._is_paused = False
        if self._own:
            self._own.resume()
        self.catch_up()
        self._following.balance()

    def close(self) -> None:
        self.fall_out()
        self._following.remove(self)

    def catch_up(self) -> None:
        """Get on the live stream: at once if it stands here, else through a stream of one's own."""
        if self._is_live or self._own or self._is_paused:
            return
        live_seq = self._following.next_seq
        if self.next_seq is None:
            self.next_seq = live_seq
        if self.next_seq is None or self.next_seq == live_seq:
            self._is_live = True
        else:
            self._opened += 1
            receive = partial(self._receive, self._opened)
            self._own = self._following.open_stream(self.next_seq, receive, self.offer_early)

    def begin_anew(self) -> None:
        """The next record counts from 1."""
        self.next_seq = 1
        self.early.clear()

    def fall_out(self) -> None:
        """Leave all streams; the place is kept."""
        self._is_live = False
        own, self._own = self._own, None
        if own:
            own.close()

    def offer(self, seq: int, channel: str, parts: list[bytes]) -> None:
        """The live stream brings a message."""
        if _is_cut(channel, parts):
            self._cut(seq)
        elif self._is_live and self.next_seq is not None and seq > self.next_seq:
            self.fall_out()
            self.catch_up()
        elif self._is_live or (self._own and seq == self.next_seq):
            self._apply(seq, channel, parts)
        if self._own and self.next_seq == seq + 1:
            self._join()

    def offer_early(self, seq: int, channel: str, parts: list[bytes]) -> None:
        """A message has overtaken others; in its turn it comes again."""
        if seq >= (self.next_seq or 1) and seq not in self.early:
            self.early.add(seq)
            self._take(seq, channel, parts)

    def _cut(self, last_seq: int) -> None:
        """The live stream misses messages; a stream of one's own says for itself what it misses."""
        if self._is_live and (self.next_seq or 1) <= last_seq:
            event = {"event": "cut", "first_seq": self.next_seq or 1, "last_seq": last_seq}
            self._apply(last_seq, "event", [json.dumps(event).encode()])

    def tell(self, parts: list[bytes]) -> None:
        """Take an event that is in no record."""
        self._take((self.next_seq or 1) - 1, "event", parts)

    def _receive(self, opened: int, seq: int, channel: str, parts: list[bytes]) -> None:
        """A message of the reader's own stream; one that was closed brings the rest of a slice."""
        if self._own is None or opened != self._opened:
            return
        if self._own.is_closed:
            self._refused()
        else:
            self._apply(seq, channel, parts)
            live_seq = self._following.next_seq
            if self._own and live_seq and self._own.applied_seq + 1 >= live_seq:
                self._join()

    def _refused(self) -> None:
        """The place is in no record that the worker has: it belongs to one that is gone, and the next begins anew."""
        self._own = None
        if self.next_seq != 1:
            self.tell([json.dumps({"event": "new_record"}).encode()])
            self.begin_anew()
            self.catch_up()

    def _join(self) -> None:
        self.fall_out()
        self._is_live = True
        self._following.balance()

    def _apply(self, seq: int, channel: str, parts: list[bytes]) -> None:
        if self.next_seq and seq < self.next_seq:
            return
        self.next_seq = seq + 1
        if seq in self.early and channel != "event":
            self.early.discard(seq)
            return
        self._take(seq, channel, parts)
        if self._is_paused:
            self._slack -= sum(map(len, parts))
            if self._slack < 0:
                self.fall_out()
                self._following.balance()


def _ignore(seq: int, channel: str, parts: list[bytes]) -> None:
    pass


def _look_away(channel: str, parts: list[bytes]) -> None:
    pass


def _is_cut(channel: str, parts: list[bytes]) -> bool:
    """Whether the link says that messages are missing: such a word has the seq of the last of them."""
    return channel == "event" and json_object(parts[0]).get("event") == "cut"
