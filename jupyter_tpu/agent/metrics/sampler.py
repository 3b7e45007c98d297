"""Looks at the chips and their machine once a second, whether or not anybody wants to know, and keeps the last hour."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import psutil

from jupyter_tpu.accelerators import Accelerator, find_accelerator
from jupyter_tpu.agent.devices.holders import Holders, device_files
from jupyter_tpu.agent.metrics.history import SampleHistory
from jupyter_tpu.agent.metrics.libtpu import metric_ports, read_metrics
from jupyter_tpu.agent.metrics.sdk import Sdk
from jupyter_tpu.agent.metrics.validate import (
    DUTY_CYCLE,
    HBM_TOTAL,
    HBM_USED,
    SERVED,
    TENSORCORE,
    RawMetrics,
    believed,
)
from jupyter_tpu.metrics import IDLE, MEASURED, UNKNOWN, Holder, Host, Sample

log = logging.getLogger(__name__)

INTERVAL_S = 1.0
_SDK_RESTS_AFTER_S = 60.0


class Sampler:
    """The samples of this worker.

    Args:
        python_of: the Python of the kernel of that id, or of kernels at large where it is empty.
    """

    def __init__(self, environ: Mapping[str, str], holders: Holders, python_of: Callable[[str], str]) -> None:
        self._environ = environ
        self._holders = holders
        self._python_of = python_of
        self.accelerator_type = environ.get("TPU_ACCELERATOR_TYPE", "")
        self._kind = find_accelerator(self.accelerator_type)
        self._ports = metric_ports(environ, self._kind.chips_per_worker if self._kind else 1)
        self._sdk = Sdk(environ)
        self._held_at = time.monotonic()
        self.ring = SampleHistory()
        self._sample: Sample | None = None
        self._first = asyncio.Event()
        psutil.cpu_percent()  # the first answer is meaningless: it counts since the last question

    async def run(self) -> None:
        """Until cancelled."""
        next_at = time.monotonic()
        try:
            while True:
                next_at = max(next_at + INTERVAL_S, time.monotonic())
                try:
                    self._keep(await asyncio.to_thread(self.look))
                except Exception:  # the next second may be better
                    log.exception("no sample could be taken")
                await asyncio.sleep(max(0.0, next_at - time.monotonic()))
        finally:
            self._sdk.close()

    def _keep(self, sample: Sample) -> None:
        self._sample = sample
        self.ring.add(sample)
        self._first.set()

    async def newest(self) -> Sample:
        """The last sample; waits for the first."""
        await self._first.wait()
        assert self._sample is not None
        return self._sample

    def look(self) -> Sample:
        """A new sample. Blocks for some 2 s at most, which is what a process that hangs is given."""
        holders = self._holders.glance()
        told = read_metrics(self._ports, SERVED)
        sample = Sample(at=time.time(), host=_host(), holders=tuple(holders))
        if told is None:
            self._let_sdk_rest()
            state, reason = self._unserved(holders)
            return replace(sample, state=state, reason=reason)
        self._held_at = time.monotonic()
        if not told.values:
            return replace(sample, state=UNKNOWN, reason=next(iter(told.why_not.values())))
        told = self._with_tensorcores(told, holders)
        cores_per_chip = _cores_per_chip(self._kind, told)
        expected = self._kind.chips_per_worker * cores_per_chip if self._kind else None
        is_whole_node = self._kind is not None and self._kind.workers == 1
        found = believed(told, cores_per_chip, expected, is_whole_node=is_whole_node)
        return replace(
            sample,
            state=MEASURED,
            duty_per=found.duty_per,
            chips=found.chips,
            cores=found.cores,
            unknown=found.unknown,
        )

    def _unserved(self, holders: list[Holder]) -> tuple[str, str]:
        """State and reason while nobody serves metrics."""
        if holders:
            ports = ", ".join(map(str, self._ports))
            return UNKNOWN, (
                f"process {holders[0].pid} uses the chips but serves no metrics (port {ports}): it has just begun, "
                "its libtpu is too old, or TPU_RUNTIME_METRICS_PORTS differs there"
            )
        if not device_files(self._environ):
            return UNKNOWN, "no accelerator is seen on this machine"
        return IDLE, "no process uses the chips"

    def _with_tensorcores(self, told: RawMetrics, holders: list[Holder]) -> RawMetrics:
        """The SDK gives no ids: its values are those of the cores in their order, where there are as many."""
        kernel_id = next((holder.kernel_id for holder in holders if holder.kernel_id), "")
        found = self._sdk.read(self._python_of(kernel_id))
        ids = sorted({core for name in (HBM_TOTAL, HBM_USED) for core, _ in told.values.get(name, ())})
        if isinstance(found, str):
            return replace(told, why_not={**told.why_not, TENSORCORE: found})
        if len(found) != len(ids):
            why = f"libtpu's SDK reports {len(found)} TensorCores, the runtime of {len(ids)}"
            return replace(told, why_not={**told.why_not, TENSORCORE: why})
        return replace(told, values={**told.values, TENSORCORE: list(zip(ids, found, strict=True))})

    def _let_sdk_rest(self) -> None:
        if time.monotonic() - self._held_at > _SDK_RESTS_AFTER_S:
            self._sdk.close()


def _cores_per_chip(kind: Accelerator | None, told: RawMetrics) -> int:
    """JAX's devices of a chip, by the type or, where that is not known, by what is told."""
    if kind is not None:
        return max(1, kind.jax_devices // kind.chips)
    cores, chips = ({number for number, _ in told.values.get(name, ())} for name in (HBM_TOTAL, DUTY_CYCLE))
    return 2 if chips and len(cores) == 2 * len(chips) else 1


def _host() -> Host:
    memory, disk = psutil.virtual_memory(), psutil.disk_usage(str(Path.home()))
    return Host(
        cpus=psutil.cpu_count(),
        cpu_percent=psutil.cpu_percent(),
        memory_used_bytes=memory.total - memory.available,
        memory_total_bytes=memory.total,
        disk_used_bytes=disk.used,
        disk_total_bytes=disk.total,
    )
