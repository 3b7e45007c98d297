"""Samples what the processes of workers use, for the time series of Cloud Monitoring."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from aiohttp import web

from jupyter_tpu.emulator.core import Cloud
from jupyter_tpu.emulator.resources.behaviours import assumed
from jupyter_tpu.emulator.resources.protos import NodePb, State
from jupyter_tpu.emulator.services.monitoring.accelerator import accelerator_reading
from jupyter_tpu.emulator.workers.process_tree import TOKEN_VARIABLE, processes_of

_log = logging.getLogger(__name__)

PERIOD_S = 10.0
"""Real seconds between two samples of each worker that is up. Our choice; the real service samples every 60 s."""
FRESH_S = 1.0
"""Real seconds for which a sample is good enough for a request; bounds the load of clients that poll."""
KEPT = 1440
"""Most samples of a worker; four hours at one per `PERIOD_S`."""


WorkerKey = tuple[str, int]
"""Uid of the node and worker id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The use of one worker at one moment; values of its chips are empty while no process uses them.

    Attributes:
        moment: virtual seconds since the epoch.
        cpu_percent: CPU time of the worker's processes by real time, all cores of this machine being 100.
        memory_bytes: resident memory of them.
        uptime_s: virtual seconds since the node became READY.
    """

    moment: float
    cpu_percent: float | None
    memory_bytes: int
    uptime_s: float | None
    duty_percent: Mapping[str, float] = field(default_factory=dict)
    idle_s: Mapping[str, float] = field(default_factory=dict)
    hbm_used_bytes: Mapping[str, float] = field(default_factory=dict)
    hbm_total_bytes: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Watched:
    """A worker that is up, and where it is."""

    uid: str
    worker_id: int
    token: str
    folder: Path
    ready_since: float | None

    @property
    def key(self) -> WorkerKey:
        """What its samples are stored under."""
        return self.uid, self.worker_id


@dataclass(slots=True)
class _CpuTime:
    moment: float
    cpu_s: float


class Samples:
    """Samples of all workers that are up, newest last."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._samples: dict[WorkerKey, deque[Sample]] = {}
        self._cpu_times: dict[WorkerKey, _CpuTime] = {}
        self._sampled_at = -FRESH_S
        self._one_at_a_time = asyncio.Lock()

    def of(self, node: NodePb, worker_id: int) -> list[Sample]:
        """Return the samples of a worker."""
        return list(self._samples.get((str(node.id), worker_id), ()))

    @assumed(
        "monitoring-samples",
        "Workers are sampled every ten real seconds and at each request, not every minute; the samples of a node "
        "are dropped with it, and when the emulator ends.",
    )
    async def running(self, _: web.Application) -> AsyncIterator[None]:
        """Sample for as long as the server runs."""
        task = asyncio.create_task(self._sample_forever())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def refresh(self) -> None:
        """Sample every worker that is up, unless that was done a moment ago."""
        async with self._one_at_a_time:
            watched = self._watched()
            is_fresh = time.monotonic() - self._sampled_at < FRESH_S
            # a worker that has just come up has no sample yet, however fresh the others are
            if not is_fresh or any(each.key not in self._samples for each in watched):
                await self._sample_all(watched)
                self._sampled_at = time.monotonic()

    async def _sample_forever(self) -> None:
        while True:
            await asyncio.sleep(PERIOD_S)
            try:
                await self.refresh()
            except Exception:  # noqa: BLE001 - the performing loop: a sample that failed must not end it
                _log.exception("workers could not be sampled")

    async def _sample_all(self, watched: list[Watched]) -> None:
        self._drop_all_but({each.key for each in watched})
        if not watched:
            return
        now = self._cloud.clock.now()
        # one walk over all processes for all workers: it is the expensive part
        running = await asyncio.to_thread(processes_by_token, {each.token for each in watched})
        sampling = (asyncio.to_thread(self._sample, each, running[each.token], now) for each in watched)
        for each, sample in zip(watched, await asyncio.gather(*sampling), strict=True):
            self._samples.setdefault(each.key, deque(maxlen=KEPT)).append(sample)

    def _drop_all_but(self, keys: set[WorkerKey]) -> None:
        self._samples = {key: samples for key, samples in self._samples.items() if key in keys}
        self._cpu_times = {key: cpu_time for key, cpu_time in self._cpu_times.items() if key in keys}

    def _watched(self) -> list[Watched]:
        nodes = (node for node in self._cloud.store.nodes() if node.state == State.READY)
        return [self._worker(node, worker_id) for node in nodes for worker_id in self._worker_ids(node)]

    def _worker_ids(self, node: NodePb) -> range:
        """Return the ids of the workers that are up."""
        return range(len(self._cloud.workers.ssh_servers(node)))

    def _worker(self, node: NodePb, worker_id: int) -> Watched:
        machine = self._cloud.workers.machine(node, worker_id)
        spans = self._cloud.store.open_spans(str(node.id))
        return Watched(str(node.id), worker_id, machine.token, machine.folder, spans[0].started if spans else None)

    def _sample(self, watched: Watched, processes: list[psutil.Process], now: float) -> Sample:
        cpu_time = _CpuTime(time.monotonic(), sum(_cpu_s(process) for process in processes))
        before = self._cpu_times.get(watched.key)
        # CPU time is a counter: the percentage needs the sample before
        self._cpu_times[watched.key] = cpu_time
        chips = accelerator_reading(watched.folder / "chips")
        return Sample(
            moment=now,
            cpu_percent=_percent(before, cpu_time),
            memory_bytes=sum(_memory_bytes(process) for process in processes),
            uptime_s=None if watched.ready_since is None else now - watched.ready_since,
            **chips,
        )


def processes_by_token(tokens: Collection[str]) -> dict[str, list[psutil.Process]]:
    """The processes of all workers in one cpu_time; a child that cleared its environment is where its parent is."""
    found: dict[str, list[psutil.Process]] = {token: [] for token in tokens}
    for process in processes_of(tokens):
        with contextlib.suppress(psutil.Error):
            token = _token_of(process)
            if token in found:
                found[token].append(process)
    return found


def _token_of(process: psutil.Process) -> str:
    for each in (process, *process.parents()):
        token = each.environ().get(TOKEN_VARIABLE, "")
        if token:
            return token
    return ""


def _percent(before: _CpuTime | None, after: _CpuTime) -> float | None:
    """Return the CPU use between two samples in percent of all cores, or None if there is no sample before.

    A process that ended takes its CPU time along, so the difference may be negative.
    """
    if before is None or after.moment <= before.moment:
        return None
    used_s = max(0.0, after.cpu_s - before.cpu_s) / (after.moment - before.moment)
    return 100.0 * used_s / (psutil.cpu_count() or 1)


def _cpu_s(process: psutil.Process) -> float:
    with contextlib.suppress(psutil.Error):
        times = process.cpu_times()
        return float(times.user + times.system)
    return 0.0


def _memory_bytes(process: psutil.Process) -> int:
    with contextlib.suppress(psutil.Error):
        return int(process.memory_info().rss)
    return 0
