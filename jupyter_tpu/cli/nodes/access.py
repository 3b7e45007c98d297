"""The commands `ssh`, `ssh-config` and `kernelspec`, which give access to a node."""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_tpu.cli.node_texts import resource_text
from jupyter_tpu.cli.options import cloud_settings
from jupyter_tpu.cli.terminal import echo, echo_json, echo_table, full_text, note, plain
from jupyter_tpu.errors import BadInput, Text, TpuError
from jupyter_tpu.i18n import _

if TYPE_CHECKING:
    from jupyter_tpu.cli.nodes.ssh_access import SshAccess
    from jupyter_tpu.cloud.settings import CloudSettings
    from jupyter_tpu.kernels.kernelspecs import InstalledSpec
    from jupyter_tpu.models import Node, NodeName
    from jupyter_tpu.ssh import WorkerAddress

_HEADER = ("KERNELSPEC", "NAME", "NODE")


def run_ssh(options: argparse.Namespace) -> int:
    """Replace this process with `ssh` to a worker of the node."""
    # check before any request to the cloud and before a key is added to the node
    if shutil.which("ssh") is None:
        raise BadInput("The OpenSSH client is not installed.", hint="Install the package openssh-client.")
    from jupyter_tpu.cli.nodes.ssh_access import write_login_config

    access = asyncio.run(_access_to_worker(options))
    config = write_login_config(access)
    # replace this process, so that ssh gets the terminal and its exit code becomes ours
    os.execvp("ssh", ["ssh", "-F", str(config), access.addresses[0].alias, *options.passed_on])


async def _access_to_worker(options: argparse.Namespace) -> SshAccess:
    from jupyter_tpu.cli.nodes.find import find_node
    from jupyter_tpu.cli.nodes.ssh_access import access_to
    from jupyter_tpu.fleet.assembly import open_cloud

    async with open_cloud(cloud_settings(options)) as cloud:
        node = await find_node(cloud, options.node, options.zone)
        return await access_to(cloud, node.name, worker_ids=(options.worker,))


def run_ssh_config(options: argparse.Namespace) -> int:
    """Print the ssh configuration of nodes, or write it to a file."""
    from jupyter_tpu.cli.nodes.ssh_access import render_config, write_shared_config

    access = asyncio.run(_access(options))
    file = write_shared_config(access) if options.write else None
    _show_ssh_config(options, access, render_config(access), file)
    return 0


async def _access(options: argparse.Namespace) -> SshAccess:
    """Find the workers of the named node, or of all READY nodes that have the user's key; print skipped nodes."""
    from jupyter_tpu.cli.nodes.find import find_node
    from jupyter_tpu.cli.nodes.ssh_access import SshAccess, access_to
    from jupyter_tpu.fleet.assembly import open_cloud

    async with open_cloud(cloud_settings(options)) as cloud:
        if options.node:
            node = await find_node(cloud, options.node, options.zone)
            return await access_to(cloud, node.name)
        addresses: list[WorkerAddress] = []
        stopped: list[str] = []
        for node in (await cloud.list_nodes(options.zone or "-")).nodes:
            if node.state != "READY":
                stopped.append(node.name.node_id)
                continue
            try:
                # listing must not change nodes, so don't add our key to nodes that lack it
                addresses += (await access_to(cloud, node.name, may_add_key=False)).addresses
            except TpuError as error:
                note(_("skipped: {error}", error=plain(full_text(error))))
        if stopped:
            note(_("skipped, not READY: {nodes}", nodes=plain(", ".join(stopped))))
    return SshAccess(tuple(addresses))


def _show_ssh_config(options: argparse.Namespace, access: SshAccess, text: str, file: Path | None) -> None:
    if options.json:
        echo_json({"hosts": access.hosts(), "file": str(file) if file else None})
    elif file is None:
        echo(text.rstrip())
    else:
        echo(_("Wrote {count} hosts to {file}, which ~/.ssh/config includes.", count=len(access.addresses), file=file))
        for host in access.hosts():
            echo(f"  ssh {host['alias']}")


def run_kernelspec(options: argparse.Namespace) -> int:
    """Write or remove kernelspecs, and list them."""
    specs = _remove_kernelspecs(options) if options.remove else asyncio.run(_write_kernelspecs(options))
    if options.json:
        echo_json({"kernelspecs": [_spec_view(spec) for spec in specs]})
    elif specs:
        rows = ((spec.name, spec.display_name, resource_text(spec.node_name)) for spec in specs)
        echo_table(_HEADER, rows)
    else:
        note(_("There are no kernelspecs for nodes."))
    return 0


