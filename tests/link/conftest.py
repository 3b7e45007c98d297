"""A worker without SSH: the same bootstrap and agent as on a real one, in a home folder below the test's."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from jupyter_client.session import Session

from jupyter_tpu.agent.paths import Home
from jupyter_tpu.errors import WorkerUnreachable
from jupyter_tpu.link import KernelStream, Link

MARKER = "JUPYTER_TPU_TEST_WORKER"


class LocalStream:
    """A Unix socket's streams with the interface of `jupyter_tpu.ssh`; `cut` ends it as a lost network does."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, repeats: int = 1, left: int = 10**18
    ) -> None:
        self._reader, self._writer = reader, writer
        self._repeats = repeats
        self._left = left
        self.written = bytearray()
        """What has been given to the agent's socket."""

    async def read(self, n: int) -> bytes:
        return self._counted(await self._reader.read(min(n, self._left)))

    def write(self, data: bytes) -> None:
        self._writer.write((data * self._repeats)[: self._left])
        self.written += data
        self._counted(data)

    def _counted(self, data: bytes) -> bytes:
        """Cut the connection once as many bytes have passed, up and down, as it was given."""
        self._left = max(0, self._left - len(data))
        if not self._left:
            self.cut()
        return data

    async def drain(self) -> None:
        await self._writer.drain()

    def close(self) -> None:
        self._writer.close()

    async def wait_closed(self) -> None:
        with suppress(OSError):
            await self._writer.wait_closed()

    def cut(self) -> None:
        self._writer.transport.abort()


class LocalProcess:
    """A command of the local shell with the same interface."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        self._process = process
        self._stdin, self._stdout, self._stderr = process.stdin, process.stdout, process.stderr

    async def read(self, n: int) -> bytes:
        return await self._stdout.read(n)

    def write(self, data: bytes) -> None:
        self._stdin.write(data)

    async def drain(self) -> None:
        await self._stdin.drain()

    def write_eof(self) -> None:
        self._stdin.write_eof()

    async def exit_status(self) -> int:
        return await self._process.wait()

    async def read_stderr(self) -> str:
        return (await self._stderr.read()).decode()

    def close(self) -> None:
        self._stdin.close()

    async def wait_closed(self) -> None:
        await self._process.communicate()


class LocalConnection:
    """What stands for an SSH connection to the worker."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._processes: list[LocalProcess] = []
        self.streams: list[LocalStream] = []

    async def execute(self, command: str) -> LocalProcess:
        pipe = asyncio.subprocess.PIPE
        command = "exec cat >/dev/null" if self._worker.is_mute else command
        process = await asyncio.create_subprocess_exec(
            "/bin/sh", "-c", command, stdin=pipe, stdout=pipe, stderr=pipe, env=self._worker.env
        )
        self._processes.append(LocalProcess(process))
        return self._processes[-1]

    async def open_unix(self, path: str) -> LocalStream:
        if self._worker.forbids_forwarding:
            raise OSError("administratively prohibited")
        reader, writer = await asyncio.open_unix_connection(path)
        left = self._worker.cut_after.pop(0) if self._worker.cut_after else 10**18
        self.streams.append(LocalStream(reader, writer, repeats=2 if self._worker.stutters else 1, left=left))
        return self.streams[-1]

    async def close(self) -> None:
        for stream in self.streams:
            stream.close()
            await stream.wait_closed()
        for process in self._processes:
            process.close()
            await process.wait_closed()

    def cut(self) -> None:
        for stream in self.streams:
            stream.cut()

    @property
    def commands(self) -> int:
        """How many commands were run over it."""
        return len(self._processes)


class Worker:
    """A home folder, and everything that runs in it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.token = uuid.uuid4().hex
        self.forbids_forwarding = False
        self.stutters = False
        self.is_mute = False
        self.refuses_connections = False
        self.cut_after: list[int] = []
        self.connections: list[LocalConnection] = []
        passed = {
            name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "IPYTHON", "PYTEST"))
        }
        self.env = {
            **passed,
            "HOME": str(home),
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "UV_CACHE_DIR": passed.get("UV_CACHE_DIR", str(Path.home() / ".cache/uv")),
            MARKER: self.token,
            "JUPYTER_TPU_PREWARM": "0",
        }

    async def connect(self) -> LocalConnection:
        if self.refuses_connections:
            raise WorkerUnreachable("The worker is not responding.")
        self.connections.append(LocalConnection(self))
        return self.connections[-1]

    def cut(self) -> None:
        """Cut the newest connection."""
        self.connections[-1].cut()

    def processes(self) -> list[psutil.Process]:
        return [process for process in psutil.process_iter() if self._is_ours(process)]

    def _is_ours(self, process: psutil.Process) -> bool:
        with suppress(psutil.Error):
            return process.environ().get(MARKER) == self.token
        return False

    def agent_pid(self) -> int:
        """The agent's process."""
        return next(process.pid for process in self.processes() if "agent" in process.cmdline())

    def supervisor_pid(self) -> int:
        return next(process.pid for process in self.processes() if "supervise" in process.cmdline())

    @staticmethod
    def kill(pid: int) -> None:
        """Kill a process that is not our child and wait for its end."""
        with suppress(ProcessLookupError):
            pidfd = os.pidfd_open(pid)
            os.kill(pid, signal.SIGKILL)
            select.select([pidfd], [], [], 60)
            os.close(pidfd)

    def kill_everything(self) -> None:
        while found := self.processes():
            for process in found:
                self.kill(process.pid)


