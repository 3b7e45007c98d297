"""The addresses of a kernel's five local sockets: Unix sockets in a private folder, or loopback TCP ports.

Unix sockets are bound to hidden names and published as symlinks, because a KernelManager deletes the published names at
every restart.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import shutil
import socket
import sys
import tempfile
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import zmq

from jupyter_tpu.errors import BadInput, Text

CHANNELS = ("shell", "iopub", "stdin", "hb", "control")
_PREFIX = "jtpu-kernel-"
"""Prefix of the folders' names; the pid of the process follows."""
_LONGEST_PATH = 100  # sockaddr_un allows 107 characters; our file names need a few of them


class PortTaken(Exception):
    """Another process uses the port."""

    def __init__(self, port: int) -> None:
        super().__init__(f"port {port} is in use")
        self.port = port


class IpcAddresses:
    """Unix sockets in a new folder with mode 0700. The folder is removed by `remove` or when the process exits."""

    transport = "ipc"

    def __init__(self) -> None:
        self._folder = _short_folder()
        self.ip = str(self._folder / "k")
        self.ports = {f"{channel}_port": number for number, channel in enumerate(CHANNELS, 1)}
        self._removal = weakref.finalize(self, shutil.rmtree, self._folder, True)

    def bind(self, channel_socket: zmq.Socket[bytes], channel: str) -> None:
        """Bind a channel's socket to a hidden file, to which `publish` creates a link."""
        channel_socket.bind(f"ipc://{self._hidden(channel)}")

    def publish(self) -> None:
        """Create the symbolic links to the sockets for clients; a KernelManager may have removed the links."""
        for channel in CHANNELS:
            with contextlib.suppress(FileExistsError):
                self.path(channel).symlink_to(self._hidden(channel).name)

    def remove(self) -> None:
        """Remove the folder."""
        self._removal()

    def path(self, channel: str) -> Path:
        """Return the path under which Jupyter clients find the socket."""
        return Path(f"{self.ip}-{self.ports[f'{channel}_port']}")

    def _hidden(self, channel: str) -> Path:
        return self._folder / f".{channel}"


class TcpAddresses:
    """Loopback TCP ports, for front ends that can't use Unix sockets. Port 0 selects a free port.

    Raises:
        BadInput: the address is reachable from other machines.
    """

    transport = "tcp"

    def __init__(self, ip: str = "127.0.0.1", ports: Mapping[str, int] | None = None) -> None:
        if not _is_loopback(ip):
            raise BadInput(
                Text(
                    "A kernel's ports cannot be opened at {ip}, because other users could reach them.",
                    ip=repr(ip[:80]),
                ),
                hint="Use 127.0.0.1.",
            )
        self.ip = ip
        self.ports = {f"{channel}_port": 0 for channel in CHANNELS} | dict(ports or {})

    def bind(self, channel_socket: zmq.Socket[bytes], channel: str) -> None:
        """Bind the socket of a channel.

        Raises:
            PortTaken: another process uses its port.
        """
        name = f"{channel}_port"
        try:
            channel_socket.bind(f"tcp://{self.ip}:{self.ports[name] or '*'}")
        except zmq.ZMQError as error:
            if error.errno == zmq.EADDRINUSE:
                raise PortTaken(self.ports[name]) from error
            raise
        endpoint = channel_socket.getsockopt_string(zmq.LAST_ENDPOINT)
        self.ports[name] = int(endpoint.rpartition(":")[2])

    def publish(self) -> None:
        """Do nothing: TCP ports have no public names to create."""

    def remove(self) -> None:
        """Do nothing, because ports become free when their sockets are closed."""


Addresses = IpcAddresses | TcpAddresses


def addresses_of(connection: Mapping[str, Any]) -> TcpAddresses:
    """Return the TCP ports from a connection file.

    Raises:
        BadInput: the file specifies a transport other than TCP, or a port is missing.
    """
    if connection.get("transport", "tcp") != "tcp":
        raise BadInput(
            Text(
                "The connection file has the transport {transport}; only tcp is supported.",
                transport=repr(connection["transport"]),
            )
        )
    try:
        ports = {f"{channel}_port": int(connection[f"{channel}_port"]) for channel in CHANNELS}
    except (KeyError, ValueError, TypeError) as error:
        raise BadInput(Text("The connection file has no usable {field}.", field=error)) from error
    return TcpAddresses(str(connection.get("ip", "127.0.0.1")), ports)


def port_owner(port: int) -> str:
    """Return the process that uses a local TCP port, such as ``python (pid 123)``, or "" if unknown."""
    import psutil  # the import takes 20 ms, and kernels rarely need it at the start

    with contextlib.suppress(psutil.Error, OSError):  # on macOS, only root may list connections
        for found in psutil.net_connections("tcp"):
            if found.laddr and found.laddr.port == port and found.pid:
                return f"{psutil.Process(found.pid).name()} (pid {found.pid})"
    return ""


def default_addresses() -> Addresses:
    """Return Unix sockets on systems where ZMQ supports them, otherwise TCP ports."""
    return TcpAddresses() if sys.platform == "win32" else IpcAddresses()


def _remove_abandoned(parent: Path) -> None:
    """Remove the socket folders of killed processes."""
    for folder in parent.glob(f"{_PREFIX}*-*"):
        pid = folder.name.removeprefix(_PREFIX).partition("-")[0]
        with contextlib.suppress(OSError):
            # In /tmp any user may have created a folder or a symlink with that name.
            is_ours = folder.is_dir() and not folder.is_symlink() and folder.stat().st_uid == os.getuid()
            if is_ours and pid.isdecimal() and _is_gone(int(pid)) and not _is_listening(folder / ".shell"):
                shutil.rmtree(folder, ignore_errors=True)


def _is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # the process belongs to another user
        return False
    return False


def _is_listening(path: Path) -> bool:
    """Return whether a process is listening on the socket, even if the process is in another container."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True


def _short_folder() -> Path:
    """Create a folder with mode 0700 whose path is short enough for socket addresses."""
    for parent in (os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp"):
        # The 40 characters are for the folder's name, with the PID and a random part, and for the socket's name.
        if parent and len(parent) + 40 < _LONGEST_PATH and os.access(parent, os.W_OK):
            _remove_abandoned(Path(parent))
            return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=parent))
    raise BadInput(
        "No folder has a path that is short enough for a kernel's sockets.",
        hint=Text(
            "Set XDG_RUNTIME_DIR or TMPDIR to a folder whose path has fewer than {most} characters.",
            most=_LONGEST_PATH - 40,
        ),
    )


def _is_loopback(ip: str) -> bool:
    try:
        return ipaddress.ip_address(ip).is_loopback
    except ValueError:
        return ip == "localhost"
