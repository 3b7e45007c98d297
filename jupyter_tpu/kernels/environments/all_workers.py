"""Call a method of all workers of a node in parallel, and combine the responses about their environments."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from jupyter_tpu.errors import Text, TpuError
from jupyter_tpu.kernels.connections.worker import OnProgress
from jupyter_tpu.kernels.environments.environment import Call

T = TypeVar("T")


async def all_of(works: Iterable[Awaitable[T]]) -> list[T]:
    """Await all awaitables. If one fails, cancel the others and raise its error."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


async def naming_worker(worker: int, node_id: str, work: Awaitable[T]) -> T:
    """Await `work`. If it raises an error, add the worker's name to the error."""
    try:
        return await work
    except TpuError as error:
        message = Text("Worker {worker} of {node}: {why}", worker=worker, node=node_id, why=error.message)
        raise type(error)(message, exists=error.exists, hint=error.hint, raw=error.raw) from error


def of_worker(worker: int, on_progress: OnProgress) -> OnProgress:
    """Return a progress callback that adds the worker's number to each message."""

    def report(progress: Mapping[str, Any]) -> None:
        message = Text("{message} (worker {worker})", message=progress["message"], worker=worker)
        on_progress({**progress, "message": message})

    return report


def slowest_of(count: int, on_progress: OnProgress) -> Callable[[int], OnProgress]:
    """Return a progress callback for each of `count` workers; only the step of the slowest worker is reported."""
    if count == 1:
        return lambda _: on_progress
    fractions = dict.fromkeys(range(count), 0.0)

    def of(worker: int) -> OnProgress:
        def report(progress: Mapping[str, Any]) -> None:
            fractions[worker] = progress.get("fraction") or 0.0
            if fractions[worker] == min(fractions.values()):
                of_worker(worker, on_progress)(progress)

        return report

    return of


def on_all_workers(calls: Sequence[Call], node_id: str) -> Call:
    """Return a function that calls a method on all workers and combines the responses; an error names its worker."""
    if len(calls) == 1:
        return calls[0]

    async def call(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        answers = await all_of(
            naming_worker(worker, node_id, each(method, params)) for worker, each in enumerate(calls)
        )
        return combined(method, answers)

    return call


def combined(method: str, answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Combine the workers' responses to a method of environments into one response."""
    if method == "environments":
        return {"environments": _merged(answers)}
    if method == "remove_environment":
        return {"was_there": any(answer["was_there"] for answer in answers)}
    # The notes are about packages that could not be installed. A note that several workers share is listed only once.
    notes = list(dict.fromkeys(note for answer in answers for note in answer.get("notes", ())))
    return {**answers[0], "notes": notes}


def _merged(answers: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    rows: dict[str, list[Mapping[str, Any] | None]] = {}
    for worker, answer in enumerate(answers):
        for row in answer["environments"]:
            rows.setdefault(row["framework"], [None] * len(answers))[worker] = row
    return [_merged_rows(found) for found in rows.values()]


def _merged_rows(rows: Sequence[Mapping[str, Any] | None]) -> dict[str, Any]:
    """Combine the descriptions of one environment from all workers.

    The environment is ready if it is ready on all workers. Otherwise, the step of the slowest worker is shown.
    """
    present = [row for row in rows if row]
    steps = [row["making"] for row in present if row["making"]]
    unready = [worker for worker, row in enumerate(rows) if not (row and row["is_ready"] and not row["making"])]
    making = None
    if steps:
        slowest = min(steps, key=lambda step: step.get("fraction") or 0.0)
        text = Text(
            "{message} ({ready} of {count} workers ready)",
            message=slowest["message"],
            ready=len(rows) - len(unready),
            count=len(rows),
        )
        making = {**slowest, "message": text}
    is_ready = all(row and row["is_ready"] for row in rows)
    return {**present[0], "making": making, "is_ready": is_ready, "unready_workers": unready}
