"""Connect one client to one kernel: the kernel's messages in one direction, the client's requests in the other."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Literal

from jupyter_tpu.agent.recording.jupyter_messages import is_execute_request
from jupyter_tpu.errors import BadInput, Text, WorkerUnreachable, error_from_json
from jupyter_tpu.link.interfaces import OnMessage
from jupyter_tpu.wire.entries import DamagedEntry, Entry, Room, decode_entry
from jupyter_tpu.wire.frames import REQUEST_BYTES, Frame, Kind, ProtocolError, encode_frame, encode_json
from jupyter_tpu.wire.multipart import MAX_PARTS, Channel, channel_name, decode_request, encode_request
from jupyter_tpu.wire.replay import MAX_SEQ, Cut, Replay
from jupyter_tpu.wire.requests import Outbox, Request

log = logging.getLogger(__name__)

WAITING_BYTES = 256 * 1024 * 1024
"""Maximum total size of a link's requests that wait for the agent, in bytes.

It is enough for the largest message and several others.
"""

# Both limits bound the memory and the size of frames. A user causes far fewer interrupts and waiting cells.
_MOST_AHEAD = 10_000  # express copies to remember until the stream reaches them
_MOST_AGES = 1000  # requests whose age is sent with ATTACH, which is limited to 64 KiB
_CHANNELS = {"shell": Channel.SHELL, "control": Channel.CONTROL, "stdin": Channel.STDIN}


def refuse_too_large(parts: Sequence[bytes]) -> None:
    """Check the size of a message for a kernel.

    Raises:
        BadInput: the message exceeds the link's size limit.
    """
    if sum(map(len, parts)) + 4 * len(parts) + 16 > REQUEST_BYTES or len(parts) > MAX_PARTS:
        raise BadInput(
            Text("A message of more than {mib} MiB cannot be sent to a kernel.", mib=REQUEST_BYTES >> 20),
            hint="Send large files in pieces, or copy them to the worker.",
        )


class KernelStream:
    """The message stream of a kernel or terminal. Created by `Link.attach`; stays open across disconnects.

    Attributes:
        number: the stream's number on the wire, chosen by the link.
        is_closed: whether the stream was closed, or the worker does not have the kernel.
    """

    def __init__(
        self,
        number: int,
        kernel_id: str,
        *,
        from_seq: int | None,
        on_message: OnMessage,
        on_express: OnMessage | None,
        outbox: Outbox,
        send: Callable[[bytes], bool],
        forget: Callable[[KernelStream], None],
        knows: Callable[[str], bool],
        room: Room,
        clock: Callable[[], float],
        is_terminal: bool = False,
    ) -> None:
        self._id_field = "terminal_id" if is_terminal else "kernel_id"
        self.number = number
        self.kernel_id = kernel_id
        self._on_message = on_message
        self._on_express = on_express
        self._ahead: set[int] = set()  # seqs already passed to `on_express`
        self._outbox = outbox
        self._send = send
        self._forget = forget
        self._knows = knows
        self._room = room
        self._clock = clock
        self._replay = Replay(from_seq or 0, room)
        self._has_begun = from_seq is not None
        self._end_offset = 0  # the record's end at the last attach; until then, the stream is behind
        self._acknowledged: int | None = None
        self._is_reattaching = False
        self._is_held = False
        self.is_closed = False

    @property
    def applied_seq(self) -> int:
        """The sequence number of the last delivered message. To continue later, attach with this number plus 1."""
        return self._replay.next_seq - 1

    @property
    def has_begun(self) -> bool:
        """Whether the first sequence number is known. With ``from_seq="end"``, only the agent knows it at first."""
        return self._has_begun

    @property
    def is_behind(self) -> bool:
        """Whether some messages that existed at the last attach have not arrived yet."""
        if self._is_held or not self._has_begun:
            return False
        return self._replay.offset is None or self._replay.offset < self._end_offset

    def send(self, channel: Literal["shell", "control", "stdin"], parts: Sequence[bytes]) -> None:
        """Send one multipart message unchanged, as read from a ROUTER socket, starting with the routing identities.

        Returns immediately. The message is stored until the agent has received it, and never reaches the kernel twice.

        Raises:
            BadInput: the message exceeds the link's size limit.
            WorkerUnreachable: more than `WAITING_BYTES` bytes are already waiting.
        """
        refuse_too_large(parts)
        if self._outbox.size > WAITING_BYTES:
            raise WorkerUnreachable(
                Text(
                    "The message was not sent: {mib} MiB are already waiting for the worker.",
                    mib=self._outbox.size >> 20,
                ),
                hint="Send the message again when the node is connected.",
            )
        if not self.is_closed:
            self._post(encode_request(_CHANNELS[channel], parts))

    def abort_pending(self) -> int | None:
        """Withdraw the requests that have not reached the agent, because the kernel's process is being replaced.

        Returns the number of the last request. The call that replaces the process must send this number to the agent.
        If a request up to this number arrives later, the agent replies to it as aborted. An older agent would run such
        a request, so for an older agent this method removes the requests and returns None.
        """
        if self._knows("abort_until"):
            return self._outbox.last_number
        self._outbox.drop(self.number)
        return None

    def withdraw_unsent_cells(self) -> list[list[bytes]]:
        """Remove the execute requests that were never sent because there was no connection. Return their frames."""
        withdrawn = []
        for request in self._outbox.pending():
            if request.stream == self.number and request.number in self._outbox.unsent:
                _, parts = decode_request(request.payload)
                if is_execute_request(parts):
                    self._outbox.acknowledged(request.number)
                    withdrawn.append(parts)
        return withdrawn

    def hold(self) -> None:
        """Tell the agent to pause this stream. Up to 32 MiB of messages that it has already sent may still arrive."""
        self._set_held(True)

    def resume(self) -> None:
        """Tell the agent to continue this stream after `hold`."""
        self._set_held(False)

    def close(self) -> None:
        """Stop delivery. The kernel keeps running."""
        if not self.is_closed:
            # If this frame is lost with the connection, the agent drops the stream anyway.
            self._send(encode_frame(Kind.DETACH, self.number))
            self._end()

    # -- methods for the link

    def begin(self, from_seq: Any) -> None:
        """Begin a stream that was created with ``from_seq="end"``. Called when the agent has sent the record's end."""
        self._replay = Replay(from_seq if isinstance(from_seq, int) and from_seq <= MAX_SEQ else 0, self._room)
        self._has_begun = True
        self.attach()
        for request in self._outbox.pending():
            if request.stream == self.number:
                self._send_request(request)

    def attach(self) -> None:
        """Request all messages that were not applied yet. Called for each new connection."""
        if not self._has_begun:
            return
        self._replay.disconnected()
        self._acknowledged = None
        self._is_reattaching = False
        # Send the ages with the attach, because the agent needs them before the requests arrive.
        content = {self._id_field: self.kernel_id, "ages": self._ages()}
        self._send(encode_json(Kind.ATTACH, content, self.number, self._replay.next_seq))
        if self._is_held:
            self._send(encode_frame(Kind.HOLD, self.number, 1))

    def refuse(self, error: dict[str, Any]) -> None:
        """Close the stream with a ``gone`` event, because the worker does not have the kernel."""
        self._end()
        self._emit("gone", message=str(error_from_json(error)), error=error)

    def handle(self, frame: Frame) -> None:
        """Apply a frame of this stream.

        Raises:
            ProtocolError: the frame's content is invalid.
        """
        if frame.kind == Kind.DATA:
            self._apply(frame)
        elif frame.kind == Kind.POSITION:
            self._set_position(frame)
        elif frame.kind == Kind.EXPRESS:
            self._deliver_express(frame)
        elif frame.kind == Kind.REFUSED:
            error = frame.json().get("error")
            self.refuse(error if isinstance(error, dict) else {})

    def acknowledge(self) -> None:
        """Acknowledge the received data, so that the agent sends more.

        All received data counts, even if a message is incomplete. Otherwise, a message larger than the window could
        never arrive.
        """
        if self._replay.offset is not None and self._replay.offset != self._acknowledged:
            self._acknowledged = self._replay.offset
            self._send(encode_frame(Kind.ACK, self.number, self._replay.offset))

    def _ages(self) -> list[tuple[int, float]]:
        """Return ``(number, age in seconds)`` of each request that is sent again after a reconnect.

        When a cell fails, the cells queued behind it are aborted. The ages show the agent whether a cell that arrives
        late was already queued when an earlier cell failed.
        """
        now = self._clock()
        mine = (request for request in self._outbox.pending() if request.stream == self.number)
        return [(request.number, now - request.requested_at) for request in islice(mine, _MOST_AGES)]

    def _post(self, payload: bytes) -> None:
        """Send a request. First wait for the stream's first sequence number, which is needed to receive the reply."""
        request = self._outbox.add(self.number, payload, requested_at=self._clock())
        if self._has_begun:
            self._send_request(request)
        else:
            self._outbox.unsent.add(request.number)

    def _send_request(self, request: Request) -> None:
        if self._send(encode_frame(Kind.REQUEST, self.number, request.number, request.payload)):
            self._outbox.unsent.discard(request.number)
        else:
            self._outbox.unsent.add(request.number)

    def _set_held(self, held: bool) -> None:
        if self._is_held != held:
            self._is_held = held
            self._send(encode_frame(Kind.HOLD, self.number, int(held)))

    def _apply(self, frame: Frame) -> None:
        if self._is_reattaching:  # data from before the reattach; the new data starts with the agent's next POSITION
            return
        try:
            for item in self._replay.data(frame.number, frame.payload):
                if isinstance(item, Cut):
                    self._report_cut(item)
                else:
                    self._deliver(item)
        except DamagedEntry as error:
            log.error("kernel %s: %s", self.kernel_id, error)
            self._skip_damaged()

    def _skip_damaged(self) -> None:
        """Reattach after a damaged entry of the record, because only the agent knows where the next entry begins."""
        self._report_cut(self._replay.skip())
        self.attach()
        self._is_reattaching = True

    def _set_position(self, frame: Frame) -> None:
        content = frame.json()
        seq, end = content.get("seq"), content.get("end", 0)
        if not isinstance(seq, int) or not isinstance(end, int):
            raise ProtocolError(f"a position without a seq: {frame.payload[:60]!r}")
        self._is_reattaching = False
        self._acknowledged, self._end_offset = frame.number, end
        if cut := self._replay.position(frame.number, seq):
            self._report_cut(cut)

    def _deliver(self, entry: Entry) -> None:
        self._ahead.discard(entry.seq)
        self._call(self._on_message, entry.seq, channel_name(entry.channel), entry.parts)

    def _deliver_express(self, frame: Frame) -> None:
        """Deliver an early copy of a message. Discard damaged or duplicate copies; the message arrives again later."""
        with suppress(DamagedEntry):
            entry = decode_entry(frame.payload)
            is_news = self._has_begun and entry.seq >= self._replay.next_seq and entry.seq not in self._ahead
            if self._on_express and is_news and len(self._ahead) < _MOST_AHEAD:
                self._ahead.add(entry.seq)
                self._call(self._on_express, entry.seq, channel_name(entry.channel), entry.parts)

    def _report_cut(self, cut: Cut) -> None:
        self._ahead = {seq for seq in self._ahead if seq > cut.last_seq}
        self._emit("cut", first_seq=cut.first_seq, last_seq=cut.last_seq)

    def _emit(self, event: str, **content: Any) -> None:
        parts = [json.dumps({"event": event, **content}).encode()]
        self._call(self._on_message, self.applied_seq, "event", parts)

    def _call(self, receiver: OnMessage, seq: int, channel: str, parts: list[bytes]) -> None:
        try:
            receiver(seq, channel, parts)
        except Exception:  # an error in the receiver must not break every other kernel's stream
            log.exception("kernel %s: the receiver of its messages failed at seq %s", self.kernel_id, seq)

    def _end(self) -> None:
        self.is_closed = True
        self._replay.disconnected()
        self._outbox.drop(self.number)
        self._forget(self)
