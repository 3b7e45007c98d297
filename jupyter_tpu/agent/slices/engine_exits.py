"""Tell the kernel on worker 0, through the slice's own network, that this worker's engine has exited.

The controller doesn't notice the exit of an engine that hasn't joined yet, and no client may be connected that would
report it. The message goes the way of the engines' output, which needs no reply.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import zmq

from jupyter_tpu.agent.recording.jupyter_messages import DELIMITER
from jupyter_tpu.worker_clock import wall_clock

EXITED = "tpu_exited"
"""The topic and type of the message; its content has the ``worker``."""

# How often to repeat the message: the kernel may not listen yet. It waits 3 minutes for its engines.
_TIMES = 180
_EVERY_S = 1.0
# If the controller doesn't accept the connection by then, it has exited, too.
_CONNECTS_WITHIN_S = 10.0


async def report_exit(connection_file: Path, worker: int) -> None:
    """Send the message until the controller exits, or the kernel must have received it.

    Args:
        connection_file: the controller's connection file for engines; nothing is sent if it is missing or damaged.
        worker: the number of this worker.
    """
    with suppress(OSError, ValueError, KeyError, zmq.ZMQError):
        await _report(_connection_in(connection_file), _message(worker))


async def _report(connection: Mapping[str, Any], message: list[bytes]) -> None:
    with zmq.Context() as context, context.socket(zmq.XPUB) as socket:
        socket.linger = 0
        socket.curve_serverkey = connection["curve_serverkey"].encode()
        socket.curve_publickey, socket.curve_secretkey = zmq.curve_keypair()
        socket.connect(f"{connection['interface']}:{connection['iopub']}")
        is_connected = False
        for number in range(_TIMES):
            await asyncio.sleep(_EVERY_S)
            while socket.poll(0):
                is_connected = socket.recv().startswith(b"\1")  # the controller subscribes, and unsubscribes at its end
            if is_connected:
                socket.send_multipart(message)
            elif number * _EVERY_S > _CONNECTS_WITHIN_S:
                return


def _connection_in(file: Path) -> dict[str, Any]:
    return dict(json.loads(file.read_text()))


def _message(worker: int) -> list[bytes]:
    header = {
        "msg_id": uuid.uuid4().hex,
        "msg_type": EXITED,
        "username": "agent",
        "session": "agent",
        "date": datetime.fromtimestamp(wall_clock(), timezone.utc).isoformat(),
        "version": "5.3",
    }
    frames = [json.dumps(part).encode() for part in (header, {}, {}, {"worker": worker})]
    return [EXITED.encode(), DELIMITER, b"", *frames]
