"""Calls to the agent on this machine over its Unix socket; every call has a time limit.

The calls block and don't use asyncio, because they run in the kernel's main thread, whose event loop belongs to
IPython.
"""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

from jupyter_tpu import __version__
from jupyter_tpu.errors import AgentBroken, Text, TpuError, WorkerUnreachable, error_from_json
from jupyter_tpu.wire.frames import FROM_AGENT, Frame, FrameDecoder, Kind, ProtocolError, encode_json
from jupyter_tpu.wire.hello import client_hello

SOCKET_VARIABLE = "JUPYTER_TPU_AGENT_SOCKET"
# For calls that change something: the agent may first have to query the metadata server or the cloud.
REPLY_TIMEOUT_S = 20.0
# For calls whose result is only shown: a cell that prints a status must not wait for an unresponsive agent.
CELL_TIMEOUT_S = 2.0

# Bytes per read; any size works, but this one needs few system calls for a large response.
_PIECE = 64 * 1024

Call = tuple[str, Mapping[str, Any]]
"""The name of an agent's method, and its parameters."""


def is_agent_here(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether an agent started this kernel on a node; the agent itself may no longer be running."""
    return bool(environ.get(SOCKET_VARIABLE))


def call_agent(
    method: str,
    params: Mapping[str, Any],
    environ: Mapping[str, str] = os.environ,
    *,
    patience_s: float = REPLY_TIMEOUT_S,
) -> dict[str, Any]:
    """Call one method of the agent that started this kernel; return its result.

    Raises:
        WorkerUnreachable: there is no agent here, or it did not respond within `patience_s` seconds.
        TpuError: the error in the agent's response.
    """
    (answer,) = call_all({method: (method, params)}, environ, patience_s=patience_s).values()
    if isinstance(answer, TpuError):
        raise answer
    return answer


def call_all(
    calls: Mapping[str, Call], environ: Mapping[str, str] = os.environ, *, patience_s: float = CELL_TIMEOUT_S
) -> dict[str, dict[str, Any] | TpuError]:
    """Call several methods over one connection; return the results under the names that the caller gave to the calls.

    A call that failed or got no response within `patience_s` seconds has an error instead of a result.

    Raises:
        WorkerUnreachable: no agent started this kernel.
    """
    path = environ.get(SOCKET_VARIABLE, "")
    if not path:
        raise WorkerUnreachable(
            "This kernel was not started by an agent of jupyter_tpu.",
            hint="Choose a kernel on a TPU node, or use `jupyter tpu` in a terminal on your own machine.",
        )
    answers: dict[str, dict[str, Any] | TpuError] = {}
    try:
        answers.update(_answers(path, calls, time.monotonic() + patience_s))
    except (OSError, ProtocolError) as error:
        silent = _silent(error, patience_s)
        return {name: answers.get(name, silent) for name in calls}
    return {name: answers[name] for name in calls}


def _answers(path: str, calls: Mapping[str, Call], deadline: float) -> Iterator[tuple[str, dict[str, Any] | TpuError]]:
    """Yield the responses as they arrive; raises OSError or ProtocolError when the connection breaks."""
    # Frame numbers start at 1, because 0 is for frames without a call.
    names = dict(enumerate(calls, 1))
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as connection:
        for frame in _results(connection, path, list(calls.values()), deadline):
            if frame.number in names:
                yield names.pop(frame.number), _answer(frame)
            if not names:
                return


def _results(connection: socket.socket, path: str, calls: list[Call], deadline: float) -> Iterator[Frame]:
    # There is one deadline for all calls: each step gets only the remaining time.
    _allow_until(connection, deadline)
    connection.connect(path)
    # Send the hello and all calls at once, so that the agent can process the first ones while later ones arrive.
    frames = [encode_json(Kind.HELLO, client_hello(uuid.uuid4().hex, __version__))]
    for number, (method, params) in enumerate(calls, 1):
        frames.append(encode_json(Kind.CALL, {"method": method, "params": dict(params)}, number=number))
    _allow_until(connection, deadline)
    connection.sendall(b"".join(frames))
    decoder = FrameDecoder(FROM_AGENT)
    while data := _received(connection, deadline):
        yield from (frame for frame in decoder.feed(data) if frame.kind == Kind.RESULT)
    raise ProtocolError("it closed the connection")


def _received(connection: socket.socket, deadline: float) -> bytes:
    _allow_until(connection, deadline)
    return connection.recv(_PIECE)


def _allow_until(connection: socket.socket, deadline: float) -> None:
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise TimeoutError("timed out")
    connection.settimeout(left_s)


def _answer(frame: Frame) -> dict[str, Any] | TpuError:
    content = frame.json()
    if isinstance(content.get("error"), dict):
        return error_from_json(content["error"])
    if not isinstance(content.get("result"), dict):
        return AgentBroken("The agent on this machine sent a reply that can't be read.")
    return dict(content["result"])


def _silent(error: Exception, patience_s: float) -> WorkerUnreachable:
    if not isinstance(error, TimeoutError):
        return WorkerUnreachable("The agent on this machine is not responding.", raw=str(error))
    return WorkerUnreachable(
        Text("The agent on this machine did not respond within {seconds} s.", seconds=f"{patience_s:g}"),
        hint="Try again; `%tpu logs` shows the end of the agent's log.",
    )
