"""The ports of this worker that the user has opened, and the agent's methods to list, open and close them."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from jupyter_tpu.agent.ports.connect import connect_to_port
from jupyter_tpu.agent.ports.sockets import read_sockets
from jupyter_tpu.errors import BadInput, Text
from jupyter_tpu.files import write_whole

log = logging.getLogger(__name__)

# Addresses over which a process can be reached through loopback.
_REACHABLE = ("127.0.0.1", "::1", "0.0.0.0", "::")
_COMMAND_CHARACTERS = 200


class Ports:
    """The opened ports, which are kept in a file for the next agent.

    Args:
        file: where they are stored.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._opened = _read(file)
        self._connections: dict[int, set[asyncio.Task[Any]]] = {}
        self.methods: Mapping[str, Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]] = {
            "list_ports": self.list_ports,
            "open_port": self.open_port,
            "close_port": self.close_port,
        }

    async def list_ports(self, _params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the ports on which this user's processes listen, and the opened ones: ``[{port, opened, processes}]``.

        ``processes`` has {pid, command}; it is empty if nothing listens on an opened port.
        """
        return await asyncio.to_thread(self._list)

    async def open_port(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Allow connections to ``port``."""
        port = _checked_port(params)
        self._opened.add(port)
        self._save()
        return await asyncio.to_thread(self._list)

    async def close_port(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Refuse connections to ``port`` from now on, and end the existing ones; its processes keep running."""
        port = _checked_port(params)
        self._opened.discard(port)
        self._save()
        for task in self._connections.get(port, ()):
            task.cancel()
        return await asyncio.to_thread(self._list)

    async def connect(self, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to an opened port; `close_port` then cancels the current task.

        Raises:
            BadInput: the port is not open, nothing listens on it, or another user's process does.
        """
        if port not in self._opened:
            raise BadInput(
                Text("Port {port} of the node is not open.", port=port),
                hint=Text("Open it with `jupyter tpu ports NODE open {port}`.", port=port),
            )
        task = asyncio.current_task()
        assert task
        tasks = self._connections.setdefault(port, set())
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        return await connect_to_port(port)

    def _save(self) -> None:
        try:
            write_whole(self._file, json.dumps(sorted(self._opened)).encode())
        except OSError as error:  # a full disk: the ports are open until the agent ends
            log.error("the opened ports cannot be saved: %s", error)

    def _list(self) -> dict[str, Any]:
        uid = os.getuid()
        inodes = {
            one.inode: one.local[1]
            for one in read_sockets()
            if one.is_listening and one.uid == uid and one.local[0] in _REACHABLE
        }
        processes = _processes_of(inodes)
        ports = {*inodes.values(), *self._opened}
        return {
            "ports": [
                {"port": port, "opened": port in self._opened, "processes": processes.get(port, [])}
                for port in sorted(ports)
            ]
        }


def _processes_of(inodes: Mapping[int, int]) -> dict[int, list[dict[str, Any]]]:
    """Return the processes that hold these sockets, by port. A socket may be shared with child processes."""
    found: dict[int, list[dict[str, Any]]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            names = {str(entry.readlink()) for entry in (folder / "fd").iterdir()}
            ports = {port for inode, port in inodes.items() if f"socket:[{inode}]" in names}
            for port in sorted(ports):
                found.setdefault(port, []).append({"pid": int(folder.name), "command": _command(folder)})
    return found


def _command(folder: Path) -> str:
    words = (folder / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    return b" ".join(words).decode(errors="replace")[:_COMMAND_CHARACTERS]


def _checked_port(params: Mapping[str, Any]) -> int:
    port = params.get("port")
    if type(port) is not int or not 0 < port < 65536:
        raise BadInput("A port is a whole number from 1 to 65535.")
    return port


def _read(file: Path) -> set[int]:
    try:
        ports = json.loads(file.read_text())
    except (OSError, ValueError):
        return set()
    return {port for port in ports if type(port) is int} if isinstance(ports, list) else set()
