"""Store one note per kernel on disk, which lets the next server take over the kernel.

Each kernel has one file. Only the user can read it, because it contains the key that signs the kernel's messages. All
other information about a kernel comes from the agent. While the server that wrote a note is running, the note belongs
to that server.
"""

from __future__ import annotations

import json
import logging
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from jupyter_tpu.files import write_whole
from jupyter_tpu.journal.owner import is_gone, new_owner
from jupyter_tpu.journal.paths import data_dir

if sys.platform != "win32":
    import fcntl

log = logging.getLogger(__name__)

VERSION = 1
"""Version of the files. A file with a higher version was written by a newer jupyter_tpu."""
_KERNEL_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_LONGEST_NOTE = 1024 * 1024  # bounds the data read at a server's start; a note has a few hundred bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredSession:
    """A Jupyter Server session: the notebook or console that uses the kernel."""

    session_id: str
    path: str | None = None
    name: str | None = None
    type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredKernel:
    """The note about a kernel on a node and about the server that owns it. Saved under these field names.

    Attributes:
        node: the node's full name.
        endpoint: the cloud's endpoint; see `CloudSettings`.
        workers: the number of workers that run the kernel together.
        key: the HMAC key of the kernel's messages.
        root_dir: the server's notebook folder. Only a server with the same folder takes over the kernel.
        owner: the process that the kernel belongs to, in the format of `jupyter_tpu.journal.owner`.
        is_ended: whether the user shut down the kernel while its node was unreachable. The kernel may still be running.
    """

    kernel_id: str
    kernel_name: str
    node: str
    endpoint: str = ""
    worker_id: int = 0
    workers: int = 1
    python: str = ""
    key: str = field(repr=False)
    signature_scheme: str = "hmac-sha256"
    extra_arguments: tuple[str, ...] = ()
    root_dir: str = ""
    owner: str = ""
    sessions: tuple[RegisteredSession, ...] = ()
    is_ended: bool = False

    @property
    def notebook(self) -> str:
        """The local path of the notebook or console that uses the kernel; empty if unknown."""
        paths = [session.path for session in self.sessions if session.path]
        return str(Path(self.root_dir, paths[-1])) if paths else ""

    def with_session(self, session: RegisteredSession) -> RegisteredKernel:
        """Return a copy with a new or changed session."""
        return replace(self, sessions=tuple({each.session_id: each for each in (*self.sessions, session)}.values()))

    def to_json(self) -> dict[str, Any]:
        """Return the content of the note's file."""
        content = {"version": VERSION, **asdict(self)}
        if self.workers == 1:  # older versions support only one worker and can read notes without this field
            del content["workers"]
        return content

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> RegisteredKernel:
        """Parse the output of `to_json`.

        Raises:
            KeyError, TypeError, ValueError: the data is not a valid note.
        """
        note = cls(**{**{name: value for name, value in data.items() if name != "version"}, **_tuples(data)})
        if not all(isinstance(getattr(note, name), kind) for name, kind in _KINDS.items()):
            raise TypeError("a field has the wrong type")
        return note


_TEXTS = ("kernel_id", "kernel_name", "node", "endpoint", "python", "key", "signature_scheme", "root_dir", "owner")
_KINDS: dict[str, type] = {**dict.fromkeys(_TEXTS, str), "worker_id": int, "workers": int, "is_ended": bool}


def _tuples(data: dict[str, Any]) -> dict[str, Any]:
    return {
        "extra_arguments": tuple(map(str, data["extra_arguments"])),
        "sessions": tuple(RegisteredSession(**each) for each in data["sessions"]),
    }


@cache
def this_process() -> str:
    """Return the owner id for the notes that this process writes."""
    return new_owner()


