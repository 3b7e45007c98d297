"""The nodes attached to this kernel: finds the one that a cell means, and starts its kernel at the first use."""

from __future__ import annotations

import atexit
import sys

from jupyter_tpu.cloud.settings import settings_from_environment
from jupyter_tpu.errors import BadInput, NodeNotFound, Text
from jupyter_tpu.kernels.kernelspecs import InstalledSpec, list_kernelspecs
from jupyter_tpu.local.remote import RemoteKernel
from jupyter_tpu.models import NodeName


class AttachedNodes:
    """The kernels on nodes, by the names of their kernelspecs; they end with this process.

    Attributes:
        current: the kernelspec for cells that name no node: the one attached last, or else the first that was used;
            empty: the only one that is installed.
    """

    def __init__(self) -> None:
        self.current = ""
        self._kernels: dict[str, RemoteKernel] = {}
        atexit.register(self.close)

    def find(self, node: str, environment: str = "", zone: str = "") -> InstalledSpec:
        """Find the kernelspec of a node.

        Args:
            node: its id or full name; empty: the current one, else the only one.
            environment: of a framework; empty: the worker's own Python, or the current one's.
            zone: of the node; empty: any.

        Raises:
            NodeNotFound: no such node has a kernelspec.
            BadInput: several nodes match, or the node has no such environment.
        """
        # Kernelspecs of another cloud, such as an emulator that ran earlier, are not meant.
        endpoint = settings_from_environment().endpoint
        known = [spec for spec in list_kernelspecs() if spec.endpoint == endpoint]
        if not node and (current := [spec for spec in known if spec.name == self.current]):
            return current[0]
        found = [spec for spec in known if _is_meant(spec, node, zone)]
        names = sorted({spec.node_name for spec in found})
        if len(names) > 1:
            raise BadInput(
                "Several nodes match.",
                exists=Text("Matching nodes: {nodes}.", nodes=", ".join(names)),
                hint="Choose one of them.",
            )
        return _only(found, node, environment)

    def kernel_of(self, spec: InstalledSpec) -> RemoteKernel:
        """Return the kernel of a kernelspec; the first call starts it, which takes a while.

        Raises:
            TpuError: the node cannot be used.
        """
        kernel = self._kernels.get(spec.name)
        if kernel is None:
            sys.stderr.write(f"Starting a kernel on {spec.display_name}…\n")
            kernel = RemoteKernel(spec.name)
            kernel.start()
            self._kernels[spec.name] = kernel
            self.current = self.current or spec.name
        return kernel

    def detach(self, spec: InstalledSpec) -> bool:
        """Shut the kernel down, and return whether there was one."""
        kernel = self._kernels.pop(spec.name, None)
        if kernel is not None:
            kernel.close()
        if self.current == spec.name:
            self.current = ""
        return kernel is not None

    def close(self) -> None:
        """Shut all kernels down."""
        # Emptied first: `close` is also registered with atexit and may run twice.
        kernels, self._kernels = self._kernels, {}
        for kernel in kernels.values():
            kernel.close()


def _is_meant(spec: InstalledSpec, node: str, zone: str) -> bool:
    name = NodeName.parse(spec.node_name)
    return node in ("", spec.node_name, name.node_id) and zone in ("", name.zone)


def _only(specs: list[InstalledSpec], node: str, environment: str) -> InstalledSpec:
    """Return the kernelspec of this environment among those of one node."""
    if not specs:
        raise NodeNotFound(
            Text("No node named {node} has a kernelspec.", node=node[:70])
            if node
            else "There are no kernelspecs for nodes.",
            hint="`%tpu list` shows the nodes; `%tpu attach NODE` makes a READY node usable here.",
        )
    for spec in specs:
        if spec.environment == environment:
            return spec
    there = ", ".join(spec.environment for spec in specs if spec.environment) or "none"
    raise BadInput(
        Text(
            "{node} has no environment {environment}.",
            node=specs[0].node_name.rpartition("/")[2],
            environment=repr(environment[:40]),
        ),
        exists=Text("Its environments: {environments}.", environments=there),
        hint=Text("To create one, run %tpu env make {node} FRAMEWORK.", node=specs[0].node_name.rpartition("/")[2]),
    )
