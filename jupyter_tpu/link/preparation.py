"""Prepare a worker over a new connection (code, environments, agent), and then open a channel to the agent.

The remote command is fixed. All variable data is sent on standard input, so that no shell quoting is needed.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from jupyter_tpu.agent.archive import agent_archive, bootstrap_source, relay_source, sources_digest
from jupyter_tpu.agent.recording.jupyter_messages import json_object
from jupyter_tpu.errors import AgentBroken, EnvironmentFailed, Text, TpuError, WorkerUnreachable, error_from_json
from jupyter_tpu.link.interfaces import ByteStream, Connection, ProcessStream

log = logging.getLogger(__name__)

OnProgress = Callable[[Mapping[str, Any]], None]

RUN_PROGRAM = (
    'exec python3 -c "import sys; s = sys.stdin.buffer; '
    "exec(compile(s.read(int(s.readline())), 'jupyter-tpu', 'exec'), {'__name__': '__main__'})\""
)
"""The fixed remote command.

It runs a Python program from standard input, whose first line contains the program's length.
"""

PATIENCE_S = 600.0
"""Seconds that a worker may send nothing during the preparation: a step may install packages over a slow network."""

_LONGEST_LINE = 1024 * 1024  # bounds this computer's memory use, because the worker isn't trusted
_PIECE = 64 * 1024


@dataclass(frozen=True, slots=True)
class Ready:
    """The result of a preparation: the agent's socket and the kernels' Python. Saved on disk under these field names.

    Attributes:
        socket: path of the agent's Unix socket on the worker.
        python: the path of the kernels' Python on the worker.
        log: the end of the agent's log, if it was requested.
        wish: the key of the preparation; see `preparation_key`.
    """

    socket: str
    python: str
    log: str = ""
    wish: str = ""


def preparation_key(python: str) -> str:
    """Return a string that identifies a preparation by the agent's code and the kernels' Python."""
    return f"{sources_digest()} {python}"


class PreparationCache:
    """A cache of the last preparation's result, so that the next connection can contact the agent directly.

    Args:
        on_change: called with each change, to store it permanently.

    Attributes:
        ready: the result; None if there is none.
    """

    def __init__(self, on_change: Callable[[Ready | None], None] | None = None) -> None:
        self.ready: Ready | None = None
        self._on_change = on_change

    def store(self, ready: Ready | None) -> None:
        """Store a result. Pass None to clear the last result if it was wrong."""
        is_news, self.ready = ready != self.ready, ready
        if is_news and self._on_change:
            self._on_change(ready)


async def prepare_worker(
    connection: Connection,
    *,
    python: str,
    on_progress: OnProgress,
    explain: bool = False,
    patience_s: float = PATIENCE_S,
) -> Ready:
    """Run the bootstrap on the worker, and report its progress until it finishes.

    Args:
        python: the Python interpreter for kernels; empty to let the worker choose.
        on_progress: called with ``{"phase", "message", "fraction"}``.
        explain: whether to also return the end of the agent's log.
        patience_s: how long the worker may send nothing, in seconds.

    Raises:
        EnvironmentFailed: the worker cannot be prepared, has no python3 or stops responding.
        AgentBroken: the bootstrap sent an invalid response.
        WorkerUnreachable: the connection was lost.
    """
    archive = agent_archive()
    request = {"digest": archive.digest, "size": len(archive.content), "python": python, "explain": explain}
    process = await connection.execute(RUN_PROGRAM)
    try:
        # Write the program and the request together. The program then reads the request from the same input.
        await _write(process, _program(bootstrap_source()) + json.dumps(request).encode() + b"\n")
        ready = await _follow(_Lines(process, patience_s), process, archive.content, on_progress)
        return replace(ready, wish=preparation_key(python))
    finally:
        process.close()


async def open_channel(connection: Connection, path: str) -> ByteStream:
    """Open a channel to the agent's socket, through a small relay if the SSH server does not forward Unix sockets."""
    try:
        return await connection.open_unix(path)
    except (TpuError, OSError) as error:  # the image's sshd may forbid this with AllowStreamLocalForwarding
        log.info("no channel to %s (%s); trying a relay", path, error)
    relay = await connection.execute(RUN_PROGRAM)
    await _write(relay, _program(relay_source()) + json.dumps({"socket": path}).encode() + b"\n")
    return relay


