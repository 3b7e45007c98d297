"""Files that let the OpenSSH client reach workers as safely as we do: with our key, and host keys pinned."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from jupyter_tpu.cloud.api import CloudApi
from jupyter_tpu.errors import LoginRefused
from jupyter_tpu.files import write_whole
from jupyter_tpu.journal.paths import data_dir
from jupyter_tpu.kernels.connections.worker import ensure_login, find_worker, host_key_store, login_of, worker_address
from jupyter_tpu.models import NodeName
from jupyter_tpu.ssh import UserKey, WorkerAddress, render_ssh_config

# ProxyJump and the like of the user's own file still count; what stands above it is not overruled by it
_USERS_OWN = "\nHost *\n    Include ~/.ssh/config\n"


@dataclass(frozen=True, slots=True)
class SshAccess:
    """Workers that our key opens."""

    addresses: tuple[WorkerAddress, ...] = ()

    def hosts(self) -> list[dict[str, object]]:
        return [
            {"alias": each.alias, "host": each.host, "port": each.port, "user": each.user} for each in self.addresses
        ]


async def access_to(
    cloud: CloudApi, name: NodeName, *, worker_ids: tuple[int, ...] = (), may_add_key: bool = True
) -> SshAccess:
    """Find workers of a READY node (all unless `worker_ids` names some), and put our key on it if it may be.

    Raises:
        WrongState: the node is not READY.
        WorkerUnreachable: it has not published its host keys yet, or has no address.
        LoginRefused: our key is not on it and may not be added.
    """
    key = UserKey.load_or_create(data_dir() / "ssh")
    node = await cloud.get_node(name)
    if not (may_add_key or login_of(node, key)):
        raise LoginRefused(
            f"Your key is not on {name.node_id}, which was made elsewhere.",
            hint=f"`jupyter tpu ssh-config {name.node_id}` puts it there.",
        )
    wanted = worker_ids or tuple(worker.worker_id for worker in node.workers) or (0,)
    found = [await find_worker(cloud, name, worker_id) for worker_id in wanted]
    user, _ = await ensure_login(cloud, node, key)
    return SshAccess(tuple(worker_address(node, identity, user) for node, identity in found))


def rendered(access: SshAccess) -> str:
    """The text of a configuration file with an entry per worker."""
    key = UserKey.load_or_create(data_dir() / "ssh")
    return render_ssh_config(access.addresses, identity_file=key.private_path, known_hosts_file=host_key_store().path)


def write_login_config(access: SshAccess) -> Path:
    """Write the file for ``ssh -F`` to the one worker of `access`; the user's own file is taken in below."""
    path = data_dir() / "ssh" / f"{access.addresses[0].alias}.conf"
    write_whole(path, (rendered(access) + _USERS_OWN).encode())
    return path


def write_shared_config(access: SshAccess) -> Path:
    """Write the file that ``~/.ssh/config`` includes, and make it do so."""
    path = data_dir() / "ssh" / "config"
    write_whole(path, rendered(access).encode())
    _include_in_user_config(path)
    return path


def _include_in_user_config(file: Path) -> None:
    """Make ``~/.ssh/config`` include `file`, first because ssh takes the first value it finds; once."""
    target = Path.home() / ".ssh" / "config"
    line = f'Include "{file}"'
    present = target.read_text() if target.exists() else ""
    if line in present.splitlines():
        return
    target.parent.mkdir(mode=0o700, exist_ok=True)
    write_whole(target.resolve(), f"{line}\n\n{present}".encode())
