"""The command `kernels`: list and shut down kernels on all nodes, no matter who started them."""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jupyter_tpu.cli.node_texts import EMULATED
from jupyter_tpu.cli.options import cloud_settings
from jupyter_tpu.cli.terminal import echo, echo_json, echo_table, full_text, is_confirmed, note, plain, warn
from jupyter_tpu.errors import BadInput, Text, TpuError
from jupyter_tpu.i18n import _

if TYPE_CHECKING:
    from jupyter_tpu.cloud.api import CloudApi
    from jupyter_tpu.kernels.connections.worker import WorkerKey


_HEADER = ("KERNEL", "NOTEBOOK", "NODE", "ZONE", "STATE", "SINCE")


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveKernel:
    """A running kernel.

    Attributes:
        key: the worker that the kernel runs on.
        info: the agent's description of the kernel, as JSON.
    """

    key: WorkerKey
    info: Mapping[str, Any]

    @property
    def kernel_id(self) -> str:
        """The kernel's id."""
        return str(self.info["kernel_id"])

    @property
    def noted(self) -> Mapping[str, Any]:
        """The Jupyter server's note about the kernel, stored by the agent, or an empty dict if there is none."""
        found = self.info.get("note")
        return found if isinstance(found, dict) else {}

    @property
    def notebook(self) -> str:
        """Path of the notebook or console that is open on the kernel, or an empty string if there is none."""
        sessions = [each for each in self.noted.get("sessions", ()) if isinstance(each, dict)]
        # False sorts before True: notebooks first
        sessions.sort(key=lambda each: each.get("type") != "notebook")
        return str(sessions[0].get("path") or "") if sessions else ""

    @property
    def workers(self) -> int:
        """Number of the node's workers that run the kernel together."""
        found = self.info.get("workers")
        return found if type(found) is int else 1

    def to_json(self) -> dict[str, Any]:
        """Return the kernel as JSON for the output of `kernels`."""
        names = ("kernel_id", "pid", "execution_state", "state_since", "started_at", "last_output_at", "record_bytes")
        return {
            **{name: self.info.get(name) for name in names},
            "node_name": str(self.key.node),
            "worker_id": self.key.worker_id,
            "workers": self.workers,
            "notebook": self.notebook or None,
            "host": self.noted.get("host"),
            "kernel_name": self.noted.get("kernel_name"),
        }


def run_kernels(options: argparse.Namespace) -> int:
    """List the running kernels, or shut down a kernel."""
    if options.action == "end":
        return _run_end(options)
    if options.kernel:
        raise BadInput(
            Text("`list` does not take a kernel ID ({kernel}).", kernel=f"{options.kernel!r}"),
            hint="`jupyter tpu kernels end ID` shuts down a kernel.",
        )
    kernels, failures = asyncio.run(_live_kernels(options))
    settings = cloud_settings(options)
    if options.json:
        # the listed kernels are valid even if some workers did not respond
        errors = [error.to_json() for error in failures]
        view = [kernel.to_json() for kernel in kernels]
        echo_json({"as_of": time.time(), "kernels": view, "errors": errors, "emulated": settings.is_emulated})
        return 0
    _show_list(kernels, failures)
    if settings.is_emulated:
        note(EMULATED)
    return 0


def _run_end(options: argparse.Namespace) -> int:
    from jupyter_tpu.kernels.agents.agent_calls import end_kernel

    if not options.kernel:
        raise BadInput("No kernel was given.", hint="`jupyter tpu kernels` lists the kernels.")
    kernels, failures = asyncio.run(_live_kernels(options))
    kernel = _only_match(options.kernel, kernels, failures)
    if not options.yes:
        _require_consent(kernel)
    asyncio.run(end_kernel(kernel.key, kernel.kernel_id))
    if options.json:
        echo_json({"kernel_id": kernel.kernel_id, "node_name": str(kernel.key.node)})
    else:
        echo(_("{named} was shut down. The node is still READY and billed.", named=_named(kernel)))
    return 0


