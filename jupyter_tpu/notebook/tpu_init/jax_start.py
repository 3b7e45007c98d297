"""Start JAX on this worker's chips and check that it computes there.

JAX determines the devices of a process when first used, so all settings are made before that and checked afterwards.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from jupyter_tpu.notebook.node.this_worker import ThisWorker
from jupyter_tpu.notebook.tpu_init import diagnosis
from jupyter_tpu.notebook.tpu_init.claim_chips import claim_chips
from jupyter_tpu.notebook.tpu_init.imports import import_framework, set_environment
from jupyter_tpu.notebook.tpu_init.ready import Ready, Tpu, expected_sum, proof_text
from jupyter_tpu.notebook.tpu_init.report import Device


def start_jax(worker: ThisWorker) -> Ready:
    """Start JAX on the devices of `worker` and run one operation on all of them.

    Raises:
        AcceleratorFailed: JAX is missing, runs on something else, or computes a wrong result.
        AcceleratorBusy: another process uses the TPU.
    """
    jax = _import_jax(jax_settings(worker), worker)
    claim_chips(worker, "jax")
    devices = _start_devices(jax, worker)
    _check_devices(devices, worker)
    mesh = jax.sharding.Mesh(devices, ("devices",))
    _prove(jax, mesh, devices)
    tpu = Tpu(framework="jax", devices=tuple(devices), device=devices[0], mesh=mesh, is_emulated=worker.is_emulated)
    return Ready(tpu=tpu, devices=tuple(map(_describe, devices)), proof=proof_text(len(devices)))


def jax_settings(worker: ThisWorker) -> dict[str, str | int]:
    """Return JAX's options: a real worker must find its TPU or fail; an emulated worker gets CPU devices instead."""
    # “cpu” stays in the list for code that places arrays on the host; JAX's default is the first entry.
    if not worker.is_emulated:
        return {"jax_platforms": "tpu,cpu"}
    return {"jax_platforms": "cpu", "jax_num_cpu_devices": worker.jax_devices or 1}


def _import_jax(settings: dict[str, str | int], worker: ThisWorker) -> Any:
    is_imported = "jax" in sys.modules
    # JAX reads each option from a variable of the same name, and so do processes that the user starts from the kernel.
    set_environment({name.upper(): str(value) for name, value in settings.items()})
    jax = import_framework("jax", "jax", worker)
    if is_imported:
        _update_settings(jax, settings)
    return jax


def _update_settings(jax: Any, settings: dict[str, str | int]) -> None:
    for name, value in settings.items():
        try:
            jax.config.update(name, value)
        except RuntimeError:  # too late, JAX has started: _check_devices finds out whether it has the right devices
            return


def _start_devices(jax: Any, worker: ThisWorker) -> list[Any]:
    try:
        return list(jax.local_devices())
    except RuntimeError as error:
        raise diagnosis.diagnose_start(str(error), worker) from error


def _check_devices(devices: list[Any], worker: ThisWorker) -> None:
    # With our settings JAX fails without a TPU; it falls back to the CPU only if it was started before them.
    if not worker.is_emulated and any(device.platform != "tpu" for device in devices):
        raise diagnosis.fell_back_to_cpu(_fallback_reason(), worker)
    if worker.jax_devices is not None and len(devices) != worker.jax_devices:
        raise diagnosis.wrong_devices(len(devices), worker)


def _fallback_reason() -> str:
    """Return why JAX did not use the TPU; JAX stores the reason only in a private variable."""
    bridge = importlib.import_module("jax._src.xla_bridge")
    return str(getattr(bridge, "_backend_errors", {}).get("tpu", ""))


def _prove(jax: Any, mesh: Any, devices: list[Any]) -> None:
    """Sum numbers distributed over all devices and compare the result with the exact sum."""
    count, exact = expected_sum(len(devices))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("devices"))
    numbers = jax.device_put(jax.numpy.arange(count, dtype="int32"), sharding)
    total = int(jax.jit(jax.numpy.sum)(numbers))
    # A right sum is not enough: it must have been computed on every device.
    if total != exact or {shard.device for shard in numbers.addressable_shards} != set(devices):
        raise diagnosis.wrong_sum(total, exact)


def _describe(device: Any) -> Device:
    # CPU devices have no memory statistics
    statistics = device.memory_stats() or {}
    return Device(id=device.id, kind=device.device_kind, memory_bytes=statistics.get("bytes_limit"))
