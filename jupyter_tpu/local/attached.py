"""Manage the nodes attached to this kernel: find the node for a cell, and start its kernel on first use."""

from __future__ import annotations

import atexit
import sys

from jupyter_tpu.cloud.settings import settings_from_environment
from jupyter_tpu.errors import BadInput, NodeNotFound, Text
from jupyter_tpu.kernels.kernelspecs import InstalledSpec, list_kernelspecs
from jupyter_tpu.local.remote import RemoteKernel
from jupyter_tpu.models import NodeName


class AttachedNodes:
    """The kernels on nodes that this process has started, by kernelspec name. They are shut down at its exit.

    Attributes:
        current: the kernelspec for cells that don't name a node: the last attached kernelspec or, if none was attached,
            the first used kernelspec. If empty, the only installed kernelspec is used.
    """

    def __init__(self) -> None:
        self.current = ""
        self._kernels: dict[str, RemoteKernel] = {}
        atexit.register(self.close)

    def find(self, node: str, environment: str = "", zone: str = "") -> InstalledSpec:
        """Find the kernelspec of a node.

        Args:
            node: the node's id or full name; empty for the current node or, if there is none, the only node.
            environment: the framework of the environment; empty for the current environment or, if there is none, the
                worker's system Python.
            zone: the node's zone; empty for any zone.

        Raises:
            NodeNotFound: no matching node has a kernelspec.
            BadInput: several nodes match, or the node has no such environment.
        """
        # Ignore kernelspecs of another cloud, such as a previous emulator.
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
        """Return the kernel of a kernelspec. The first call starts the kernel, which takes some time.

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
        """Shut down the kernel of a kernelspec; return whether it was running."""
        kernel = self._kernels.pop(spec.name, None)
        if kernel is not None:
            kernel.close()
        if self.current == spec.name:
            self.current = ""
        return kernel is not None

    def close(self) -> None:
        """Shut down all kernels."""
        # Clear first: `close` is also registered with atexit and may run twice.
        kernels, self._kernels = self._kernels, {}
        for kernel in kernels.values():
            kernel.close()


def _is_meant(spec: InstalledSpec, node: str, zone: str) -> bool:
    name = NodeName.parse(spec.node_name)
    return node in ("", spec.node_name, name.node_id) and zone in ("", name.zone)


def _only(specs: list[InstalledSpec], node: str, environment: str) -> InstalledSpec:
    """Select the kernelspec with this environment from the kernelspecs of one node."""
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
        hint=Text(
            "To create an environment, run `%tpu env make {node} FRAMEWORK`.",
            node=specs[0].node_name.rpartition("/")[2],
        ),
    )
