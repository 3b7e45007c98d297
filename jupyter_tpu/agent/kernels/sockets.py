"""The agent's end of a kernel's ZMQ sockets, which reads messages as soon as they arrive and sends requests.

The three request sockets share one identity, stored in the kernel's folder, for the lifetime of the kernel's process.
So a reply that was pending when the agent exited reaches the next agent, and a reply to ``input()`` finds its request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

import zmq
from zmq.utils.monitor import parse_monitor_message

from jupyter_tpu.agent.recording import output_protocol
from jupyter_tpu.wire.multipart import Channel

Context: TypeAlias = "zmq.Context[zmq.Socket[bytes]]"
Deliver = Callable[[Channel, "list[list[bytes]]"], None]

PORTS = {"shell_port": 1, "iopub_port": 2, "stdin_port": 3, "control_port": 4, "hb_port": 5}
"""The ports in the connection file. With the ipc transport, a port is the last part of the socket's file name."""

_SOCKETS = {
    Channel.SHELL: (zmq.DEALER, "shell_port"),
    Channel.CONTROL: (zmq.DEALER, "control_port"),
    Channel.STDIN: (zmq.DEALER, "stdin_port"),
    Channel.IOPUB: (zmq.XSUB, "iopub_port"),
}
# Maximum number of messages and bytes to read at once before serving other kernels and clients.
_BATCH = 256
_BATCH_BYTES = 4 * 1024 * 1024
# Retry interval until the kernel has bound its sockets; connecting to a socket file costs almost nothing.
_RECONNECT_MS = 5
# Maximum number of messages in the queue. It is short, because queued messages are lost if the agent is killed, unless
# the kernel numbers its messages.
_IOPUB_QUEUE = 64
_SUBSCRIBE_TO_ALL = b"\x01"
# Interval between two acknowledgements. It is long enough to acknowledge many batches at once, but much shorter than a
# kernel waits for buffer space.
_ACKNOWLEDGE_EVERY_S = 0.02
# How long to wait for the kernel to bind all of its sockets. After this time, requests are sent anyway.
_MEET_WITHIN_S = 10.0
# Delay between the kernel's exit and the disconnection of its sockets.
_GOODBYE_S = 1.0


