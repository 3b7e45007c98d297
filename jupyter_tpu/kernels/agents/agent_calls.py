"""Calls to agents over dedicated links, for example to list kernels or shut down a kernel."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast

from jupyter_tpu.cloud.settings import CloudSettings
from jupyter_tpu.errors import (
    AgentBroken,
    KernelFailed,
    NodeNotFound,
    Text,
    TpuError,
    WorkerUnreachable,
    WrongState,
    plain_data,
)
from jupyter_tpu.kernels.connections.pool import LinkPool, link_thread
from jupyter_tpu.kernels.connections.worker import OnProgress, Worker, WorkerKey
from jupyter_tpu.kernels.kernelspecs import list_kernelspecs
from jupyter_tpu.kernels.registry.notes import KernelRegistry, RegisteredKernel
from jupyter_tpu.link import Link
from jupyter_tpu.models import Node, NodeName

PATIENCE_S = 60.0
"""Time limit for a worker's response, in seconds.

A worker that was never used must first be prepared, which takes most of this time.
"""

_LATEST = 1e11  # latest valid time, in Unix seconds: beyond the year 5000


def workers_with_kernels(nodes: Iterable[Node], settings: CloudSettings) -> tuple[WorkerKey, ...]:
    """Return the first worker of each node, and all other workers that have kernels in this machine's registry."""
    places = {(str(node.name), 0) for node in nodes}
    names = {name for name, _ in places}
    noted = {(note.node, note.worker_id) for note in KernelRegistry().list() if note.endpoint == settings.endpoint}
    places |= {place for place in noted if place[0] in names}
    return tuple(_worker(name, settings.endpoint, worker_id) for name, worker_id in sorted(places))


def workers_of(node: Node, endpoint: str) -> tuple[WorkerKey, ...]:
    """Return all workers of a node, with the SSH proxy and login name from its kernelspec. Reads a few small files."""
    first = first_worker(str(node.name), endpoint)
    return tuple(replace(first, worker_id=worker_id) for worker_id in range(max(1, len(node.workers))))


def first_worker(node_name: str, endpoint: str) -> WorkerKey:
    """Return the first worker of a node, with the SSH proxy and login name from its kernelspec."""
    return _worker(node_name, endpoint, 0)


def _worker(node_name: str, endpoint: str, worker_id: int) -> WorkerKey:
    """Return a worker, with the SSH proxy and login name from the node's kernelspec if the node has a kernelspec."""
    specs = [spec for spec in list_kernelspecs() if (spec.node_name, spec.endpoint) == (node_name, endpoint)]
    way = {"proxy_command": specs[0].proxy_command, "ssh_user": specs[0].ssh_user} if specs else {}
    return WorkerKey(node=NodeName.parse(node_name), endpoint=endpoint, worker_id=worker_id, **way)


async def list_kernels(keys: Iterable[WorkerKey]) -> tuple[dict[WorkerKey, list[dict[str, Any]]], list[TpuError]]:
    """Return the kernels of all workers as reported by their agents, and the errors of workers that don't respond."""
    keys = tuple(keys)
    answers = await asyncio.gather(*(_try_to_list(key) for key in keys))
    found = {key: answer for key, answer in zip(keys, answers, strict=True) if not isinstance(answer, TpuError)}
    return found, [answer for answer in answers if isinstance(answer, TpuError)]


async def end_kernel(key: WorkerKey, kernel_id: str) -> None:
    """Shut down a kernel and remove all of its stored data, on the worker and on this machine.

    Raises:
        KernelFailed: the kernel doesn't exist.
        TpuError: the worker does not respond.
    """
    await call_agent(key, "forget_kernel", {"kernel_id": kernel_id})
    KernelRegistry().remove(kernel_id)


async def end_registered_kernel(note: RegisteredKernel) -> None:
    """Shut down a kernel on its node, because the user shut it down while the node was unreachable.

    Raises:
        TpuError: the worker still does not respond; the registry entry is kept.
    """
    try:
        await call_agent(
            _worker(note.node, note.endpoint, note.worker_id), "forget_kernel", {"kernel_id": note.kernel_id}
        )
    except (KernelFailed, NodeNotFound, WrongState):  # gone with its node, or already shut down by someone else
        pass
    except TpuError:
        if not note.endpoint:  # an emulated cloud that doesn't respond has exited, and its nodes are gone
            raise
    KernelRegistry().remove(note.kernel_id)


async def _try_to_list(key: WorkerKey) -> list[dict[str, Any]] | TpuError:
    try:
        return kernels_of(await call_agent(key, "list_kernels", {}), key.node)
    except TpuError as error:
        return error


def kernels_of(answer: Mapping[str, Any], node: NodeName) -> list[dict[str, Any]]:
    """Return the kernels from a ``list_kernels`` response; omit start times that are invalid.

    Raises:
        AgentBroken: the response is not a list of kernels. The caller then still lists the kernels of other workers.
    """
    rows = answer.get("kernels")
    if not isinstance(rows, list) or not all(
        isinstance(row, dict) and type(row.get("kernel_id")) is str for row in rows
    ):
        raise AgentBroken(Text("The list of kernels on {node} is invalid.", node=node.node_id))
    return [{**row, "started_at": _moment_or_none(row.get("started_at"))} for row in rows]


def _moment_or_none(value: Any) -> float | None:
    return float(value) if type(value) in (int, float) and 0 <= value <= _LATEST else None


async def call_agent(key: WorkerKey, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Call a method of a worker's agent over a new link (see `Link.call`), and sanitize strings in the result.

    Raises:
        TpuError: the agent returns an error, or the worker does not respond within `PATIENCE_S`.
    """
    try:
        async with asyncio.timeout(PATIENCE_S), open_agent_link(key) as link:
            return cast(dict[str, Any], plain_data(await link.call(method, params)))
    except TimeoutError as error:
        raise _no_response(key) from error


async def call_worker(key: WorkerKey, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Call a method like `call_agent`, but over the link that this process's kernels on the worker share."""
    pool = link_thread.enter()
    try:
        return await link_thread.run(_call_in_thread(pool, key, method, params))
    finally:
        await asyncio.to_thread(link_thread.leave)


async def _call_in_thread(pool: LinkPool, key: WorkerKey, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    try:
        async with asyncio.timeout(PATIENCE_S):
            shared = await pool.acquire(key, _ignore)
            try:
                return cast(dict[str, Any], plain_data(await shared.link.call(method, params)))
            finally:
                await pool.release(key, shared)
    except TimeoutError as error:
        raise _no_response(key) from error


def _no_response(key: WorkerKey) -> WorkerUnreachable:
    return WorkerUnreachable(
        Text("{node} did not respond within {seconds} s.", node=key.node.node_id, seconds=round(PATIENCE_S))
    )


def _ignore(_progress: Mapping[str, Any]) -> None:
    pass


@asynccontextmanager
async def open_agent_link(key: WorkerKey, on_progress: OnProgress = _ignore) -> AsyncIterator[Link]:
    """Open a new link to a worker's agent and close it on exit; prepare the worker first if needed.

    Raises:
        TpuError: the worker does not respond or cannot be prepared.
    """
    worker = Worker(key, on_progress)
    link = Link(worker.connect, memory=worker.preparation, python=key.python, on_progress=on_progress)
    await link.open()
    try:
        yield link
    finally:
        await link.close()
