"""From what a framework says when it cannot start to an error that says what to do.

The texts and their meanings are the table in `known_errors`; here they meet this machine: its type, its versions, and
the process that uses the chips.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

from jupyter_tpu.accelerators import runtime_versions
from jupyter_tpu.errors import AcceleratorBusy, AcceleratorFailed, BadInput, TpuError
from jupyter_tpu.frameworks import TITLES, newest
from jupyter_tpu.notebook.node.holders import Holder, find_holder, who_holds
from jupyter_tpu.notebook.node.worker import ThisWorker
from jupyter_tpu.notebook.tpu_init.known_errors import RESTART, Refusal, named, recognise

FindHolder = Callable[[int], Holder]

CHOOSE_NODE = "Choose the kernel of a TPU node in the kernel menu, for example “Python 3 · v5litepod-8 · my-node”."
_WITHOUT_TPU = {"jax": "jax", "torch_xla": "torch_xla", "torch_tpu": "torch_tpu", "tf": "tensorflow-cpu"}


def diagnose_start(
    raw: str, worker: ThisWorker, framework: str = "jax", holder_of: FindHolder = find_holder
) -> TpuError:
    """The error for what a framework said when it did not start."""
    known = recognise(raw)
    if known is None:
        return AcceleratorFailed(f"{TITLES[framework]} could not start on the TPU.", hint=RESTART, raw=raw)
    refusal, found = known
    if refusal.is_elsewhere and not worker.is_on_node:
        return not_on_node(raw)
    if refusal.name == "held":
        return in_use(holder_of(int(found["pid"])), raw)
    if refusal.name == "locked":
        return _locked(worker, raw, holder_of)
    return _error_of(refusal, worker, framework, raw)


def _error_of(refusal: Refusal, worker: ThisWorker, framework: str, raw: str) -> TpuError:
    kind = AcceleratorBusy if refusal.is_busy else AcceleratorFailed
    words = _words(worker, framework)
    return kind(refusal.means.format(**words), hint=refusal.fix.format(**words), raw=raw)


def _words(worker: ThisWorker, framework: str) -> dict[str, str]:
    generation = worker.accelerator.generation if worker.accelerator else ""
    return {
        "framework": TITLES[framework],
        "install": install_command(framework, worker),
        "runtime_versions": " or ".join(runtime_versions(generation)) or "one that is made for its type",
        "devices": str(worker.devices),
        "lock_file": str(worker.lock_file),
    }


def explain_warning(said: str, worker: ThisWorker, framework: str) -> str:
    """What a warning means that does no harm; empty for all others."""
    known = recognise(said)
    if known is None or not known[0].is_harmless:
        return ""
    error = _error_of(known[0], worker, framework, said)
    return f"{error.message} {error.hint}"


def in_use(holder: Holder, raw: str = "") -> TpuError:
    is_notebook = holder.is_kernel and holder.notebook
    what = "that notebook's kernel after asking (what it printed stays)" if is_notebook else "that process after asking"
    return AcceleratorBusy(
        f"The TPU is in use by {holder}.",
        exists="A TPU serves one process at a time.",
        hint=f"%tpu release ends {what}; or shut it down yourself. Then run %tpu_init again.",
        raw=raw,
    )


def _locked(worker: ThisWorker, raw: str, holder_of: FindHolder) -> TpuError:
    """The lock dies with its process: a file that is left over hinders only users who do not own it."""
    if holders := who_holds(worker.devices, worker.lock_file):
        return in_use(holder_of(holders[0]), raw)
    return AcceleratorBusy(
        f"libtpu cannot have its lock file {worker.lock_file}, and no process is seen that holds it: another user's"
        " process has left it behind, or runs where this kernel cannot see it.",
        hint=f"Look first: sudo lsof -w {worker.devices}/accel* {worker.devices}/vfio/* {worker.lock_file}. Only when"
        f" it names nobody: !sudo rm {worker.lock_file}, then run %tpu_init again.",
        raw=raw,
    )


def install_command(framework: str, worker: ThisWorker) -> str:
    """``%pip install …`` with what the matrix knows for this Python; an emulated worker needs no libtpu."""
    if worker.is_emulated:
        return f'%pip install "{_WITHOUT_TPU[framework]}"'
    try:
        requires: Iterable[str] = newest(framework, sys.version_info[:2]).requires
    except BadInput as error:
        return f"a newer Python ({error.hint})"
    return "%pip install " + " ".join(f'"{each}"' for each in requires)


def missing(framework: str, worker: ThisWorker, raw: str) -> TpuError:
    """The framework's package is not there, or one that it needs; `raw` names it."""
    return AcceleratorFailed(
        f"{TITLES[framework]} is not installed in this kernel's Python.",
        hint=f"Install it with: {install_command(framework, worker)}, then run %tpu_init again.",
        raw=raw,
    )


