"""Manage kernelspecs: one per READY node and one per environment on it. Every front end lists them.

The kernelspec folder is the only state: each spec's metadata names its node, project, endpoint and environment. A
notebook saves the name of its kernelspec, which also identifies its environment.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from itertools import count
from pathlib import Path
from typing import Any

from jupyter_core.paths import jupyter_data_dir

from jupyter_tpu.cloud.settings import CloudSettings
from jupyter_tpu.errors import BadInput, plain
from jupyter_tpu.files import write_whole
from jupyter_tpu.kernels.environments.saved_environments import SavedEnvironment, SavedEnvironments
from jupyter_tpu.models import Node, NodeName

METADATA_KEY = "jupyter_tpu"
LOGO = "logo-svg.svg"
_LONGEST_NAME = 100  # characters; front ends show it in one line of a list


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledSpec:
    """A kernelspec created by jupyter_tpu, read from disk.

    Attributes:
        environment: name of the environment; empty for the worker's system Python.
        workers: how many workers of the node run a kernel together.
        of_workers: the number of workers that the node had when the spec was written.
    """

    name: str
    path: Path
    node_name: str
    endpoint: str
    display_name: str
    proxy_command: str = ""
    ssh_user: str = ""
    environment: str = ""
    workers: int = 1
    of_workers: int = 1


def default_workers(node: Node) -> int:
    """Return the default number of workers that run a kernel, which is all workers of the node."""
    return max(1, len(node.workers))


def kernelspec_name(node: NodeName, environment: str = "", *, is_first_only: bool = False) -> str:
    """Return the default name of a kernelspec: node and zone, then the environment and ``worker-0`` if given."""
    parts = ["tpu", node.node_id, node.zone, environment.replace("_", "-"), "worker-0" if is_first_only else ""]
    return "-".join(filter(None, parts))


def _free_name(node: NodeName, endpoint: str, environment: str, *, is_first_only: bool) -> str:
    """Return the default name, or a longer name if a node in another project or cloud already uses the default name."""
    usual = kernelspec_name(node, environment, is_first_only=is_first_only)
    return next(name for name in _names(node, usual) if _is_free(name, node, endpoint, environment))


def _names(node: NodeName, usual: str) -> Iterator[str]:
    longer = f"{usual}-{node.project.replace(':', '-')}"
    yield usual
    yield longer
    yield from (f"{longer}-{number}" for number in count(2))


def _is_free(name: str, node: NodeName, endpoint: str, environment: str) -> bool:
    """Return whether `name` is unused or belongs to the same node. For an emulator, the endpoint may differ."""
    holder = _read(kernels_folder() / name / "kernel.json")
    if holder is None:
        return True
    is_same = (holder.node_name, holder.environment) == (str(node), environment)
    return is_same and bool(holder.endpoint) == bool(endpoint)


def kernels_folder() -> Path:
    """Return the folder for the user's kernelspecs."""
    return Path(jupyter_data_dir()) / "kernels"


def write_kernelspec(
    node: Node,
    settings: CloudSettings,
    *,
    proxy_command: str = "",
    ssh_user: str = "",
    environment: SavedEnvironment | None = None,
    workers: int | None = None,
) -> str:
    """Write or replace the kernelspec of `node` or an environment on it, and return its name.

    Args:
        proxy_command, ssh_user: SSH settings for the kernels' connections to the node; empty to use the provisioner's
            configuration.
        workers: how many of the node's workers run a kernel together; None for all.
        environment: the environment; None for the worker's system Python.
    """
    framework = environment.framework if environment else ""
    workers = workers or default_workers(node)
    is_first_only = workers < default_workers(node)
    name = _free_name(node.name, settings.endpoint, framework, is_first_only=is_first_only)
    config = _config(node.name, settings, proxy_command, ssh_user, framework)
    if workers > 1:
        config["workers"] = workers
    content = _kernel_json(node, settings, config, _display_name(node, environment, workers))
    text = json.dumps(content, indent=1, ensure_ascii=False)
    folder = kernels_folder() / name
    folder.mkdir(parents=True, exist_ok=True)
    # Write the logo first: a front end that reads the folder in between must not find a spec without it.
    logo = (files("jupyter_tpu.kernels") / LOGO).read_text()
    write_whole(folder / LOGO, logo.encode(), mode=0o644)
    write_whole(folder / "kernel.json", text.encode(), mode=0o644)
    return name


def remove_kernelspec(node: NodeName, endpoint: str, environment: str | None = None) -> bool:
    """Remove all kernelspecs of `node` in the cloud at `endpoint`, or only the kernelspec of an environment.

    Returns whether any kernelspec existed.
    """
    found = [spec for spec in list_kernelspecs() if (spec.node_name, spec.endpoint) == (str(node), endpoint)]
    meant = [spec for spec in found if environment in (None, spec.environment)]
    for spec in meant:
        shutil.rmtree(spec.path, ignore_errors=True)
    return bool(meant)


def remove_kernelspecs_of(endpoint: str) -> None:
    """Remove all kernelspecs of an emulated cloud that has shut down."""
    for spec in list_kernelspecs():
        if spec.endpoint == endpoint:
            shutil.rmtree(spec.path, ignore_errors=True)


def list_kernelspecs() -> tuple[InstalledSpec, ...]:
    """Return the kernelspecs created by jupyter_tpu, for all projects."""
    paths = sorted(kernels_folder().glob("tpu-*/kernel.json"))
    return tuple(spec for spec in map(_read, paths) if spec)


