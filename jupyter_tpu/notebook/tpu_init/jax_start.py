"""Start JAX on this worker's chips, or together on all workers of a slice, and check that it computes there.

JAX determines a process's devices on first use. All options are therefore set before that, and checked afterwards.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

from jupyter_tpu.errors import Text
from jupyter_tpu.notebook.node.this_worker import ThisWorker, host_name
from jupyter_tpu.notebook.tpu_init import diagnosis
from jupyter_tpu.notebook.tpu_init.claim_chips import claim_chips
from jupyter_tpu.notebook.tpu_init.imports import import_framework, set_environment
from jupyter_tpu.notebook.tpu_init.meeting import COORDINATOR_PORT, Meeting, meeting
from jupyter_tpu.notebook.tpu_init.ready import Ready, Tpu, expected_sum, proof_text
from jupyter_tpu.notebook.tpu_init.report import Device, Host

LATE = Text("JAX has started on this worker alone, but all workers of a slice must start it together.")
# Time limit for the connection. All workers have reached this point, so each only has to connect.
_JOINS_WITHIN_S = 60


def start_jax(worker: ThisWorker) -> Ready:
    """Start JAX on the devices of `worker`, or of its slice, and run one operation over all of them.

    Raises:
        AcceleratorFailed: JAX is missing, does not run on the expected devices, or computes a wrong result.
        AcceleratorBusy: another process uses the TPU.
    """
    jax = _import_jax(jax_settings(worker), worker)
    claim_chips(worker, "jax")
    if worker.place is None:
        devices = _start_devices(jax, worker)
        return Ready(devices=tuple(map(_describe, devices)), **_proved(jax, devices, devices, worker))
    # Check before the other workers wait for this one in C++.
    _refuse_if_started(jax)
    with meeting(worker.place) as met:
        return _start_together(jax, met, worker)


def _start_together(jax: Any, met: Meeting, worker: ThisWorker) -> Ready:
    """Start JAX on all workers of the slice."""
    join_processes(jax, met, worker)
    own = _start_devices(jax, worker)
    # Gather before the test computation, which waits for the other workers in C++.
    hosts = tuple(_host(each) for each in met.gather(_facts(met.place.worker, own)))
    with _hidden_gloo() if worker.is_emulated else nullcontext():
        proved = _proved(jax, list(jax.devices()), own, worker)
    devices = tuple(device for host in hosts for device in host.devices)
    return Ready(devices=devices, hosts=hosts, note=met.note, **proved)


@contextmanager
def _hidden_gloo() -> Iterator[None]:
    """Hide the output of Gloo, which connects CPU devices over TCP and does not print through Python."""
    sys.stdout.flush()
    output = os.dup(1)
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    try:
        yield
    finally:
        os.dup2(output, 1)
        os.close(output)


def _proved(jax: Any, devices: list[Any], own: list[Any], worker: ThisWorker) -> dict[str, Any]:
    """Run a test computation on all devices; return the object for the notebook and the test result."""
    mesh = jax.sharding.Mesh(devices, ("devices",))
    _prove(jax, mesh, own)
    tpu = Tpu(framework="jax", devices=tuple(devices), device=own[0], mesh=mesh, is_emulated=worker.is_emulated)
    return {"tpu": tpu, "proof": proof_text(len(devices))}


def jax_settings(worker: ThisWorker) -> dict[str, str | int]:
    """Return JAX's options: a real worker must find its TPU or fail; an emulated worker gets CPU devices instead."""
    # Keep “cpu” in the list for code that places arrays on the host; JAX's default is the first entry.
    if not worker.is_emulated:
        return {"jax_platforms": "tpu,cpu"}
    return {"jax_platforms": "cpu", "jax_num_cpu_devices": worker.jax_devices or 1}


def _import_jax(settings: dict[str, str | int], worker: ThisWorker) -> Any:
    is_imported = "jax" in sys.modules
    # JAX reads each option from a variable of the same name, even in processes that the user starts from the kernel.
    set_environment({name.upper(): str(value) for name, value in settings.items()})
    jax = import_framework("jax", "jax", worker)
    if is_imported:
        _update_settings(jax, settings)
    return jax


def _update_settings(jax: Any, settings: dict[str, str | int]) -> None:
    for name, value in settings.items():
        try:
            jax.config.update(name, value)
        except RuntimeError:  # JAX has already started, so it's too late; _check_devices checks its devices
            return


