"""Open byte streams beside the dialogue with the agent, on the same SSH connection; see `wire.byte_streams`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from jupyter_tpu.agent.flow_stream import FlowStream
from jupyter_tpu.errors import AgentBroken, WorkerUnreachable, error_from_json
from jupyter_tpu.link.interfaces import ByteStream, Connection
from jupyter_tpu.link.preparation import open_channel
from jupyter_tpu.wire.byte_streams import MOST_WINDOW_BYTES, checked_target
from jupyter_tpu.wire.frames import HEADER_BYTES, FrameDecoder, Kind, ProtocolError, encode_json

# How long the worker may take to connect to the target, which may have to start a program on a busy machine.
_OPEN_S = 60.0


async def open_byte_stream(connection: Connection, socket: str, target: Mapping[str, Any]) -> FlowStream:
    """Open a stream to a target on the worker, through the agent's socket.

    Raises:
        BadInput: the agent can't connect to the target.
        AgentBroken: the program on the worker ended at once, or violates the protocol.
        WorkerUnreachable: the connection was lost, or there was no response for a minute.
    """
    kind, _ = checked_target(target)
    channel = await open_channel(connection, socket)
    try:
        channel.write(encode_json(Kind.OPEN, target))
        async with asyncio.timeout(_OPEN_S):
            answer = await _receive_opened(channel)
        if "error" in answer:
            raise error_from_json(answer["error"])
    except BaseException as error:
        channel.close()
        if isinstance(error, TimeoutError):
            raise WorkerUnreachable("The worker did not open a stream within a minute.") from None
        if isinstance(error, ProtocolError):
            raise AgentBroken("The worker's response to a new stream is invalid.", raw=str(error)) from error
        if isinstance(error, OSError):
            raise WorkerUnreachable("The connection to the worker was lost.", raw=str(error)) from error
        raise
    return FlowStream(channel, MOST_WINDOW_BYTES[kind])


async def _receive_opened(channel: ByteStream) -> Mapping[str, Any]:
    """Read exactly one frame: everything after it belongs to the stream."""
    decoder = FrameDecoder(frozenset({Kind.OPENED}))
    data = await _read_exactly(channel, HEADER_BYTES)
    frames = list(decoder.feed(data)) or decoder.feed(await _read_exactly(channel, int.from_bytes(data[:4], "big")))
    return next(iter(frames)).json()


async def _read_exactly(channel: ByteStream, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = await channel.read(size - len(data))
        if not piece:
            raise AgentBroken(
                "The program on the worker that serves this stream ended at once.",
                hint="Its log is ~/.jupyter-tpu/agent.log on the worker.",
            )
        data += piece
    return data