class KernelRegistry:
    """The notes of the user's kernels on this machine. Every method accesses the disk.

    Args:
        folder: the folder of the files; ``kernels`` in the data folder if None.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    @property
    def folder(self) -> Path:
        """The folder of the files."""
        return self._folder or data_dir() / "kernels"

    def write(self, note: RegisteredKernel) -> None:
        """Write or replace a note atomically: after a crash, either the old or the new note exists.

        Raises:
            OSError: the disk is full or not writable.
            ValueError: the kernel's id is not a valid file name.
        """
        path = self._path(note.kernel_id)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Make the note durable: after a power loss of the laptop, the kernel is still running on its node, which is
        # billed.
        write_whole(path, json.dumps(note.to_json()).encode(), is_durable=True)

    def remove(self, kernel_id: str) -> None:
        """Remove a note if it exists."""
        self._path(kernel_id).unlink(missing_ok=True)

    def find(self, kernel_id: str) -> RegisteredKernel | None:
        """Return the note of a kernel, or None if it is missing or unusable."""
        return _read(self._path(kernel_id)) if _KERNEL_ID.fullmatch(kernel_id) else None

    def list(self) -> tuple[RegisteredKernel, ...]:
        """Return all usable notes. Unusable notes are logged and not changed."""
        found = map(_read, sorted(self.folder.glob("*.json")))
        return tuple(note for note in found if note)

    def claim(self, root_dir: str) -> tuple[RegisteredKernel, ...]:
        """Take over the notes of `root_dir` whose servers have exited, and return them.

        If two servers start at the same time, each note is claimed by only one of them.
        """
        if not any(self.folder.glob("*.json")):
            return ()
        # Read again under the lock: another server may have claimed some kernels in the meantime.
        with self._locked():
            free = [note for note in self.list() if note.root_dir == root_dir and is_gone(note.owner)]
            return tuple(filter(None, map(self._claim, free)))

    def _claim(self, note: RegisteredKernel) -> RegisteredKernel | None:
        ours = replace(note, owner=this_process())
        try:
            self.write(ours)
        except OSError as error:
            log.warning("The kernel %s is not taken over: its note cannot be written (%s).", note.kernel_id, error)
            return None
        return ours

    def _path(self, kernel_id: str) -> Path:
        if not _KERNEL_ID.fullmatch(kernel_id):
            raise ValueError(f"{kernel_id[:70]!r} cannot be the id of a kernel")
        return self.folder / f"{kernel_id}.json"

    @contextmanager
    def _locked(self) -> Iterator[None]:
        lock_file = self.folder / ".lock"
        lock_file.touch(mode=0o600)
        with lock_file.open("w") as lock:
            if sys.platform != "win32":
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _read(path: Path) -> RegisteredKernel | None:
    try:
        data = json.loads(_content(path))
        if data["version"] > VERSION:
            log.info("%s was written by a newer version of jupyter-tpu; only that can take its kernel over.", path)
            return None
        note = RegisteredKernel.from_json(data)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        log.warning(
            "%s cannot be used (%s); its kernel may still be running, see `jupyter tpu kernels`. Remove the file to "
            "stop this warning.",
            path,
            error or type(error).__name__,
        )
        return None
    # Ignore a copy with another name, which would be claimed as a separate kernel.
    return note if f"{note.kernel_id}.json" == path.name else None


def _content(path: Path) -> str:
    """Return the content of a note's file. Raise an error if other users can write to it; remove their read access."""
    # O_NONBLOCK: opening a named pipe would wait for a writer
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    # use an opener, because `os.fdopen` would not close the descriptor if the path is a folder
    with open(path, encoding="utf-8", opener=lambda name, _: os.open(name, flags)) as file:
        status = os.fstat(file.fileno())
        if sys.platform != "win32":
            if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise PermissionError("other users may have written it")
            if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                log.warning("%s was open to other users; it is closed to them now.", path)
                os.fchmod(file.fileno(), stat.S_IRUSR | stat.S_IWUSR)
        text = file.read(_LONGEST_NOTE + 1)
    if len(text) > _LONGEST_NOTE:
        raise ValueError("it is too long")
    return text
