"""A proxy for TCP and Unix sockets that simulates network faults on request.

Without faults, it only forwards data, with almost no overhead. Faults are requested by name (`verbs`), affect open and
new connections, and can change at any time.
"""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Callable
from pathlib import Path

from jupyter_tpu.emulator.network_faults.pipe import Trap
from jupyter_tpu.emulator.network_faults.proxied_connection import Address, Connection
from jupyter_tpu.emulator.network_faults.verbs import CLEAR, LASTING, WAITING, LinkFault

Admit = Callable[[socket.socket], bool]
ACCEPT_AGAIN_S = 1.0  # delay if no file descriptor is left, as in asyncio's own servers


class FaultProxy:
    """A proxy that forwards connections to `target`.

    `admit` may reject a connection; `seed` makes random faults repeatable.
    """

    def __init__(self, target: Address, *, admit: Admit = lambda _: True, seed: int = 0) -> None:
        self._target = target
        self._admit = admit
        self._rng = random.Random(seed)
        self._address: Address | None = None
        self._socket: socket.socket | None = None
        self._listens = False
        self._connections: set[Connection] = set()
        self._accepted = 0
        self._ended_round_trips = 0
        self._lasting: list[LinkFault] = []
        self._traps: list[Trap] = []
        self._timers: list[asyncio.TimerHandle] = []

    @property
    def address(self) -> Address:
        """The address on which the proxy listens, with the actual port if 0 was requested."""
        assert self._address is not None, "the proxy does not listen yet"
        return self._address

    @property
    def port(self) -> int:
        """The port; 0 for a Unix socket."""
        return 0 if isinstance(self.address, Path) else self.address[1]

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._connections)

    @property
    def accepted(self) -> int:
        """The number of connections since the start."""
        return self._accepted

    @property
    def round_trips(self) -> int:
        """The number of round trips of all connections since the proxy was started; see `Connection.round_trips`."""
        return self._ended_round_trips + sum(connection.round_trips for connection in self._connections)

    def faults(self) -> list[LinkFault]:
        """Return the lasting faults, and the faults that wait until a connection reaches a given byte."""
        return [*self._lasting, *(trap.fault for trap in self._traps if trap.times)]

    def listen(self, address: Address) -> None:
        """Listen on an address, in a running event loop. Raises OSError if the address is in use."""
        self._socket, self._address = _bound(address)
        self._start_listening()

    async def close(self) -> None:
        """Stop listening and reset all connections."""
        for timer in self._timers:
            timer.cancel()
        self._stop_listening()
        # use a copy, because each connection removes itself from the set when it is closed
        closing = list(self._connections)
        for connection in closing:
            connection.reset()
        await asyncio.gather(*(connection.wait_closed() for connection in closing))
        if isinstance(self._address, Path):
            self._address.unlink(missing_ok=True)

    def apply(self, fault: LinkFault) -> None:
        """Apply a fault to all connections."""
        if fault.verb == CLEAR:
            self._clear()
        elif fault.verb in LASTING:
            self._start_lasting(fault)
        # set one trap for all connections, so that `times` counts across all of them
        elif fault.verb in WAITING:
            self._set_trap(Trap(fault, fault.times))
        else:
            for connection in list(self._connections):
                connection.strike(fault)

    def _clear(self) -> None:
        for trap in self._traps:
            trap.times = 0
        self._lasting = []
        self._conditions_changed()

    def _start_lasting(self, fault: LinkFault) -> None:
        self._lasting.append(fault)
        self._conditions_changed()
        if fault.for_s:
            loop = asyncio.get_running_loop()
            # drop timers that have fired, because a long script would accumulate them
            self._timers = [timer for timer in self._timers if timer.when() > loop.time()]
            self._timers.append(loop.call_later(fault.for_s, self._lift, fault))

    def _lift(self, fault: LinkFault) -> None:
        """Remove an expired fault, but not an equal one that was added later."""
        self._lasting = [each for each in self._lasting if each is not fault]
        self._conditions_changed()

    def _set_trap(self, trap: Trap) -> None:
        self._traps = [*(each for each in self._traps if each.times), trap]
        for connection in self._connections:
            connection.set_trap(trap)

    def _conditions_changed(self) -> None:
        self._refuse_or_not()
        for connection in list(self._connections):
            connection.change(self._lasting)

    # -- accepting connections

    def _refuse_or_not(self) -> None:
        """Refuse or accept connections; while refusing, reserve the port with a socket that does not listen."""
        refuses = any(fault.verb == "refuse" for fault in self._lasting)
        if refuses and self._listens:
            self._stop_listening()
            # bind a socket without listening, so that no other process can take the port in the meantime
            self._socket, _ = _bound(self.address)
        elif not refuses and not self._listens:
            self._start_listening()

    def _start_listening(self) -> None:
        assert self._socket is not None, "`listen` has bound one"
        self._socket.listen(128)  # a usual backlog; the system may cap it
        self._listens = True
        asyncio.get_running_loop().add_reader(self._socket, self._accept_waiting)

    def _stop_listening(self) -> None:
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
        self._socket = None
        self._listens = False

    def _accept_waiting(self) -> None:
        assert self._socket is not None, "only a listening socket becomes readable"
        try:
            accepted, _ = self._socket.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError:
            # if no descriptor is left, the listener remains readable, and the loop would run continuously
            self._accept_later(self._socket)
        else:
            self._admit_or_not(accepted)

    def _accept_later(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(listener)
        self._timers.append(loop.call_later(ACCEPT_AGAIN_S, self._accept_again, listener))

    def _accept_again(self, listener: socket.socket) -> None:
        if listener is self._socket and self._listens:
            asyncio.get_running_loop().add_reader(listener, self._accept_waiting)

    def _admit_or_not(self, accepted: socket.socket) -> None:
        if not self._admit(accepted):
            accepted.close()
            return
        # on some systems, this setting isn't inherited from the listener
        accepted.setblocking(False)
        # set faults before the connection opens: a blocked path must block even the handshake
        connection = Connection(self._target, self._rng, self._forget)
        self._connections.add(connection)
        self._accepted += 1
        connection.change(self._lasting)
        for trap in self._traps:
            connection.set_trap(trap)
        connection.open(accepted)

    def _forget(self, connection: Connection) -> None:
        self._connections.discard(connection)
        self._ended_round_trips += connection.round_trips


def _bound(address: Address) -> tuple[socket.socket, Address]:
    """Return a bound socket that does not listen yet, and the address with the actual port."""
    if isinstance(address, Path):
        if address.is_socket():  # the socket of this proxy, or of a killed proxy
            address.unlink()
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    else:
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        # asyncio turns Nagle's algorithm off only if the protocol is set, which accepted sockets inherit
        bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(str(address) if isinstance(address, Path) else address)
    except OSError:
        bound.close()
        raise
    bound.setblocking(False)
    return bound, address if isinstance(address, Path) else (address[0], int(bound.getsockname()[1]))
