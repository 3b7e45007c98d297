"""Run a kernel on all workers of a node, with ipyparallel's controller and engines. All workers take part, or none.

The kernel runs on worker 0 and is started like any other kernel. This module starts the controller on worker 0 and one
engine on each other worker, and stops them with the kernel. A `Slice` runs in the event loop of its `LinkPool`.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from jupyter_tpu.errors import BadInput, TpuError, WorkerUnreachable
from jupyter_tpu.kernels.connections.pool import LinkPool, WorkerLink
from jupyter_tpu.kernels.connections.worker import OnProgress, WorkerKey
from jupyter_tpu.kernels.environments.all_workers import all_of, combined, naming_worker, of_worker
from jupyter_tpu.kernels.launch import Launch
from jupyter_tpu.kernels.registry.exit_status import exit_code_of, exit_text, stderr_of
from jupyter_tpu.kernels.remote_kernel import ANSWER_S, START_S, START_WHILE_CUT_S, RemoteKernel

log = logging.getLogger(__name__)
T = TypeVar("T")

# Characters of an engine's last output in a notice: the last few lines, not the log.
_LAST_OUTPUT = 600


class Slice:
    """The controller and the engines of a kernel that runs on several workers.

    The controller runs on worker 0, and an engine on every other worker.

    Args:
        first: worker 0.
        notify: prints a message in the kernel's notebook.
    """

    def __init__(
        self, first: WorkerKey, workers: int, pool: LinkPool, notify: Callable[[str], Awaitable[None]]
    ) -> None:
        self._first = first
        self._workers = workers
        self._pool = pool
        self._notify = notify
        self._links: dict[int, WorkerLink] = {}
        self._first_link: WorkerLink | None = None
        self._kernel_id = ""
        self._environments: dict[int, str] = {}  # the Python of the kernel's environment, by worker
        self._pythons: dict[int, str] = {}
        self._env: dict[str, str] = {}
        self._of_node = 0
        self._is_checked = False  # whether all workers were asked for this start
        self._starting: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None

    @property
    def workers(self) -> int:
        """The last known number of the node's workers. A recreated node may have a different number."""
        return self._of_node or self._workers

    @property
    def others(self) -> range:
        """The numbers of all workers except worker 0."""
        return range(1, self._workers)

    async def join(self, on_progress: OnProgress) -> None:
        """Open the links to all other workers in parallel, and reopen lost links.

        Raises:
            TpuError: a link cannot be opened. The error names its worker, and no link stays open.
        """
        try:
            await all_of(
                self._named(worker, self._acquire(worker, of_worker(worker, on_progress))) for worker in self.others
            )
        except BaseException:
            await self._release()
            raise

    def use(self, link: WorkerLink) -> None:
        """Use this link for worker 0."""
        self._first_link = link

    async def prepare(self, launch: Launch) -> Launch:
        """Check that every worker can take part in the slice, and install missing packages.

        If all workers were ready for an earlier kernel over the same links, they are checked while the kernel starts,
        so that the kernel doesn't have to wait for them.

        Returns a copy of `launch` with worker 0's Python and the slice's environment variables.

        Raises:
            TpuError: a worker can't run its part of the slice; the error names the worker.
        """
        if not self._pythons.keys() >= {*range(self._workers)}:
            earlier = self._earlier_facts(launch)
            self._is_checked = not earlier
            self._learn(earlier or await self._prepare_all(launch))
        return replace(launch, python=self._pythons[0], env={**self._env, **launch.env})

    async def count_workers(self) -> int:
        """Return the number of workers of the node, as far as worker 0 knows it."""
        (found,) = await self._prepare_all(Launch(kernel_id="", key=""), [0])
        self._learn_of_node(found)
        return self.workers

    async def check(self) -> None:
        """Check again that all other workers are ready for the kernel, before a restart kills any process."""
        await self._prepare_all(Launch(kernel_id="", key=""), self.others)

    async def begin(self, launch: Launch) -> None:
        """Start the controller and engines in the background. The caller must start the kernel immediately afterwards.

        This sends its first call before the kernel starts, because the agent must first drop any earlier controller.
        """
        self._cancel()
        self._kernel_id = launch.kernel_id
        self._starting = asyncio.create_task(self._on_all_or_none(self._start(launch)))
        await asyncio.sleep(0)

    def follow(self, kernel: RemoteKernel) -> None:
        """Start a task that stops the engines as soon as the kernel exits, and reports an engine that exits earlier."""
        self._watching = asyncio.create_task(self._watch(kernel))

    def attach(self, kernel_id: str, kernel: RemoteKernel) -> None:
        """Attach to a kernel that another process has started, and finish its start if that process was killed.

        The links are opened in the background.
        """
        self._kernel_id = kernel_id
        for worker in self.others:
            self._links[worker] = self._pool.join(self._key(worker))
        self._starting = asyncio.create_task(self._on_all_or_none(self._finish_start()))
        self.follow(kernel)

    async def stop(self) -> None:
        """Stop all engines. If a worker does not respond, its engine exits when the controller's heartbeats stop."""
        if self._starting:
            self._starting.cancel()  # no engine may start after this
        await self._stop_engines()

    async def leave(self, *, is_complete: bool) -> None:
        """Release the links. Running processes keep running.

        Args:
            is_complete: whether to wait for a start in progress. If not, or while worker 0 is unreachable, the start
                is cancelled.
        """
        if self._starting and is_complete and self._first_link and self._first_link.link.is_up:
            await asyncio.wait([self._starting], timeout=START_S)
        self._cancel()
        await self._release()

    async def call_everywhere(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Call an environment method on all workers in parallel. Return one combined response.

        Raises:
            TpuError: a worker's error, with its name.
        """
        answers = await all_of(self._call(worker, method, params) for worker in range(self._workers))
        if method == "make_environment":
            self._pythons = {}
            self._environments = {worker: str(answer["path"]) for worker, answer in enumerate(answers)}
        return combined(method, answers)

    def _earlier_facts(self, launch: Launch) -> list[Mapping[str, Any]]:
        """Return what all workers replied for an earlier kernel, or an empty list if any reply is missing."""
        if launch.python or self._environments:  # an environment may have been created again since then
            return []
        found = [self._link(worker).slice_facts for worker in range(self._workers)]
        return [facts for facts in found if facts] if all(found) else []

    def _learn(self, found: Sequence[Mapping[str, Any]]) -> None:
        self._learn_of_node(found[0])
        self._pythons = {worker: str(answer["python"]) for worker, answer in enumerate(found)}

    def _learn_of_node(self, found: Mapping[str, Any]) -> None:
        # An agent of an earlier version does not send these fields.
        self._of_node = int(found.get("workers", 0))
        self._env = {str(name): str(value) for name, value in found.get("env", {}).items()}

    def _key(self, worker: int) -> WorkerKey:
        return replace(self._first, worker_id=worker)

    async def _acquire(self, worker: int, on_progress: OnProgress) -> None:
        known = self._links.get(worker)
        if known and known.link.state != "lost":
            return
        if known:
            await self._pool.release(self._key(worker), self._links.pop(worker))
        self._pythons = {}  # another node's workers may have different Pythons
        self._links[worker] = await self._pool.acquire(self._key(worker), on_progress)

    async def _release(self) -> None:
        links, self._links = self._links, {}
        await asyncio.gather(*(self._pool.release(self._key(worker), link) for worker, link in links.items()))

    async def _named(self, worker: int, work: Awaitable[T]) -> T:
        return await naming_worker(worker, self._first.node.node_id, work)

    async def _call(self, worker: int, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        link = self._link(worker).link
        return await self._named(worker, link.call(method, {"kernel_id": self._kernel_id, **params}))

    def _link(self, worker: int) -> WorkerLink:
        link = self._links[worker] if worker else self._first_link
        assert link, "`use` comes first"
        return link

    async def _prepare(self, worker: int, python: str) -> dict[str, Any]:
        link = self._link(worker)
        try:
            found = await self._call(worker, "prepare_slice", {"python": python})
        except TpuError:
            link.slice_facts = None  # the next kernel must wait for the check
            raise
        if not python:
            link.slice_facts = found
        return found

    async def _prepare_all(self, launch: Launch, workers: Iterable[int] | None = None) -> list[dict[str, Any]]:
        chosen = range(self._workers) if workers is None else workers
        pythons = {worker: self._environments.get(worker, launch.python) for worker in chosen}
        is_cut = not all(link.link.is_up for link in self._links.values())
        try:
            # An installation may take minutes, but a user who restarts must not wait for a disconnected link.
            async with asyncio.timeout(START_WHILE_CUT_S if is_cut else None):
                return await all_of(self._prepare(worker, pythons[worker]) for worker in chosen)
        except TimeoutError:
            raise WorkerUnreachable(
                "A worker of the slice did not respond.",
                exists="Nothing was changed.",
                hint="Try again when the node is connected, or check the node in the TPU panel.",
            ) from None

    async def _start(self, launch: Launch) -> None:
        pythons = [self._pythons.get(worker, "") for worker in range(self._workers)]
        engines = {
            "start_id": uuid.uuid4().hex,
            "workers": self._workers,
            "env": dict(launch.env),
            "cwd": launch.cwd,
            "extra_arguments": list(launch.extra_arguments),
            "pythons": pythons,
        }
        params = {"workers": self._workers, "python": pythons[0], "engines": engines}
        started = await self._call(0, "start_controller", params)
        if not self._is_checked:
            self._learn(await all_of(self._prepare(worker, "") for worker in range(self._workers)))
            self._is_checked = True
            engines["pythons"] = [self._pythons[worker] for worker in range(self._workers)]
        await self._start_engines({"engines": engines, **started})

    async def _finish_start(self) -> None:
        """Start the engines that are missing because the process that started the kernel was killed."""
        try:
            start = await self._call(0, "unfinished_start", {})
        except BadInput:  # an agent of an earlier version
            return
        if start:
            log.warning("kernel %s: its start is completed on all workers", self._kernel_id)
            await self._start_engines(start)

    async def _start_engines(self, start: Mapping[str, Any]) -> None:
        """Start the engines with the result of ``unfinished_start``. Existing engines are left unchanged."""
        engines = {**start["engines"], "connection": start["engine_connection"]}
        pythons = engines.pop("pythons")
        await all_of(
            self._call(worker, "start_engine", {**engines, "worker": worker, "python": pythons[worker]})
            for worker in self.others
        )
        try:
            await self._call(0, "finish_start", {})
        except TpuError as error:  # the next client may ask for the same engines again, which does no harm
            log.info("kernel %s: that it was started on all workers was not stored: %s", self._kernel_id, error)

    async def _on_all_or_none(self, start: Awaitable[None]) -> None:
        """Await the start of the engines; if it fails, end the kernel with the reason."""
        try:
            await start
        except TpuError as error:
            reason = f"The kernel was ended, because not all workers could start. {error}"
            await asyncio.gather(self._end_kernel(reason), self._stop_engines())

    async def _end_kernel(self, reason: str) -> None:
        try:
            answer = await self._call(0, "stop_slice", {"reason": reason})
        except TpuError as error:
            log.warning("kernel %s could not be ended: %s. Reason: %s", self._kernel_id, error, reason)
            return
        if answer.get("has_ended", True):  # an agent of an earlier version doesn't say
            log.warning("kernel %s: %s", self._kernel_id, reason)

    async def _watch(self, kernel: RemoteKernel) -> None:
        if self._starting:
            await asyncio.wait([self._starting])
        engines = [asyncio.create_task(self._report_loss(worker, kernel)) for worker in self.others]
        try:
            await kernel.wait()
            await self._stop_engines()
        finally:
            for task in engines:
                task.cancel()

    async def _report_loss(self, worker: int, kernel: RemoteKernel) -> None:
        """Wait until an engine exits, and report how it exited, unless its shutdown was requested."""
        try:
            answer = await self._call(worker, "slice_info", {"wait": True})
        except TpuError as error:
            log.info("how worker %s of kernel %s ended is unknown: %s", worker, self._kernel_id, error)
            return
        engine = answer.get("engine") or {}
        ended = engine.get("exit") or {}
        if not ended or ended.get("asked") or kernel.exit_code is not None:
            return
        output = stderr_of(ended)[-_LAST_OUTPUT:]
        tail = f" Its last output:\n{output}" if output else ""
        message = f"The process of worker {worker} ended ({exit_text(exit_code_of(ended))}). Restart the kernel.{tail}"
        # Exit code 0: the kernel is shutting down, or a cell has called `exit`, which the kernel reports.
        loss = {"worker": worker, "message": message, "is_shown": exit_code_of(ended) != 0}
        try:
            await self._call(0, "report_loss", {**loss, "start_id": engine.get("start_id", "")})
        except BadInput:  # an agent of an earlier version
            if loss["is_shown"]:
                await self._notify(message)
        except TpuError as error:
            log.info("kernel %s does not learn that worker %s ended: %s", self._kernel_id, worker, error)

    async def _stop_engines(self) -> None:
        await asyncio.gather(*(self._stop_one(worker) for worker in self.others))

    async def _stop_one(self, worker: int) -> None:
        if worker not in self._links or not self._kernel_id:
            return
        try:
            async with asyncio.timeout(ANSWER_S):
                await self._call(worker, "stop_slice", {})
        except (TpuError, TimeoutError) as error:
            log.info(
                "the engine of worker %s stops without the controller's heartbeats: %s", worker, error or "no response"
            )

    def _cancel(self) -> None:
        for task in (self._starting, self._watching):
            if task:
                task.cancel()
        self._starting = self._watching = None
