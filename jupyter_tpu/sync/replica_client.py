"""The client of a replica: sends requests over a stream of bytes and checks what comes back."""

from __future__ import annotations

import asyncio
import json
import sys
import zlib
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from jupyter_tpu.errors import TpuError
from jupyter_tpu.files import users_umask
from jupyter_tpu.sync.ignore_rules import Rule
from jupyter_tpu.sync.trees import Row
from jupyter_tpu.wire.file_messages import MessageDecoder, checked_entry, checked_number, checked_path, encode_message
from jupyter_tpu.wire.frames import ProtocolError

Reply = tuple[dict[str, Any], bytes]
MOST_FILES = 2_000_000
_LARGEST_PAGE = 64 * 1024 * 1024
_READ_BYTES = 1 << 18
_CLOSE_S = 10.0


class ReplicaFailed(Exception):
    """A replica could not do something.

    Attributes:
        code: ``lost`` (no connection), ``root_gone``, ``changed`` (by somebody since the scan), ``disk_full``,
            ``refused``, ``busy`` (another program serves the folder), ``broken`` (its reply makes no sense) or
            ``system``.
        replica: the name of the replica; "" if unknown.
    """

    def __init__(self, code: str, message: str, replica: str = "") -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.replica = replica


class Bytes(Protocol):
    """The stream to a replica; a link's `ByteStream` is one."""

    async def read(self, n: int) -> bytes:
        """Return up to `n` bytes, or ``b""`` at the end."""

    def write(self, data: bytes) -> None:
        """Queue data without waiting."""

    async def drain(self) -> None:
        """Wait until the queue is short enough."""

    def close(self) -> None:
        """Close both directions."""


class ReplicaClient:
    """A replica, at the other end of a stream.

    Args:
        name: of the replica, for errors.
    """

    def __init__(self, stream: Bytes, name: str = "") -> None:
        self._stream = stream
        self._name = name
        self._waiting: deque[asyncio.Future[Reply]] = deque()
        self._failure: ReplicaFailed | None = None
        self._reading = asyncio.create_task(self._read(), name="replies of a replica")

    async def ask(self, op: str, data: bytes = b"", **request: Any) -> Reply:
        """Send a request and return its reply and the reply's data; requests may be sent before earlier replies.

        Raises:
            ReplicaFailed: it could not be done, or the connection is lost.
        """
        if self._failure is not None:
            raise self._failure
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting.append(reply)
        try:
            self._stream.write(encode_message({"op": op, **request}, data))
            await self._stream.drain()
        except (OSError, TpuError) as error:
            self._fail("lost", str(error))
        return await reply

    async def scan(self, rules: Sequence[Rule], most_bytes: int) -> int:
        """Bring the replica's index up to date and return its revision."""
        reply, _ = await self.ask("scan", rules=rules, most_bytes=most_bytes)
        return _number(reply, "revision")

    async def changes(self, since: int) -> list[Row]:
        """Return what changed since a revision; everything for revision 0."""
        found: list[Row] = []
        reply, data = await self.ask("rows", since=since)
        while _number(reply, "count"):
            found.extend(_page(data))
            if len(found) > MOST_FILES:
                raise ReplicaFailed("broken", f"more than {MOST_FILES} files")
            reply, data = await self.ask("rows")
        return found

    async def close(self) -> None:
        """Close the stream; a replica that is a child process of ours then saves its index and exits."""
        self._stream.close()
        await asyncio.wait([self._reading], timeout=_CLOSE_S)
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    async def _read(self) -> None:
        decoder = MessageDecoder()
        try:
            while data := await self._stream.read(_READ_BYTES):
                for reply, content in decoder.feed(data):
                    self._answered(reply, content)
            self._fail("lost", "the replica exited")
        except ProtocolError as error:
            self._fail("broken", str(error))
        except (OSError, TpuError) as error:  # a link's stream raises errors of ours
            self._fail("lost", str(error))
        finally:
            self._fail("lost", "closed")

    def _answered(self, reply: dict[str, Any], content: bytes) -> None:
        if "error" in reply and not self._waiting:  # it could not even start
            self._fail(str(reply["error"]), str(reply.get("message")))
            return
        if not self._waiting:
            raise ProtocolError("a reply to no request")
        waiting = self._waiting.popleft()
        if waiting.done():  # the caller was cancelled
            return
        if "error" in reply:
            waiting.set_exception(self._failed(str(reply["error"])[:60], str(reply.get("message"))[:1000]))
        else:
            waiting.set_result((reply, content))

    def _failed(self, code: str, message: str) -> ReplicaFailed:
        return ReplicaFailed(code, message, self._name)

    def _fail(self, code: str, message: str) -> None:
        self._failure = self._failure or self._failed(code, message)
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_exception(self._failure)


def _number(reply: dict[str, Any], key: str) -> int:
    try:
        return checked_number(reply.get(key))
    except ProtocolError as error:
        raise ReplicaFailed("broken", str(error)) from error


def _page(data: bytes) -> list[Row]:
    try:
        text = zlib.decompressobj().decompress(data, _LARGEST_PAGE)
        return [(checked_path(path), checked_entry(path, entry)) for path, entry in json.loads(text)]
    except (ProtocolError, zlib.error, ValueError, TypeError, RecursionError) as error:
        raise ReplicaFailed("broken", str(error)) from error


class _Pipes:
    """The standard input and output of a child process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._input, self._output = process, process.stdin, process.stdout

    async def read(self, n: int) -> bytes:
        return await self._output.read(n)

    def write(self, data: bytes) -> None:
        self._input.write(data)

    async def drain(self) -> None:
        await self._input.drain()

    def close(self) -> None:
        self._input.close()


class LocalReplica(ReplicaClient):
    """The replica of a folder on this machine, a child process.

    Attributes:
        pid: of the process.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        super().__init__(_Pipes(process), "local")
        self._process = process
        self.pid = process.pid

    @classmethod
    async def start(cls, folder: Path) -> LocalReplica:
        """Start the process."""
        pipe = asyncio.subprocess.PIPE
        # -P: the folder in which the user works may have modules with the names of Python's own
        argv = ["-P", "-X", "utf8", "-m", "jupyter_tpu.agent.files.replica", str(folder)]
        umask = users_umask()
        return cls(await asyncio.create_subprocess_exec(sys.executable, *argv, stdin=pipe, stdout=pipe, umask=umask))

    async def close(self) -> None:
        """Let the process save its index and exit; one that hangs in a dead network drive is killed."""
        await super().close()
        try:
            await asyncio.wait_for(self._process.wait(), _CLOSE_S)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