def kernelspec_names(settings: CloudSettings) -> dict[str, str]:
    """Return the kernelspec name of each node in this cloud, by full node name; skip kernelspecs of environments."""
    ours = [spec for spec in list_kernelspecs() if spec.endpoint == settings.endpoint and not spec.environment]
    # If a node has two specs, the spec for all its workers comes last and is used.
    return {spec.node_name: spec.name for spec in sorted(ours, key=lambda spec: spec.workers)}


def sync_kernelspecs(
    nodes: Iterable[Node],
    settings: CloudSettings,
    *,
    complete: bool = True,
    proxy_command: str = "",
    ssh_user: str = "",
) -> bool:
    """Write and remove kernelspecs to match the READY `nodes` of this project and endpoint.

    A node also has a kernelspec for each of its saved environments. A lost environment is recreated when a kernel
    starts in it. A node with several workers also has a kernelspec for worker 0 only. Returns whether any kernelspec
    changed.

    Args:
        complete: whether `nodes` contains all existing nodes; if not, specs of other nodes are kept.
        proxy_command, ssh_user: SSH settings for new kernelspecs; existing kernelspecs are not changed.
    """
    nodes = tuple(nodes)
    # Keep a spec if its node is READY, or if the node is not in an incomplete list. Remove the specs of a node in any
    # other state.
    ready = {str(node.name): node for node in nodes if node.state == "READY"}
    gone = {str(node.name) for node in nodes} - ready.keys()
    ours = [spec for spec in list_kernelspecs() if _is_of(spec, settings)]
    installed = {(spec.node_name, spec.environment, spec.workers, spec.of_workers): spec for spec in ours}
    wanted = {key: each for node in ready.values() for key, each in _wanted_on(node, settings)}
    may_stay = wanted.keys() | {key for key in installed if key[0] not in ready and key[0] not in gone and not complete}
    superfluous = installed.keys() - may_stay
    missing = wanted.keys() - installed.keys()
    for key in superfluous:
        shutil.rmtree(installed[key].path, ignore_errors=True)
    for key in missing:
        node = ready[key[0]]
        way = {"proxy_command": proxy_command, "ssh_user": ssh_user}
        write_kernelspec(node, settings, **way, environment=wanted[key], workers=key[2])
    return bool(superfluous or missing)


def _wanted_on(
    node: Node, settings: CloudSettings
) -> Iterator[tuple[tuple[str, str, int, int], SavedEnvironment | None]]:
    """Yield ``((node name, framework, workers to use, all workers), environment)`` for each kernelspec of a node."""
    count = default_workers(node)
    yield (str(node.name), "", count, count), None
    if count > 1:
        yield (str(node.name), "", 1, count), None
    for each in SavedEnvironments(node.name, settings.endpoint).all():
        yield (str(node.name), each.framework, count, count), each


def _is_of(spec: InstalledSpec, settings: CloudSettings) -> bool:
    return spec.endpoint == settings.endpoint and NodeName.parse(spec.node_name).project == settings.project


def _display_name(node: Node, environment: SavedEnvironment | None, workers: int) -> str:
    """Return the display name, such as ``JAX 0.10 · v5litepod-8 · my-node`` or ``… · my-node · 4 workers``."""
    parts = [environment.title if environment else "Python 3", node.accelerator_type, node.name.node_id]
    if default_workers(node) > 1:
        parts.append(f"{workers} workers" if workers > 1 else "worker 0 only")
    return plain(" · ".join(parts), _LONGEST_NAME)


def _config(
    name: NodeName, settings: CloudSettings, proxy_command: str, ssh_user: str, environment: str
) -> dict[str, Any]:
    """Return the provisioner's traits. Empty traits are omitted, so that the user's configuration applies."""
    way = {"proxy_command": proxy_command, "ssh_user": ssh_user}
    config = {"node": str(name), "endpoint": settings.endpoint, **way, "environment": environment}
    return {key: value for key, value in config.items() if value or key == "endpoint"}


def _kernel_json(node: Node, settings: CloudSettings, config: dict[str, Any], display_name: str) -> dict[str, Any]:
    options = [part for key, value in config.items() if value for part in (f"--{key.replace('_', '-')}", str(value))]
    return {
        "argv": [sys.executable, "-m", "jupyter_tpu.kernels.launcher", *options, "-f", "{connection_file}"],
        "display_name": display_name,
        "language": "python",
        "interrupt_mode": "message",  # with "signal", VS Code would signal the launcher and all its child processes
        "metadata": {
            "debugger": True,
            "supported_encryption": ["curve"],  # for the local sockets, see jupyter_client's transport_encryption
            "kernel_provisioner": {"provisioner_name": "tpu", "config": config},
            METADATA_KEY: {
                "node": str(node.name),
                "uid": node.uid,
                "accelerator_type": node.accelerator_type,
                "workers": default_workers(node),
                "endpoint": settings.endpoint,
                "emulated": settings.is_emulated,
            },
        },
    }


def _read(path: Path) -> InstalledSpec | None:
    try:
        spec = json.loads(path.read_text())
        ours = spec["metadata"][METADATA_KEY]
        config = spec["metadata"]["kernel_provisioner"]["config"]
        return InstalledSpec(
            name=path.parent.name,
            path=path.parent,
            node_name=str(NodeName.parse(ours["node"])),
            endpoint=ours["endpoint"],
            display_name=spec["display_name"],
            proxy_command=config.get("proxy_command", ""),
            ssh_user=config.get("ssh_user", ""),
            environment=config.get("environment", ""),
            workers=int(config.get("workers", 1)),
            of_workers=int(ours.get("workers", 1)),
        )
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
        BadInput,
    ):  # this kernelspec isn't ours or is incomplete: leave it unchanged
        return None
