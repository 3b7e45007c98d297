"""Keep the kernelspecs in sync with the nodes: each node on which kernels can start has a kernelspec."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from jupyter_tpu.kernels.kernelspecs import kernelspec_names, sync_kernelspecs, write_kernelspec

if TYPE_CHECKING:
    from jupyter_tpu.cloud.settings import CloudSettings
    from jupyter_tpu.fleet import FleetSnapshot
    from jupyter_tpu.models import Node


def usable_nodes(snapshot: FleetSnapshot) -> tuple[Node, ...]:
    """Return the fleet's nodes, without the nodes that are being created or started.

    A node that is being created or started may already be READY in the cloud, but its workers have not published their
    host keys yet.
    """
    coming = {each.node_name for each in snapshot.intents if each.verb in ("create", "start") and not each.settled}
    return tuple(node for node in snapshot.nodes if node.name not in coming)


class KernelspecSync:
    """Keeps the kernelspec folder in sync with the fleet's nodes.

    Args:
        enabled: whether to change the folder; if False, updates do nothing.
        proxy_command, ssh_user: written into the kernelspecs, so that kernels started by other programs also use them.
    """

    def __init__(self, *, enabled: bool = True, proxy_command: str = "", ssh_user: str = "") -> None:
        self._enabled = enabled
        self._proxy_command = proxy_command
        self._ssh_user = ssh_user
        self._names: Mapping[str, str] = {}
        self._written: set[tuple[str, ...]] = set()
        self._lock = asyncio.Lock()

    def names(self) -> Mapping[str, str]:
        """Return the kernelspec names as of the last update, by the full name of the node."""
        return self._names

    async def update(self, snapshot: FleetSnapshot, settings: CloudSettings) -> None:
        """Update the folder to match the nodes; read it each time, because other programs change kernelspecs too."""
        async with self._lock:
            self._names = await asyncio.to_thread(self._apply, snapshot, settings)

    def _apply(self, snapshot: FleetSnapshot, settings: CloudSettings) -> dict[str, str]:
        if self._enabled and snapshot.as_of:
            nodes = usable_nodes(snapshot)
            self._renew(nodes, settings)
            # if a zone doesn't respond, keep the kernelspecs of its nodes
            is_complete = snapshot.error is None and not snapshot.unreachable
            sync_kernelspecs(
                nodes,
                settings,
                complete=is_complete,
                proxy_command=self._proxy_command,
                ssh_user=self._ssh_user,
            )
        return kernelspec_names(settings)

    def _renew(self, nodes: tuple[Node, ...], settings: CloudSettings) -> None:
        """Write the kernelspec of each new READY node. A recreated node counts as new, because it may differ."""
        ready = {_identity(node): node for node in nodes if node.state == "READY"}
        for node in (node for identity, node in ready.items() if identity not in self._written):
            write_kernelspec(node, settings, proxy_command=self._proxy_command, ssh_user=self._ssh_user)
        self._written = set(ready)


def _identity(node: Node) -> tuple[str, ...]:
    return (str(node.name), node.uid, node.accelerator_type)
