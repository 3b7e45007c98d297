"""The one door to SSH: our key, pinned host keys, connections, and the text that plain `ssh` needs.

Nothing else imports asyncssh; its exceptions become those of `jupyter_tpu.errors` here. Knows neither the cloud nor
kernels: callers say where a worker is and which host keys it has.
"""

from jupyter_tpu.ssh.address import WorkerAddress
from jupyter_tpu.ssh.connection import SshConnection, connect
from jupyter_tpu.ssh.hostkeys import HostKeyStore, fingerprint
from jupyter_tpu.ssh.keys import UserKey, login_name
from jupyter_tpu.ssh.ssh_config import host_entry, render_ssh_config
from jupyter_tpu.ssh.stream import ByteStream

__all__ = [
    "ByteStream",
    "HostKeyStore",
    "SshConnection",
    "UserKey",
    "WorkerAddress",
    "connect",
    "fingerprint",
    "host_entry",
    "login_name",
    "render_ssh_config",
]
