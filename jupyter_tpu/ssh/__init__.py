"""The only package for SSH: the user's key, pinned host keys, connections, and the configuration for plain `ssh`.

Nothing else imports asyncssh; its exceptions are translated to those of `jupyter_tpu.errors` here. The package must not
depend on the cloud or kernels: callers pass the address and host keys of a worker. Start with `connection`.

Importing asyncssh takes almost a second (0.7 s of CPU, measured), so asyncssh is imported only when it is used. If a
connection is likely, `import_ahead` imports it in the background.
"""

from __future__ import annotations

import sys
import threading
from importlib import import_module
from typing import TYPE_CHECKING, Any

from jupyter_tpu.ssh.address import WorkerAddress
from jupyter_tpu.ssh.attempts import first_success
from jupyter_tpu.ssh.hostkeys import HostKeyStore, fingerprint
from jupyter_tpu.ssh.keys import UserKey, login_name
from jupyter_tpu.ssh.ssh_config import host_entry, render_ssh_config

if TYPE_CHECKING:
    from jupyter_tpu.ssh.connection import SshConnection, connect
    from jupyter_tpu.ssh.file_access import FileAccess
    from jupyter_tpu.ssh.stream import ByteStream

__all__ = [
    "ByteStream",
    "FileAccess",
    "HostKeyStore",
    "SshConnection",
    "UserKey",
    "WorkerAddress",
    "connect",
    "fingerprint",
    "first_success",
    "host_entry",
    "import_ahead",
    "login_name",
    "render_ssh_config",
]

_CONNECTION = f"{__name__}.connection"
_HEAVY = {"ByteStream": "stream", "FileAccess": "file_access", "SshConnection": "connection", "connect": "connection"}


def __getattr__(name: str) -> Any:
    if name in _HEAVY:
        return getattr(import_module(f"{__name__}.{_HEAVY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def import_ahead() -> None:
    """Import asyncssh in a background thread, unless the import has already started."""
    if _CONNECTION not in sys.modules:
        threading.Thread(target=import_module, args=(_CONNECTION,), name="import asyncssh", daemon=True).start()
