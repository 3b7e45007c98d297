"""Record a kernel's messages in its log and index, each numbered message exactly once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

from jupyter_tpu.agent.recording.checkpoint import Checkpoint
from jupyter_tpu.agent.recording.jupyter_messages import AGENT_SESSION, header_place, json_object
from jupyter_tpu.agent.recording.output_protocol import ATTACH, parse_head
from jupyter_tpu.agent.recording.record import Record
from jupyter_tpu.agent.recording.request_index import RequestIndex
from jupyter_tpu.agent.recording.watermark import Watermark
from jupyter_tpu.wire.entries import Entry
from jupyter_tpu.wire.multipart import Channel
from jupyter_tpu.worker_clock import boot_clock, booted_at, wall_clock

_NUMBERED = (Channel.IOPUB, Channel.SHELL, Channel.STDIN)
# How often to retry after a full disk.
_TRY_AGAIN_S = 1.0
_DISK_FULL = (
    "The worker's disk can't be written; it is probably full. Output is still shown but no longer recorded there, and "
    "is lost if the agent ends now. Remove files in a terminal (`jupyter tpu ssh`) or from this kernel."
)
PROBE = "jupyter-tpu-probe-"
"""Prefix of the msg_id of the agent's own requests (`kernels.takeover`), whose replies are not recorded."""
_PROBE_BYTES = f'"{PROBE}'.encode()
_OVERFLOW = "The kernel printed more than it could keep while no agent ran on the worker."


