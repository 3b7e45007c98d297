"""Sample the chips and their machine once a second, so that a new client receives a history."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import psutil

from jupyter_tpu.accelerators import Accelerator, find_accelerator
from jupyter_tpu.agent.devices.holders import Holders
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
    validated,
)
from jupyter_tpu.metrics import IDLE, MEASURED, UNKNOWN, Holder, Host, Sample
from jupyter_tpu.tpu_files import device_files, devices_folder
from jupyter_tpu.worker_clock import booted_at, wall_clock

log = logging.getLogger(__name__)

INTERVAL_S = 1.0
"""Seconds between two samples: our choice. An hour of samples takes less than 1 MiB (`history`)."""
# Keep the SDK process this long after the chips become idle, so that it need not load libtpu for each use.
_SDK_RESTS_AFTER_S = 60.0


class Sampler:
    """The sampler of this worker's chips and machine.

    Args:
        environ: environment with the accelerator type and libtpu's ports.
        python_of: returns the Python of the kernel with this id, or the default Python for an empty id.

    Attributes:
        accelerator_type: type of the node; empty if unknown.
        history: the samples of the last hour.
    """

    def __init__(self, environ: Mapping[str, str], holders: Holders, python_of: Callable[[str], str]) -> None:
        self._environ = environ
        self._holders = holders
        self._python_of = python_of
        self.accelerator_type = environ.get("TPU_ACCELERATOR_TYPE", "")
        self._kind = find_accelerator(self.accelerator_type)
        self._ports = metric_ports(environ, self._kind.chips_per_worker if self._kind else 1)
        self._sdk = Sdk(environ)
        self._served_at = time.monotonic()
        self.history = SampleHistory()
        self._sample: Sample | None = None
        self._first = asyncio.Event()
        psutil.cpu_percent()  # discard the first result, because psutil measures from one call to the next

    async def run(self) -> None:
        """Take samples until cancelled."""
        next_at = time.monotonic()
        try:
            while True:
                # After a slow sample, take the next one at once, but don't make up for missed samples.
                next_at = max(next_at + INTERVAL_S, time.monotonic())
                try:
                    self._add(await asyncio.to_thread(self.take_sample))
                except Exception:  # continue, because the next sample may succeed
                    log.exception("no sample could be taken")
                await asyncio.sleep(max(0.0, next_at - time.monotonic()))
        finally:
            self._sdk.close()

    def _add(self, sample: Sample) -> None:
        self._sample = sample
        self.history.add(sample, sample.at - booted_at())
        self._first.set()

    async def newest(self) -> Sample:
        """Return the newest sample, after waiting for the first one."""
        await self._first.wait()
        assert self._sample is not None
        return self._sample

    def take_sample(self) -> Sample:
        """Take a sample; this may block for about 2 s if a TPU process hangs."""
        holders = self._holders.scan_if_changed()
        raw = read_metrics(self._ports, SERVED)
        sample = Sample(at=wall_clock(), host=_host(), holders=tuple(holders))
        # No process serves metrics, usually because no process uses the chips.
        if raw is None:
            self._close_unused_sdk()
            state, reason = self._unserved(holders)
            return replace(sample, state=state, reason=reason)
        self._served_at = time.monotonic()
        if not raw.values:
            return replace(sample, state=UNKNOWN, reason=next(iter(raw.why_not.values())))
        raw = self._with_tensorcores(raw, holders)
        cores_per_chip = _cores_per_chip(self._kind, raw)
        expected = self._kind.chips_per_worker * cores_per_chip if self._kind else None
        is_whole_node = self._kind is not None and self._kind.workers == 1
        found = validated(raw, cores_per_chip, expected, is_whole_node=is_whole_node)
        return replace(
            sample,
            state=MEASURED,
            duty_per=found.duty_per,
            chips=found.chips,
            cores=found.cores,
            unknown=found.unknown,
        )

    def _unserved(self, holders: list[Holder]) -> tuple[str, str]:
        """Return the chips' state (idle or unknown) and its reason, when no process serves metrics."""
        if holders:
            ports = ", ".join(map(str, self._ports))
            return UNKNOWN, (
                f"process {holders[0].pid} uses the chips but serves no metrics (port {ports}): it has just started, "
                "its libtpu is too old, or TPU_RUNTIME_METRICS_PORTS differs there"
            )
        if not device_files(devices_folder(self._environ)):
            return UNKNOWN, "no accelerator was found on this machine"
        return IDLE, "no process is using the chips"

    def _with_tensorcores(self, raw: RawMetrics, holders: list[Holder]) -> RawMetrics:
        """Add the SDK's values, which have no ids: assign them to the cores in order if the counts match."""
        kernel_id = next((holder.kernel_id for holder in holders if holder.kernel_id), "")
        found = self._sdk.read(self._python_of(kernel_id))
        ids = sorted({core for name in (HBM_TOTAL, HBM_USED) for core, _ in raw.values.get(name, ())})
        if isinstance(found, str):
            return replace(raw, why_not={**raw.why_not, TENSORCORE: found})
        if len(found) != len(ids):
            why = f"libtpu's SDK reports {len(found)} TensorCores, the runtime {len(ids)}"
            return replace(raw, why_not={**raw.why_not, TENSORCORE: why})
        return replace(raw, values={**raw.values, TENSORCORE: list(zip(ids, found, strict=True))})

    def _close_unused_sdk(self) -> None:
        if time.monotonic() - self._served_at > _SDK_RESTS_AFTER_S:
            self._sdk.close()


def _cores_per_chip(kind: Accelerator | None, raw: RawMetrics) -> int:
    """Return the number of JAX devices per chip, from the accelerator type or, if unknown, from the metrics."""
    if kind is not None:
        return max(1, kind.jax_devices // kind.chips)
    # On v2 and v3, two cores share one duty cycle.
    cores, chips = ({number for number, _ in raw.values.get(name, ())} for name in (HBM_TOTAL, DUTY_CYCLE))
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
