"""The agent's sessions and records in this process, with scripted kernels, and connections that break where told."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakSet

import pytest

from jupyter_tpu.agent.calls import Calls
from jupyter_tpu.agent.recording.record import Record
from jupyter_tpu.agent.session import SILENCE_S, Session
from jupyter_tpu.errors import KernelFailed, WorkerUnreachable
from jupyter_tpu.link import KernelStream, Link
from jupyter_tpu.wire.frames import FROM_AGENT, Frame, FrameDecoder, Kind, encode_json
from jupyter_tpu.wire.multipart import Channel
from jupyter_tpu.wire.requests import SeenRequests

WHOLE = 10**18


class CutStream:
    """Pass so many bytes to and from the agent; then cut the connection in both directions."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, up: int, down: int) -> None:
        self._reader, self._writer = reader, writer
        self._up, self._down = up, down
        self.sent = self.received = 0

    @property
    def is_cut(self) -> bool:
        return self._up <= self.sent or self._down <= self.received

    async def read(self, n: int) -> bytes:
        data = b"" if self.is_cut else await self._reader.read(min(n, self._down - self.received))
        if not data:
            raise ConnectionResetError
        self.received += len(data)
        self._break()
        return data

    def write(self, data: bytes) -> None:
        piece = data[: self._up - self.sent] if not self.is_cut else b""
        self.sent += len(piece)
        self._writer.write(piece)
        self._break()

    def _break(self) -> None:
        if self.is_cut:
            self.cut()

    async def drain(self) -> None: ...

    def cut(self) -> None:
        """Cut it now."""
        self._writer.transport.abort()

    def close(self) -> None:
        self._writer.close()

    async def wait_closed(self) -> None:
        with suppress(OSError):
            await self._writer.wait_closed()


class Bootstrap:
    """A command on the worker that says at once that the agent is ready."""

    def __init__(self, path: str) -> None:
        self._says = json.dumps({"ready": {"socket": path, "python": "python3"}}).encode() + b"\n"

    async def read(self, n: int) -> bytes:
        said, self._says = self._says, b""
        return said

    def write(self, data: bytes) -> None: ...
    async def drain(self) -> None: ...
    def write_eof(self) -> None: ...
    def close(self) -> None: ...
    async def wait_closed(self) -> None: ...

    async def exit_status(self) -> int:
        return 0

    async def read_stderr(self) -> str:
        return ""


class Connection:
    """What stands for an SSH connection: nothing more is possible on it once it was cut."""

    def __init__(self, place: Place, up: int, down: int) -> None:
        self._place, self._up, self._down = place, up, down
        self.stream: CutStream | None = None

    async def execute(self, command: str) -> Bootstrap:
        if self.stream:
            raise WorkerUnreachable("The connection was cut.")
        return Bootstrap(self._place.path)

    async def open_unix(self, path: str) -> CutStream:
        self.stream = CutStream(*await asyncio.open_unix_connection(path), self._up, self._down)
        return self.stream

    async def close(self) -> None:
        if self.stream:
            self.stream.close()
            await self.stream.wait_closed()


class ScriptedKernel:
    """Stands for a kernel: it has a record, and what it says is up to the test."""

    def __init__(self, folder: Path, on_output: Callable[[], None]) -> None:
        self.kernel_id = folder.name
        self.record = Record(folder)
        self._folder = folder
        self.is_closed = False
        self._on_output = on_output
        self._seen = SeenRequests()
        self.requested_at: list[float | None] = []

    def say(self, channel: int, *bodies: bytes) -> None:
        for body in bodies:
            self.record.append(channel, [body], 0.0)
        self.record.flush()
        self._on_output()

    def damage(self, at: int) -> None:
        """Flip the bits of one byte of the record on disk."""
        (segment,) = self._folder.glob("*.segment")
        data = bytearray(segment.read_bytes())
        data[at] ^= 0xFF
        segment.write_bytes(data)

    def request(
        self, client_id: str, number: int, channel: int, parts: list[bytes], *, requested_at: float | None = None
    ) -> None:
        if self._seen.accept(client_id, number):
            self.requested_at.append(requested_at)
            self.say(Channel.REQUEST, parts[-1])

    def close(self) -> None:
        self.is_closed = True
        self.record.close()
        self._on_output()


class ScriptedMethods:
    """Methods that tell whether they were performed twice."""

    def __init__(self, kernels: Kernels) -> None:
        self._kernels = kernels

    def announce(self, call: Any) -> None: ...

    async def perform(self, call: Any) -> dict[str, Any]:
        kernel = self._kernels.get(call["params"]["kernel_id"])
        if call["method"] == "forget_kernel":
            self._kernels.forget(kernel)
        return {"next_seq": kernel.record.next_seq, "talk": "x" * call["params"].get("size", 0)}


class Kernels:
    """The kernels by id."""

    def __init__(self) -> None:
        self.all: dict[str, ScriptedKernel] = {}

    def get(self, kernel_id: str) -> ScriptedKernel:
        if kernel_id not in self.all:
            raise KernelFailed(f"There is no kernel {kernel_id}.")
        return self.all[kernel_id]

    def forget(self, kernel: ScriptedKernel) -> None:
        del self.all[kernel.kernel_id]
        kernel.close()


