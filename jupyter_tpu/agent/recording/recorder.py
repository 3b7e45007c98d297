"""Takes what a kernel says into its record and its index; what comes on the kernel's line is taken once."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from jupyter_tpu.agent.recording.checkpoint import Checkpoint
from jupyter_tpu.agent.recording.jupyter_messages import AGENT_SESSION, header_place, json_object
from jupyter_tpu.agent.recording.log import Record
from jupyter_tpu.agent.recording.output_protocol import ATTACH, parse_head
from jupyter_tpu.agent.recording.request_index import RequestIndex
from jupyter_tpu.agent.recording.watermark import Watermark
from jupyter_tpu.wire.entries import Entry
from jupyter_tpu.wire.messages import Channel

log = logging.getLogger(__name__)

_ON_THE_LINE = (Channel.IOPUB, Channel.SHELL, Channel.STDIN)
_TRY_AGAIN_S = 1.0
_DISK_FULL = (
    "The worker's disk takes nothing more; it is probably full. Output is still shown, but no longer recorded there, "
    "and lost if the agent ends now. Remove files in the terminal (`jupyter tpu ssh`) or from this kernel."
)
PROBE = "jupyter-tpu-probe-"
"""Begins the msg_id of an agent's own request. What answers it is not recorded."""
_PROBE_BYTES = f'"{PROBE}'.encode()
_OVERFLOW = "The kernel printed more than it could keep while no agent ran on the worker."


class Recorder:
    """The way into one kernel's record.

    Args:
        on_output: called after each batch that was recorded.
        on_written: called with the number up to which the kernel's line is on disk.

    Attributes:
        is_attached: the kernel keeps what it says until it is on disk, and has sent what was missing.
        on_probe_answer: called with ``(channel, parts)`` of what answers the agent's own request.
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
        self._heard = heard
        self._checkpoint = checkpoint
        self._number = 0
        self._unsaved = 0
        self.is_attached = False
        self._on_output = on_output
        self._on_written = on_written
        self._told_of_full_disk = False
        self._retry: asyncio.TimerHandle | None = None

    @property
    def number(self) -> int:
        """What was taken of the kernel's line so far."""
        return self._number

    def recover(self) -> None:
        """Come to the index, and to the place on the line, that an earlier agent had."""
        self._number = self._heard.number
        self._record.skip(max(0, self._heard.given - self._record.next_seq))
        seq = self._checkpoint.load(self.requests, self._record.next_seq)
        for entry, size in self._record.entries(min(seq, self._heard.next_seq)):
            if entry.seq >= seq:
                self.requests.observe(entry.seq, entry.time, entry.channel, entry.parts, size)
            if entry.seq >= self._heard.next_seq and entry.channel in _ON_THE_LINE and not _is_agents(entry):
                self._number += 1

    def begin_line(self) -> None:
        """A new process begins to count."""
        self._number = 0
        self.is_attached = False
        self._heard.save(0, self._record.next_seq)

    def take(self, channel: Channel, batch: Sequence[list[bytes]]) -> None:
        """Record messages that are not on the line."""
        now = time.time()
        for parts in batch:
            self._append(channel, parts, now)
        self._flush(now)

    def hear(self, batch: Sequence[list[bytes]]) -> None:
        """Record messages from the line, which may have been recorded before; and those of a kernel that has none."""
        now = time.time()
        for parts in batch:
            numbered = parse_head(parts[0])
            if parts[0].startswith(ATTACH):
                self.is_attached = True
            elif numbered is None:
                self._append(Channel.IOPUB, parts, now)
            elif self.is_attached and numbered[1] > self._number:
                self._advance(numbered[1], now)
                self._append(numbered[0], parts[1:], now)
        self._flush(now)

    def event(self, name: str, **content: Any) -> None:
        """Record the agent's own words."""
        self.take(Channel.EVENT, [_event(name, content)])

    def restore(self) -> None:
        """Restore what somebody has removed of the record; raises OSError where that is not possible."""
        self._record.restore()
        self._heard.restore()

    def close(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
        self._heard.close()

    # -- inside --------------------------------------------------------------------------------------------------------

    def _advance(self, number: int, now: float) -> None:
        if missed := number - self._number - 1:
            self._append(Channel.EVENT, _event("gap", {"messages": missed, "reason": _OVERFLOW}), now)
        self._number = number

    def _append(self, channel: int, parts: list[bytes], now: float) -> None:
        if (place := header_place(parts)) and _PROBE_BYTES in parts[place + 1]:
            self.on_probe_answer(channel, parts)
            return
        if place and channel == Channel.SHELL and self.requests.is_settled(parts[place + 1]):
            return
        seq, size = self._record.append(channel, parts, now)
        self.requests.observe(seq, now, channel, parts, size)
        self._unsaved += size

    def _flush(self, now: float) -> None:
        self._record.flush()
        self.last_output_at = now
        self._note_written()
        self._on_output()
        self._tell_of_full_disk()

    def _note_written(self) -> None:
        """The kernel keeps what is not on disk; a full disk is looked at again, also when nothing more comes."""
        if self._record.is_held:
            self._heard.give(self._record.next_seq)
            if self._retry is None:
                self._retry = asyncio.get_running_loop().call_later(_TRY_AGAIN_S, self._try_again)
        elif self._number != self._heard.number:
            self._heard.save(self._number, self._record.next_seq)
            self._on_written(self._number)
            self._checkpoint.grown(self._unsaved, self.requests, self._record.next_seq)
            self._unsaved = 0

    def _try_again(self) -> None:
        self._retry = None
        self._record.release()
        self._note_written()
        self._told_of_full_disk = self._record.is_held

    def _tell_of_full_disk(self) -> None:
        """Once, until the disk takes the record again."""
        is_new, self._told_of_full_disk = self._record.is_held and not self._told_of_full_disk, self._record.is_held
        if is_new:
            self.event("disk_full", message=_DISK_FULL)


def _ignore(channel: int, parts: list[bytes]) -> None:
    """Nobody asked, or an agent that is gone."""


def _is_agents(entry: Entry) -> bool:
    """Whether the agent has answered in the kernel's place: the kernel has not counted that."""
    place = header_place(entry.parts)
    return bool(place) and json_object(entry.parts[place]).get("session") == AGENT_SESSION


def _event(name: str, content: dict[str, Any]) -> list[bytes]:
    return [json.dumps({"event": name, **content}).encode()]
