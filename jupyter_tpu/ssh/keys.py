"""The user's SSH key for TPU nodes: ed25519, created once, readable only by the user.

The key is used for nothing else, so that revoking it breaks no other login.
"""

from __future__ import annotations

import getpass
import os
import re
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from jupyter_tpu.errors import BadInput, Text, TpuError
from jupyter_tpu.ssh.address import require_login_name

_COMMENT = "jupyter-tpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class UserKey:
    """An SSH key pair on disk.

    Attributes:
        private_path: the private key's file, mode 0600; the public key is next to it.
        public_line: the public key as one line of ``authorized_keys``.
    """

    private_path: Path
    public_line: str

    @classmethod
    def load_or_create(cls, directory: Path) -> UserKey:
        """Return the key in `directory`, creating it if there is none; safe in several processes at once.

        Raises:
            BadInput: the key's file exists but is not a usable key.
            TpuError: the key can't be written.
        """
        try:
            return cls._loaded_or_created(directory)
        except OSError as error:
            raise TpuError(
                Text(
                    "The SSH key for TPU nodes cannot be written in {directory} ({error}).",
                    directory=directory,
                    error=error.strerror,
                ),
                hint="Free disk space or fix the permissions of that folder, then try again.",
                raw=str(error),
            ) from error

    @classmethod
    def _loaded_or_created(cls, directory: Path) -> UserKey:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = directory / "id_ed25519"
        if not path.exists():
            _create(path)
        public_line = _public_line(path)
        _write_public(path.with_suffix(".pub"), public_line)
        return cls(private_path=path, public_line=public_line)


def login_name(wanted: str = "") -> str:
    """Return the login name for nodes: `wanted`, or the local user's name with only characters that Linux allows.

    Raises:
        BadInput: `wanted` is not a valid login name.
    """
    if wanted:
        require_login_name(wanted)
        return wanted
    # Linux user names have at most 32 characters and no leading digit or hyphen.
    name = re.sub(r"[^a-z0-9_-]", "-", getpass.getuser().lower()).lstrip("-")[:31]
    return name if re.match(r"[a-z_]", name) else f"user-{name}".rstrip("-")


def _create(path: Path) -> None:
    """Write a new key, then link it to its name atomically: if two processes race, both use the first key."""
    import asyncssh

    key = asyncssh.generate_private_key("ssh-ed25519", comment=_COMMENT)
    descriptor, scratch = tempfile.mkstemp(prefix=".key-", dir=path.parent)  # mkstemp creates the file with mode 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(key.export_private_key())
        path.hardlink_to(scratch)  # unlike a rename, this fails if the name exists
    except FileExistsError:
        pass
    finally:
        Path(scratch).unlink()


def _public_line(path: Path) -> str:
    import asyncssh

    try:
        # A backup or a copy may have made the key readable for others; ssh rejects such keys.
        if stat.S_IMODE(path.stat().st_mode) != 0o600:
            path.chmod(0o600)
        return asyncssh.read_private_key(str(path)).export_public_key().decode().strip()
    except (OSError, asyncssh.KeyImportError) as error:
        raise BadInput(
            Text("The SSH key {path} cannot be used.", path=path),
            hint="Move the key to another folder and try again. A new key is created, which your existing"
            " nodes do not accept yet.",
            raw=str(error),
        ) from error


def _write_public(path: Path, line: str) -> None:
    if not path.exists() or not path.stat().st_size:  # a full disk leaves an empty file
        path.write_text(line + "\n")
