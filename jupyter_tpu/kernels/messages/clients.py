"""Deliver a kernel's record to the clients of its local sockets: all messages, in order, at the clients' speed.

A reply is delivered after the output that precedes it. If a client reads no output for a long time, replies may be
delivered before that output. The output waits in the record on the worker, so it uses no memory in this process.
"""

from __future__ import annotations

from jupyter_tpu.kernels.messages.fanout import RecordFanout, Seq, Subscriber
from jupyter_tpu.kernels.messages.loop_socket import Parts
from jupyter_tpu.kernels.messages.zmq_bridge import ROUTED, Bridge


class LocalClients:
    """Delivers a kernel's record to the clients of its local sockets, starting at `from_seq`."""

    def __init__(self, bridge: Bridge, fanout: RecordFanout, from_seq: Seq) -> None:
        self._bridge = bridge
        self._fanout = fanout
        self._replies: Subscriber | None = None
        self._is_held = False
        self._all = fanout.read(self._deliver, from_seq)

    def hold(self) -> None:
        """Pause delivery, because a client's queue is full."""
        self._is_held = True
        self._all.pause()

    def resume(self) -> None:
        """Resume delivery after `hold`."""
        self._is_held = False
        self._all.resume()

    def let_replies_pass(self) -> None:
        """Deliver replies from now on, even while the delivery of output is paused."""
        if self._replies is None and self._all.next_seq is not None:
            self._replies = self._fanout.read(self._deliver_reply, self._all.next_seq, early=self._all.early)

    def close(self) -> None:
        """Stop delivery."""
        self._all.close()
        if self._replies:
            self._replies.close()

    def _deliver(self, seq: int, channel: str, parts: Parts) -> None:
        if self._replies is None or channel not in ROUTED:
            self._bridge.deliver(seq, channel, parts)
        self._meet()

    def _deliver_reply(self, seq: int, channel: str, parts: Parts) -> None:
        if channel in ROUTED:
            self._bridge.deliver(seq, channel, parts)
        self._meet()

    def _meet(self) -> None:
        """Merge the readers for output and for replies after they have reached the same position."""
        if self._replies and not self._is_held and self._all.next_seq == self._replies.next_seq:
            self._all.early |= self._replies.early
            self._replies.close()
            self._replies = None
