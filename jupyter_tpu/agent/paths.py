"""Where the agent keeps things on the worker: one folder in the user's home, nobody else's business."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import socket
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from jupyter_tpu.errors import AgentBroken

# A Unix socket's path may have 107 bytes; below the folder come 17 for the kernel and a few for the socket's name.
_LONGEST_RUN_FOLDER = 70
_PIECE_BYTES = 1024 * 1024


def private_folder(path: Path) -> Path:
    """Make a folder that only we can enter, with its parents, or make sure that it is one.

    Raises:
        AgentBroken: somebody else owns it, or could look inside.
    """
    missing = [level for level in path.parents if not level.exists()]
    for level in (*reversed(missing), path):  # one by one: mkdir would give parents what the umask allows
        level.mkdir(mode=0o700, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise AgentBroken(
            f"The folder {path} on the worker is not ours alone.",
            exists="Its owner or its permissions would let another user read or replace the sockets of your kernels.",
            hint=f"Remove it, or make it yours with permissions 0700: {path}",
        )
    return path


def listen(path: Path) -> socket.socket:
    """A socket at `path` that only we can connect to, in the place of what is there."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    path.chmod(0o600)
    listener.listen(128)
    return listener


def is_answered(path: Path) -> bool:
    """Whether somebody listens at this socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except BlockingIOError:
            return True
        except OSError:
            return False
    return True


def rewritten(path: Path, descriptor: int) -> int:
    """Write a file that was removed anew from its open descriptor, which is closed; the new file's descriptor.

    Raises:
        OSError: that is not possible; the descriptor stays open.
    """
    new = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        position = 0
        while data := os.pread(descriptor, _PIECE_BYTES, position):
            position += os.pwrite(new, data, position)
    except OSError:
        os.close(new)
        path.unlink(missing_ok=True)
        raise
    os.close(descriptor)
    return new


def take_lock(path: Path) -> int | None:
    """The lock's descriptor, or None when another process holds it."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


@dataclass(frozen=True)
class Home:
    """The agent's folder and what is where in it."""

    root: Path

    @classmethod
    def of_user(cls) -> Home:
        return cls(Path.home() / ".jupyter-tpu")

    def make(self) -> None:
        for folder in (self.root, self.run, self.kernels, self.environments):
            private_folder(folder)

    @property
    def run(self) -> Path:
        """Sockets. In the home folder, unless its path is too long for a Unix socket."""
        path = self.root / "run"
        if len(os.fsencode(path)) <= _LONGEST_RUN_FOLDER:
            return path
        digest = hashlib.sha256(os.fsencode(self.root)).hexdigest()[:12]
        return Path(f"/tmp/jupyter-tpu-{os.getuid()}-{digest}")

    def leave_run(self) -> None:
        """No agent is kept any more: remove its socket, and the folder unless kernels live on in it."""
        with suppress(OSError):
            self.socket.unlink()
            self.run.rmdir()

    def remove_run(self) -> None:
        """Remove the folder of sockets; nothing may run any more."""
        shutil.rmtree(self.run, ignore_errors=True)

    @property
    def socket(self) -> Path:
        return self.run / "agent.sock"

    @property
    def lock(self) -> Path:
        """Held by the supervisor for as long as it lives."""
        return self.root / "supervisor.lock"

    @property
    def log(self) -> Path:
        return self.root / "agent.log"

    @property
    def brakes(self) -> Path:
        """What the guard was told."""
        return self.root / "brakes.json"

    @property
    def snapshots(self) -> Path:
        """What laptops told of the node."""
        return self.root / "snapshots.json"

    @property
    def kernels(self) -> Path:
        return self.root / "kernels"

    @property
    def environments(self) -> Path:
        return self.root / "env"

    def archive(self, digest: str) -> Path:
        """The agent's own code, by the hash of its archive."""
        return self.root / "agent" / digest
