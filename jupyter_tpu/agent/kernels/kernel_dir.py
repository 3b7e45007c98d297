"""What is kept of one kernel on disk: all that a later agent needs to find it again, and to repeat nothing."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from jupyter_tpu.agent.kernels.request import Launch
from jupyter_tpu.agent.kernels.sockets import PORTS
from jupyter_tpu.agent.paths import Home, private_folder, rewritten
from jupyter_tpu.agent.recording.jupyter_messages import Signer
from jupyter_tpu.errors import EnvironmentFailed
from jupyter_tpu.wire.requests import SeenRequests

log = logging.getLogger(__name__)

_LAST_WORDS_BYTES = 8 * 1024
_MOST_OUTPUT_BYTES = 8 * 1024 * 1024
_LAST_WORDS_LINES = 30
_KEPT_S = 7 * 24 * 3600
# More than all that is written of a launch.
_LAUNCH_BYTES = 64 * 1024
_REQUESTS_BYTES = 16 * 1024 * 1024


class KernelDirectory:
    """The folder of one kernel, and a second one with a short path for its sockets."""

    def __init__(self, home: Home, kernel_id: str) -> None:
        self._path = private_folder(home.kernels / kernel_id)
        self._sockets = private_folder(home.run / hashlib.sha256(kernel_id.encode()).hexdigest()[:16])
        self._requests = os.open(self._path / "requests", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._seen = SeenRequests(os.pread(self._requests, _REQUESTS_BYTES, 0))
        self.state = self._load()
        self._connection = _text_of(self.connection_file)

    @property
    def record(self) -> Path:
        return self._path / "record"

    @property
    def heard(self) -> Path:
        return self._path / "heard"

    @property
    def checkpoint(self) -> Path:
        return self._path / "requests.json"

    @property
    def output(self) -> Path:
        """What the process itself writes, past ipykernel: its last words when it dies."""
        return self._path / "output.log"

    @property
    def connection_file(self) -> Path:
        return self._path / "connection.json"

    @property
    def socket_prefix(self) -> Path:
        return self._sockets / "k"

    @property
    def hook_socket(self) -> Path:
        """Where a checkpoint hook of the process listens, if it has one."""
        return self._sockets / "hook"

    def save(self, **changes: Any) -> None:
        """Change the state, on disk as well; a crash in between leaves the old one.

        With a full disk the kernel goes on, but a later agent will not find it.
        """
        self.state.update(changes)
        draft = self._path / "kernel.json.new"
        try:
            draft.write_text(json.dumps(self.state))
            draft.replace(self._path / "kernel.json")
        except OSError as error:
            log.error("%s: the kernel's state cannot be saved: %s", self._path, error)

    def _load(self) -> dict[str, Any]:
        try:
            state = json.loads((self._path / "kernel.json").read_text())
        except FileNotFoundError:
            return {}
        except (ValueError, RecursionError):
            log.warning("%s: the kernel's state cannot be read; it is taken as ended", self._path)
            return {}
        return state if isinstance(state, dict) else {}

    def is_new_request(self, client_id: str, number: int) -> bool:
        """Whether a request was not seen before; from now on it was.

        On disk before the kernel gets it: a crash in between loses the request, which shows, and never repeats it.
        """
        slot = self._seen.accept(client_id, number)
        if slot is None:
            return False
        position, data = slot
        try:
            os.pwrite(self._requests, data, position)
        except OSError as error:
            log.error("%s: a request cannot be noted, this agent alone remembers it: %s", self._path, error)
        return True

    def prepare_launch(self, launch: Launch) -> Path:
        """Clear the sockets of an earlier process and write the connection file; its path."""
        self.clear_sockets()
        write_connection_file(self.connection_file, self.socket_prefix, launch.key, launch.signature_scheme)
        self._connection = _text_of(self.connection_file)
        return self.connection_file

    def check_room(self) -> None:
        """Make sure that a launch can be written down: what is not would not be found again by a later agent.

        Raises:
            EnvironmentFailed: it cannot.
        """
        draft = self._path / "room"
        try:
            draft.write_bytes(bytes(_LAUNCH_BYTES))
        except OSError as error:
            raise EnvironmentFailed(
                f"The disk of the worker takes no files: {error.strerror or error} ({self._path}).",
                hint="Remove files there by `jupyter tpu ssh`, or repair the disk, and try again.",
                raw=f"{type(error).__name__}: {error}",
            ) from error
        finally:
            with suppress(OSError):
                draft.unlink(missing_ok=True)

    @property
    def is_whole(self) -> bool:
        """Whether nobody has removed it."""
        return self._path.is_dir() and self._sockets.is_dir()

    def restore(self) -> None:
        """Restore what somebody has removed.

        The sockets of the kernel's process cannot be: who is connected stays so, and a later agent finds none.

        Raises:
            OSError: that is not possible.
        """
        private_folder(self._path)
        is_cut_off = not self._sockets.is_dir()
        private_folder(self._sockets)
        if not (self._path / "requests").exists():
            self._requests = rewritten(self._path / "requests", self._requests)
        if self._connection and not self.connection_file.exists():
            _write_private(self.connection_file, self._connection)
        if is_cut_off:
            self.save(is_cut_off=True)
        elif self.state and not (self._path / "kernel.json").exists():
            self.save()

    def clear_sockets(self) -> None:
        """Remove the sockets of an earlier process."""
        for path in self._sockets.iterdir():
            path.unlink()

    def tell_hook(self, words: bytes) -> bool:
        """Send words to the checkpoint hook of the process; whether there is one that takes them."""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.setblocking(False)
                sender.sendto(words, str(self.hook_socket))
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except OSError as error:
            log.warning("%s: the checkpoint hook takes no notice: %s", self._path, error)
            return False
        return True

    def take_over(self, sockets: Path, output: Path) -> None:
        """Make the sockets and the output of a process that is to be this kernel's those of the kernel.

        A socket's file may be moved while it is listened on.
        """
        for path in sockets.glob(f"{self.socket_prefix.name}-*"):
            path.replace(self._sockets / path.name)
        shutil.rmtree(sockets)
        output.replace(self.output)

    def signer(self) -> Signer:
        """Signs with the key of the last launch."""
        try:
            content = json.loads(self.connection_file.read_text())
            return Signer(content["key"], content["signature_scheme"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            log.warning("%s: the kernel's key cannot be read: %s", self._path, error)
            return Signer("", "hmac-sha256")

    def last_words(self) -> str:
        """The end of what the process wrote."""
        try:
            with self.output.open("rb") as file:
                file.seek(max(0, self.output.stat().st_size - _LAST_WORDS_BYTES))
                lines = file.read().decode(errors="replace").splitlines()
        except FileNotFoundError:
            return ""
        return "\n".join(lines[-_LAST_WORDS_LINES:])

    def trim_output(self) -> None:
        """Keep only the end of what the process wrote, once it is much: the record does not count it."""
        try:
            if self.output.stat().st_size > _MOST_OUTPUT_BYTES:
                with self.output.open("r+b") as file:
                    file.seek(-_LAST_WORDS_BYTES, os.SEEK_END)
                    last = file.read()
                    file.truncate(0)
                with self.output.open("ab") as file:
                    file.write(last)
        except OSError as error:
            log.warning("%s: cannot be shortened: %s", self.output, error)

    @property
    def is_stale(self) -> bool:
        """Whether the kernel ended so long ago that nobody will ask for its output."""
        return not self.state.get("pid") and time.time() - self._path.stat().st_mtime > _KEPT_S

    def close(self) -> None:
        os.close(self._requests)

    def remove(self) -> None:
        """Delete everything."""
        shutil.rmtree(self._path, ignore_errors=True)
        shutil.rmtree(self._sockets, ignore_errors=True)


def write_connection_file(path: Path, socket_prefix: Path, key: str, signature_scheme: str = "hmac-sha256") -> None:
    """Tell a kernel where to listen, and what to sign with; for nobody else's eyes."""
    content = {
        **PORTS,
        "transport": "ipc",
        "ip": str(socket_prefix),
        "key": key,
        "signature_scheme": signature_scheme,
        "kernel_name": "python3",
    }
    _write_private(path, json.dumps(content))


def _write_private(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_text(text)


def _text_of(path: Path) -> str:
    """What is in a file; nothing where there is none."""
    try:
        return path.read_text()
    except (OSError, ValueError):
        return ""
