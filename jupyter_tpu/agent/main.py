"""The agent's process: assemble the agent's parts and serve clients on the supervisor's Unix socket.

The supervisor keeps that socket open, so that clients can connect even while the agent is restarted.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import resource
import signal
import socket
import struct
import sys
from pathlib import Path
from typing import Any

import zmq

from jupyter_tpu.agent.autostop.activity import ActivityWatch
from jupyter_tpu.agent.autostop.daemon import AutostopDaemon
from jupyter_tpu.agent.autostop.end_node import EndNodeMethod
from jupyter_tpu.agent.autostop.orphans import Orphans
from jupyter_tpu.agent.autostop.snapshots import Snapshots
from jupyter_tpu.agent.calls import Calls, Methods
from jupyter_tpu.agent.devices.doctor import DoctorMethod
from jupyter_tpu.agent.environments.methods import FrameworkEnvironments
from jupyter_tpu.agent.home_watch import HomeWatch
from jupyter_tpu.agent.kernels.kernel import KernelContext
from jupyter_tpu.agent.kernels.kernels import Kernels
from jupyter_tpu.agent.kernels.launcher import Launcher
from jupyter_tpu.agent.kernels.notebooks import by_pid
from jupyter_tpu.agent.kernels.process import ReportedExits
from jupyter_tpu.agent.metrics.methods import Metrics
from jupyter_tpu.agent.paths import Home
from jupyter_tpu.agent.ports.methods import Ports
from jupyter_tpu.agent.preemption.notice_watch import NoticeWatch
from jupyter_tpu.agent.preemption.notices import Notices
from jupyter_tpu.agent.session import Session
from jupyter_tpu.agent.slices.methods import Slices
from jupyter_tpu.agent.stream_targets import StreamTargets
from jupyter_tpu.agent.terminals.held_ptys import HeldPtys
from jupyter_tpu.agent.terminals.terminals import Terminals
from jupyter_tpu.files import close_new_files

log = logging.getLogger(__name__)

# Size of a connection's write buffer: two slices of output (`SLICE_BYTES`). In a larger buffer, replies would wait
# behind more output.
_WRITE_BUFFER_BYTES = 512 * 1024
# Soft limit of open files. Every kernel needs descriptors for its sockets, files and process, so the usual limit of
# 1024 is too low.
_OPEN_FILES = 65536
# The next agent listens on the same socket; Python 3.13 and later would remove its file.
_KEEP_SOCKET: dict[str, Any] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}


class Agent:
    """The agent, with its kernels, its background tasks and one session per client connection.

    Args:
        python: the Python that kernels run on by default.
        held_ptys: keeps terminals open when this agent exits.
    """

    def __init__(self, home: Home, python: str, held_ptys: HeldPtys) -> None:
        self._home = home
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        # Each kernel needs four sockets and four monitors, so ZMQ's default of 1023 would limit us to about 100
        # kernels.
        self._context.set(zmq.MAX_SOCKETS, 16384)
        self._sessions: set[Session] = set()
        self.reports = ReportedExits()
        self._launcher = Launcher(home, python, self.reports, self._is_quiet, self._notify_sessions)
        context = KernelContext(home, self._context, self.reports, self._launcher, self._kernel_ended)
        self._kernels = Kernels(context, self._wake_sessions)
        self._slices = Slices(home, python, self._kernels, self.reports)
        self._terminals = Terminals(home, self.reports, held_ptys, self._wake_sessions)
        notices = Notices(self._kernels)
        activity = ActivityWatch(self._kernels, self._terminals, notices, self._pages, self._notebooks)
        self._guard = AutostopDaemon(home.autostop_file, activity, notices)
        self._notice_watch = NoticeWatch(os.environ, notices.announce)
        snapshots = Snapshots(home.snapshots)
        self._metrics = Metrics(self._kernels, python, self._notebooks)
        ports = Ports(home.ports)
        more = {
            "tell": snapshots.store,
            "told": snapshots.read,
            "end_node": EndNodeMethod(os.environ, notices).end_node,
            **self._metrics.methods,
            **self._slices.methods,
            **ports.methods,
            **self._terminals.methods,
            **FrameworkEnvironments(home).methods(),
            "examine": DoctorMethod(python, home.socket).examine,
        }
        self._methods = Methods(self._kernels, python, str(home.socket), self._guard, notices, more)
        self._calls = Calls(self._methods)
        self._targets = StreamTargets(self.reports, ports)
        self._servers: list[asyncio.Server] = []

    def _wake_sessions(self) -> None:
        for session in self._sessions:
            session.wake()

    def _kernel_ended(self, kernel_id: str, generation: int) -> None:
        self._slices.kernel_ended(kernel_id, generation)

    def _notebooks(self) -> dict[int, tuple[str, str]]:
        """Return the kernel id and notebook by pid for each process that runs cells. Any thread may call this."""
        return {**self._slices.by_pid(), **by_pid(self._kernels)}

    def _pages(self) -> int:
        return sum(session.pages for session in self._sessions)

    def _fence(self, session: Session) -> None:
        """Close the older connection of a client that reconnects; otherwise it could stay half-open for hours.

        The connections may arrive in the wrong order, so their `epoch` decides which one is older.
        """
        for other in tuple(self._sessions):
            if other is not session and other.client_id == session.client_id:
                min(other, session, key=lambda one: one.epoch).end()

    def _notice(self) -> dict[str, Any]:
        """Return the content of the NOTICE frame: the pre-warmed kernel, if any."""
        return {"spare": self._launcher.spares.describe()}

    def _notify_sessions(self) -> None:
        for session in self._sessions:
            session.notify()

    def _end_sessions(self) -> None:
        for session in tuple(self._sessions):
            session.end()

    def _has_client(self, kernel_id: str) -> bool:
        return any(session.follows(kernel_id) for session in self._sessions)

    def _is_quiet(self) -> bool:
        return self._kernels.are_quiet

    async def serve(self, listener: socket.socket, stop: asyncio.Event) -> None:
        """Serve clients until `stop` is set; the kernels keep running.

        Args:
            listener: the socket that clients connect to, already listening.
        """
        # Adopt before the first client connects, so that it finds the previous agent's kernels.
        self._slices.adopt()
        self._kernels.adopt()
        self._terminals.adopt()
        await self._kernels.until_resent()
        if os.environ.get("JUPYTER_TPU_PREWARM") != "0":  # tests disable this to avoid the start of a second kernel
            self._launcher.spares.begin()
        await self._serve_at(listener)
        home_watch = HomeWatch(self._home, self._kernels, self._serve_at, self._end_sessions)
        orphans = Orphans(self._kernels.all, self._has_client)
        parts = (self._guard, self._notice_watch, self._metrics, self._slices, home_watch, orphans)
        watches = [asyncio.create_task(part.run()) for part in parts]
        await stop.wait()
        # Stop the tasks that could start something new first, then the calls, and the kernels' sockets and records
        # last.
        for watch in watches:
            watch.cancel()
        for server in self._servers:
            server.close()
        await self._calls.close()
        await self._launcher.spares.close()
        self._slices.close()
        self._terminals.close()
        self._kernels.close()
        self._context.destroy(linger=0)

    async def _serve_at(self, listener: socket.socket) -> None:
        self._servers.append(await asyncio.start_unix_server(self._serve_client, sock=listener, **_KEEP_SOCKET))

    async def _serve_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not _is_ours(writer.get_extra_info("socket")):
            writer.close()
            return
        writer.transport.set_write_buffer_limits(high=_WRITE_BUFFER_BYTES)
        about, streams = self._methods.about(), (reader, writer)
        session = Session(self._kernels, self._terminals, self._calls, about, self._notice, self._fence, *streams)
        self._sessions.add(session)
        try:
            await session.run()
        finally:
            self._sessions.discard(session)
        if session.target is not None:
            await self._targets.connect(session.target, reader, writer)


def _is_ours(connection: socket.socket) -> bool:
    """Whether the peer runs as this user or as root. The folder's permissions should already ensure that."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, uid, _ = struct.unpack("3i", credentials)
    return uid in (os.getuid(), 0)


