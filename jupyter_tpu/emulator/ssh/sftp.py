"""SFTP on a worker, also used by OpenSSH's scp: asyncssh's SFTP server, starting in the worker's home folder.

The server runs in the emulator, as the same user as a login shell, so SFTP and shells access the same files with the
same permissions.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import asyncssh
from asyncssh.stream import SSHServerStreamSession

from jupyter_tpu.emulator.resources.behaviours import documented

SUBSYSTEM = "sftp"
VERSION = 3
"""The SFTP version that OpenSSH supports."""


@documented(
    "file-transfer",
    "A worker's SSH server has the sftp subsystem, which scp and gcloud compute tpus tpu-vm scp use. Relative "
    "paths start in the home directory.",
    source="cloud.google.com/sdk/gcloud/reference/compute/tpus/tpu-vm/scp; openssh.com/txt/release-9.0",
)
class WorkerFiles(asyncssh.SFTPServer):
    """The files of a machine; a relative path starts in the home folder, as in a shell."""

    def __init__(self, channel: asyncssh.SSHServerChannel[bytes], home: Path) -> None:
        super().__init__(channel)
        self._home = os.fsencode(home)

    def map_path(self, path: bytes) -> bytes:
        """Return the path on this computer.

        Raises SFTPPermissionDenied below /proc, because the emulator would open files of its own process there.
        """
        place = path if path.startswith(b"/") else self._home + b"/" + path
        if os.path.realpath(place).startswith(b"/proc/"):
            raise asyncssh.SFTPPermissionDenied("Files below /proc are not transferred.")
        return place

    def write(self, file_obj: object, offset: int, data: bytes) -> int:
        """Write all of `data`; asyncssh's own method reports success even if the disk was full after a part of it."""
        written = 0
        while written < len(data):
            count = super().write(file_obj, offset + written, data[written:])
            assert isinstance(count, int)
            written += count
        return written

    def exit(self) -> None:
        """End the transfer with an exit status; OpenSSH's scp would otherwise report a failure."""
        self.channel.exit(0)


class FileTransfer:
    """An SFTP server on a channel, with the same methods as `worker_session.SessionProcess`."""

    def __init__(self, channel: asyncssh.SSHServerChannel[bytes], home: Path) -> None:
        self._channel = channel
        self._session: SSHServerStreamSession[Any] = SSHServerStreamSession(
            None, lambda _: WorkerFiles(channel, home), VERSION
        )

    def start(self) -> None:
        """Start serving."""
        self._session.connection_made(self._channel)
        self._session.session_started()

    def write(self, data: bytes) -> None:
        """Receive bytes from the client."""
        self._session.data_received(data, None)

    def write_eof(self) -> None:
        """Receive the end of the client's input."""
        self._session.eof_received()

    def pause_output(self) -> None:
        """Stop sending."""
        self._session.pause_writing()

    def resume_output(self) -> None:
        """Resume sending."""
        self._session.resume_writing()

    def resize(self, width: int, height: int) -> None:
        """Do nothing: there is no terminal."""

    def send_signal(self, name: str) -> None:
        """Do nothing: there is no process."""

    def hang_up(self) -> None:
        """End the transfer, because the connection is lost."""
        self._session.connection_lost(None)