async def _live_kernels(options: argparse.Namespace) -> tuple[list[LiveKernel], list[TpuError]]:
    from jupyter_tpu.fleet.assembly import open_cloud
    from jupyter_tpu.kernels.agents.agent_calls import list_kernels
    from jupyter_tpu.ssh import import_ahead

    async with open_cloud(cloud_settings(options)) as cloud:
        import_ahead()  # imports asyncssh in a thread during the request to the cloud
        keys = await _workers(cloud, options.zone or "-")
    found, failures = await list_kernels(keys)
    live = [LiveKernel(key=key, info=info) for key, infos in found.items() for info in infos if info.get("alive")]
    return sorted(live, key=lambda kernel: (str(kernel.key.node), kernel.info.get("started_at") or 0)), failures


async def _workers(cloud: CloudApi, zone: str) -> tuple[WorkerKey, ...]:
    """Return the workers that run kernels, on READY nodes that have the user's key. Don't add the key to any node."""
    from jupyter_tpu.journal.paths import data_dir
    from jupyter_tpu.kernels.agents.agent_calls import workers_with_kernels
    from jupyter_tpu.kernels.connections.worker import login_of
    from jupyter_tpu.ssh import UserKey

    listed = await cloud.list_nodes(zone)
    for silent in listed.unreachable:
        warn(_("{zone} did not respond: kernels on its nodes are not listed.", zone=silent))
    user_key = UserKey.load_or_create(data_dir() / "ssh")
    ready = [node for node in listed.nodes if node.state == "READY"]
    for node in ready:
        if not login_of(node, user_key):
            note(
                _("skipped: your SSH key is not on {node}, which was created elsewhere.", node=plain(node.name.node_id))
            )
    return workers_with_kernels([node for node in ready if login_of(node, user_key)], cloud.settings)


def _show_list(kernels: list[LiveKernel], failures: list[TpuError]) -> None:
    if kernels:
        echo_table(_HEADER, map(_row, kernels))
    else:
        note(_("No kernels are running on READY nodes."))
    for error in failures:
        warn(full_text(error))


def _row(kernel: LiveKernel) -> tuple[str, ...]:
    node, started = kernel.key.node, kernel.info.get("started_at")
    worker = _(" worker {worker}", worker=kernel.key.worker_id) if kernel.key.worker_id else ""
    if kernel.workers > 1:
        worker = _(", {count} workers", count=kernel.workers)
    since = time.strftime("%Y-%m-%d %H:%M", time.localtime(started)) if started else ""
    state = str(kernel.info.get("execution_state") or "alive")
    return (kernel.kernel_id, kernel.notebook, node.node_id + worker, node.zone, state, since)


def _only_match(text: str, kernels: list[LiveKernel], failures: list[TpuError]) -> LiveKernel:
    found = [kernel for kernel in kernels if kernel.kernel_id.startswith(text)]
    if len(found) == 1:
        return found[0]
    # mention that a worker that did not respond may have the kernel
    start = f"{text[:70]!r}"
    raise BadInput(
        Text("{count} kernels have an ID that starts with {start}.", count=len(found), start=start)
        if found
        else Text("No kernel has an ID that starts with {start}.", start=start),
        exists=Text("No kernel was shut down. {why}", why=_(failures[0].message))
        if failures
        else "No kernel was shut down.",
        hint="`jupyter tpu kernels` lists the kernels.",
    )


def _require_consent(kernel: LiveKernel) -> None:
    if not is_confirmed(_("Shut down {named}? Its variables are lost.", named=plain(_named(kernel)))):
        raise BadInput(
            Text("The shutdown of {kernel} was not confirmed.", kernel=kernel.kernel_id),
            exists="The kernel is still running.",
            hint="Answer y, or add --yes.",
        )


def _named(kernel: LiveKernel) -> str:
    node = kernel.key.node.node_id
    if kernel.notebook:
        return _("the kernel of {notebook} on {node}", notebook=kernel.notebook, node=node)
    return _("the kernel {kernel} on {node}", kernel=kernel.kernel_id, node=node)
