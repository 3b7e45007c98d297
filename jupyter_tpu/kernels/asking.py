"""Asks the agents of workers for what they have, and has a kernel ended, without a front end's part in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from jupyter_tpu.cloud.settings import CloudSettings
from jupyter_tpu.errors import TpuError, WorkerUnreachable
from jupyter_tpu.kernels.kernelspecs import list_kernelspecs
from jupyter_tpu.kernels.notes import KernelNotes
from jupyter_tpu.kernels.worker import Worker, WorkerKey
from jupyter_tpu.link import Link
from jupyter_tpu.models import Node

PATIENCE_S = 60.0
"""How long a worker may take to answer; one that was never used is prepared first."""


def workers_with_kernels(nodes: Iterable[Node], settings: CloudSettings) -> tuple[WorkerKey, ...]:
    """The first worker of each node, and those of which this machine knows a kernel, by their kernelspecs' way."""
    noted = {(note.node, note.worker_id) for note in KernelNotes().list() if note.endpoint == settings.endpoint}
    specs = {spec.node_name: spec for spec in list_kernelspecs() if spec.endpoint == settings.endpoint}
    keys: list[WorkerKey] = []
    for node in nodes:
        spec, name = specs.get(str(node.name)), str(node.name)
        for worker_id in sorted({0} | {worker_id for noted_name, worker_id in noted if noted_name == name}):
            keys.append(
                WorkerKey(
                    node=node.name,
                    endpoint=settings.endpoint,
                    worker_id=worker_id,
                    proxy_command=spec.proxy_command if spec else "",
                    ssh_user=spec.ssh_user if spec else "",
                )
            )
    return tuple(keys)


async def list_kernels(keys: Iterable[WorkerKey]) -> tuple[dict[WorkerKey, list[dict[str, Any]]], list[TpuError]]:
    """The kernels of all workers as their agents describe them, and why some workers did not answer."""
    keys = tuple(keys)
    answers = await asyncio.gather(*(_try_to_list(key) for key in keys))
    found = {key: answer for key, answer in zip(keys, answers, strict=True) if not isinstance(answer, TpuError)}
    return found, [answer for answer in answers if isinstance(answer, TpuError)]


async def end_kernel(key: WorkerKey, kernel_id: str) -> None:
    """End a kernel and have everything that is kept of it removed, there and here.

    Raises:
        KernelFailed: there is no such kernel.
        TpuError: the worker does not answer.
    """
    await _ask(key, "forget_kernel", {"kernel_id": kernel_id})
    KernelNotes().remove(kernel_id)


async def _try_to_list(key: WorkerKey) -> list[dict[str, Any]] | TpuError:
    try:
        return list((await _ask(key, "list_kernels", {}))["kernels"])
    except TpuError as error:
        return error


async def _ask(key: WorkerKey, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    try:
        async with asyncio.timeout(PATIENCE_S), _agent_of(key) as link:
            return await link.call(method, params)
    except TimeoutError as error:
        raise WorkerUnreachable(f"{key.node.node_id} did not answer within {PATIENCE_S:.0f} s.") from error


@asynccontextmanager
async def _agent_of(key: WorkerKey) -> AsyncIterator[Link]:
    worker = Worker(key, lambda _progress: None)
    link = Link(worker.connect, python=key.python)
    await link.open()
    try:
        yield link
    finally:
        await link.close()
