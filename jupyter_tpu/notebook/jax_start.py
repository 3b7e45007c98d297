"""Make JAX run on this worker's accelerator, and prove that it does.

JAX decides once, at its first use, which devices a process has. So everything is set before that, and looked at after.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import MutableMapping
from typing import Any

from jupyter_tpu.errors import AcceleratorFailed
from jupyter_tpu.notebook import diagnosis
from jupyter_tpu.notebook.report import Device, Report
from jupyter_tpu.notebook.versions import installed_versions, jax_requirements, libtpu_mismatch
from jupyter_tpu.notebook.worker import ThisWorker

_VALUES_PER_DEVICE = 128


def start_jax(worker: ThisWorker) -> Report:
    """Start JAX on the devices of `worker`, run one operation over all of them and report.

    Raises:
        AcceleratorFailed: JAX is missing, runs on something else, or computes nonsense.
        AcceleratorBusy: another process holds the TPU.
    """
    if worker.workers > 1 and not worker.is_emulated:
        raise diagnosis.needs_all_workers(worker)
    began = time.monotonic()
    settings = jax_settings(worker)
    jax = _import_jax(settings, worker)
    devices = _start_devices(jax, worker)
    _check_devices(devices, worker)
    proof = prove_devices(jax, devices)
    versions = installed_versions()
    return Report(
        worker=worker,
        devices=tuple(_describe(device) for device in devices),
        proof=proof,
        versions=versions,
        warning=libtpu_mismatch(versions, jax_requirements()),
        seconds=time.monotonic() - began,
    )


def jax_settings(worker: ThisWorker) -> dict[str, str | int]:
    """JAX's options for a worker: a real one must find its TPU or fail, an emulated one counts CPU devices instead."""
    if not worker.is_emulated:
        return {"jax_platforms": "tpu,cpu"}
    return {"jax_platforms": "cpu", "jax_num_cpu_devices": worker.jax_devices or 1}


def _import_jax(settings: dict[str, str | int], worker: ThisWorker) -> Any:
    is_imported = "jax" in sys.modules
    set_environment(os.environ, settings)
    importlib.invalidate_caches()  # %pip may have installed it a moment ago
    try:
        jax = importlib.import_module("jax")
    except ModuleNotFoundError as error:
        raise diagnosis.jax_missing(worker) from error
    except RuntimeError as error:  # jax and jaxlib refuse each other
        raise diagnosis.diagnose_start(str(error), worker) from error
    if is_imported:
        _update_settings(jax, settings)
    return jax


def set_environment(environ: MutableMapping[str, str], settings: dict[str, str | int]) -> None:
    """JAX reads each option from a variable of the same name, and so do the processes that the user starts."""
    environ.update({name.upper(): str(value) for name, value in settings.items()})


def _update_settings(jax: Any, settings: dict[str, str | int]) -> None:
    for name, value in settings.items():
        try:
            jax.config.update(name, value)
        except RuntimeError:  # too late, JAX has started: whether it has the right devices is looked at afterwards
            return


def _start_devices(jax: Any, worker: ThisWorker) -> list[Any]:
    try:
        return list(jax.local_devices())
    except RuntimeError as error:
        raise diagnosis.diagnose_start(str(error), worker) from error


def _check_devices(devices: list[Any], worker: ThisWorker) -> None:
    if not worker.is_emulated and any(device.platform != "tpu" for device in devices):
        raise diagnosis.fell_back_to_cpu(_kept_reason())
    if worker.jax_devices is not None and len(devices) != worker.jax_devices:
        raise diagnosis.wrong_devices(len(devices), worker)


def _kept_reason() -> str:
    """Why JAX did not take the TPU: it keeps the reason, but has no public way to ask for it."""
    bridge = importlib.import_module("jax._src.xla_bridge")
    return str(getattr(bridge, "_backend_errors", {}).get("tpu", ""))


def prove_devices(jax: Any, devices: list[Any]) -> str:
    """Add up numbers that are spread over all devices, and compare with the exact sum."""
    count = _VALUES_PER_DEVICE * len(devices)
    exact = count * (count - 1) // 2
    mesh = jax.sharding.Mesh(devices, ("devices",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("devices"))
    numbers = jax.device_put(jax.numpy.arange(count, dtype="int32"), sharding)
    total = int(jax.jit(jax.numpy.sum)(numbers))
    used = {shard.device for shard in numbers.addressable_shards}
    if total != exact or used != set(devices):
        raise AcceleratorFailed(
            f"The devices compute wrongly: the sum of 0 to {count - 1} came out as {total}, not {exact}.",
            exists=f"{len(used)} of {len(devices)} devices took part.",
            hint="Delete the node and create another one.",
        )
    return f"the sum of 0 to {count - 1}, spread over all of them, is {exact}"


def _describe(device: Any) -> Device:
    statistics = device.memory_stats() or {}
    return Device(id=device.id, kind=device.device_kind, memory_bytes=statistics.get("bytes_limit"))