def join_processes(jax: Any, met: Meeting, worker: ThisWorker) -> None:
    """Connect the processes of all workers as one multi-process JAX; call this before any of them uses a device.

    Raises:
        AcceleratorFailed: JAX has already started, or the processes can't connect to each other.
    """
    if _is_joined(jax):
        return
    set_environment(join_variables(met, os.environ))
    try:
        # JAX finds the workers through the metadata server of the TPU VM.
        jax.distributed.initialize(initialization_timeout=_JOINS_WITHIN_S)
    except (RuntimeError, ValueError, OSError) as error:  # OSError: there is no metadata server
        raise diagnosis.diagnose_start(str(error), worker) from error


def join_variables(met: Meeting, environ: Mapping[str, str]) -> dict[str, str]:
    """Return variables that make JAX's coordinator listen only on worker 0's address, where all workers reach it."""
    address = met.place.address
    variables = {"JAX_COORDINATOR_BIND_ADDRESS": f"{address}:{met.port}"}
    if met.port != COORDINATOR_PORT:
        variables["JAX_COORDINATOR_PORT"] = str(met.port)
    # Otherwise gRPC would try to reach worker 0 through the user's proxy.
    if any(name.lower().endswith("_proxy") for name in environ):
        direct = environ.get("no_grpc_proxy") or environ.get("no_proxy") or ""
        variables["no_grpc_proxy"] = ",".join(filter(None, (direct, address)))
    return variables


def _refuse_if_started(jax: Any) -> None:
    """Raise an error if JAX has already started with this worker's devices only.

    JAX has no public function to find out whether it has started, so a private function is called.
    """
    bridge = importlib.import_module("jax._src.xla_bridge")
    if getattr(bridge, "backends_are_initialized", bool)() and not _is_joined(jax):
        raise diagnosis.too_late("jax", LATE)


def _is_joined(jax: Any) -> bool:
    """Return whether JAX has connected this process to other processes.

    Older versions of JAX show this only in a private variable.
    """
    if hasattr(jax.distributed, "is_initialized"):
        return bool(jax.distributed.is_initialized())
    return importlib.import_module("jax._src.distributed").global_state.client is not None


def _start_devices(jax: Any, worker: ThisWorker) -> list[Any]:
    """Return the devices of this worker."""
    try:
        devices = list(jax.local_devices())
    except RuntimeError as error:
        raise diagnosis.diagnose_start(str(error), worker) from error
    _check_devices(devices, worker)
    return devices


def _check_devices(devices: list[Any], worker: ThisWorker) -> None:
    # With our settings, JAX fails without a TPU; it falls back to the CPU only if it was started before we set them.
    if not worker.is_emulated and any(device.platform != "tpu" for device in devices):
        raise diagnosis.fell_back_to_cpu(_fallback_reason(), worker)
    if worker.jax_devices is not None and len(devices) != worker.jax_devices:
        raise diagnosis.wrong_devices(len(devices), worker)


def _fallback_reason() -> str:
    """Return why JAX did not use the TPU; JAX stores the reason only in a private variable."""
    bridge = importlib.import_module("jax._src.xla_bridge")
    return str(getattr(bridge, "_backend_errors", {}).get("tpu", ""))


def _prove(jax: Any, mesh: Any, own: list[Any]) -> None:
    """Add numbers that are distributed over all devices, and compare the result with the exact sum."""
    count, exact = expected_sum(mesh.size)
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("devices"))
    # Create the numbers on the devices, because data can't be sent to other workers' devices from here.
    numbers = jax.jit(lambda: jax.numpy.arange(count, dtype="int32"), out_shardings=sharding)()
    total = int(jax.jit(jax.numpy.sum)(numbers))
    # A correct sum is not enough: every device must have taken part.
    if total != exact or {shard.device for shard in numbers.addressable_shards} != set(own):
        raise diagnosis.wrong_sum(total, exact)


def _describe(device: Any) -> Device:
    # CPU devices have no memory statistics, and a process can read only those of its own devices.
    statistics = device.memory_stats() or {}
    return Device(id=device.id, kind=device.device_kind, memory_bytes=statistics.get("bytes_limit"))


def _facts(worker_id: int, devices: list[Any]) -> dict[str, Any]:
    described = [asdict(_describe(each)) for each in devices]
    return {"worker": worker_id, "host": host_name(os.environ), "devices": described}


def _host(facts: Mapping[str, Any]) -> Host:
    devices = tuple(Device(**each) for each in facts["devices"])
    return Host(worker=facts["worker"], name=facts["host"], devices=devices)
