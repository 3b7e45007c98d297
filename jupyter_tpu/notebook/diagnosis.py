"""From what a framework says when it cannot start to an error that says what to do.

The texts are those of JAX and libtpu, recorded with JAX 0.10.2 and libtpu 0.0.42; older ones are from
issue reports.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from jupyter_tpu.errors import AcceleratorBusy, AcceleratorFailed, TpuError
from jupyter_tpu.notebook.holders import Holder, find_holder
from jupyter_tpu.notebook.worker import ThisWorker

_PID = re.compile(r"already in use by process with pid (\d+)")
_SOMEBODY = re.compile(r"already in use by another process|multi-process lockfile")
_NO_LIBTPU = re.compile(r"Failed to open libtpu|libtpu not found|No module named 'libtpu'")
_NO_CHIP = re.compile(r"No jellyfish device found|No TPU Platform available|not in the list of known backends")
_TOO_NEW = re.compile(r"PJRT_Plugin_Attributes_Args size|Mismatched PJRT plugin|incompatible with jax", re.IGNORECASE)

CHOOSE_NODE = "Choose the kernel of a TPU node in the kernel menu, for example “Python 3 · v5litepod-8 · my-node”."
RESTART = "Restart the kernel and run %tpu_init before anything else that uses JAX."


def diagnose_start(raw: str, worker: ThisWorker, holder_of: Callable[[int], Holder] = find_holder) -> TpuError:
    """The error for what JAX said when its backends did not start."""
    if pid := _PID.search(raw):
        return _in_use(holder_of(int(pid[1])), raw)
    if _SOMEBODY.search(raw):
        return AcceleratorBusy(
            "The TPU is in use by another process, probably of another user of this machine.",
            hint="Find it with: sudo lsof -w /dev/accel* /dev/vfio/* /tmp/libtpu_lockfile",
            raw=raw,
        )
    if _TOO_NEW.search(raw):
        return AcceleratorFailed(
            "The versions of jax, jaxlib and libtpu do not fit together.",
            hint='Install a matching set with: %pip install -U "jax[tpu]", then restart the kernel.',
            raw=raw,
        )
    return _missing(raw, worker)


def _in_use(holder: Holder, raw: str) -> TpuError:
    what = "notebook" if holder.notebook else "process"
    return AcceleratorBusy(
        f"The TPU is in use by {holder}.",
        exists="A TPU serves one process at a time.",
        hint=f"Shut down that {what}, then restart this kernel.",
        raw=raw,
    )


def _missing(raw: str, worker: ThisWorker) -> TpuError:
    if not worker.accelerator_type and (_NO_LIBTPU.search(raw) or _NO_CHIP.search(raw)):
        return AcceleratorFailed("This kernel does not run on a TPU node.", hint=CHOOSE_NODE, raw=raw)
    if _NO_LIBTPU.search(raw):
        return AcceleratorFailed(
            "JAX is installed without its TPU library (libtpu).",
            hint='Install it with: %pip install "jax[tpu]", then restart the kernel.',
            raw=raw,
        )
    if _NO_CHIP.search(raw):
        return AcceleratorFailed(
            "JAX found no TPU chip on this machine.",
            hint="The node may be under maintenance or may have been made with an unsuitable runtime version.",
            raw=raw,
        )
    return AcceleratorFailed("JAX could not start on the TPU.", hint=RESTART, raw=raw)


def jax_missing(worker: ThisWorker) -> TpuError:
    package = "jax" if worker.is_emulated else "jax[tpu]"
    return AcceleratorFailed(
        "JAX is not installed in this kernel's Python.",
        hint=f'Install it with: %pip install "{package}", then run %tpu_init again.',
    )


def fell_back_to_cpu(reason: str) -> TpuError:
    """JAX runs on the CPU although a TPU was asked for; `reason` is what JAX kept to itself."""
    return AcceleratorFailed(
        "JAX is running on the CPU, not on the TPU: it was started before %tpu_init and fell back silently.",
        hint=RESTART,
        raw=reason,
    )


def wrong_devices(found: int, worker: ThisWorker) -> TpuError:
    worker_words = "an emulated worker" if worker.is_emulated else "a worker"
    return AcceleratorFailed(
        f"JAX has {_devices(found)} in this kernel, but {worker_words} of {worker.accelerator_type}"
        f" has {worker.jax_devices}.",
        exists="JAX was started before %tpu_init, or told to use only a part of the devices.",
        hint=RESTART,
    )


def _devices(count: int) -> str:
    return "1 device" if count == 1 else f"{count} devices"


def needs_all_workers(worker: ThisWorker) -> TpuError:
    return AcceleratorFailed(
        f"{worker.accelerator_type} has {worker.workers} workers and this kernel runs on one of them:"
        " JAX would wait for the others for ever.",
        hint="Notebooks over several workers come later; until then use a type with one worker, such as v5litepod-8.",
    )
