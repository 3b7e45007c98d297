"""Start PyTorch/XLA on all chips of this worker from one process (SPMD), and check that it computes there.

SPMD must be enabled before the first use of a device: if enabled later, the next use of a tensor can crash the process
(segmentation fault with torch_xla 2.9.0 and several devices).
"""

from __future__ import annotations

import importlib
from typing import Any

from jupyter_tpu.errors import Text
from jupyter_tpu.notebook.node.this_worker import ThisWorker
from jupyter_tpu.notebook.tpu_init import diagnosis
from jupyter_tpu.notebook.tpu_init.claim_chips import claim_chips
from jupyter_tpu.notebook.tpu_init.imports import import_framework, set_environment
from jupyter_tpu.notebook.tpu_init.ready import Ready, Tpu, expected_sum, proof_text
from jupyter_tpu.notebook.tpu_init.report import Device

LATE = Text(
    "PyTorch/XLA has already used a device in this kernel, and turning SPMD on after that can crash the process."
)
NOTE = Text(
    "this process uses all chips (SPMD): put tensors on tpu.device and shard them over tpu.mesh with "
    "torch_xla.distributed.spmd.mark_sharding"
)


def start_torch_xla(worker: ThisWorker) -> Ready:
    """Start PyTorch/XLA in SPMD mode on the devices of `worker` and run one operation on all of them.

    Raises:
        AcceleratorFailed: PyTorch/XLA is missing, was started before, does not run on the expected devices, or computes
            a wrong result.
        AcceleratorBusy: another process uses the TPU.
    """
    set_environment(torch_xla_variables(worker))
    torch_xla = import_framework("torch_xla", "torch_xla", worker)
    runtime = import_framework("torch_xla", "torch_xla.runtime", worker)
    spmd = import_framework("torch_xla", "torch_xla.distributed.spmd", worker)
    # From here on, don't touch a device before SPMD is on, not even to count the devices.
    _refuse_if_late(torch_xla, runtime)
    claim_chips(worker, "torch_xla")
    count = _start_devices(runtime, worker)
    mesh = spmd.Mesh(list(range(count)), (count,), ("devices",))
    device = torch_xla.device()
    _prove(spmd, mesh, device)
    names = tuple(str(each.get("name", "")) for each in runtime.global_runtime_device_attributes())
    tpu = Tpu(framework="torch_xla", devices=names, device=device, mesh=mesh, is_emulated=worker.is_emulated)
    return Ready(tpu=tpu, devices=_described(names), proof=proof_text(count), note=NOTE)


def torch_xla_variables(worker: ThisWorker) -> dict[str, str]:
    """Return the variables that select the device: with PJRT_DEVICE=TPU, PyTorch/XLA finds its TPU or fails.

    Without it, PyTorch/XLA falls back to the CPU and reports this only in a log line.
    """
    if not worker.is_emulated:
        return {"PJRT_DEVICE": "TPU"}
    return {"PJRT_DEVICE": "CPU", "CPU_NUM_DEVICES": str(worker.jax_devices or 1)}


def _refuse_if_late(torch_xla: Any, runtime: Any) -> None:
    """Raise an error if a device was used while SPMD was off. Only a private function of PyTorch/XLA shows this."""
    # Some versions may lack the private function; `bool` in its place answers False, for not locked.
    is_locked = getattr(torch_xla._XLAC, "_xla_get_spmd_config_is_locked", bool)
    if is_locked() and not runtime.is_spmd():
        raise diagnosis.too_late("torch_xla", LATE)


def _start_devices(runtime: Any, worker: ThisWorker) -> int:
    if not runtime.is_spmd():
        runtime.use_spmd()
    try:
        count = int(runtime.addressable_runtime_device_count())
        device_type = str(runtime.device_type())
    except (RuntimeError, OSError, TypeError) as error:
        raise diagnosis.diagnose_start(str(error), worker, "torch_xla") from error
    if not worker.is_emulated and device_type != "TPU":
        raise diagnosis.fell_back_to_cpu(f"torch_xla.runtime.device_type() is {device_type}", worker, "torch_xla")
    if worker.jax_devices is not None and count != worker.jax_devices:
        raise diagnosis.wrong_devices(count, worker, "torch_xla")
    return count


def _prove(spmd: Any, mesh: Any, device: Any) -> None:
    torch = importlib.import_module("torch")
    devices = len(mesh.device_ids)
    count, exact = expected_sum(devices)
    numbers = torch.arange(count, dtype=torch.int32).to(device)
    spread = spmd.mark_sharding(numbers, mesh, ("devices",))
    total = int(numbers.sum().cpu())
    used = {shard.shard_device for shard in spread.local_shards}
    # A correct sum is not enough: every device must have taken part.
    if total != exact or len(used) != devices:
        raise diagnosis.wrong_sum(total, exact)


def _described(names: tuple[str, ...]) -> tuple[Device, ...]:
    return tuple(Device(id=number, kind=name) for number, name in enumerate(names))
