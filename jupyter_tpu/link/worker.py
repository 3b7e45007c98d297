"""Makes a worker ready over a fresh connection: code, environments, agent; then opens a channel to the agent.

The remote command is fixed. Everything that varies travels on standard input, so nothing is ever quoted for a shell.
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
from jupyter_tpu.errors import AgentBroken, EnvironmentFailed, TpuError, WorkerUnreachable, error_from_json
from jupyter_tpu.link.interfaces import ByteStream, Connection, ProcessStream

log = logging.getLogger(__name__)

OnProgress = Callable[[Mapping[str, Any]], None]

RUN_PROGRAM = (
    'exec python3 -c "import sys; s = sys.stdin.buffer; '
    "exec(compile(s.read(int(s.readline())), 'jupyter-tpu', 'exec'), {'__name__': '__main__'})\""
)
"""Runs the Python program that comes first on standard input, after its length on a line."""

PATIENCE_S = 600.0
"""How long a worker may say nothing while it is prepared: a step may install packages over a slow network."""

_LONGEST_LINE = 1024 * 1024
_PIECE = 64 * 1024


@dataclass(frozen=True, slots=True)
class Ready:
    """Where the agent listens and what kernels run on.

    Attributes:
        log: the end of the agent's log, when asked for.
        wish: what the worker was prepared for; see `wish_for`.
    """

    socket: str
    python: str
    log: str = ""
    wish: str = ""


def wish_for(python: str) -> str:
    """The agent's code and the Python of kernels that a worker is prepared for, as one text to compare."""
    return f"{sources_digest()} {python}"


class Memory:
    """What the last preparation found, so that the next connection can go straight to the agent.

    Args:
        on_change: told of news, so that they can be kept for longer than this object.

    Attributes:
        ready: None when nothing is known.
    """

    def __init__(self, on_change: Callable[[Ready | None], None] | None = None) -> None:
        self.ready: Ready | None = None
        self._on_change = on_change

    def keep(self, ready: Ready | None) -> None:
        """Remember it; None: what was known has turned out wrong."""
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
    """Run the bootstrap and follow it to its end.

    Raises:
        EnvironmentFailed: the worker says why it cannot be prepared, has no python3, or falls silent.
        WorkerUnreachable: the connection was cut.
    """
    archive = agent_archive()
    request = {"digest": archive.digest, "size": len(archive.content), "python": python, "explain": explain}
    process = await connection.execute(RUN_PROGRAM)
    try:
        await _write(process, _program(bootstrap_source()) + json.dumps(request).encode() + b"\n")
        ready = await _follow(_Lines(process, patience_s), process, archive.content, on_progress)
        return replace(ready, wish=wish_for(python))
    finally:
        process.close()


async def open_channel(connection: Connection, path: str) -> ByteStream:
    """A channel to the agent's socket; through a small relay where the SSH server forwards no Unix sockets."""
    try:
        return await connection.open_unix(path)
    except (TpuError, OSError) as error:
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
        said = json_object(line)  # a line that is not ours says nothing: a login may print a banner
        if "ready" in said:
            return _ready(said["ready"])
        if "failed" in said:
            raise error_from_json(said["failed"]) if isinstance(said["failed"], dict) else _nonsense(line)
        if "want" in said:
            on_progress({"phase": "agent", "message": "Sending the agent's code", "fraction": 0.05})
            await _write(process, archive)
        elif "phase" in said:
            lines.last_step = str(said.get("message", said["phase"]))
            on_progress(said)
    raise await _failure(process, lines.patience_s)


def _ready(said: Any) -> Ready:
    try:
        return Ready(str(said["socket"]), str(said["python"]), str(said.get("log", "")))
    except (KeyError, TypeError, AttributeError):
        raise _nonsense(str(said).encode()) from None


def _nonsense(line: bytes) -> AgentBroken:
    return AgentBroken("The bootstrap on the worker answered nonsense.", raw=line[:500].decode(errors="replace"))


def _cut(raw: str) -> WorkerUnreachable:
    return WorkerUnreachable("The connection to the worker was cut while it was prepared.", raw=raw)


async def _failure(process: ProcessStream, patience_s: float) -> TpuError:
    try:
        async with asyncio.timeout(patience_s):
            status, stderr = await asyncio.gather(process.exit_status(), process.read_stderr())
    except TimeoutError:
        return EnvironmentFailed(
            f"The bootstrap on the worker did not end within {patience_s:.0f} s of its last words.",
            hint="Look at the worker by `jupyter tpu ssh`: what it does may hang.",
        )
    except (TpuError, OSError) as error:
        return _cut(str(error))
    if status == 127:
        return EnvironmentFailed(
            "The worker has no python3.", hint="Create the node with a TPU VM runtime version.", raw=stderr[-2000:]
        )
    if status < 0:
        return _cut(stderr[-2000:])
    last_words = (stderr.strip().splitlines() or ["it said nothing"])[-1][:300]
    return EnvironmentFailed(
        f"The bootstrap on the worker ended with status {status}: {last_words}.",
        hint="Look at the worker by `jupyter tpu ssh`; its disk may be full, or its python3 broken.",
        raw=stderr[-2000:],
    )


class _Lines:
    """Lines of a stream that may be hostile or fall silent: none is longer, or later, than we are willing to bear."""

    def __init__(self, stream: ByteStream, patience_s: float) -> None:
        self._stream = stream
        self.patience_s = patience_s
        self.last_step = "Starting the bootstrap"
        self._buffer = bytearray()

    async def next(self) -> bytes | None:
        """The next line, or None at the end.

        Raises:
            EnvironmentFailed: it does not come.
        """
        try:
            async with asyncio.timeout(self.patience_s):
                return await self._next()
        except TimeoutError:
            raise EnvironmentFailed(
                f"The worker has said nothing for {self.patience_s:.0f} s. The last was: {self.last_step}.",
                hint="Look at the worker by `jupyter tpu ssh`: what it does may hang, or its network may be slow.",
            ) from None

    async def _next(self) -> bytes | None:
        while b"\n" not in self._buffer:
            data = await self._read()
            if not data:
                return None
            self._buffer += data
            if len(self._buffer) > _LONGEST_LINE:
                raise _nonsense(bytes(self._buffer[:500]))
        line, _, rest = self._buffer.partition(b"\n")
        self._buffer = rest
        return bytes(line)

    async def _read(self) -> bytes:
        try:
            return await self._stream.read(_PIECE)
        except OSError:
            return b""
