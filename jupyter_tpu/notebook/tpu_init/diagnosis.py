"""Turn a framework's message into an error that explains what happened on this machine and what to do.

`known_errors` is the table of messages and their meanings; this module adds the worker's type and versions, and the
process that uses the chips.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import reduce

from jupyter_tpu.accelerators import runtime_versions
from jupyter_tpu.errors import AcceleratorBusy, AcceleratorFailed, BadInput, Text, TpuError
from jupyter_tpu.frameworks import TITLES, newest
from jupyter_tpu.i18n import _
from jupyter_tpu.metrics import Holder
from jupyter_tpu.notebook.node.holders import find_holder, who_holds
from jupyter_tpu.notebook.node.this_worker import ThisWorker
from jupyter_tpu.notebook.tpu_init.known_errors import RESTART, KnownError, find_known_error, known_error

FindHolder = Callable[[int], Holder]

CHOOSE_NODE = Text(
    "Choose the kernel of a TPU node in the kernel menu, for example “Python 3 · v5litepod-8 · my-node”."
)
_WITHOUT_TPU = {"jax": "jax", "torch_xla": "torch_xla", "torch_tpu": "torch_tpu", "tf": "tensorflow-cpu"}


def diagnose_start(
    raw: str, worker: ThisWorker, framework: str = "jax", holder_of: FindHolder = find_holder
) -> TpuError:
    """Return the error for `raw`, a framework's message when it failed to start."""
    known = find_known_error(raw)
    # Show an unknown message unchanged. Suggest a restart, because frameworks choose devices only once.
    if known is None:
        return AcceleratorFailed(
            Text("{framework} could not start on the TPU.", framework=TITLES[framework]), hint=RESTART, raw=raw
        )
    refusal, found = known
    # Without a node, a missing chip or library is not a fault: the user chose the wrong kernel.
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
    hint = refusal.fix.with_arguments(**values)
    if "{install}" in refusal.fix.template:
        hint = install_hint(hint, framework, worker)
    return kind(refusal.means.with_arguments(**values), hint=hint, raw=raw)


def _placeholders(worker: ThisWorker, framework: str) -> dict[str, str]:
    generation = worker.accelerator.generation if worker.accelerator else ""
    return {
        "framework": TITLES[framework],
        "runtime_versions": either(runtime_versions(generation)) or Text("a runtime version for its type"),
        "devices": str(worker.devices),
        "lock_file": str(worker.lock_file),
    }


def either(choices: Sequence[str]) -> str:
    """Join the choices into a text such as ``one or another``; the text is empty if there are no choices."""
    return reduce(lambda some, last: Text("{some} or {last}", some=some, last=last), choices) if choices else ""


def explain_warning(said: str, worker: ThisWorker, framework: str) -> str:
    """Return the meaning of a known harmless warning, or an empty string for any other warning."""
    known = find_known_error(said)
    if known is None or not known[0].is_harmless:
        return ""
    error = _error_of(known[0], worker, framework, said)
    return f"{_(error.message)} {_(error.hint)}"


def in_use(holder: Holder, raw: str = "") -> TpuError:
    """Return the error for chips that another process uses; `raw` is the framework's message, if any."""
    notebook = Text(
        "To end that notebook's kernel, run `%tpu release` (outputs are kept), or shut the kernel down "
        "yourself. Then run %tpu_init again."
    )
    process = Text("To end that process, run `%tpu release`, or end the process yourself. Then run %tpu_init again.")
    return AcceleratorBusy(
        Text("The TPU is in use by {process}.", process=holder.text),
        exists="Only one process at a time can use a TPU.",
        hint=notebook if holder.is_kernel and holder.notebook else process,
        raw=raw,
    )


def _locked(worker: ThisWorker, raw: str, holder_of: FindHolder) -> TpuError:
    """Return the error for libtpu's lock file: a process holds the lock, or the file is a leftover."""
    # The lock is advisory and released when its process exits, so a leftover file blocks only users who can't open it.
    if holders := who_holds(worker.devices, worker.lock_file):
        return in_use(holder_of(holders[0]), raw)
    return AcceleratorBusy(
        Text(
            "libtpu cannot open its lock file {lock_file}, and this kernel sees no process that holds the "
            "file. Either another user's process left the file behind, or the process is not visible to this "
            "kernel.",
            lock_file=worker.lock_file,
        ),
        hint=Text(
            "Run `!sudo lsof -w {devices}/accel* {devices}/vfio/* {lock_file}`. If no process is listed, run "
            "`!sudo rm {lock_file}`, then run %tpu_init again.",
            devices=worker.devices,
            lock_file=worker.lock_file,
        ),
        raw=raw,
    )


