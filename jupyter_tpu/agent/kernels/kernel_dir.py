"""A kernel's folder on disk, from which a later agent finds the kernel and the requests that it must not repeat."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from jupyter_tpu.agent.clock import this_moment
from jupyter_tpu.agent.kernels.launch_request import Launch
from jupyter_tpu.agent.kernels.sockets import PORTS
from jupyter_tpu.agent.paths import Home, disk_full, private_folder, recreate_file
from jupyter_tpu.agent.recording.jupyter_messages import Signer
from jupyter_tpu.autostop import Moment, moment_from_json
from jupyter_tpu.errors import EnvironmentFailed
from jupyter_tpu.wire.requests import SeenRequests

log = logging.getLogger(__name__)

# Bytes at the end of the process's own output that may explain why it died. Long enough for a traceback.
_LAST_WORDS_BYTES = 8 * 1024
_LAST_WORDS_LINES = 30
# Lines that ipykernel and ipyparallel always write, which do not tell why a process ended.
_NOISE = ("[KernelNanny.", "Message signing is disabled.", "debugpy_stream undefined")
# If the process's own output is larger than this, keep only its end. The record's size limit doesn't include this
# output.
_MOST_OUTPUT_BYTES = 8 * 1024 * 1024
# How long to keep the record of a stopped kernel, for users who return after a few days.
_KEPT_S = 7 * 24 * 3600
# A reboot counts as at most this much time, because only the wall clock, which may be wrong, shows how long the machine
# was off. So one wrong reading can't delete a record.
_MOST_PER_BOOT_S = 24 * 3600
# Disk space to reserve for a launch. All files that a launch writes are smaller in total.
_LAUNCH_BYTES = 64 * 1024
CONTROLLER = "controller"
"""Name of the folder of a slice's controller, inside the kernel's folder."""
CLIENT_FILE = "profile/security/ipcontroller-client.json"
"""Path of the connection file that ipyparallel's controller writes for clients, relative to the controller's folder."""
STATE_FILE = "process.json"
"""Name of the file with the state of a slice's process, inside the process's folder."""
# Bytes to read of the file of requests. Each client uses only one small slot in it (`wire.requests`).
_REQUESTS_BYTES = 16 * 1024 * 1024


class KernelDirectory:
    """The folder of one kernel, and a second folder with a short path for its sockets.

    Attributes:
        state: the content of `kernel.json`; change it with `save`.
    """

    def __init__(self, home: Home, kernel_id: str) -> None:
        self._path = private_folder(home.kernels / kernel_id)
        self._sockets = private_folder(home.run / hashlib.sha256(kernel_id.encode()).hexdigest()[:16])
        self._requests = os.open(self._path / "requests", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._seen = SeenRequests(os.pread(self._requests, _REQUESTS_BYTES, 0))
        self.state = self._load()
        self._is_saved = bool(self.state)
        self._connection = _text_of(self.connection_file)

    @property
    def record(self) -> Path:
        """The folder of the record; see `recording.record`."""
        return self._path / "record"

    @property
    def watermark(self) -> Path:
        """The file of the watermark; see `recording.watermark`."""
        return self._path / "heard"

    @property
    def checkpoint(self) -> Path:
        """The stored request index; see `recording.checkpoint`."""
        return self._path / "requests.json"

    @property
    def output(self) -> Path:
        """The file of the process's own standard output and error, which bypass ipykernel."""
        return self._path / "output.log"

    @property
    def connection_file(self) -> Path:
        """Jupyter's connection file of the last launch."""
        return self._path / "connection.json"

    @property
    def slice_file(self) -> Path:
        """The file with the addresses of a slice's other workers, read by `jupyter_tpu.notebook.slices`."""
        return self._path / "slice.json"

    @property
    def controller(self) -> Path:
        """The folder of the process that connects a slice's kernel to the other workers."""
        return self._path / CONTROLLER

    @property
    def socket_prefix(self) -> Path:
        """Path of the sockets without the port, in the format of ZMQ's ipc transport."""
        return self._sockets / "k"

    @property
    def hook_socket(self) -> Path:
        """The socket of the process's checkpoint hook, if it has one."""
        return self._sockets / "hook"

    def save(self, **changes: Any) -> None:
        """Update the state in memory and, atomically, on disk.

        If the disk is full, the kernel keeps running, but a later agent won't find it.
        """
        self.state.update(changes)
        # Write to a draft file and rename it, so that a crash leaves the old state readable.
        draft = self._path / "kernel.json.new"
        try:
            draft.write_text(json.dumps(self.state))
            draft.replace(self._path / "kernel.json")
            self._is_saved = True
        except OSError as error:
            # If the disk is full, don't retry every second. If `rm` is removing the folder, do retry.
            self._is_saved = self._is_saved and isinstance(error, FileNotFoundError)
            log.error("%s: the kernel's state cannot be saved: %s", self._path, error)

    def _load(self) -> dict[str, Any]:
        try:
            state = json.loads((self._path / "kernel.json").read_text())
        except FileNotFoundError:
            return {}
        except (ValueError, RecursionError):
            log.warning("%s: the kernel's state cannot be read; it counts as ended", self._path)
            return {}
        return state if isinstance(state, dict) else {}

    def is_new_request(self, client_id: str, number: int) -> bool:
        """Record on disk that a request was seen, and return whether it is new.

        The request is recorded before the kernel receives it. If the agent crashes in between, the request is visibly
        lost, but never run twice.
        """
        slot = self._seen.accept(client_id, number)
        if slot is None:
            return False
        position, data = slot
        try:
            os.pwrite(self._requests, data, position)
        except OSError as error:
            log.error("%s: a request cannot be stored, only this agent remembers it: %s", self._path, error)
        return True

    def prepare_launch(self, launch: Launch) -> Path:
        """Remove the sockets of an earlier process, write the connection file and return its path."""
        self.clear_sockets()
        write_connection_file(self.connection_file, self.socket_prefix, launch.key, launch.signature_scheme)
        self._connection = _text_of(self.connection_file)
        self._write_slice_file(launch.workers)
        return self.connection_file

    def _write_slice_file(self, workers: int) -> None:
        content = {
            "version": 1,
            "workers": workers,
            "client_file": str(self.controller / CLIENT_FILE),
            "state_file": str(self.controller / STATE_FILE),
            "kernel_id": self._path.name,
        }
        if workers > 1:
            write_private(self.slice_file, json.dumps(content))
        else:
            self.slice_file.unlink(missing_ok=True)

    def check_room(self) -> None:
        """Check that the disk has space for the launch's data. Without that data, a later agent can't find the kernel.

        Raises:
            WorkerDiskFull: the disk is full or read-only.
            EnvironmentFailed: the folder can't be written for another reason.
        """
        check_room(self._path)

    @property
    def is_whole(self) -> bool:
        """Whether all files that `restore` can write exist.

        Check the files too, because `rm -rf` leaves an almost empty folder if a file was written there meanwhile.
        """
        parts = [self._path / "requests"]
        if self._connection:
            parts.append(self.connection_file)
        if self._is_saved:
            parts.append(self._path / "kernel.json")
        return self._sockets.is_dir() and all(part.exists() for part in parts)

    def restore(self) -> None:
        """Restore removed folders and files.

        The process's sockets can't be restored, so this agent stays connected, but a later agent can't connect.

        Raises:
            OSError: a folder or file couldn't be restored.
        """
        private_folder(self._path)
        is_cut_off = not self._sockets.is_dir()
        private_folder(self._sockets)
        if not (self._path / "requests").exists():
            self._requests = recreate_file(self._path / "requests", self._requests)
        if self._connection and not self.connection_file.exists():
            write_private(self.connection_file, self._connection)
        if is_cut_off:
            self.save(is_cut_off=True)
        elif self.state and not (self._path / "kernel.json").exists():
            self.save()

    def kill_listener(self) -> int:
        """Kill the process that listens on the kernel's sockets, with its children; return its pid, or 0 if none."""
        with socket.socket(socket.AF_UNIX) as probe, suppress(OSError):
            probe.settimeout(1)
            probe.connect(f"{self.socket_prefix}-{PORTS['shell_port']}")
            # unix(7): PID, user and group of the process that called listen()
            pid = int.from_bytes(probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[:4], sys.byteorder)
            os.killpg(pid, signal.SIGKILL)
            return pid
        return 0

    def clear_sockets(self) -> None:
        """Remove the sockets of an earlier process."""
        for path in self._sockets.iterdir():
            path.unlink()

    def notify_hook(self, data: bytes) -> bool:
        """Send a datagram to the process's checkpoint hook; return whether a hook received it."""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.setblocking(False)
                sender.sendto(data, str(self.hook_socket))
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except OSError as error:
            log.warning("%s: the checkpoint hook can't be notified: %s", self._path, error)
            return False
        return True

    def adopt_files(self, sockets: Path, output: Path) -> None:
        """Move the sockets and the output file of a pre-warmed process to this kernel's paths.

        A Unix socket's file can be moved while a process listens on it.
        """
        for path in sockets.glob(f"{self.socket_prefix.name}-*"):
            path.replace(self._sockets / path.name)
        shutil.rmtree(sockets)
        output.replace(self.output)

    def signer(self) -> Signer:
        """Return a signer with the key of the last launch; if the key can't be read, messages are not signed."""
        try:
            content = json.loads(self.connection_file.read_text())
            return Signer(content["key"], content["signature_scheme"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            log.warning("%s: the kernel's key cannot be read: %s", self._path, error)
            return Signer("", "hmac-sha256")

    def output_tail(self) -> str:
        """Return the last lines of the process's own output, or an empty string if there are none."""
        return tail_of(self.output)

    def trim_output(self) -> None:
        """If the file with the process's own output is large, keep only its last part."""
        trim(self.output)

    @property
    def is_stale(self) -> bool:
        """Whether the kernel exited so long ago that its output is no longer needed."""
        return not self.state.get("pid") and self._ended_s(this_moment()) > _KEPT_S

    def count_age(self) -> None:
        """Store how long ago the kernel exited; call this when it exits and when a later agent finds it."""
        now = this_moment()
        self.save(ended={"age_s": self._ended_s(now), "counted_at": now.to_json()})

    def _ended_s(self, now: Moment) -> float:
        """Return the seconds since the kernel exited, as far as agents have counted them."""
        try:
            age_s, counted_at = float(self.state["ended"]["age_s"]), moment_from_json(self.state["ended"]["counted_at"])
        except (KeyError, TypeError, ValueError):  # it has not exited, or an older agent recorded its exit
            return 0.0
        since_s = counted_at.age_s(now)
        return age_s + (since_s if counted_at.boot == now.boot else min(since_s, _MOST_PER_BOOT_S))

    def close(self) -> None:
        """Close the file of requests; the kernel keeps running."""
        os.close(self._requests)

    def remove(self) -> None:
        """Delete the kernel's folder and the folder of its sockets."""
        shutil.rmtree(self._path, ignore_errors=True)
        shutil.rmtree(self._sockets, ignore_errors=True)


def check_room(folder: Path) -> None:
    """Check that an existing folder's disk has space to store a launch.

    Raises:
        EnvironmentFailed: the disk is full or read-only.
    """
    draft = folder / "room"
    try:
        draft.write_bytes(bytes(_LAUNCH_BYTES))
    except OSError as error:
        raise disk_full(folder, error) or EnvironmentFailed(
            f"The folder {folder} on the worker can't be written: {error.strerror or error}.",
            hint="Repair that folder with `jupyter tpu ssh`, and try again.",
            raw=f"{type(error).__name__}: {error}",
        ) from error
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def tail_of(output: Path) -> str:
    """Return the last lines of a process's output file, or an empty string if there are none."""
    try:
        with output.open("rb") as file:
            file.seek(max(0, output.stat().st_size - _LAST_WORDS_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
    except FileNotFoundError:
        return ""
    return "\n".join([line for line in lines if not any(noise in line for noise in _NOISE)][-_LAST_WORDS_LINES:])


def trim(output: Path) -> None:
    """If the file with a process's output is large, delete all but its last part."""
    try:
        # Truncate in place, because the process has the file open in append mode.
        if output.stat().st_size > _MOST_OUTPUT_BYTES:
            with output.open("r+b") as file:
                file.seek(-_LAST_WORDS_BYTES, os.SEEK_END)
                last = file.read()
                file.truncate(0)
            with output.open("ab") as file:
                file.write(last)
    except OSError as error:
        log.warning("%s: cannot be shortened: %s", output, error)


def write_connection_file(path: Path, socket_prefix: Path, key: str, signature_scheme: str = "hmac-sha256") -> None:
    """Write Jupyter's connection file with a kernel's addresses and key, readable only by this user."""
    content = {
        **PORTS,
        "transport": "ipc",
        "ip": str(socket_prefix),
        "key": key,
        "signature_scheme": signature_scheme,
        "kernel_name": "python3",
    }
    write_private(path, json.dumps(content))


def write_private(path: Path, text: str) -> None:
    """Write a file that only this user can read; replace an existing file."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_text(text)


def _text_of(path: Path) -> str:
    """Read a file; return an empty string if it is missing or not text."""
    try:
        return path.read_text()
    except (OSError, ValueError):
        return ""
