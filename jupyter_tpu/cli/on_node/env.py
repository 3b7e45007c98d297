"""The command `env`: list, create and remove the environments for frameworks on a node."""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_tpu.cli.node_texts import EMULATED
from jupyter_tpu.cli.options import cloud_settings
from jupyter_tpu.cli.terminal import Progress, echo, echo_json, echo_table, note, plain, warn
from jupyter_tpu.errors import BadInput, Text, WrongState
from jupyter_tpu.frameworks import FRAMEWORKS, newest, runtime_version_fits
from jupyter_tpu.i18n import _

if TYPE_CHECKING:
    from jupyter_tpu.kernels.connections.worker import OnProgress, WorkerKey
    from jupyter_tpu.models import Node


_HEADER = ("FRAMEWORK", "VERSION", "PYTHON", "STATE", "PACKAGES", "ADDED BY YOU")


def run_env(options: argparse.Namespace) -> int:
    """List, create or remove environments of a node."""
    if options.action == "list":
        return _run_list(options)
    if not options.framework:
        raise BadInput(
            "No framework was given.", hint=Text("Use one of: {frameworks}.", frameworks=", ".join(FRAMEWORKS))
        )
    newest(options.framework)  # raises BadInput for an unknown framework
    return _run_make(options) if options.action == "make" else _run_remove(options)


def _run_list(options: argparse.Namespace) -> int:
    node, found = asyncio.run(_listed(options))
    if options.json:
        emulated = cloud_settings(options).is_emulated
        echo_json({"as_of": time.time(), "node_name": str(node.name), "environments": found, "emulated": emulated})
        return 0
    if found:
        echo_table(_HEADER, map(_row, found))
    else:
        note(_("{node} has no framework environments.", node=plain(node.name.node_id)))
        note(_("To create one, run `jupyter tpu env make {node} jax`.", node=plain(node.name.node_id)))
    return 0


def _run_make(options: argparse.Namespace) -> int:
    node, made, kernelspec = asyncio.run(_made(options))
    if options.json:
        echo_json({"node_name": str(node.name), "kernelspec": kernelspec, "environment": made})
        return 0
    for each in made["notes"]:
        warn(_(each))
    echo(
        _(
            "{title} is installed on {node}, with Python {python} and {count} packages.",
            title=made["title"],
            node=node.name.node_id,
            python=made["python"],
            count=len(made["pins"]),
        )
    )
    echo(_("Notebooks with the kernel {kernelspec} run in it.", kernelspec=kernelspec))
    if cloud_settings(options).is_emulated:
        note(EMULATED)
    return 0


def _run_remove(options: argparse.Namespace) -> int:
    node, was_there = asyncio.run(_removed(options))
    if options.json:
        echo_json({"node_name": str(node.name), "framework": options.framework, "was_there": was_there})
    elif was_there:
        echo(
            _(
                "The environment {framework} and its kernelspec were removed from {node}.",
                framework=options.framework,
                node=node.name.node_id,
            )
        )
    else:
        note(_("{node} has no environment {framework}.", node=plain(node.name.node_id), framework=options.framework))
    return 0


async def _listed(options: argparse.Namespace) -> tuple[Node, list[dict[str, Any]]]:
    from jupyter_tpu.kernels.environments.saved_environments import SavedEnvironments

    node, keys = await _workers(options)
    found = (await _call_all(keys, "environments", {}))["environments"]
    memory = SavedEnvironments(node.name, keys[0].endpoint)
    # save now, because a pre-empted node can't be queried
    for each in found:
        await asyncio.to_thread(memory.save, each)
    return node, found


async def _made(options: argparse.Namespace) -> tuple[Node, dict[str, Any], str]:
    from jupyter_tpu.kernels.environments.push import push_wheels
    from jupyter_tpu.kernels.environments.saved_environments import SavedEnvironment, SavedEnvironments
    from jupyter_tpu.kernels.kernelspecs import write_kernelspec

    # check these files before any request to the cloud, because the check needs no connection
    requirements = _requirements(options.folder)
    node, keys = await _workers(options)
    if why_not := runtime_version_fits(node.accelerator_type, node.runtime_version, options.framework):
        warn(_(why_not))
    progress = Progress()

    def show(step: Mapping[str, Any]) -> None:
        progress.show(_(step["message"]))

    try:
        version = options.version
        # send the packages first, so that the workers need no package index to create the environment
        if options.push:
            version = await push_wheels(keys, options.framework, version, requirements, show)
        order = {"framework": options.framework, "version": version, "requirements": requirements}
        made = await _make_on_all(keys, order, show)
    finally:
        progress.end()
    # a recreated node then gets the same environment
    await asyncio.to_thread(SavedEnvironments(node.name, keys[0].endpoint).save, made)
    name = await asyncio.to_thread(
        write_kernelspec,
        node,
        cloud_settings(options),
        proxy_command=keys[0].proxy_command,
        ssh_user=keys[0].ssh_user,
        environment=SavedEnvironment.from_json(made),
    )
    return node, made, name