def does_not_load(framework: str, worker: ThisWorker, raw: str) -> TpuError:
    """The framework's own code breaks while it is imported."""
    return AcceleratorFailed(
        f"{TITLES[framework]} is installed in this kernel's Python, but does not load.",
        hint=f"Reinstall it with: {install_command(framework, worker)}, then restart the kernel.",
        raw=raw,
    )


def hidden(framework: str, module: str, place: str) -> TpuError:
    """Something of the user's own has the name of the framework's package, and is found first."""
    return AcceleratorFailed(
        f"What Python finds by the name of {module} is not {TITLES[framework]}: {place} is in its way.",
        hint="Give that another name or remove it, then restart the kernel.",
    )


def unknown_flags(framework: str, raw: str) -> TpuError:
    """XLA would end the kernel; another process has tried."""
    return AcceleratorFailed(
        f"The variable XLA_FLAGS has a flag with which {TITLES[framework]} would end this kernel.",
        exists="Nothing was started.",
        hint="Take it out with: import os; del os.environ['XLA_FLAGS'], then run %tpu_init again. libtpu's own flags"
        " (--xla_tpu_…) belong in LIBTPU_INIT_ARGS.",
        raw=raw,
    )


def fell_back_to_cpu(reason: str, worker: ThisWorker, framework: str = "jax") -> TpuError:
    """It runs on the CPU although a TPU was asked for; `reason` is what the framework kept to itself."""
    if not worker.is_on_node:
        return not_on_node(reason)
    return AcceleratorFailed(
        f"{TITLES[framework]} is running on the CPU, not on the TPU: it was started before %tpu_init and fell back"
        " silently.",
        hint=RESTART,
        raw=reason,
    )


def without_tpu(reason: str, worker: ThisWorker) -> TpuError:
    """TorchTPU is loaded, and PyTorch has no TPU all the same."""
    if not worker.is_on_node:
        return not_on_node(reason)
    return _error_of(named("torch-without-tpu"), worker, "torch_tpu", reason)


def not_on_node(raw: str) -> TpuError:
    return AcceleratorFailed("This kernel does not run on a TPU node.", hint=CHOOSE_NODE, raw=raw)


def wrong_devices(found: int, worker: ThisWorker, framework: str = "jax") -> TpuError:
    worker_words = "an emulated worker" if worker.is_emulated else "a worker"
    return AcceleratorFailed(
        f"{TITLES[framework]} has {devices(found)} in this kernel, but {worker_words} of {worker.accelerator_type}"
        f" has {worker.jax_devices}.",
        exists=f"{TITLES[framework]} was started before %tpu_init, or told to use only a part of the devices.",
        hint=RESTART,
    )


def devices(count: int) -> str:
    return "1 device" if count == 1 else f"{count} devices"


def wrong_sum(found: object, exact: int) -> TpuError:
    return AcceleratorFailed(
        f"The devices compute wrongly: a sum came out as {found}, not {exact}.",
        hint="Delete the node and create another one.",
    )


def too_late(framework: str, why: str) -> TpuError:
    """The framework has been started, and cannot be told anything any more."""
    return AcceleratorFailed(
        f"It is too late for %tpu_init: {why}",
        exists=f"{TITLES[framework]} keeps what it was started with for the life of the process.",
        hint=RESTART,
    )


def another_framework(running: str, wanted: str) -> TpuError:
    return AcceleratorFailed(
        f"{TITLES[running]} has the TPU in this kernel already, so {TITLES[wanted]} cannot have it.",
        exists="libtpu is loaded once, for one framework, and stays for the life of the process.",
        hint=f"Use {TITLES[running]} here, or restart the kernel and run %tpu_init {wanted} first.",
    )


def needs_all_workers(worker: ThisWorker, framework: str = "jax") -> TpuError:
    return AcceleratorFailed(
        f"{worker.accelerator_type} has {worker.workers} workers and this kernel runs on one of them:"
        f" {TITLES[framework]} would wait for the others for ever.",
        hint="Notebooks over several workers come later; until then use a type with one worker, such as v5litepod-8.",
    )
