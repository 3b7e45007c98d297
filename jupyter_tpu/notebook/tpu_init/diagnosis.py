"""Turn a framework's message into an error that says what happened on this machine and what to do.

`known_errors` is the table of messages and their meanings; this module adds the worker's type, its versions, and the
process that uses the chips.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

from jupyter_tpu.accelerators import runtime_versions
from jupyter_tpu.errors import AcceleratorBusy, AcceleratorFailed, BadInput, TpuError
from jupyter_tpu.frameworks import TITLES, newest
from jupyter_tpu.metrics import Holder
from jupyter_tpu.notebook.node.holders import find_holder, who_holds
from jupyter_tpu.notebook.node.this_worker import ThisWorker
from jupyter_tpu.notebook.tpu_init.known_errors import RESTART, KnownError, find_known_error, known_error

FindHolder = Callable[[int], Holder]

CHOOSE_NODE = "Choose the kernel of a TPU node in the kernel menu, for example “Python 3 · v5litepod-8 · my-node”."
_WITHOUT_TPU = {"jax": "jax", "torch_xla": "torch_xla", "torch_tpu": "torch_tpu", "tf": "tensorflow-cpu"}


def diagnose_start(
    raw: str, worker: ThisWorker, framework: str = "jax", holder_of: FindHolder = find_holder
) -> TpuError:
    """Return the error for `raw`, the message with which a framework failed to start."""
    known = find_known_error(raw)
    # An unknown message is shown as it is. A restart is the best guess, because frameworks choose devices only once.
    if known is None:
        return AcceleratorFailed(f"{TITLES[framework]} could not start on the TPU.", hint=RESTART, raw=raw)
    refusal, found = known
    # Without a node, a missing chip or library is not a fault: the wrong kernel was chosen.
    if refusal.is_elsewhere and not worker.is_on_node:
        return not_on_node(raw)
    if refusal.name == "held":
        return in_use(holder_of(int(found["pid"])), raw)
    if refusal.name == "locked":
        return _locked(worker, raw, holder_of)
    return _error_of(refusal, worker, framework, raw)


def _error_of(refusal: KnownError, worker: ThisWorker, framework: str, raw: str) -> TpuError:
    kind = AcceleratorBusy if refusal.is_busy else AcceleratorFailed
    values = _placeholders(worker, framework)
    return kind(refusal.means.format(**values), hint=refusal.fix.format(**values), raw=raw)


def _placeholders(worker: ThisWorker, framework: str) -> dict[str, str]:
    generation = worker.accelerator.generation if worker.accelerator else ""
    return {
        "framework": TITLES[framework],
        "install": install_command(framework, worker),
        "runtime_versions": " or ".join(runtime_versions(generation)) or "one that is made for its type",
        "devices": str(worker.devices),
        "lock_file": str(worker.lock_file),
    }


def explain_warning(said: str, worker: ThisWorker, framework: str) -> str:
    """Return the meaning of a warning that is known to be harmless; empty for any other."""
    known = find_known_error(said)
    if known is None or not known[0].is_harmless:
        return ""
    error = _error_of(known[0], worker, framework, said)
    return f"{error.message} {error.hint}"


def in_use(holder: Holder, raw: str = "") -> TpuError:
    """Return the error for chips that another process uses; `raw` is the framework's message, if it gave one."""
    is_notebook = holder.is_kernel and holder.notebook
    what = "that notebook's kernel after asking (what it printed stays)" if is_notebook else "that process after asking"
    return AcceleratorBusy(
        f"The TPU is in use by {holder}.",
        exists="A TPU serves one process at a time.",
        hint=f"%tpu release ends {what}; or shut it down yourself. Then run %tpu_init again.",
        raw=raw,
    )


def _locked(worker: ThisWorker, raw: str, holder_of: FindHolder) -> TpuError:
    """Return the error for libtpu's lock file: who holds it, or that it is left over."""
    # The lock is advisory and dies with its process, so a leftover file blocks only users who may not open it.
    if holders := who_holds(worker.devices, worker.lock_file):
        return in_use(holder_of(holders[0]), raw)
    return AcceleratorBusy(
        f"libtpu cannot open its lock file {worker.lock_file}, and this kernel sees no process that holds it: another"
        " user's process left it behind, or runs where this kernel cannot see it.",
        hint=f"Check first: sudo lsof -w {worker.devices}/accel* {worker.devices}/vfio/* {worker.lock_file}. If it"
        f" lists no process: !sudo rm {worker.lock_file}, then run %tpu_init again.",
        raw=raw,
    )


def install_command(framework: str, worker: ThisWorker) -> str:
    """Return the ``%pip install …`` for this Python, by the table in `frameworks`; without libtpu if emulated."""
    if worker.is_emulated:
        return f'%pip install "{_WITHOUT_TPU[framework]}"'
    try:
        requires: Iterable[str] = newest(framework, sys.version_info[:2]).requires
    except BadInput as error:
        # no version of the framework supports this Python
        return f"a newer Python ({error.hint})"
    return "%pip install " + " ".join(f'"{each}"' for each in requires)


