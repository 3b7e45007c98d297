"""Connect byte streams to their targets: the program that serves a folder, or a port of this worker."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from jupyter_tpu.agent.flow_stream import FlowStream
from jupyter_tpu.agent.kernels.process import Process, ReportedExits, start_ticks
from jupyter_tpu.agent.ports.methods import Ports
from jupyter_tpu.errors import AgentBroken, TpuError
from jupyter_tpu.files import users_umask
from jupyter_tpu.wire.byte_streams import MOST_WINDOW_BYTES
from jupyter_tpu.wire.frames import Kind, encode_json

log = logging.getLogger(__name__)

_READ_BYTES = 64 * 1024


def _own_program() -> list[str]:
    return [sys.executable, "-I", "-X", "utf8", str(Path(__file__).resolve().parents[2]), "files"]


class StreamTargets:
    """The targets of this worker's byte streams.

    Args:
        program: the command of the program that serves a folder. It gets two arguments: the descriptor of the client's
            connection, and the folder.
    """

    def __init__(self, reports: ReportedExits, ports: Ports, program: Sequence[str] | None = None) -> None:
        self._reports = reports
        self._ports = ports
        self._program = program or _own_program()
        self._replicas: dict[str, asyncio.Task[None]] = {}

    async def connect(
        self, target: tuple[str, str | int], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Serve a byte stream until either side closes it."""
        kind, name = target
        try:
            if kind == "files":
                await self._serve_folder(str(Path.home() / str(name)), writer)
            else:
                await _serve_port(self._ports, int(name), reader, writer)
        except TpuError as error:
            writer.write(encode_json(Kind.OPENED, {"error": error.to_json()}))
        finally:
            writer.close()

    async def _serve_folder(self, folder: str, writer: asyncio.StreamWriter) -> None:
        """Run the program that serves a folder. An older program for the same folder is killed first.

        The older one may serve a connection that is lost, but that its SSH server still believes in.
        """
        older = self._replicas.get(folder)
        self._replicas[folder] = task = asyncio.create_task(self._run_program(folder, older, writer))
        try:
            await asyncio.wait([task])
        finally:
            task.cancel()
            if self._replicas.get(folder) is task:
                del self._replicas[folder]
        if not task.cancelled():
            task.result()

    async def _run_program(self, folder: str, older: asyncio.Task[None] | None, writer: asyncio.StreamWriter) -> None:
        if older is not None:
            older.cancel()
            await asyncio.wait([older])
        child = self._start(folder, writer)
        process = Process(child.pid, start_ticks(child.pid) or 0, child, self._reports)
        try:
            ended = await process.wait()
            if ended.exit_code != 0:
                log.error("the program that serves the folder %s ended with %s", folder, ended)
        except asyncio.CancelledError:
            process.send_signal(signal.SIGKILL)
            child.wait()
            raise
        finally:
            process.close()
            if child.stdin is not None:
                child.stdin.close()

    def _start(self, folder: str, writer: asyncio.StreamWriter) -> subprocess.Popen[bytes]:
        """Start the program and give it the connection. From then on, the agent neither reads nor writes there."""
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        descriptor = os.dup(writer.get_extra_info("socket").fileno())
        try:
            child = subprocess.Popen(
                [*self._program, str(descriptor), folder],
                stdin=subprocess.PIPE,  # ends when this process does, and the program with it
                pass_fds=[descriptor],
                start_new_session=True,
                umask=users_umask(),
            )
        except OSError as error:
            raise AgentBroken("The program that serves files did not start.", raw=str(error)) from error
        finally:
            os.close(descriptor)
        # The last descriptor must be the program's, so that the client notices when it exits.
        writer.transport.abort()
        return child


async def _serve_port(ports: Ports, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy bytes between a client and a port of this worker, in both directions, until both have ended."""
    app_reader, app_writer = await ports.connect(port)
    writer.write(encode_json(Kind.OPENED, {}))
    stream = FlowStream(_SocketChannel(reader, writer), MOST_WINDOW_BYTES["port"])
    copies = [asyncio.create_task(_to_app(stream, app_writer)), asyncio.create_task(_to_client(app_reader, stream))]
    try:
        # If one direction fails, the connection is of no use any more; a direction that has only ended is normal.
        await asyncio.wait(copies, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for copy in copies:
            copy.cancel()
        stream.close()
        app_writer.close()
        outcomes = await asyncio.gather(*copies, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, Exception) and not isinstance(outcome, (OSError, TpuError)):
            log.error("the connection to port %s failed", port, exc_info=outcome)


async def _to_app(stream: FlowStream, writer: asyncio.StreamWriter) -> None:
    while data := await stream.read(_READ_BYTES):
        writer.write(data)
        await writer.drain()
    with suppress(OSError):
        writer.write_eof()


async def _to_client(reader: asyncio.StreamReader, stream: FlowStream) -> None:
    while data := await reader.read(_READ_BYTES):
        stream.write(data)
        await stream.drain()
    stream.write_eof()
    await stream.wait_delivered()


class _SocketChannel:
    """A socket's streams as the channel of a `FlowStream`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.read = reader.read
        self.write = writer.write
        self.close = writer.close
