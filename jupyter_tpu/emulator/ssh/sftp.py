"""SFTP on a worker, which OpenSSH's scp uses too: asyncssh's server, in the worker's home.

It runs in the emulator, as the same user as a login's shell: both see the same files with the same rights.
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
"""The version that OpenSSH has."""


@documented(
    "file-transfer",
    "A worker's SSH server has the subsystem sftp, which scp and gcloud compute tpus tpu-vm scp use. A relative path "
    "starts in the home directory.",
    source="cloud.google.com/sdk/gcloud/reference/compute/tpus/tpu-vm/scp; openssh.com/txt/release-9.0",
)
class WorkerFiles(asyncssh.SFTPServer):
    """The files of a machine; a relative path begins in the home, as in a shell."""

    def __init__(self, channel: asyncssh.SSHServerChannel[bytes], home: Path) -> None:
        super().__init__(channel)
        self._home = os.fsencode(home)

    def map_path(self, path: bytes) -> bytes:
        """Return the path on this computer.

        Raises SFTPPermissionDenied below /proc, where the emulator would open files of its own process.
        """
        place = path if path.startswith(b"/") else self._home + b"/" + path
        if os.path.realpath(place).startswith(b"/proc/"):
            raise asyncssh.SFTPPermissionDenied("Files below /proc are not transferred.")
        return place

    def exit(self) -> None:
        """End the transfer; without an exit status OpenSSH's scp reports a failure."""
        self.channel.exit(0)


class FileTransfer:
    """Serve SFTP on a channel, with the methods that `worker_session.SessionProcess` has for a process."""

    def __init__(self, channel: asyncssh.SSHServerChannel[bytes], home: Path) -> None:
        self._channel = channel
        self._session: SSHServerStreamSession[Any] = SSHServerStreamSession(
            None, lambda _: WorkerFiles(channel, home), VERSION
        )

    def start(self) -> None:
        """Begin to serve."""
        self._session.connection_made(self._channel)
        self._session.session_started()

    def write(self, data: bytes) -> None:
        """Take bytes of the client."""
        self._session.data_received(data, None)

    def write_eof(self) -> None:
        """Take the end of the client's input."""
        self._session.eof_received()

    def pause_output(self) -> None:
        """Stop sending."""
        self._session.pause_writing()

    def resume_output(self) -> None:
        """Send again."""
        self._session.resume_writing()

    def resize(self, width: int, height: int) -> None:
        """Do nothing: there is no terminal."""

    def send_signal(self, name: str) -> None:
        """Do nothing: there is no process."""

    def hang_up(self) -> None:
        """End; the connection is gone."""
        self._session.connection_lost(None)
