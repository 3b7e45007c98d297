"""Open an SSH connection to one of a node's workers, given the node's name.

This module never causes costs: it doesn't create, start or resize nodes. Like `gcloud … ssh`, it only adds the user's
key to the node's metadata if the key is missing.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from jupyter_tpu.cloud.api import CloudApi
from jupyter_tpu.cloud.connect import connect_cloud
from jupyter_tpu.cloud.settings import CloudSettings
from jupyter_tpu.errors import (
    BadInput,
    CloudRefused,
    CloudUnavailable,
    CredentialsMissing,
    HostKeyChanged,
    LoginRefused,
    NodeNotFound,
    Text,
    TpuError,
    WorkerUnreachable,
    WrongState,
)
from jupyter_tpu.journal.paths import data_dir
from jupyter_tpu.kernels.connections.known_addresses import KnownAddresses, SavedWorker
from jupyter_tpu.kernels.connections.node_ends import RISING, end_of_node, suspended_with
from jupyter_tpu.kernels.connections.preemption import with_outlook
from jupyter_tpu.link import PreparationCache, Ready
from jupyter_tpu.models import Node, NodeName, WorkerIdentity
from jupyter_tpu.node_end import NOTICED_CAUSES, NodeEnd
from jupyter_tpu.ssh import HostKeyStore, UserKey, WorkerAddress, first_success, login_name

if TYPE_CHECKING:
    from jupyter_tpu.ssh import SshConnection

log = logging.getLogger(__name__)

# Delays between logins with a new key. A key in a node's metadata becomes valid within about a minute; the delays add
# up to one minute.
_KEY_ARRIVES_S = (1, 2, 4, 8, 15, 30)
# asyncssh needs seven round trips to connect: 3 s if each takes 0.4 s. Even a distant worker responds within this time,
# so the cloud isn't queried as well. An address that is out of date costs this much time.
_KNOWN_ANSWERS_S = 3.0
# After these errors, an attempt at the old address can't succeed either.
_NO_WAY = (BadInput, NodeNotFound, WrongState)
_RECLAIMED = "The cloud reclaimed the node. Delete it and create another one."
# Delays between two checks of a metadata update, which takes seconds. After half a minute, try the login anyway.
_OPERATION_DELAYS_S = (0.2, 0.5, 1, 2, 4, 8, 8, 8)

OnProgress = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerKey:
    """A worker and how to connect to it. Kernels with equal keys share a link.

    Attributes:
        endpoint: the cloud's endpoint; see `CloudSettings`.
        python: the Python interpreter for kernels; empty to let the worker choose.
        proxy_command: the command that connects to the worker, as in ssh's ProxyCommand; empty for a direct connection.
        ssh_user: login name; empty for the login name in the node's metadata.
    """

    node: NodeName
    endpoint: str = ""
    worker_id: int = 0
    python: str = ""
    proxy_command: str = ""
    ssh_user: str = ""

    @property
    def settings(self) -> CloudSettings:
        """The settings of the node's cloud."""
        return CloudSettings(project=self.node.project, endpoint=self.endpoint)


