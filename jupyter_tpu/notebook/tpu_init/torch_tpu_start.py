"""Start TorchTPU on one chip of this worker and check that it computes there.

TorchTPU supports one chip per process. A kernel is one process, so it gets one chip; processes that the notebook starts
can use the other chips.
"""

from __future__ import annotations

from typing import Any

from jupyter_tpu.accelerators import generation_facts, generations
from jupyter_tpu.errors import AcceleratorFailed, Text
from jupyter_tpu.notebook.node.this_worker import ThisWorker
from jupyter_tpu.notebook.tpu_init import diagnosis
from jupyter_tpu.notebook.tpu_init.claim_chips import claim_chips
from jupyter_tpu.notebook.tpu_init.imports import import_framework, set_environment
from jupyter_tpu.notebook.tpu_init.ready import Ready, Tpu, expected_sum, proof_text
from jupyter_tpu.notebook.tpu_init.report import Device

# Variables with which libtpu uses only the first chip: a grid of one chip and one process.
_ONE_CHIP = {
    "TPU_VISIBLE_CHIPS": "0",
    "TPU_CHIPS_PER_PROCESS_BOUNDS": "1,1,1",
    "TPU_PROCESS_BOUNDS": "1,1,1",
}


def start_torch_tpu(worker: ThisWorker) -> Ready:
    """Start TorchTPU on the first chip of `worker` and run one operation on it.

    Raises:
        AcceleratorFailed: TorchTPU is missing, finds no chip, or computes a wrong result.
        AcceleratorBusy: another process uses the TPU.
    """
    _refuse_unsupported_worker(worker)
    set_environment(torch_tpu_variables(worker))
    # PyTorch loads torch_tpu automatically, but not if TORCH_DEVICE_BACKEND_AUTOLOAD=0 was set when it was imported.
    torch = import_framework("torch_tpu", "torch", worker)
    import_framework("torch_tpu", "torch_tpu", worker)
    claim_chips(worker, "torch_tpu")
    _check_device(torch, worker)
    device = torch.device("tpu")
    _prove(torch, device, worker)
    tpu = Tpu(framework="torch_tpu", devices=(device,), device=device)
    return Ready(tpu=tpu, devices=(Device(id=0, kind=_kind(worker)),), proof=proof_text(1), note=_note(worker))


def torch_tpu_variables(worker: ThisWorker) -> dict[str, str]:
    """Return the variables that limit libtpu to one chip and make ``import torch`` load TorchTPU."""
    autoload = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "1"}
    # Don't change the user's choice of chips.
    if worker.visible_chips is not None or _chips(worker) == 1:
        return autoload
    return {**autoload, **_ONE_CHIP}


def _refuse_unsupported_worker(worker: ThisWorker) -> None:
    if worker.is_emulated:
        raise AcceleratorFailed(
            "TorchTPU needs real chips and does not run on an emulated node.",
            hint="Use JAX, PyTorch/XLA or TensorFlow here, or run `%tpu_init torch_tpu` on a real node.",
        )
    kind = worker.accelerator
    if kind is not None and not generation_facts(kind.generation).has_torch_tpu:
        supported = [name for name in generations() if generation_facts(name).has_torch_tpu]
        raise AcceleratorFailed(
            Text(
                "TorchTPU does not support {type}, only TPU {generations} and newer.",
                type=kind.type,
                generations=", ".join(supported),
            ),
            hint="On TPU v2 and v3, run `%tpu_init torch_xla` to use PyTorch/XLA.",
        )


def _check_device(torch: Any, worker: ThisWorker) -> None:
    """Raise an error if PyTorch has found no TPU: it then uses the CPU without a warning."""
    found = torch.accelerator.current_accelerator()
    if found is None or found.type != "tpu":
        raise diagnosis.without_tpu(f"torch.accelerator.current_accelerator() is {found}", worker)


def _prove(torch: Any, device: Any, worker: ThisWorker) -> None:
    count, exact = expected_sum(1)
    try:
        total = int(torch.arange(count, dtype=torch.int32, device=device).sum().cpu())
    except RuntimeError as error:
        raise diagnosis.diagnose_start(str(error), worker, "torch_tpu") from error
    if total != exact:
        raise diagnosis.wrong_sum(total, exact)


def _kind(worker: ThisWorker) -> str:
    return f"TPU {worker.accelerator.generation}" if worker.accelerator else "TPU"


def _chips(worker: ThisWorker) -> int | None:
    return worker.accelerator.chips_per_worker if worker.accelerator else None


def _note(worker: ThisWorker) -> str:
    if _chips(worker) == 1:
        return ""
    return Text(
        "TorchTPU uses one chip per process, and this kernel is one process. To use all chips, start one "
        "process per chip from a fresh kernel (torch.tpu.distributed.set_tpu_launch_env() and "
        "torch.multiprocessing.spawn)"
    )