def install_command(framework: str, worker: ThisWorker) -> str:
    """Return the ``%pip install …`` line, or why the framework can't be installed."""
    try:
        return _install_line(framework, worker)
    except BadInput as error:
        return _no_version(framework, error)


def install_hint(hint: Text, framework: str, worker: ThisWorker) -> Text:
    """Return the hint with the line for its ``{install}``, or why the framework can't be installed."""
    try:
        return hint.with_arguments(install=_install_line(framework, worker))
    except BadInput as error:
        return _no_version(framework, error)


def _install_line(framework: str, worker: ThisWorker) -> str:
    """Return the ``%pip install …`` line from the table in `frameworks`; for an emulated worker, it omits libtpu.

    Raises:
        BadInput: no version of the framework supports this Python.
    """
    if worker.is_emulated:
        return f'%pip install "{_WITHOUT_TPU[framework]}"'
    requires = newest(framework, sys.version_info[:2]).requires
    return "%pip install " + " ".join(f'"{each}"' for each in requires)


def _no_version(framework: str, error: BadInput) -> Text:
    return Text(
        "No version of {framework} supports this Python. {reason}", framework=TITLES[framework], reason=error.hint
    )


def missing(framework: str, worker: ThisWorker, raw: str) -> TpuError:
    """Return the error for a missing package (the framework or a dependency of it); `raw` contains its name."""
    return AcceleratorFailed(
        Text("{framework} is not installed in this kernel's Python.", framework=TITLES[framework]),
        hint=install_hint(Text("Run `{install}`, then run %tpu_init again."), framework, worker),
        raw=raw,
    )


def does_not_load(framework: str, worker: ThisWorker, raw: str) -> TpuError:
    """Return the error for a framework whose own code fails on import."""
    return AcceleratorFailed(
        Text("{framework} is installed in this kernel's Python, but does not load.", framework=TITLES[framework]),
        hint=install_hint(
            Text("Run `{install}` to reinstall the framework, then restart the kernel."), framework, worker
        ),
        raw=raw,
    )


def partly_loaded(framework: str, raw: str) -> TpuError:
    """Return the error for a framework that an earlier import, which was interrupted or failed, has loaded partly."""
    return AcceleratorFailed(
        Text(
            "An earlier import of {framework} was interrupted or failed, and a process can't import it again.",
            framework=TITLES[framework],
        ),
        hint=RESTART,
        raw=raw,
    )


def hidden(framework: str, module: str, place: str) -> TpuError:
    """Return the error for a user's file that hides a framework's package because it has the same name."""
    return AcceleratorFailed(
        Text(
            "“import {module}” imports {place} instead of {framework}.",
            module=module,
            place=place,
            framework=TITLES[framework],
        ),
        hint=Text("Rename or remove {place}, then restart the kernel.", place=place),
    )


def unknown_flags(framework: str, raw: str) -> TpuError:
    """Return the error for a flag that XLA does not know, as found by a trial in another process."""
    return AcceleratorFailed(
        Text(
            "XLA_FLAGS contains an unknown flag, so starting {framework} would crash this kernel.",
            framework=TITLES[framework],
        ),
        exists="Nothing was started.",
        hint="To remove the variable, run `import os; del os.environ['XLA_FLAGS']`, then run %tpu_init again. "
        "libtpu's own flags (--xla_tpu_…) belong in LIBTPU_INIT_ARGS.",
        raw=raw,
    )


def fell_back_to_cpu(reason: str, worker: ThisWorker, framework: str = "jax") -> TpuError:
    """Return the error for a framework that was started before ``%tpu_init`` and fell back to the CPU."""
    if not worker.is_on_node:
        return not_on_node(reason)
    return AcceleratorFailed(
        Text(
            "{framework} is running on the CPU, not on the TPU: it was started before %tpu_init and fell back"
            " silently.",
            framework=TITLES[framework],
        ),
        hint=RESTART,
        raw=reason,
    )