class Worker:
    """A worker of a node. A link calls `connect` for its first connection and after every disconnect.

    Args:
        on_progress: called with ``{"phase", "message", "fraction"}``.

    Attributes:
        preparation: the result of the last preparation by this process or an earlier process.
        last_host_key_alias: the host key alias of the last connection; empty if unknown. A different alias means a
            different node.
        node_end: how the node was stopped or deleted, if this is why `connect` last failed; otherwise None.
    """

    def __init__(self, key: WorkerKey, on_progress: OnProgress) -> None:
        self.key = key
        self.preparation = PreparationCache(self._save_ready)
        self.last_host_key_alias = ""
        self.node_end: NodeEnd | None = None
        self._on_progress = on_progress
        self._address: WorkerAddress | None = None
        self._closing: set[asyncio.Task[None]] = set()

    async def connect(self) -> SshConnection:
        """Connect over SSH. Try the last known address first, then query the cloud for the address.

        Raises:
            WrongState, NodeNotFound: the node is not READY, or gone.
            WorkerUnreachable, HostKeyChanged, LoginRefused: the SSH connection failed.
            CredentialsMissing, CloudRefused, CloudUnavailable: the node's address cannot be queried.
        """
        user_key = await asyncio.to_thread(UserKey.load_or_create, data_dir() / "ssh")
        # 1. After a disconnect: the address of the last connection.
        if self._address:
            try:
                return await self._connect_to(self._address, user_key)
            except HostKeyChanged:  # also a WorkerUnreachable, but a new address from the cloud must not hide it
                raise
            except WorkerUnreachable as error:
                return await self._connect_anew(user_key, unless_unknown=error)
        # 2. In a new process: the address that an earlier process has saved, otherwise the address from the cloud.
        known = await asyncio.to_thread(self._known_addresses.load, self._known_as)
        if known is None:
            return await self._connect_anew(user_key)
        return await self._connect_where_it_was(known, user_key)

    async def _connect_where_it_was(self, known: SavedWorker, user_key: UserKey) -> SshConnection:
        """Connect to the saved address. If this attempt fails or takes long, also query the cloud.

        The first attempt continues in parallel, because connecting to a distant worker can take longer than a user
        should wait for an outdated address.
        """
        self.last_host_key_alias, self.preparation.ready = known.address.host_key_alias, known.ready
        self._report("connecting", f"Connecting to {known.address.alias}")
        there = asyncio.create_task(self._connect_to(known.address, user_key))
        asking = asyncio.create_task(self._connect_by_lookup(there, known.address, user_key))
        connection = await first_success([there, asking], final=_NO_WAY, give_back=self._close_behind)
        self._address = self._address or known.address
        return connection

    async def _connect_by_lookup(
        self, there: asyncio.Task[SshConnection], known: WorkerAddress, user_key: UserKey
    ) -> SshConnection:
        """Query the cloud for the address and connect to it, unless the first attempt already uses the same address."""
        # This also returns when the first attempt fails, because then there is nothing to wait for.
        await asyncio.wait([there], timeout=_KNOWN_ANSWERS_S)
        if _has_succeeded(there):
            return there.result()
        log.info("%s does not respond promptly at its last address", known.alias)
        self._report("finding_node", f"Looking up {self.key.node.node_id}")
        address, key_is_new = await self._look_up(user_key)
        if address == known:
            await asyncio.wait([there])
        if _has_succeeded(there):
            return there.result()
        return await self._connect_found(address, user_key, key_is_new=key_is_new)

    def _close_behind(self, connection: SshConnection) -> None:
        """Close an unneeded connection in the background."""
        task = asyncio.create_task(connection.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _save_ready(self, ready: Ready | None) -> None:
        """Save the preparation's result for later processes, without waiting for the disk."""
        if self._address:
            known = SavedWorker(self._address, ready)
            asyncio.get_running_loop().run_in_executor(None, self._known_addresses.save, self._known_as, known)

    @property
    def _known_addresses(self) -> KnownAddresses:
        return KnownAddresses(data_dir() / "workers")

    @property
    def _known_as(self) -> str:
        return f"{self.key.endpoint} {self.key.node} {self.key.worker_id} {self.key.ssh_user}"

    async def _connect_anew(self, user_key: UserKey, unless_unknown: TpuError | None = None) -> SshConnection:
        """Get the worker's address from the cloud, and connect.

        If the cloud can't be queried, raise `unless_unknown` if it is given, otherwise the cloud's error.
        """
        self._report("finding_node", f"Looking up {self.key.node.node_id}")
        try:
            address, key_is_new = await self._look_up(user_key)
        except (NodeNotFound, WrongState):
            raise
        except (CloudUnavailable, CloudRefused, CredentialsMissing) as error:
            raise unless_unknown or error from error
        return await self._connect_found(address, user_key, key_is_new=key_is_new)

    async def _connect_found(self, address: WorkerAddress, user_key: UserKey, *, key_is_new: bool) -> SshConnection:
        if address.host_key_alias != self.last_host_key_alias:
            self.preparation.ready = None  # this preparation was for another node
        self._report("connecting", f"Connecting to {address.alias}")
        connection = await self._connect_when_key_is_there(address, user_key, _KEY_ARRIVES_S if key_is_new else ())
        self._address, self.last_host_key_alias = address, address.host_key_alias
        await asyncio.to_thread(
            self._known_addresses.save, self._known_as, SavedWorker(address, self.preparation.ready)
        )
        return connection

    async def _look_up(self, user_key: UserKey) -> tuple[WorkerAddress, bool]:
        # the import takes a second, which would block all kernels
        await asyncio.to_thread(import_module, "jupyter_tpu.cloud.google")
        cloud = await connect_cloud(self.key.settings)
        try:
            node, identity = await self._found(cloud)
            await self._refuse_another_node(node)
            user, key_is_new = await ensure_login(cloud, node, user_key, self.key.ssh_user)
        finally:
            await cloud.aclose()
        return await asyncio.to_thread(worker_address, node, identity, user), key_is_new

    async def _found(self, cloud: CloudApi) -> tuple[Node, WorkerIdentity]:
        key, self.node_end, node = self.key, None, None
        try:
            node = await cloud.get_node(key.node)
            return node, await _identity(cloud, node, key.worker_id)
        except (NodeNotFound, WrongState) as error:
            is_taken = error.hint == _RECLAIMED
            is_gone = node is None or node.state == "DELETING"
            queued = await suspended_with(cloud, key.node) if is_gone else None
            self.node_end = end = await asyncio.to_thread(
                end_of_node, key.endpoint, key.node, node, time.time(), queued=queued
            )
            # the end of a node's predecessor doesn't explain why the node is not READY yet
            is_ours = end.why.cause not in NOTICED_CAUSES and not (node and node.state in RISING)
            shown = _explained(error, end) if is_ours else error
            raise await asyncio.to_thread(with_outlook, shown, key.endpoint, key.node, is_preempted=is_taken) from error

    async def _refuse_another_node(self, node: Node) -> None:
        """Raise an error if the node was recreated with the same name, because the old kernels are lost."""
        if self._address and self._address.host_key_alias != host_key_alias(node, self.key.worker_id):
            self._address = None
            self.node_end = end = await asyncio.to_thread(
                end_of_node, self.key.endpoint, node.name, node, time.time(), is_another=True
            )
            raise NodeNotFound(
                end.message,
                exists="The kernels of the old node are gone; a new node with its name is READY.",
                hint="Start a new kernel.",
            )

    async def _connect_when_key_is_there(
        self, address: WorkerAddress, user_key: UserKey, delays_s: tuple[float, ...]
    ) -> SshConnection:
        """Connect. If the worker does not accept our new key yet, retry after each delay in `delays_s`."""
        for delay_s in delays_s:
            try:
                return await self._connect_to(address, user_key)
            except LoginRefused:
                self._report("connecting", "Waiting for the SSH key to arrive on the worker")
                await asyncio.sleep(delay_s)
        return await self._connect_to(address, user_key)

    async def _connect_to(self, address: WorkerAddress, user_key: UserKey) -> SshConnection:
        await asyncio.to_thread(import_module, "jupyter_tpu.ssh.connection")  # imports asyncssh, 0.7 s of CPU
        from jupyter_tpu.ssh import connect

        return await connect(address, user_key, proxy_command=self.key.proxy_command or None)

    def _report(self, phase: str, message: str) -> None:
        self._on_progress({"phase": phase, "message": message, "fraction": None})


def _explained(error: TpuError, end: NodeEnd) -> TpuError:
    """Return a copy of the error that also says why the node is gone or not READY."""
    exists = Text("{why} {exists}", why=end.message, exists=error.exists) if error.exists else end.message
    return type(error)(error.message, exists=exists, hint=error.hint, raw=error.raw)


def _has_succeeded(task: asyncio.Task[Any]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


async def find_worker(cloud: CloudApi, name: NodeName, worker_id: int) -> tuple[Node, WorkerIdentity]:
    """Return the READY node `name` and the guest attributes that its worker has published.

    Raises:
        WrongState: the node is not READY.
        NodeNotFound: the node doesn't exist.
        BadInput: the node has no such worker.
    """
    node = await cloud.get_node(name)
    return node, await _identity(cloud, node, worker_id)


async def _identity(cloud: CloudApi, node: Node, worker_id: int) -> WorkerIdentity:
    if node.state != "READY":
        raise _not_ready(node)
    identities = {identity.worker_id: identity for identity in await cloud.get_worker_identities(node.name)}
    if worker_id not in identities or worker_id not in {worker.worker_id for worker in node.workers}:
        raise BadInput(
            Text(
                "The node {node} has no worker {worker_id}; its workers are 0 to {last}.",
                node=node.name.node_id,
                worker_id=worker_id,
                last=len(node.workers) - 1,
            )
        )
    return identities[worker_id]


def worker_address(node: Node, identity: WorkerIdentity, user: str) -> WorkerAddress:
    """Return the address of the worker with `identity`, and pin its host keys in our ``known_hosts``.

    Raises:
        HostKeyChanged: the published host keys differ from the pinned host keys.
        WorkerUnreachable: no host keys have been published yet, or the worker has no address.
    """
    worker = next(worker for worker in node.workers if worker.worker_id == identity.worker_id)
    # Without an external address, use the internal one, which a proxy command or a machine in the node's network can
    # reach.
    host = worker.external_ip or worker.ip_address
    if not host:
        raise WorkerUnreachable(
            Text("Worker {worker_id} of {node} has no IP address.", worker_id=worker.worker_id, node=node.name.node_id),
            hint="Check the node's network settings. If the node has no external IP address, set `proxy_command`.",
        )
    key_alias = host_key_alias(node, identity.worker_id)
    return WorkerAddress(
        host=host,
        port=identity.ssh_port,
        user=user,
        host_keys=host_key_store().pin(key_alias, identity.host_keys),
        alias=worker_alias(node.name, identity.worker_id),
        host_key_alias=key_alias,
    )


def worker_alias(name: NodeName, worker_id: int = 0) -> str:
    """Return the worker's name for ``ssh``: ``my-node.us-central1-a.tpu`` or, for worker 1, ``my-node-w1.…``."""
    suffix = f"-w{worker_id}" if worker_id else ""
    return f"{name.node_id}{suffix}.{name.zone}.tpu"


def host_key_alias(node: Node, worker_id: int) -> str:
    """Return the name under which a worker's host keys are pinned."""
    return alias_of_uid(node.uid or node.name.node_id, worker_id)


def alias_of_uid(uid: str, worker_id: int) -> str:
    """Return the name under which host keys are pinned for a worker of the node with this uid."""
    return f"tpu-{uid}-w{worker_id}"


def host_key_store() -> HostKeyStore:
    """Return the store of the user's pinned host keys."""
    return HostKeyStore(data_dir() / "ssh" / "known_hosts")


async def ensure_login(cloud: CloudApi, node: Node, user_key: UserKey, ssh_user: str = "") -> tuple[str, bool]:
    """Add the user's key to the node if it is missing; return the login name and whether the key was added.

    Args:
        ssh_user: the requested login name. If empty, the login name for the user's key in the node's metadata is used
            or, if the key is missing, the local user's name.

    Raises:
        CloudRefused: the node's metadata cannot be changed.
    """
    known = login_of(node, user_key)
    if known and ssh_user in ("", known):
        return known, False
    user = login_name(ssh_user)
    present = node.metadata.get("ssh-keys", "").strip()
    # Append the key, because the metadata contains the keys of all users of the node.
    lines = f"{present}\n{user}:{user_key.public_line}".strip()
    operation = await cloud.update_node_metadata(node.name, {"ssh-keys": lines})
    for delay_s in _OPERATION_DELAYS_S:
        if operation.done:
            break
        await asyncio.sleep(delay_s)
        operation = await cloud.get_operation(operation.name)
    if operation.error:
        raise operation.error
    return user, True


def login_of(node: Node, user_key: UserKey) -> str:
    """Return the login name for the user's key in the node's metadata, or "" if the key is missing."""
    ours = user_key.public_line.split()[:2]
    for line in node.metadata.get("ssh-keys", "").splitlines():
        user, _, key = line.partition(":")
        if key.split()[:2] == ours:
            return user.strip()
    return ""


def _not_ready(node: Node) -> WrongState:
    advice = {
        "STOPPED": Text(
            "Start the node in the TPU panel, or with `jupyter tpu start {node}`; this costs money.",
            node=node.name.node_id,
        ),
        "STOPPING": Text("Wait until {node} is STOPPED, then start it; this costs money.", node=node.name.node_id),
        "DELETING": "Create another node.",
        "PREEMPTED": _RECLAIMED,
        "TERMINATED": _RECLAIMED,
    }
    return WrongState(
        Text("The node {node} is {state}, not READY.", node=node.name.node_id, state=node.state),
        exists="Nothing was started.",
        hint=advice.get(node.state, "Wait until the TPU panel shows it as READY."),
    )
