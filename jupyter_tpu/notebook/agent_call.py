"""Asks the agent on this machine, over its Unix socket, and waits for the answer."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Mapping
from typing import Any

from jupyter_tpu._version import __version__
from jupyter_tpu.errors import AgentBroken, WorkerUnreachable, error_from_json
from jupyter_tpu.wire.frames import FROM_AGENT, FrameDecoder, Kind, ProtocolError, encode_json
from jupyter_tpu.wire.hello import client_hello

SOCKET_VARIABLE = "JUPYTER_TPU_AGENT_SOCKET"
ANSWER_S = 20.0
_PIECE = 64 * 1024


def ask_agent(method: str, params: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Call a method of the agent that started this kernel.

    Raises:
        WorkerUnreachable: there is none here, or it does not answer.
        TpuError: what it answered.
    """
    path = environ.get(SOCKET_VARIABLE, "")
    if not path:
        raise WorkerUnreachable(
            "This kernel was not started by an agent of jupyter_tpu.",
            hint="In a terminal on your own machine `jupyter tpu keep NODE` does the same.",
        )
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(ANSWER_S)
            connection.connect(path)
            connection.sendall(encode_json(Kind.HELLO, client_hello(uuid.uuid4().hex, __version__)))
            connection.sendall(encode_json(Kind.CALL, {"method": method, "params": dict(params)}, number=1))
            content = _result(connection)
    except (OSError, ProtocolError) as error:
        raise WorkerUnreachable("The agent on this machine does not answer.", raw=str(error)) from error
    if isinstance(content.get("error"), dict):
        raise error_from_json(content["error"])
    if not isinstance(content.get("result"), dict):
        raise AgentBroken("The agent on this machine answered nonsense.")
    return dict(content["result"])


def _result(connection: socket.socket) -> dict[str, Any]:
    decoder = FrameDecoder(FROM_AGENT)
    while data := connection.recv(_PIECE):
        for frame in decoder.feed(data):
            if frame.kind == Kind.RESULT:
                return frame.json()
    raise ProtocolError("it closed the connection")