def without_tpu(reason: str, worker: ThisWorker) -> TpuError:
    """Return the error for a PyTorch that finds no TPU although TorchTPU is loaded."""
    if not worker.is_on_node:
        return not_on_node(reason)
    return _error_of(known_error("torch-without-tpu"), worker, "torch_tpu", reason)


def not_on_node(raw: str) -> TpuError:
    """Return the error for a kernel that is not on a TPU node."""
    return AcceleratorFailed("This kernel does not run on a TPU node.", hint=CHOOSE_NODE, raw=raw)


def wrong_devices(found: int, worker: ThisWorker, framework: str = "jax") -> TpuError:
    """Return the error for a framework that finds a different number of devices than the worker should have."""
    return AcceleratorFailed(
        Text(
            "{framework} has {devices} in this kernel, but {worker} of {type} has {expected}.",
            framework=TITLES[framework],
            devices=devices(found),
            worker=Text("an emulated worker") if worker.is_emulated else Text("a worker"),
            type=worker.accelerator_type,
            expected=worker.jax_devices,
        ),
        exists=Text(
            "{framework} was started before %tpu_init, or a setting limits it to some of the devices.",
            framework=TITLES[framework],
        ),
        hint=RESTART,
    )


def devices(count: int) -> Text:
    """Return ``1 device`` or ``8 devices``."""
    return Text("1 device") if count == 1 else Text("{count} devices", count=count)


def wrong_sum(found: object, exact: int) -> TpuError:
    """Return the error for a test computation with a wrong result."""
    return AcceleratorFailed(
        Text("The devices compute wrong results: a sum is {found} instead of {exact}.", found=found, exact=exact),
        hint="Delete the node and create another one.",
    )


def too_late(framework: str, why: str) -> TpuError:
    """Return the error for a framework that has already started and accepts no more settings."""
    return AcceleratorFailed(
        Text("It is too late to run %tpu_init: {reason}", reason=why),
        exists=Text("{framework} keeps its startup settings until the process exits.", framework=TITLES[framework]),
        hint=RESTART,
    )


def another_framework(running: str, wanted: str) -> TpuError:
    """Return the error for a second framework in one kernel."""
    return AcceleratorFailed(
        Text(
            "{running} is already using the TPU in this kernel, so {wanted} cannot use it.",
            running=TITLES[running],
            wanted=TITLES[wanted],
        ),
        exists="A process loads libtpu only once, for one framework.",
        hint=Text(
            "Use {running} here, or restart the kernel and run `%tpu_init {framework}` first.",
            running=TITLES[running],
            framework=wanted,
        ),
    )


def needs_all_workers(worker: ThisWorker, framework: str = "jax") -> TpuError:
    """Return the error for a framework started on only one of several workers; it would wait for the others."""
    return AcceleratorFailed(
        Text(
            "{type} has {count} workers and this kernel runs on one of them: {framework} would wait for the others"
            " forever.",
            type=worker.accelerator_type,
            count=worker.workers,
            framework=TITLES[framework],
        ),
        hint=Text(
            "Choose the kernel “Python 3 · {type} · {node} · {count} workers”, which runs each cell on all of them.",
            type=worker.accelerator_type,
            node=worker.node_id,
            count=worker.workers,
        ),
    )


def needs_all_in_cell(workers: int, framework: str) -> TpuError:
    """Return the error for a cell that runs only on some workers of a slice."""
    return AcceleratorFailed(
        Text(
            "{framework} starts on all {count} workers together, but this cell runs only on some of them.",
            framework=TITLES[framework],
            count=workers,
        ),
        hint="Run %tpu_init in a cell without %%worker or %%workers.",
    )


def cannot_join(framework: str) -> TpuError:
    """Return the error for a framework that a notebook cannot start on several workers."""
    if framework == "tf":
        return AcceleratorFailed(
            "TensorFlow can't be started on several workers from a notebook. It must run only on worker 0, and"
            " the other workers need TensorFlow's server, which only runtime versions with -pod in their name have.",
            exists="Nothing was started.",
            hint="To use JAX, run `%tpu_init jax`. Or run TensorFlow as a script on worker 0 of a node whose runtime "
            "version has -pod in its name.",
        )
    return AcceleratorFailed(
        Text("{framework} can't be started on several workers from a notebook yet.", framework=TITLES[framework]),
        hint="To use JAX, run `%tpu_init jax`.",
    )