class Place:
    """The worker: sessions on a socket, kernels, and links to it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kernels = Kernels()
        self._calls = Calls(ScriptedMethods(self._kernels))  # type: ignore[arg-type]
        self._links: WeakSet[Link] = WeakSet()
        self._served: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.notice: dict[str, Any] = {"spare": None}
        self.silence_s = SILENCE_S
        self.sessions: set[Session] = set()
        self.path = str(folder / "agent.sock")
        self.connection: Connection | None = None

    async def open(self) -> None:
        self._server = await asyncio.start_unix_server(self._serve, self.path)

    async def close(self) -> None:
        assert self._server
        self._server.close()
        for link in self._links:
            await link.close()
        for session in self.sessions:
            session.end()
        if self._served:
            await asyncio.wait(self._served)
        await self._calls.close()
        for kernel in self._kernels.all.values():
            kernel.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._served.add(task)
        session = Session(
            self._kernels,  # type: ignore[arg-type]
            None,  # type: ignore[arg-type]
            self._calls,
            {},
            lambda: self.notice,
            self._fence,
            reader,
            writer,
            silence_s=self.silence_s,
        )
        self.sessions.add(session)
        try:
            await session.run()
        finally:
            self.sessions.discard(session)
            self._served.discard(task)

    def _fence(self, session: Session) -> None:
        for other in tuple(self.sessions):
            if other is not session and other.client_id == session.client_id:
                min(other, session, key=lambda one: one.epoch).end()

    def _wake_sessions(self) -> None:
        for session in self.sessions:
            session.wake()

    def new_kernel(self) -> ScriptedKernel:
        kernel = ScriptedKernel(self._folder / uuid.uuid4().hex, self._wake_sessions)
        self._kernels.all[kernel.kernel_id] = kernel
        return kernel

    def forget(self, kernel: ScriptedKernel) -> None:
        self._kernels.forget(kernel)

    def tell(self, **notice: Any) -> None:
        """There is news of the worker."""
        self.notice = notice
        for session in self.sessions:
            session.notify()

    def link(self, *cuts: tuple[int, int], **options: Any) -> Link:
        """A link whose connections break after so many bytes up or down, one after the other; the last one is whole."""
        left = list(cuts)

        async def connect() -> Connection:
            self.connection = Connection(self, *(left.pop(0) if left else (WHOLE, WHOLE)))
            return self.connection

        def on_state(state: str, error: object, since: float) -> None:
            if state == "down":
                link.hurry()

        link = Link(connect, **{"on_state": on_state, **options})
        self._links.add(link)
        return link


class Ear:
    """Everything that a stream delivers, in order."""

    def __init__(self) -> None:
        self.messages: list[tuple[int, str, bytes]] = []
        self.early: list[tuple[int, bytes]] = []
        self._news = asyncio.Event()

    def attach(self, link: Link, kernel: ScriptedKernel, **options: Any) -> KernelStream:
        return link.attach(kernel.kernel_id, on_message=self._hear, on_express=self._hear_early, **options)

    def _hear(self, seq: int, channel: str, parts: list[bytes]) -> None:
        self.messages.append((seq, channel, parts[-1]))
        self._news.set()

    def _hear_early(self, seq: int, channel: str, parts: list[bytes]) -> None:
        self.early.append((seq, parts[-1]))
        self._news.set()

    @property
    def bodies(self) -> list[bytes]:
        return [body for _, _, body in self.messages]

    async def until(self, is_enough: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not is_enough():
                self._news.clear()
                await self._news.wait()

    async def count(self, count: int) -> None:
        await self.until(lambda: len(self.messages) >= count)


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    """A worker in this process."""
    place = Place(tmp_path)
    await place.open()
    yield place
    await place.close()


class RawClient:
    """Frames to the agent, and frames from it that the test reads when it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer
        self._decoder = FrameDecoder(FROM_AGENT)
        self._frames: list[Frame] = []

    def greet(self, client_id: str = "a" * 32, **hello: Any) -> None:
        content = {"protocols": [1], "client_id": client_id, "version": "test", **hello}
        self.writer.write(encode_json(Kind.HELLO, content))

    def attach(self, stream: int, kernel: ScriptedKernel) -> None:
        self.writer.write(encode_json(Kind.ATTACH, {"kernel_id": kernel.kernel_id}, stream, 1))

    async def next(self) -> Frame | None:
        """The next frame; None once the agent has hung up."""
        async with asyncio.timeout(60):
            while not self._frames:
                data = await self._read()
                if not data:
                    return None
                self._frames += self._decoder.feed(data)
            return self._frames.pop(0)

    async def _read(self) -> bytes:
        with suppress(OSError):
            return await self._reader.read(65536)
        return b""

    async def until(self, kind: Kind) -> list[Frame]:
        """All frames up to the first of a kind."""
        frames = [await self.next()]
        while frames[-1] and frames[-1].kind != kind:
            frames.append(await self.next())
        assert frames[-1], "the agent has hung up"
        return [frame for frame in frames if frame]

    async def rest(self) -> list[Frame]:
        """All frames until the agent hangs up."""
        frames = []
        while frame := await self.next():
            frames.append(frame)
        return frames


@pytest.fixture
async def dial(place: Place) -> AsyncIterator[Callable[[], Awaitable[RawClient]]]:
    """Connects to the sessions' socket."""
    clients: list[RawClient] = []

    async def dial_once() -> RawClient:
        clients.append(RawClient(*await asyncio.open_unix_connection(place.path)))
        return clients[-1]

    yield dial_once
    for client in clients:
        client.writer.close()


@pytest.fixture
def new_ear() -> type[Ear]:
    """Makes receivers of a kernel's messages."""
    return Ear
