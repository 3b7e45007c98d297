"""A direct TCP connection for asyncssh that reports received data."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


class DirectTunnel:
    """A `tunnel` for `asyncssh.connect` that opens the same socket that asyncssh would open.

    asyncssh documents only its own connections as tunnels, but calls only `create_connection`, `close` and
    `wait_closed`.

    Args:
        on_activity: called when TCP has connected, and whenever data is received until `stop_watching` is called.
        family, local_addr: as in `loop.create_connection`.
    """

    def __init__(self, on_activity: Callable[[], None], *, family: int, local_addr: tuple[str, int] | None) -> None:
        self._on_activity = on_activity
        self._family = family
        self._local_addr = local_addr
        self._listener: _Listener | None = None

    async def create_connection(
        self, factory: Callable[[], Any], host: str, port: int
    ) -> tuple[asyncio.BaseTransport, Any]:
        """Open the TCP connection. asyncssh calls this; `factory` creates its asyncio protocol."""

        def listen() -> _Listener:
            self._listener = _Listener(factory(), self._on_activity)
            return self._listener

        loop = asyncio.get_running_loop()
        transport, listener = await loop.create_connection(
            listen, host, port, family=self._family, local_addr=self._local_addr
        )
        return transport, listener.connection

    def stop_watching(self) -> None:
        """Remove the listener, so that bytes go directly to asyncssh."""
        # asyncio can replace a transport's protocol at any time; the transport itself stays the same.
        if self._listener and self._listener.transport:
            self._listener.transport.set_protocol(self._listener.connection)

    def close(self) -> None:
        """Do nothing, because asyncssh owns the transport and closes it."""

    async def wait_closed(self) -> None:
        """Do nothing, because asyncssh waits for the transport itself."""


class _Listener(asyncio.Protocol):
    """A protocol that forwards every call to asyncssh's connection."""

    def __init__(self, connection: Any, on_activity: Callable[[], None]) -> None:
        self.connection = connection
        self.transport: asyncio.Transport | None = None
        self._on_activity = on_activity

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._on_activity()
        self.connection.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._on_activity()
        self.connection.data_received(data)

    def eof_received(self) -> bool | None:
        ended: bool | None = self.connection.eof_received()
        return ended

    def pause_writing(self) -> None:
        self.connection.pause_writing()

    def resume_writing(self) -> None:
        self.connection.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        self.connection.connection_lost(error)
