"""Restores what somebody removes of the agent's folder while it runs, such as by ``rm -rf ~/.jupyter*``.

Clients that are connected notice nothing of it, and nobody could come back after a cut: the socket's file is gone, and
with the lock's file another agent would start that knows none of the kernels.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from jupyter_tpu.agent.bootstrap import ARCHIVE, unpack
from jupyter_tpu.agent.kernels.kernels import Kernels
from jupyter_tpu.agent.paths import Home, is_answered, listen, take_lock
from jupyter_tpu.errors import AgentBroken

log = logging.getLogger(__name__)

_EVERY_S = 1.0
_CODE = Path(__file__).resolve().parents[2]
_CANNOT = (
    "The agent's folder {root} on the worker was removed and cannot be restored: {reason}. This kernel runs on, but "
    "after the next cut of the connection nobody can reach it. Save what you need, or make room for that folder."
)


class HomeWatch:
    """Looks every second; that costs a few `stat` calls.

    Args:
        serve: called with a new listening socket.
        hang_up: ends all connections. A client that comes back prepares the worker, and so makes the kernels' Python
            again, which may have been removed too.
    """

    def __init__(
        self,
        home: Home,
        kernels: Kernels,
        serve: Callable[[socket.socket], Awaitable[None]],
        hang_up: Callable[[], None],
    ) -> None:
        self._home = home
        self._kernels = kernels
        self._serve = serve
        self._hang_up = hang_up
        self._code = _archive()
        self._supervisor = os.getppid()
        self._socket: tuple[int, int] | None = None
        self._lock: int | None = None
        self._has_told = False

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                if not self._is_whole():
                    await self._restore()
                else:  # not earlier: while `rm` still removes the new lock, a client would start a second agent
                    self._restore_code()
                self._has_told = False
            except (OSError, AgentBroken) as error:
                self._tell(str(error).partition("\n")[0])
            await asyncio.sleep(_EVERY_S)

    def _is_whole(self) -> bool:
        has_socket = self._socket is not None and self._socket == _identity(self._home.socket)
        is_locked = self._home.lock.exists() and (self._lock is not None or os.getppid() == self._supervisor)
        return has_socket and is_locked and self._kernels.are_whole

    async def _restore(self) -> None:
        """The lock comes first: with it nobody starts another agent meanwhile."""
        self._home.make()
        if (lock := take_lock(self._home.lock)) is not None:
            log.warning("%s was removed, or its owner is gone: locked again", self._home.lock)
            self._let_lock_go()
            self._lock = lock
        if not is_answered(self._home.socket):  # by us, unless our supervisor's socket is of a file that was removed
            log.warning("%s was removed: created again", self._home.socket)
            await self._serve(listen(self._home.socket))
        self._socket = _identity(self._home.socket)
        self._kernels.restore()

    def _restore_code(self) -> None:
        """No kernel starts without it, and a client of another version would bring its own only."""
        if self._code and not Path(__file__).exists():
            log.warning("%s was removed: created again", _CODE)
            unpack(self._code, _CODE, _CODE.with_name(_CODE.name + ".again"))
            self._hang_up()

    def _let_lock_go(self) -> None:
        """One of a file that was removed again."""
        if self._lock is not None:
            os.close(self._lock)

    def _tell(self, reason: str) -> None:
        """Once, until it works again."""
        if not self._has_told:
            self._has_told = True
            log.error("%s cannot be restored: %s", self._home.root, reason)
            self._kernels.tell(_CANNOT.format(root=self._home.root, reason=reason.rstrip(".")))


def _archive() -> bytes:
    """The agent's own code, about 300 KB; empty if it was removed already, since an agent is needed even so."""
    with suppress(OSError):
        return (_CODE / ARCHIVE).read_bytes()
    return b""


def _identity(path: Path) -> tuple[int, int] | None:
    with suppress(OSError):
        found = path.lstat()
        return found.st_dev, found.st_ino
    return None