class Recorder:
    """The writer of one kernel's record, which keeps index, watermark and checkpoint consistent with it.

    Args:
        heard: the watermark of messages on disk.
        on_output: called after each recorded batch.
        on_written: called with the number of the kernel's last message on disk.

    Attributes:
        requests: the index of execute requests.
        last_output_at: when the last batch was recorded (seconds of the boot clock); None before the first batch.
        is_attached: whether the kernel numbers its messages and has resent the missing messages.
        on_probe_answer: called with ``(channel, parts)`` of each reply to the agent's own request.
    """

    def __init__(
        self,
        record: Record,
        heard: Watermark,
        checkpoint: Checkpoint,
        on_output: Callable[[], None],
        on_written: Callable[[int], None],
    ) -> None:
        self.requests = RequestIndex()
        self.last_output_at: float | None = None
        self.on_probe_answer: Callable[[int, list[bytes]], None] = _ignore
        self._record = record
        self._watermark = heard
        self._checkpoint = checkpoint
        self._number = 0
        self._unsaved = 0
        self.is_attached = False
        self._on_output = on_output
        self._on_written = on_written
        self._has_warned = False
        self._retry: asyncio.TimerHandle | None = None

    @property
    def number(self) -> int:
        """Number of the last recorded message."""
        return self._number

    def recover(self) -> None:
        """Restore the request index and the number of the last message from an earlier agent's files."""
        # Messages that the previous agent had only in memory are lost, but clients may have seen them. The kernel sends
        # these messages again.
        self._number = self._watermark.number
        self._record.reserve(self._watermark.assigned)
        seq, booted = self._checkpoint.load(self.requests, self._record.next_seq), booted_at()
        for entry, size in self._record.entries(min(seq, self._watermark.next_seq)):
            if entry.seq >= seq:
                self.requests.observe(entry.seq, entry.time - booted, entry.channel, entry.parts, size)
            # These entries were written after the watermark's last update. Each of them is a numbered message from the
            # kernel.
            if entry.seq >= self._watermark.next_seq and entry.channel in _NUMBERED and not _is_agents(entry):
                self._number += 1
        while (given := self._watermark.seq_of(self._number + 1)) is not None and given < self._record.tail_seq:
            self._number += 1

    def restart_numbering(self) -> None:
        """Expect number 1 next, because a new process counts from 1."""
        self._number = 0
        self.is_attached = False
        self._watermark.restart(self._record.next_seq)

    def record(self, channel: Channel, batch: Sequence[list[bytes]]) -> None:
        """Record unnumbered messages on the given channel."""
        now = wall_clock()
        for parts in batch:
            self._append(channel, parts, now)
        self._flush()

    def record_numbered(self, batch: Sequence[list[bytes]]) -> None:
        """Record a batch of messages from the iopub socket.

        If the kernel numbers its messages, they come from all channels, and messages that are already recorded are
        skipped. Otherwise, the batch contains only iopub messages.
        """
        now = wall_clock()
        for parts in batch:
            numbered = parse_head(parts[0])
            if parts[0].startswith(ATTACH):  # the kernel echoes this message before it repeats the missing messages
                self.is_attached = True
            elif numbered is None:
                self._append(Channel.IOPUB, parts, now)
            elif self.is_attached and numbered[1] > self._number:
                self._append_numbered(*numbered, parts[1:], now)
        self._flush()

    def event(self, name: str, **content: Any) -> None:
        """Record an event of the agent, such as ``started`` or ``exited``."""
        self.record(Channel.EVENT, [_event(name, content)])

    @property
    def awaits_resent(self) -> bool:
        """Whether clients may have seen messages that are not on disk and that the kernel hasn't resent yet."""
        return self._watermark.seq_of(self._number + 1) is not None

    @property
    def is_whole(self) -> bool:
        """Whether all files of the record that `restore` can write exist."""
        return self._record.is_whole and self._watermark.is_whole

    def restore(self) -> None:
        """Recreate the files of the record and the watermark if they were removed; raise OSError on failure."""
        self._record.restore()
        self._watermark.restore()

    def close(self) -> None:
        """Stop retrying failed writes, and close the watermark; the record's owner closes the record."""
        if self._retry is not None:
            self._retry.cancel()
        self._watermark.close()

    def _append_numbered(self, channel: int, number: int, parts: list[bytes], now: float) -> None:
        """Record the message with this `number`. If the kernel dropped earlier messages, first record a gap."""
        seq = self._watermark.seq_of(number)
        if missed := number - self._number - 1:
            gap = _event("gap", {"messages": missed, "reason": _OVERFLOW})
            self._append(Channel.EVENT, gap, now, seq and seq - 1)
        self._number = number
        if given := self._append(channel, parts, now, seq):
            self._watermark.note(number, given)

    def _append(self, channel: int, parts: list[bytes], now: float, reserved_seq: int | None = None) -> int | None:
        """Record a message and return its seq, or None if the message isn't for clients."""
        if (place := header_place(parts)) and _PROBE_BYTES in parts[place + 1]:
            self.on_probe_answer(channel, parts)
            return None
        # The agent has already replied to this request in place of the kernel, so clients must not get a second reply.
        if place and channel == Channel.SHELL and self.requests.is_settled(parts[place + 1]):
            return None
        seq, size = self._record.append(channel, parts, now, reserved_seq)
        self.requests.observe(seq, boot_clock(), channel, parts, size)
        self._unsaved += size
        return seq

    def _flush(self) -> None:
        self._record.flush()
        self.last_output_at = boot_clock()
        self._note_written()
        self._on_output()
        self._warn_of_full_disk()

    def _note_written(self) -> None:
        """Tell the kernel which messages are on disk. If the disk is full, schedule another attempt to write."""
        if self._record.has_overflow:
            self._watermark.assign(self._record.next_seq)
            if self._retry is None:
                self._retry = asyncio.get_running_loop().call_later(_TRY_AGAIN_S, self._try_again)
        elif self._number != self._watermark.number:
            self._watermark.save(self._number, self._record.tail_seq, self._record.next_seq)
            self._on_written(self._number)
            self._checkpoint.grown(self._unsaved, self.requests, self._record.tail_seq)
            self._unsaved = 0

    def _try_again(self) -> None:
        self._retry = None
        self._record.release()
        self._note_written()
        self._has_warned = self._record.has_overflow

    def _warn_of_full_disk(self) -> None:
        """Record the event ``disk_full`` when the disk becomes full; don't repeat it while the disk stays full."""
        if self.awaits_resent:  # the event must not use the seqs of these messages
            return
        is_new, self._has_warned = self._record.has_overflow and not self._has_warned, self._record.has_overflow
        if is_new:
            self.event("disk_full", message=_DISK_FULL)


def _ignore(channel: int, parts: list[bytes]) -> None:
    """Ignore a reply to an earlier agent's probe."""


def _is_agents(entry: Entry) -> bool:
    """Whether the agent made this entry in place of the kernel. Such an entry has the agent's session id."""
    place = header_place(entry.parts)
    return bool(place) and json_object(entry.parts[place]).get("session") == AGENT_SESSION


def _event(name: str, content: dict[str, Any]) -> list[bytes]:
    return [json.dumps({"event": name, **content}).encode()]