def missing(framework: str, worker: ThisWorker, raw: str) -> TpuError:
    """Return the error for a missing package, the framework's own or one that it needs; `raw` names it."""
    return AcceleratorFailed(
        f"{TITLES[framework]} is not installed in this kernel's Python.",
        hint=f"Install it with: {install_command(framework, worker)}, then run %tpu_init again.",
        raw=raw,
    )


def does_not_load(framework: str, worker: ThisWorker, raw: str) -> TpuError:
    """Return the error for a framework whose own code fails while it is imported."""
    return AcceleratorFailed(
        f"{TITLES[framework]} is installed in this kernel's Python, but does not load.",
        hint=f"Reinstall it with: {install_command(framework, worker)}, then restart the kernel.",
        raw=raw,
    )


def hidden(framework: str, module: str, place: str) -> TpuError:
    """Return the error for a user's file that hides a framework's package because it has the same name."""
    return AcceleratorFailed(
        f"“import {module}” finds {place}, not {TITLES[framework]}.",
        hint="Rename or remove it, then restart the kernel.",
    )


def unknown_flags(framework: str, raw: str) -> TpuError:
    """Return the error for a flag that XLA does not know; a trial in another process found it."""
    return AcceleratorFailed(
        f"The variable XLA_FLAGS has an unknown flag: {TITLES[framework]} would crash this kernel.",
        exists="Nothing was started.",
        hint="Remove it with: import os; del os.environ['XLA_FLAGS'], then run %tpu_init again. libtpu's own flags"
        " (--xla_tpu_…) belong in LIBTPU_INIT_ARGS.",
        raw=raw,
    )


def fell_back_to_cpu(reason: str, worker: ThisWorker, framework: str = "jax") -> TpuError:
    """Return the error for a framework that runs on the CPU instead; `reason` is one that its message did not give."""
    if not worker.is_on_node:
        return not_on_node(reason)
    return AcceleratorFailed(
        f"{TITLES[framework]} is running on the CPU, not on the TPU: it was started before %tpu_init and fell back"
        " silently.",
        hint=RESTART,
        raw=reason,
    )


def without_tpu(reason: str, worker: ThisWorker) -> TpuError:
    """Return the error for PyTorch without a TPU although TorchTPU is loaded."""
    if not worker.is_on_node:
        return not_on_node(reason)
    return _error_of(known_error("torch-without-tpu"), worker, "torch_tpu", reason)


def not_on_node(raw: str) -> TpuError:
    """Return the error for a kernel that is not on a TPU node."""
    return AcceleratorFailed("This kernel does not run on a TPU node.", hint=CHOOSE_NODE, raw=raw)


def wrong_devices(found: int, worker: ThisWorker, framework: str = "jax") -> TpuError:
    """Return the error for a framework whose number of devices differs from what the worker should have."""
    kind = "an emulated worker" if worker.is_emulated else "a worker"
    return AcceleratorFailed(
        f"{TITLES[framework]} has {devices(found)} in this kernel, but {kind} of {worker.accelerator_type}"
        f" has {worker.jax_devices}.",
        exists=f"{TITLES[framework]} was started before %tpu_init, or a setting limits it to some of the devices.",
        hint=RESTART,
    )


def devices(count: int) -> str:
    """Return ``1 device`` or ``8 devices``."""
    return "1 device" if count == 1 else f"{count} devices"


def wrong_sum(found: object, exact: int) -> TpuError:
    """Return the error for a proof whose result is wrong."""
    return AcceleratorFailed(
        f"The devices compute wrong results: a sum is {found} instead of {exact}.",
        hint="Delete the node and create another one.",
    )


def too_late(framework: str, why: str) -> TpuError:
    """Return the error for a framework that has already started and accepts no more settings."""
    return AcceleratorFailed(
        f"It is too late for %tpu_init: {why}",
        exists=f"{TITLES[framework]} keeps its startup settings until the process exits.",
        hint=RESTART,
    )


def another_framework(running: str, wanted: str) -> TpuError:
    """Return the error for a second framework in one kernel."""
    return AcceleratorFailed(
        f"{TITLES[running]} already uses the TPU in this kernel, so {TITLES[wanted]} cannot.",
        exists="libtpu is loaded once, for one framework, and stays until the process exits.",
        hint=f"Use {TITLES[running]} here, or restart the kernel and run %tpu_init {wanted} first.",
    )


def needs_all_workers(worker: ThisWorker, framework: str = "jax") -> TpuError:
    """Return the error for a slice of several workers, on which a framework waits for its other processes."""
    return AcceleratorFailed(
        f"{worker.accelerator_type} has {worker.workers} workers and this kernel runs on one of them:"
        f" {TITLES[framework]} would wait for the others forever.",
        hint="Notebooks can't use several workers yet; use a type with one worker, such as v5litepod-8.",
    )