class Client:
    """A front end: signs requests, keeps every message in the order of its delivery, waits for what it wants to see."""

    def __init__(self, link: Link, kernel_id: str = "kernel-1") -> None:
        self.link = link
        self.kernel_id = kernel_id
        self.session = Session(key=b"secret")
        self.raw: list[tuple[int, str, list[bytes]]] = []
        self.messages: list[dict[str, Any]] = []
        self._news = asyncio.Event()
        self.stream: KernelStream | None = None

    async def start(self, **params: Any) -> dict[str, Any]:
        """Start the kernel and attach to it."""
        answer = await self.link.call("start_kernel", {"kernel_id": self.kernel_id, "key": "secret", **params})
        self.attach()
        return answer

    def attach(self, from_seq: int = 0) -> KernelStream:
        self.stream = self.link.attach(self.kernel_id, from_seq=from_seq, on_message=self._on_message)
        return self.stream

    def _on_message(self, seq: int, channel: str, parts: list[bytes]) -> None:
        self.raw.append((seq, channel, parts))
        if channel == "event":
            self.messages.append({"channel": channel, "seq": seq, **json.loads(parts[0])})
        else:
            _, rest = self.session.feed_identities(parts)
            message = self.session.deserialize(rest)
            self.messages.append({"channel": channel, "seq": seq, **message})
        self._news.set()

    def send(
        self, channel: str, msg_type: str, content: dict[str, Any], parent: Any = None, metadata: Any = None
    ) -> str:
        message = self.session.msg(msg_type, content, parent=parent, metadata=metadata)
        assert self.stream is not None
        self.stream.send(channel, [b"front-end", *self.session.serialize(message)])  # type: ignore[arg-type]
        return str(message["header"]["msg_id"])

    def execute(self, code: str, *, metadata: Any = None, **content: Any) -> str:
        """Send an execute_request; its msg_id. An error in it does not abort the next one, which may be on its way."""
        request = {"code": code, "silent": False, "store_history": True, "stop_on_error": False, **content}
        return self.send("shell", "execute_request", request, metadata=metadata)

    async def run(self, code: str) -> dict[str, Any]:
        """Execute and wait for the reply."""
        return await self.reply(self.execute(code))

    async def reply(self, msg_id: str) -> dict[str, Any]:
        """The reply to a request, once its output is complete as well: they come over different sockets."""

        def is_answer(message: dict[str, Any]) -> bool:
            return bool(message.get("parent_header", {}).get("msg_id") == msg_id)

        await self.wait(lambda m: is_answer(m) and m["content"].get("execution_state") == "idle")
        return await self.wait(lambda m: is_answer(m) and m["channel"] == "shell")

    async def event(self, name: str) -> dict[str, Any]:
        return await self.wait(lambda message: message.get("event") == name)

    async def wait(self, wanted: Callable[[dict[str, Any]], bool], timeout: float = 60) -> dict[str, Any]:
        """The first message, past or future, that is wanted."""

        async def search() -> dict[str, Any]:
            seen = 0
            while True:
                for message in self.messages[seen:]:
                    if wanted(message):
                        return message
                seen = len(self.messages)
                self._news.clear()
                await self._news.wait()

        return await asyncio.wait_for(search(), timeout)

    def printed(self) -> str:
        """Everything that was printed, in order."""
        return "".join(m["content"]["text"] for m in self.messages if m.get("msg_type") == "stream")


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    home = tmp_path / "home"
    home.mkdir()
    worker = Worker(home)
    yield worker
    worker.kill_everything()
    Home(home / ".jupyter-tpu").remove_run()


@pytest.fixture
def new_worker(tmp_path: Path) -> Iterator[Callable[[str], Worker]]:
    """Makes further workers, each with a home folder of this name."""
    made: list[Worker] = []

    def make(name: str) -> Worker:
        (tmp_path / name).mkdir()
        made.append(Worker(tmp_path / name))
        return made[-1]

    yield make
    for worker in made:
        worker.kill_everything()
        Home(worker.home / ".jupyter-tpu").remove_run()


@pytest.fixture
async def open_link(worker: Worker) -> AsyncIterator[Callable[..., Awaitable[Link]]]:
    """Opens links to the worker, or to another one, that are closed after the test."""
    links: list[Link] = []
    first = worker

    async def open_one(worker: Worker = first, **options: object) -> Link:
        links.append(Link(worker.connect, **options))  # type: ignore[arg-type]
        await links[-1].open()
        return links[-1]

    yield open_one
    for link in links:
        await link.close()


@pytest.fixture
def new_client() -> type[Client]:
    """Makes front ends for links."""
    return Client


@pytest.fixture
async def client(open_link: Callable[..., Awaitable[Link]]) -> Client:
    """A front end with a link to the worker; it has no kernel yet."""
    return Client(await open_link())