async def read_reports(reports: ReportedExits) -> None:
    """Read the supervisor's lines ``[pid, wait status]`` until the supervisor exits; the agent keeps running."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    while line := await reader.readline():
        pid, status = json.loads(line)
        reports.report(pid, status)
    log.warning("the supervisor is gone")


async def run(home: Home, python: str, listener: socket.socket, held_ptys: HeldPtys) -> None:
    """Run an agent until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    agent = Agent(home, python, held_ptys)
    reports = asyncio.create_task(read_reports(agent.reports))
    await agent.serve(listener, stop)
    reports.cancel()


def main(arguments: list[str]) -> None:
    """Run the agent's process.

    Args:
        arguments: the agent's folder and the kernels' Python. ``JUPYTER_TPU_LISTENER`` is the descriptor of the
            inherited listening socket, and ``JUPYTER_TPU_TERMINALS`` those of the sockets that hold terminals; the
            supervisor's reports arrive on standard input.
    """
    close_new_files()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s agent %(levelname)s %(name)s: %(message)s")
    # asyncio logs a warning for each write to a lost connection. That is so common that it would fill the log.
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    # The supervisor blocks the signals that it waits for, and its child processes inherit the mask.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGCHLD, signal.SIGTERM))
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard_limit, _OPEN_FILES), hard_limit))
    root, python = arguments
    listener = socket.socket(fileno=int(os.environ.pop("JUPYTER_TPU_LISTENER")))
    held_ptys = HeldPtys.inherited(os.environ.pop("JUPYTER_TPU_TERMINALS", ""))
    asyncio.run(run(Home(Path(root)), python, listener, held_ptys))