async def _make_on_all(keys: Sequence[WorkerKey], order: Mapping[str, Any], show: OnProgress) -> dict[str, Any]:
    """Create the environment on all workers in parallel."""
    from jupyter_tpu.kernels.agents.agent_calls import open_agent_link
    from jupyter_tpu.kernels.environments.all_workers import all_of, naming_worker, on_all_workers, slowest_of
    from jupyter_tpu.kernels.environments.environment import make_environment

    node_id, progress = keys[0].node.node_id, slowest_of(len(keys), show)
    async with AsyncExitStack() as stack:
        opening = [stack.enter_async_context(open_agent_link(key, progress(key.worker_id))) for key in keys]
        if len(keys) > 1:
            opening = [naming_worker(worker, node_id, link) for worker, link in enumerate(opening)]
        links = await all_of(opening)
        return await make_environment(on_all_workers([link.call for link in links], node_id), order, show)


async def _removed(options: argparse.Namespace) -> tuple[Node, bool]:
    from jupyter_tpu.kernels.environments.saved_environments import SavedEnvironments
    from jupyter_tpu.kernels.kernelspecs import remove_kernelspec

    node, keys = await _workers(options)
    answer = await _call_all(keys, "remove_environment", {"framework": options.framework})
    # otherwise a recreated node would restore the environment
    SavedEnvironments(node.name, keys[0].endpoint).remove(options.framework)
    remove_kernelspec(node.name, keys[0].endpoint, options.framework)
    return node, bool(answer["was_there"])


async def _call_all(keys: Sequence[WorkerKey], method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    from jupyter_tpu.kernels.agents.agent_calls import call_agent
    from jupyter_tpu.kernels.environments.all_workers import on_all_workers

    return await on_all_workers([partial(call_agent, key) for key in keys], keys[0].node.node_id)(method, params)


async def _workers(options: argparse.Namespace) -> tuple[Node, tuple[WorkerKey, ...]]:
    """Return the READY node that the options name, and the keys of its workers, where the environments are."""
    from jupyter_tpu.cli.nodes.find import find_node
    from jupyter_tpu.fleet.assembly import open_cloud
    from jupyter_tpu.kernels.agents.agent_calls import workers_of
    from jupyter_tpu.ssh import import_ahead

    async with open_cloud(cloud_settings(options)) as cloud:
        import_ahead()  # imports asyncssh in a thread during the request to the cloud
        node = await find_node(cloud, options.node, options.zone)
    if node.state != "READY":
        raise WrongState(
            Text("The node {node} is {state}, not READY.", node=node.name.node_id, state=node.state),
            exists="Nothing was changed.",
            hint="Start the node or wait until it is READY, then try again.",
        )
    return node, workers_of(node, cloud.settings.endpoint)


def _requirements(folder: Path | None) -> list[str]:
    from jupyter_tpu.kernels.environments.requirements import folder_needs

    needs = folder_needs(folder)
    if needs.fault:
        raise BadInput(
            Text(
                "{source} in {folder} cannot be used: {fault}", source=needs.source, folder=folder, fault=_(needs.fault)
            ),
            exists="Nothing was changed.",
        )
    if folder and not needs.source:
        raise BadInput(
            Text("There is no requirements.txt or pyproject.toml in {folder}.", folder=folder),
            exists="Nothing was changed.",
        )
    for line in needs.left_out:
        warn(_("skipped a line of {source} that does not apply to the node: {line}", source=needs.source, line=line))
    return list(needs.lines)


def _row(found: Mapping[str, Any]) -> tuple[str, ...]:
    state = _state(found)
    added = ", ".join(found["added"])
    packages = str(len(found["pins"])) if found["is_ready"] else ""
    return (found["framework"], found["version"], found["python"], state, packages, added)


def _state(found: Mapping[str, Any]) -> str:
    if found["making"] is not None:
        return _("being created: {step}", step=_(found["making"].get("message", "")))
    if found["is_ready"]:
        return "ready"
    # a node with one worker has no such list
    unready = ", ".join(map(str, found.get("unready_workers", ())))
    return _("incomplete on workers: {workers}", workers=unready) if unready else "incomplete"
