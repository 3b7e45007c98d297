"""Make JAX run on this worker's accelerator, and prove that it does.

JAX decides once, at its first use, which devices a process has. So everything is set before that, and looked at after.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from jupyter_tpu.notebook.node.worker import ThisWorker
from jupyter_tpu.notebook.tpu_init import diagnosis
from jupyter_tpu.notebook.tpu_init.imports import import_framework, set_environment
from jupyter_tpu.notebook.tpu_init.ready import Ready, Tpu, expected_sum, proof_words
from jupyter_tpu.notebook.tpu_init.report import Device
from jupyter_tpu.notebook.tpu_init.take_chips import claim_chips


def start_jax(worker: ThisWorker) -> Ready:
    """Start JAX on the devices of `worker` and run one operation over all of them.

    Raises:
        AcceleratorFailed: JAX is missing, runs on something else, or computes nonsense.
        AcceleratorBusy: another process holds the TPU.
    """
    jax = _import_jax(jax_settings(worker), worker)
    claim_chips(worker, "jax")
    devices = _start_devices(jax, worker)
    _check_devices(devices, worker)
    mesh = jax.sharding.Mesh(devices, ("devices",))
    _prove(jax, mesh, devices)
    tpu = Tpu(framework="jax", devices=tuple(devices), device=devices[0], mesh=mesh, is_emulated=worker.is_emulated)
    return Ready(tpu=tpu, devices=tuple(map(_describe, devices)), proof=proof_words(len(devices)))


def jax_settings(worker: ThisWorker) -> dict[str, str | int]:
    """JAX's options for a worker: a real one must find its TPU or fail, an emulated one counts CPU devices instead."""
    if not worker.is_emulated:
        return {"jax_platforms": "tpu,cpu"}
    return {"jax_platforms": "cpu", "jax_num_cpu_devices": worker.jax_devices or 1}


def _import_jax(settings: dict[str, str | int], worker: ThisWorker) -> Any:
    is_imported = "jax" in sys.modules
    # JAX reads each option from a variable of the same name, and so do the processes that the user starts
    set_environment({name.upper(): str(value) for name, value in settings.items()})
    jax = import_framework("jax", "jax", worker)
    if is_imported:
        _update_settings(jax, settings)
    return jax


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
        raise diagnosis.fell_back_to_cpu(_kept_reason(), worker)
    if worker.jax_devices is not None and len(devices) != worker.jax_devices:
        raise diagnosis.wrong_devices(len(devices), worker)


def _kept_reason() -> str:
    """Why JAX did not take the TPU: it keeps the reason, but has no public way to ask for it."""
    bridge = importlib.import_module("jax._src.xla_bridge")
    return str(getattr(bridge, "_backend_errors", {}).get("tpu", ""))


def _prove(jax: Any, mesh: Any, devices: list[Any]) -> None:
    """Add up numbers that are spread over all devices, and compare with the exact sum."""
    count, exact = expected_sum(len(devices))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("devices"))
    numbers = jax.device_put(jax.numpy.arange(count, dtype="int32"), sharding)
    total = int(jax.jit(jax.numpy.sum)(numbers))
    if total != exact or {shard.device for shard in numbers.addressable_shards} != set(devices):
        raise diagnosis.wrong_sum(total, exact)


def _describe(device: Any) -> Device:
    statistics = device.memory_stats() or {}
    return Device(id=device.id, kind=device.device_kind, memory_bytes=statistics.get("bytes_limit"))