class KernelSockets:
    """The agent's ZMQ sockets, which are connected to one kernel.

    Args:
        prefix: path of the kernel's Unix sockets, without the port at its end.
        identity: ZMQ routing id of the request sockets.
        deliver: called with the channel and messages of each batch that arrives.
    """

    def __init__(self, context: Context, prefix: Path, identity: bytes, deliver: Deliver) -> None:
        self._deliver = deliver
        self._loop = asyncio.get_running_loop()
        self._sockets = {channel: self._make(context, channel, identity) for channel in _SOCKETS}
        # Create the monitors before connecting any socket, so that no event is missed.
        self._monitors = {channel: self._monitor(channel) for channel in _SOCKETS}
        self._connected: set[Channel] = set()
        self._parted = asyncio.Event()
        self._has_met = False
        self._early: list[tuple[Channel, Sequence[bytes]]] = []
        self._identity = identity
        self._acknowledged = 0
        self._acknowledging: asyncio.TimerHandle | None = None
        self._waiting = self._loop.call_later(_MEET_WITHIN_S, self._meet)
        self._connect(prefix)

    def attach(self, number: int) -> None:
        """Request all numbered messages after `number` from the kernel."""
        self._sockets[Channel.IOPUB].send(output_protocol.attach(number, self._identity))
        self._loop.call_soon(self._read, Channel.IOPUB)

    def acknowledge(self, number: int) -> None:
        """Schedule an acknowledgement that all messages up to `number` are on disk."""
        self._acknowledged = number
        if self._acknowledging is None:
            self._acknowledging = self._loop.call_later(_ACKNOWLEDGE_EVERY_S, self._send_acknowledgement)

    def _send_acknowledgement(self) -> None:
        self._acknowledging = None
        self._sockets[Channel.IOPUB].send(output_protocol.acknowledge(self._acknowledged), zmq.NOBLOCK)
        self._loop.call_soon(self._read, Channel.IOPUB)

    @staticmethod
    def _make(context: Context, channel: Channel, identity: bytes) -> zmq.Socket[bytes]:
        kind, _ = _SOCKETS[channel]
        socket = context.socket(kind)
        socket.linger = 0
        socket.reconnect_ivl = _RECONNECT_MS
        socket.sndhwm = 0
        if kind == zmq.XSUB:
            socket.rcvhwm = _IOPUB_QUEUE
        else:
            socket.rcvhwm = 0
            socket.routing_id = identity
        return socket

    def _connect(self, prefix: Path) -> None:
        for channel, socket in self._sockets.items():
            socket.connect(f"ipc://{prefix}-{PORTS[_SOCKETS[channel][1]]}")
            self._loop.add_reader(_descriptor(socket), self._read, channel)
        self._sockets[Channel.IOPUB].send(_SUBSCRIBE_TO_ALL)

    def _monitor(self, channel: Channel) -> zmq.Socket[bytes]:
        monitor = self._sockets[channel].get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED)
        self._loop.add_reader(_descriptor(monitor), self._read_monitor, channel)
        # The descriptor signals the first event only after EVENTS has been read once.
        self._loop.call_soon(self._read_monitor, channel)
        return monitor

    def send(self, channel: Channel, parts: Sequence[bytes]) -> None:
        """Send a message once all sockets are connected, because the kernel may reply on a different socket."""
        if self._has_met:
            self._send(channel, parts)
        else:
            self._early.append((channel, parts))

    def _send(self, channel: Channel, parts: Sequence[bytes]) -> None:
        self._sockets[channel].send_multipart(parts, zmq.NOBLOCK)
        # ZMQ's descriptor is edge-triggered, and this send may have consumed an edge.
        self._loop.call_soon(self._read, channel)

    def _read(self, channel: Channel) -> None:
        socket = self._sockets[channel]
        if socket.closed:
            return
        batch = _receive(socket)
        if batch:
            self._deliver(channel, batch)
            self._loop.call_soon(self._read, channel)

    def _read_monitor(self, channel: Channel) -> None:
        monitor = self._monitors[channel]
        while not monitor.closed and int(monitor.get(zmq.EVENTS)) & zmq.POLLIN:
            if parse_monitor_message(monitor.recv_multipart(zmq.NOBLOCK))["event"] == zmq.EVENT_DISCONNECTED:
                self._connected.discard(channel)
            else:
                self._connected.add(channel)
        if not self._connected:
            self._parted.set()
        if not self._has_met and len(self._connected) == len(_SOCKETS):
            self._meet()

    def _meet(self) -> None:
        self._waiting.cancel()
        self._has_met = True
        early, self._early = self._early, []
        for channel, parts in early:
            self._send(channel, parts)

    async def drain(self) -> None:
        """Deliver the last messages of an exited kernel. They have all arrived when every socket is disconnected."""
        self._parted.clear()
        for channel in _SOCKETS:
            self._read_monitor(channel)
        # A child process of the kernel may keep the kernel's sockets open.
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._parted.wait(), _GOODBYE_S)
        for channel, socket in self._sockets.items():
            while batch := _receive(socket):
                self._deliver(channel, batch)

    def close(self) -> None:
        """Close all sockets."""
        self._waiting.cancel()
        if self._acknowledging is not None:
            self._acknowledging.cancel()
        for channel, socket in self._sockets.items():
            self._loop.remove_reader(_descriptor(self._monitors[channel]))
            self._loop.remove_reader(_descriptor(socket))
            socket.disable_monitor()
            self._monitors[channel].close(linger=0)
            socket.close(linger=0)


def _descriptor(socket: zmq.Socket[bytes]) -> int:
    return int(socket.get(zmq.FD))


def _receive(socket: zmq.Socket[bytes]) -> list[list[bytes]]:
    batch: list[list[bytes]] = []
    size = 0
    while len(batch) < _BATCH and size < _BATCH_BYTES:
        try:
            parts = socket.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            break
        batch.append(parts)
        size += sum(map(len, parts))
    return batch
