"""OpenSSH configuration files for safe access to workers, with the user's key and pinned host keys."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from jupyter_tpu.cloud.api import CloudApi
from jupyter_tpu.errors import LoginRefused, Text
from jupyter_tpu.files import write_whole
from jupyter_tpu.journal.paths import data_dir
from jupyter_tpu.kernels.connections.worker import ensure_login, find_worker, host_key_store, login_of, worker_address
from jupyter_tpu.models import NodeName
from jupyter_tpu.ssh import UserKey, WorkerAddress, render_ssh_config

# the user's own options such as ProxyJump still apply; ssh uses the first value that it finds, so our options, which
# come first, take precedence
_INCLUDE_USER_CONFIG = "\nHost *\n    Include ~/.ssh/config\n"


@dataclass(frozen=True, slots=True)
class SshAccess:
    """The workers that accept the user's SSH key."""

    addresses: tuple[WorkerAddress, ...] = ()

    def hosts(self) -> list[dict[str, object]]:
        """Return each worker's alias, host, port and user, for JSON."""
        return [
            {"alias": each.alias, "host": each.host, "port": each.port, "user": each.user} for each in self.addresses
        ]


async def access_to(
    cloud: CloudApi, name: NodeName, *, worker_ids: tuple[int, ...] = (), may_add_key: bool = True
) -> SshAccess:
    """Find workers of a READY node, and add the user's key to the node if allowed.

    Args:
        cloud: the node's cloud.
        name: the node's name.
        worker_ids: the numbers of the workers; empty for all workers.
        may_add_key: whether the user's key may be added to the node's metadata.

    Raises:
        WrongState: the node is not READY.
        WorkerUnreachable: the node has not published its host keys yet, or has no address.
        LoginRefused: the user's key is not on the node and may not be added.
    """
    key = UserKey.load_or_create(data_dir() / "ssh")
    node = await cloud.get_node(name)
    if not (may_add_key or login_of(node, key)):
        raise LoginRefused(
            Text("Your SSH key is not on {node}, which was created elsewhere.", node=name.node_id),
            hint=Text("`jupyter tpu ssh-config {node}` adds your key.", node=name.node_id),
        )
    wanted = worker_ids or tuple(worker.worker_id for worker in node.workers) or (0,)
    found = [await find_worker(cloud, name, worker_id) for worker_id in wanted]
    user, _ = await ensure_login(cloud, node, key)
    return SshAccess(tuple(worker_address(node, identity, user) for node, identity in found))


def render_config(access: SshAccess) -> str:
    """Return the text of a configuration file with an entry per worker."""
    key = UserKey.load_or_create(data_dir() / "ssh")
    return render_ssh_config(access.addresses, identity_file=key.private_path, known_hosts_file=host_key_store().path)


def write_login_config(access: SshAccess) -> Path:
    """Write a file for ``ssh -F`` that configures the only worker in `access` and includes the user's configuration."""
    path = data_dir() / "ssh" / f"{access.addresses[0].alias}.conf"
    write_whole(path, (render_config(access) + _INCLUDE_USER_CONFIG).encode())
    return path


def write_shared_config(access: SshAccess) -> Path:
    """Write the ssh configuration of all hosts to a file, and make ``~/.ssh/config`` include it."""
    path = data_dir() / "ssh" / "config"
    write_whole(path, render_config(access).encode())
    _include_in_user_config(path)
    return path


def _include_in_user_config(file: Path) -> None:
    """Include `file` at the top of ``~/.ssh/config`` if not yet included: the first value that ssh finds applies."""
    target = Path.home() / ".ssh" / "config"
    line = f'Include "{file}"'
    present = target.read_text() if target.exists() else ""
    if line in present.splitlines():
        return
    target.parent.mkdir(mode=0o700, exist_ok=True)
    # keep a symbolic link, for example into a dotfiles folder: replace the file that it points to
    write_whole(target.resolve(), f"{line}\n\n{present}".encode())