async def _write_kernelspecs(options: argparse.Namespace) -> tuple[InstalledSpec, ...]:
    from jupyter_tpu.cli.nodes.find import find_node
    from jupyter_tpu.fleet.assembly import open_cloud
    from jupyter_tpu.kernels.kernelspecs import sync_kernelspecs

    async with open_cloud(cloud_settings(options)) as cloud:
        if options.node:
            node = await find_node(cloud, options.node, options.zone)
            return _rewrite_kernelspec(node, cloud.settings)
        listed = await cloud.list_nodes()
    # if zones are missing from the list, don't remove the kernelspecs of their nodes
    sync_kernelspecs(listed.nodes, cloud.settings, complete=not listed.unreachable)
    return _matching_specs(options, cloud.settings)


def _rewrite_kernelspec(node: Node, settings: CloudSettings) -> tuple[InstalledSpec, ...]:
    """Write only this node's kernelspec, keeping the existing ProxyCommand and login."""
    from jupyter_tpu.kernels.kernelspecs import write_kernelspec

    if node.state != "READY":
        raise BadInput(
            Text("{node} is {state}.", node=node.name.node_id, state=node.state),
            hint="Only a READY node can have a kernelspec.",
        )
    old = next(iter(_specs_of(node.name, settings)), None)
    proxy_command, ssh_user = (old.proxy_command, old.ssh_user) if old else ("", "")
    write_kernelspec(node, settings, proxy_command=proxy_command, ssh_user=ssh_user)
    return _specs_of(node.name, settings)


def _specs_of(name: NodeName, settings: CloudSettings) -> tuple[InstalledSpec, ...]:
    from jupyter_tpu.kernels.kernelspecs import list_kernelspecs

    wanted = (str(name), settings.endpoint)
    return tuple(spec for spec in list_kernelspecs() if (spec.node_name, spec.endpoint) == wanted)


def _remove_kernelspecs(options: argparse.Namespace) -> tuple[InstalledSpec, ...]:
    """Remove kernelspecs without querying the cloud; return this cloud's remaining kernelspecs."""
    from jupyter_tpu.kernels.kernelspecs import list_kernelspecs, remove_kernelspec
    from jupyter_tpu.models import NodeName

    settings = cloud_settings(options)
    found = _matching_specs(options, settings)
    # a short name may match nodes in several zones: don't guess which one to remove
    if options.node and len({spec.node_name for spec in found}) > 1:
        raise BadInput(
            Text("Several nodes named {node} have a kernelspec.", node=options.node),
            exists=Text("Matching nodes: {nodes}.", nodes=", ".join(dict.fromkeys(spec.node_name for spec in found))),
            hint="Choose one with --zone, or give its full name.",
        )
    for spec in found:
        remove_kernelspec(NodeName.parse(spec.node_name), spec.endpoint)
    return tuple(spec for spec in list_kernelspecs() if spec.endpoint == settings.endpoint)


def _matching_specs(options: argparse.Namespace, settings: CloudSettings) -> tuple[InstalledSpec, ...]:
    from jupyter_tpu.kernels.kernelspecs import list_kernelspecs

    return tuple(spec for spec in list_kernelspecs() if _matches(spec, options, settings))


def _matches(spec: InstalledSpec, options: argparse.Namespace, settings: CloudSettings) -> bool:
    """Return whether the kernelspec matches the node, zone and project options; an empty option matches any value."""
    from jupyter_tpu.models import NodeName

    # compare the endpoint too: two clouds may have nodes with the same name
    name = NodeName.parse(spec.node_name)
    if "/" in options.node:
        return (name, spec.endpoint) == (NodeName.parse(options.node), settings.endpoint)
    wanted = (settings.project or name.project, options.zone or name.zone, options.node or name.node_id)
    return (name.project, name.zone, name.node_id, spec.endpoint) == (*wanted, settings.endpoint)


def _spec_view(spec: InstalledSpec) -> dict[str, str]:
    return {
        "name": spec.name,
        "display_name": spec.display_name,
        "node_name": spec.node_name,
        "path": str(spec.path),
    }