def _program(source: bytes) -> bytes:
    return b"%d\n%b" % (len(source), source)


async def _write(process: ProcessStream, data: bytes) -> None:
    try:
        process.write(data)
        await process.drain()
    except OSError as error:
        raise _cut(str(error)) from error


async def _follow(lines: _Lines, process: ProcessStream, archive: bytes, on_progress: OnProgress) -> Ready:
    while (line := await lines.next()) is not None:
        answer = json_object(line)  # this is {} for a line that isn't ours, such as a banner at login
        if "ready" in answer:
            return _ready(answer["ready"])
        if "failed" in answer:
            raise error_from_json(answer["failed"]) if isinstance(answer["failed"], dict) else _invalid_answer(line)
        if "want" in answer:  # this version of the agent's code isn't on the worker yet
            on_progress({"phase": "agent", "message": "Sending the agent's code", "fraction": 0.05})
            await _write(process, archive)
        elif "phase" in answer:
            lines.last_step = str(answer.get("message", answer["phase"]))
            on_progress(answer)
    raise await _failure(process, lines.patience_s)


def _ready(answer: Any) -> Ready:
    try:
        return Ready(str(answer["socket"]), str(answer["python"]), str(answer.get("log", "")))
    except (KeyError, TypeError, AttributeError):
        raise _invalid_answer(str(answer).encode()) from None


def _invalid_answer(line: bytes) -> AgentBroken:
    return AgentBroken("The bootstrap on the worker sent an invalid response.", raw=line[:500].decode(errors="replace"))


def _cut(raw: str) -> WorkerUnreachable:
    return WorkerUnreachable("The connection to the worker was lost during its preparation.", raw=raw)


async def _failure(process: ProcessStream, patience_s: float) -> TpuError:
    try:
        async with asyncio.timeout(patience_s):
            status, stderr = await asyncio.gather(process.exit_status(), process.read_stderr())
    except TimeoutError:
        return EnvironmentFailed(
            Text(
                "The bootstrap on the worker closed its output, but did not exit within {seconds} s.",
                seconds=round(patience_s),
            ),
            hint="Log in with `jupyter tpu ssh` and look for a hanging command.",
        )
    except (TpuError, OSError) as error:
        return _cut(str(error))
    if status == 127:  # the shell's "command not found"
        return EnvironmentFailed(
            "The worker has no python3.", hint="Create the node with a TPU VM runtime version.", raw=stderr[-2000:]
        )
    if status < 0:
        return _cut(stderr[-2000:])
    last_line = (stderr.strip().splitlines() or ["no error output"])[-1][:300]
    return EnvironmentFailed(
        Text("The bootstrap on the worker exited with status {status}: {reason}.", status=status, reason=last_line),
        hint="Log in with `jupyter tpu ssh`: the disk may be full, or python3 may be broken.",
        raw=stderr[-2000:],
    )


class _Lines:
    """A line reader that limits line length and waiting time, because the worker may be hostile or stop responding."""

    def __init__(self, stream: ByteStream, patience_s: float) -> None:
        self._stream = stream
        self.patience_s = patience_s
        self.last_step = "Starting the bootstrap"
        self._buffer = bytearray()

    async def next(self) -> bytes | None:
        """Return the next line, or None at the end of the stream.

        Raises:
            EnvironmentFailed: no line arrived within `patience_s` seconds.
            AgentBroken: the line is too long.
        """
        try:
            async with asyncio.timeout(self.patience_s):
                return await self._next()
        except TimeoutError:
            raise EnvironmentFailed(
                Text(
                    "No progress from the worker for {seconds} s. Last step: {step}.",
                    seconds=round(self.patience_s),
                    step=self.last_step,
                ),
                hint="Log in with `jupyter tpu ssh` and look for a hanging command or a slow network.",
            ) from None

    async def _next(self) -> bytes | None:
        while b"\n" not in self._buffer:
            data = await self._read()
            if not data:
                return None
            self._buffer += data
            if len(self._buffer) > _LONGEST_LINE:
                raise _invalid_answer(bytes(self._buffer[:500]))
        line, _, rest = self._buffer.partition(b"\n")
        self._buffer = rest
        return bytes(line)

    async def _read(self) -> bytes:
        try:
            return await self._stream.read(_PIECE)
        except OSError:
            return b""
