"""The agent's private folder on the worker, and the operations on its files, sockets and locks."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import socket
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from jupyter_tpu.errors import AgentBroken, Text, WorkerDiskFull

# Maximum length of the folder's path in bytes. A Unix socket's path is limited to 107 bytes (unix(7)); a kernel's
# folder needs 17 of them, and the file name a few.
_LONGEST_RUN_FOLDER = 70
# Copy a removed file in pieces of this size. Bounds memory, because a record's segment has 32 MiB.
_PIECE_BYTES = 1024 * 1024

# EFBIG: the process's file size limit, which stops writing just like a full disk.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)


def disk_full(folder: Path, error: OSError) -> WorkerDiskFull | None:
    """Return the error for the user if `error` means that the disk of `folder` is full or read-only, otherwise None."""
    if error.errno not in _NO_ROOM:
        return None
    return WorkerDiskFull(
        Text(
            "The disk of the worker can't be written: {reason}. {free_mib} MiB are free in {folder}.",
            reason=os.strerror(error.errno),
            free_mib=shutil.disk_usage(folder).free >> 20,
            folder=str(folder),
        ),
        hint="Remove files there with `jupyter tpu ssh`, and try again.",
        raw=f"{type(error).__name__}: {error}",
    )


def private_folder(path: Path) -> Path:
    """Create a folder with mode 0700 and its missing parents, or check that an existing folder is private.

    Raises:
        AgentBroken: another user owns the folder or has access to it.
    """
    missing = [level for level in path.parents if not level.exists()]
    for level in (*reversed(missing), path):  # one by one: mkdir(parents=True) would give parents the umask's mode
        level.mkdir(mode=0o700, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise AgentBroken(
            f"Other users have access to the folder {path} on the worker.",
            exists="Its owner or its permissions would let another user read or replace the sockets of your kernels.",
            hint=f"Remove it, or make it yours with permissions 0700: {path}",
        )
    return path


def listen(path: Path) -> socket.socket:
    """Listen on a new Unix socket at `path`, open only to this user; replace an existing file."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    path.chmod(0o600)
    listener.listen(128)
    return listener


def is_listening(path: Path) -> bool:
    """Whether a process listens on the Unix socket at `path`."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except BlockingIOError:  # the backlog is full, so a process is listening
            return True
        except OSError:
            return False
    return True


def recreate_file(path: Path, descriptor: int) -> int:
    """Recreate a removed file from its open descriptor; return the new descriptor and close the old one.

    Raises:
        OSError: the file couldn't be created; the old descriptor stays open.
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


def try_lock(path: Path) -> int | None:
    """Acquire the lock at `path` without waiting; return its descriptor, or None if another process holds it."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


@dataclass(frozen=True)
class Home:
    """The agent's folder and the paths in it."""

    root: Path

    @classmethod
    def of_user(cls) -> Home:
        """Return the folder of this process's user."""
        return cls(Path.home() / ".jupyter-tpu")

    def make(self) -> None:
        """Create missing folders; raise AgentBroken if another user has access."""
        for folder in (self.root, self.run, self.kernels, self.environments):
            private_folder(folder)

    def close_to_others(self) -> None:
        """Make folders recreated by this user's processes private again; call this only while an agent is running.

        If the connection file is missing when ipykernel starts, ipykernel recreates the file's folder, and its parent
        folders with the umask's permissions.
        """
        for folder in (self.root, self.kernels):
            with suppress(FileNotFoundError):
                found = folder.lstat()
                if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and found.st_mode & 0o077:
                    folder.chmod(0o700)

    @property
    def run(self) -> Path:
        """The folder of sockets, below the home folder unless that path is too long for a Unix socket."""
        path = self.root / "run"
        if len(os.fsencode(path)) <= _LONGEST_RUN_FOLDER:
            return path
        digest = hashlib.sha256(os.fsencode(self.root)).hexdigest()[:12]
        return Path(f"/tmp/jupyter-tpu-{os.getuid()}-{digest}")

    def remove_socket(self) -> None:
        """Remove the agent's socket, and its folder unless kernels use it; call this only when no agent is running."""
        with suppress(OSError):
            self.socket.unlink()
            self.run.rmdir()

    def remove_run(self) -> None:
        """Remove the folder that contains the sockets; call this only when no agent or kernel is running."""
        shutil.rmtree(self.run, ignore_errors=True)

    @property
    def socket(self) -> Path:
        """The socket that clients connect to."""
        return self.run / "agent.sock"

    @property
    def lock(self) -> Path:
        """The lock that the supervisor holds while it is running, so that each folder has only one agent."""
        return self.root / "supervisor.lock"

    @property
    def log(self) -> Path:
        """The log of the supervisor and agent."""
        return self.root / "agent.log"

    @property
    def autostop_file(self) -> Path:
        """The guard's auto-stop rules; the file has an old name, for compatibility with older agents."""
        return self.root / "brakes.json"

    @property
    def snapshots(self) -> Path:
        """The latest snapshots from clients, for the node's notebooks."""
        return self.root / "snapshots.json"

    @property
    def ports(self) -> Path:
        """The TCP ports that the user has opened."""
        return self.root / "ports.json"

    @property
    def kernels(self) -> Path:
        """The folder with one subfolder per kernel."""
        return self.root / "kernels"

    @property
    def terminals(self) -> Path:
        """The folder with one subfolder per terminal."""
        return self.root / "terminals"

    @property
    def slices(self) -> Path:
        """The folder with one subfolder for each of worker 0's kernels that also runs on this worker."""
        return self.root / "slices"

    @property
    def environments(self) -> Path:
        """The folder of Python environments."""
        return self.root / "env"
