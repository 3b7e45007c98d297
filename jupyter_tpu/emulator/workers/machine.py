"""One emulated TPU VM: a home folder, a host key, a token that marks its processes, and the authorised keys."""

from __future__ import annotations

import getpass
import os
import secrets
import shlex
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import asyncssh

from jupyter_tpu.emulator.store.state_dir import read_or_create
from jupyter_tpu.emulator.workers.image import Image, passed_on_settings
from jupyter_tpu.emulator.workers.process_tree import TOKEN_VARIABLE
from jupyter_tpu.worker_clock import VARIABLE, set_error

SHELL = shutil.which("bash", path="/bin:/usr/bin") or "/bin/sh"


@dataclass(slots=True, kw_only=True)
class Machine:
    """The part of a worker that its SSH server uses.

    Attributes:
        folder: the worker's folder in the state folder; contains `home` and files that the worker must not see.
        token: a random text in the environment of the worker's processes. It is stored, so that processes that survive
            a crash can be found.
        authorized: (user, public key) pairs from the metadata item ``ssh-keys`` of the node.
        variables: environment variables with which its processes find the worker's services.
    """

    folder: Path
    worker_id: int
    hostname: str
    accelerator_type: str
    image: Image
    token: str
    authorized: tuple[tuple[str, str], ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    host_key: asyncssh.SSHKey = field(repr=False)

    @property
    def home(self) -> Path:
        """The home folder of all users of the worker."""
        return self.folder / "home"

    @property
    def clock_error(self) -> Path:
        """The file with the error of the worker's wall clock; see `jupyter_tpu.worker_clock`."""
        return self.folder / "clock"

    @property
    def host_key_path(self) -> Path:
        """The file of the private host key."""
        return self.folder / "host_key"

    def environment(self, user: str = "") -> dict[str, str]:
        """Return the environment of a clean login."""
        user = user or getpass.getuser()
        return {
            # these come first, so that the emulator's own environment doesn't override the worker's environment
            **passed_on_settings(),
            "HOME": str(self.home),
            "USER": user,
            "LOGNAME": user,
            "SHELL": SHELL,
            "LANG": "C.UTF-8",
            "PATH": self.image.path,
            "HOSTNAME": self.hostname,
            "TPU_ACCELERATOR_TYPE": self.accelerator_type,
            "TPU_WORKER_ID": str(self.worker_id),
            "JUPYTER_TPU_EMULATED": "1",
            VARIABLE: str(self.clock_error),
            **self.variables,
            # this comes last, because no setting may override the token that identifies processes
            TOKEN_VARIABLE: self.token,
        }

    def renew_host_key(self) -> None:
        """Replace the host key, as if another machine had the same address."""
        self.host_key = asyncssh.generate_private_key("ssh-ed25519")
        self.host_key.write_private_key(self.host_key_path)
        self.host_key_path.chmod(0o600)


class SshServer(Protocol):
    """A running SSH server of one machine."""

    @property
    def port(self) -> int:
        """The loopback port on which the server listens."""

    def keys_changed(self) -> None:
        """Read the authorized keys (`Machine.authorized`) again, because they have changed."""

    async def close(self) -> None:
        """Stop listening and break all connections. Processes that were started over SSH keep running."""


def open_machine(folder: Path, *, worker_id: int, hostname: str, accelerator_type: str, image: Image) -> Machine:
    """Return the machine in this folder; create it if it does not exist."""
    (folder / "home").mkdir(parents=True, exist_ok=True)
    # set the mode even if the folder existed, because other users must not read what notebooks write
    (folder / "home").chmod(0o700)
    machine = Machine(
        folder=folder,
        worker_id=worker_id,
        hostname=hostname,
        accelerator_type=accelerator_type,
        image=image,
        token=read_or_create(folder / "token", lambda: secrets.token_hex(12).encode()).decode(),
        host_key=_host_key(folder / "host_key"),
    )
    set_error(machine.clock_error, 0.0)
    return machine


def machine_folders(folder: Path) -> Iterator[Path]:
    """Yield the folders of all machines below a folder.

    Does not search the machines' home folders, because running programs change them.
    """
    for place, folders, files in os.walk(folder):
        if "token" in files:
            # clear the list, so that os.walk doesn't enter the home folder
            folders.clear()
            yield Path(place)


def tokens_below(folder: Path) -> list[str]:
    """Return the tokens of all machines below a folder, including machines that are not running."""
    return [(place / "token").read_text(encoding="ascii") for place in machine_folders(folder)]


def key_lines(metadata_item: str) -> tuple[tuple[str, str], ...]:
    """Parse lines ``user:ssh-ed25519 AAAA… comment`` into pairs (user, ``ssh-ed25519 AAAA…``)."""
    return tuple(_pairs(metadata_item.splitlines()))


def _pairs(lines: Iterable[str]) -> Iterable[tuple[str, str]]:
    for line in lines:
        user, colon, key = line.strip().partition(":")
        words = key.split()
        # drop the comment, because keys are compared by type and content
        if colon and len(words) >= 2:
            yield user, f"{words[0]} {words[1]}"


def _host_key(path: Path) -> asyncssh.SSHKey:
    return asyncssh.import_private_key(
        read_or_create(path, lambda: asyncssh.generate_private_key("ssh-ed25519").export_private_key())
    )


def as_env_command(environment: dict[str, str]) -> str:
    """Return ``env -i`` with this environment, quoted for sh."""
    return shlex.join(["env", "-i", *(f"{name}={value}" for name, value in environment.items())])
