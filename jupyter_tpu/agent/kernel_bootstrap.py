"""Starts ipykernel so that it loses nothing; runs inside the kernel's process, on whatever ipykernel is there.

ZMQ's publisher drops messages above its high-water mark and while nobody subscribes. Here the mark is taken away before
the socket is bound, and messages wait while the agent is away (never XPUB_NODROP: a full pipe would freeze the control
thread and with it every interrupt). Then IPython is told to load our magics. If any of this does not fit the installed
ipykernel, the kernel starts all the same.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections import deque
from pathlib import Path
from typing import Any

ARCHIVE = Path(__file__).resolve().parents[2]


def take_own_folder_off_the_path() -> None:
    """Python puts a script's folder first; modules of the agent must not shadow the user's."""
    here = str(Path(__file__).resolve().parent)
    sys.path[:] = [entry for entry in sys.path if entry != here]
    sys.path.append(str(ARCHIVE))


def unbound_output(app_class: Any) -> None:
    """Take away the publisher's high-water mark; it is fixed at the bind, so it must be done just before."""
    import zmq

    bind = app_class._bind_socket

    def bind_without_mark(self: Any, socket: Any, port: int) -> Any:
        if socket.socket_type in (zmq.PUB, zmq.XPUB):
            socket.sndhwm = 0
        return bind(self, socket, port)

    app_class._bind_socket = bind_without_mark


def hold_while_nobody_listens(thread_class: Any) -> None:
    """Keep what is published while the agent is away, and send it when it subscribes again."""
    handle, send = thread_class._handle_subscription, thread_class._really_send
    held: deque[tuple[Any, Any, Any]] = deque()
    subscriptions = 0

    def handle_and_release(self: Any, frames: list[bytes]) -> None:
        nonlocal subscriptions
        handle(self, frames)
        subscriptions += sum(1 if frame[:1] == b"\x01" else -1 for frame in frames)
        while subscriptions > 0 and held:
            message, args, kwargs = held.popleft()
            send(self, message, *args, **kwargs)

    def send_or_hold(self: Any, message: Any, *args: Any, **kwargs: Any) -> None:
        if subscriptions > 0 or not self._is_master_process():
            send(self, message, *args, **kwargs)
        else:
            held.append((message, args, kwargs))

    thread_class._handle_subscription, thread_class._really_send = handle_and_release, send_or_hold


def pipe_on_a_unix_socket(thread_class: Any, path: str) -> None:
    """Forked processes pass their output to the kernel; by default over a TCP port that every user can reach."""
    import zmq
    from zmq.eventloop.zmqstream import ZMQStream

    def set_up_inner_end(self: Any) -> None:
        self._pipe_uuid = os.urandom(16)
        socket = self.socket.context.socket(zmq.PULL)
        socket.linger = 0
        socket.bind(f"ipc://{path}")
        self._pipe_in = ZMQStream(socket, self.io_loop)
        self._pipe_in.on_recv(self._handle_pipe_msg)

    def set_up_outer_end(_self: Any) -> tuple[Any, Any]:
        context = zmq.Context()
        socket = context.socket(zmq.PUSH)
        socket.linger = 3000
        socket.connect(f"ipc://{path}")
        return context, socket

    if hasattr(thread_class, "_setup_pipe_in") and hasattr(thread_class, "_setup_pipe_out"):
        thread_class._setup_pipe_in, thread_class._setup_pipe_out = set_up_inner_end, set_up_outer_end


def adapt(socket_prefix: str) -> None:
    """Patch what this ipykernel has; say so in the kernel's log where it has something else."""
    try:
        from ipykernel.iostream import IOPubThread
        from ipykernel.kernelapp import IPKernelApp

        unbound_output(IPKernelApp)
        pipe_on_a_unix_socket(IOPubThread, f"{socket_prefix}-pipe")
        hold_while_nobody_listens(IOPubThread)
    except (ImportError, AttributeError) as error:
        warnings.warn(f"output may be lost while the agent is away: {error}", stacklevel=1)


def go_to(folder: str) -> None:
    """Work in the folder asked for, or at home when the worker has no such folder."""
    try:
        os.chdir(folder)
    except OSError:
        os.chdir(Path.home())


def main(argv: list[str]) -> None:
    """``kernel_bootstrap.py FOLDER CONNECTION_FILE ARGUMENTS…``: the last two go to ipykernel."""
    folder, connection_file, *arguments = argv
    take_own_folder_off_the_path()
    go_to(folder)
    sys.argv[:] = ["ipykernel_launcher.py", "-f", connection_file, *arguments]
    adapt(json.loads(Path(connection_file).read_text())["ip"])
    from ipykernel.kernelapp import IPKernelApp

    IPKernelApp.launch_instance()


if __name__ == "__main__":
    main(sys.argv[1:])
