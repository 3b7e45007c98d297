"""Restore the agent's folder when it is deleted while the agent runs, for example by ``rm -rf ~/.jupyter*``.

Without the folder, connected clients are unaffected at first, but can't reconnect, because the socket file is missing.
Without the lock file, the next client would start a second agent with no access to the kernels.
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
from jupyter_tpu.agent.paths import Home, is_listening, listen, try_lock
from jupyter_tpu.errors import AgentBroken

log = logging.getLogger(__name__)

# How often to check. `prepare` waits several seconds for a restored socket, so one check per second is enough. A check
# takes only a few `stat` calls.
_EVERY_S = 1.0
_CODE = Path(__file__).resolve().parents[2]
_CANNOT = (
    "The agent's folder {root} on the worker was removed and cannot be restored: {reason}. This kernel keeps running, "
    "but it can't be reached after the next disconnect. Save what you need, or make room for that folder."
)


class HomeWatch:
    """A task that checks the agent's folder every second and restores missing files.

    Args:
        serve: called with a new listening socket.
        hang_up: closes all connections. A client that reconnects prepares the worker again, which also rebuilds the
            kernels' Python if it was removed.
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
        self._has_warned = False

    async def run(self) -> None:
        """Check the agent's folder repeatedly until cancelled."""
        while True:
            try:
                if not self._is_whole():
                    await self._restore()
                else:
                    # Restore the code last, when `rm` has finished. Before that, `rm` could remove the new lock, and a
                    # client could start a second agent.
                    self._restore_code()
                self._has_warned = False
            except (OSError, AgentBroken) as error:
                self._warn(str(error).partition("\n")[0])
            await asyncio.sleep(_EVERY_S)

    def _is_whole(self) -> bool:
        # The supervisor holds the lock while it is running. After the supervisor exits, this agent must hold the lock.
        has_socket = self._socket is not None and self._socket == _identity(self._home.socket)
        is_locked = self._home.lock.exists() and (self._lock is not None or os.getppid() == self._supervisor)
        return has_socket and is_locked and self._kernels.are_whole

    async def _restore(self) -> None:
        """Restore the folder, lock, socket and kernels, in this order, so that no client starts a second agent."""
        self._home.close_to_others()
        self._home.make()
        if (lock := try_lock(self._home.lock)) is not None:
            log.warning("%s was removed, or its owner is gone: locked again", self._home.lock)
            self._close_lock()
            self._lock = lock
        if not is_listening(self._home.socket):  # the inherited socket listens on a file that was removed
            log.warning("%s was removed: created again", self._home.socket)
            await self._serve(listen(self._home.socket))
        self._socket = _identity(self._home.socket)
        self._kernels.restore()

    def _restore_code(self) -> None:
        """Restore the agent's code from memory. Kernels need it to start."""
        if self._code and not Path(__file__).exists():
            log.warning("%s was removed: created again", _CODE)
            unpack(self._code, _CODE, _CODE.with_name(_CODE.name + ".again"))
            self._hang_up()

    def _close_lock(self) -> None:
        """Close the old lock, whose file was removed."""
        if self._lock is not None:
            os.close(self._lock)

    def _warn(self, reason: str) -> None:
        """Log the failure and notify the kernels' users, but not again until a check has succeeded."""
        if not self._has_warned:
            self._has_warned = True
            log.error("%s cannot be restored: %s", self._home.root, reason)
            self._kernels.notify_users(_CANNOT.format(root=self._home.root, reason=reason.rstrip(".")))


def _archive() -> bytes:
    """Return the agent's packed code (about 300 KB), or empty bytes if it is missing. The agent runs without it."""
    with suppress(OSError):
        return (_CODE / ARCHIVE).read_bytes()
    return b""


def _identity(path: Path) -> tuple[int, int] | None:
    with suppress(OSError):
        found = path.lstat()
        return found.st_dev, found.st_ino
    return None
