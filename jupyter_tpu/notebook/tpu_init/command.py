"""The command ``%tpu_init``: choose the framework, start it on this worker's chips, and show the result of a test."""

from __future__ import annotations

import gc
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from jupyter_tpu.i18n import shown
from jupyter_tpu.notebook import slices
from jupyter_tpu.notebook.node.this_slice import ThisSlice, this_slice
from jupyter_tpu.notebook.node.this_worker import ThisWorker, this_worker
from jupyter_tpu.notebook.tpu_init import diagnosis
from jupyter_tpu.notebook.tpu_init.choice import (
    Choice,
    choose_framework,
    imported_frameworks,
    installed_frameworks,
    nothing_installed,
)
from jupyter_tpu.notebook.tpu_init.imports import restore_environment_on_error
from jupyter_tpu.notebook.tpu_init.jax_start import start_jax
from jupyter_tpu.notebook.tpu_init.library_versions import installed_versions, libtpu_mismatch, requirements_of
from jupyter_tpu.notebook.tpu_init.ready import Ready
from jupyter_tpu.notebook.tpu_init.report import Report
from jupyter_tpu.notebook.tpu_init.tf_start import start_tf
from jupyter_tpu.notebook.tpu_init.torch_tpu_start import start_torch_tpu
from jupyter_tpu.notebook.tpu_init.torch_xla_start import start_torch_xla
from jupyter_tpu.notebook.tpu_init.xla_flags import refuse_unknown_flags

STARTS: Mapping[str, Callable[[ThisWorker], Ready]] = {
    "jax": start_jax,
    "torch_xla": start_torch_xla,
    "torch_tpu": start_torch_tpu,
    "tf": start_tf,
}
ALONE = ("torch_xla", "torch_tpu", "tf")
"""Frameworks whose start affects only one worker."""
NAME = "tpu"
"""Name of the notebook variable with the devices, mesh and strategy."""


class _Running:
    """The framework that uses the chips in this process; libtpu supports only one framework per process."""

    framework = ""


def tpu_init(line: str, shell: Any) -> None:
    """Run a line of ``%tpu_init`` in an IPython shell.

    Raises:
        BadInput: the line does not select a framework.
        AcceleratorFailed: the framework can't use the accelerator.
        AcceleratorBusy: another process uses the chips.
    """
    worker = replace(this_worker(os.environ), place=this_slice(os.environ))
    began = time.monotonic()
    choice = choose_framework(line, imported_frameworks(), installed_frameworks())
    if choice is None:
        raise nothing_installed(worker)
    # Reject a start that is certain to fail before importing the framework, which takes seconds.
    _refuse_hopeless_start(choice.framework, worker)
    ready, explained = _started(choice.framework, worker)
    # Only a successful start claims the process: after a failed start, the user may try another framework.
    _Running.framework = choice.framework
    shell.push({NAME: ready.tpu})
    if worker.place is not None and worker.place.worker:
        # only worker 0 prints the report, for all workers
        return
    report = _report(worker, choice, ready, explained, time.monotonic() - began)
    with slices.showing_for_all():
        shell.display_pub.publish(data=report.to_mimebundle())


def _refuse_hopeless_start(framework: str, worker: ThisWorker) -> None:
    if _Running.framework not in ("", framework):
        raise diagnosis.another_framework(_Running.framework, framework)
    if worker.place is None and worker.workers > 1:
        raise diagnosis.needs_all_workers(worker, framework)
    if worker.place is not None:
        _refuse_part_of_slice(worker.place, framework)
    # A running framework has already read its flags, so testing them again would waste a process start.
    if not _Running.framework:
        refuse_unknown_flags(framework)


def _refuse_part_of_slice(place: ThisSlice, framework: str) -> None:
    """Raise an error if the cell runs only on some workers, or if the framework cannot use several workers."""
    if slices.runs_here_only():
        raise diagnosis.needs_all_in_cell(place.workers, framework)
    if framework in ALONE:
        raise diagnosis.cannot_join(framework)


def _started(framework: str, worker: ThisWorker) -> tuple[Ready, str]:
    """Start the framework; return it and an explanation of known warnings. Other warnings are shown as they are."""
    with _no_garbage_collection(), warnings.catch_warnings(record=True) as caught, restore_environment_on_error():
        warnings.simplefilter("always")
        ready = STARTS[framework](worker)
    explained = dict.fromkeys(filter(None, (_explained(each, worker, framework) for each in caught)))
    return ready, " ".join(explained)


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Pause automatic garbage collection: JAX has a callback for it, and Python drops an interrupt in a callback."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _explained(warning: warnings.WarningMessage, worker: ThisWorker, framework: str) -> str:
    explanation = diagnosis.explain_warning(str(warning.message), worker, framework)
    if not explanation:
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return explanation


def _report(worker: ThisWorker, choice: Choice, ready: Ready, explained: str, seconds: float) -> Report:
    framework = choice.framework
    versions = installed_versions(framework)
    mismatch = libtpu_mismatch(framework, versions, requirements_of(framework))
    return Report(
        worker=worker,
        framework=framework,
        why=choice.why,
        devices=ready.devices,
        proof=ready.proof,
        versions=versions,
        remark=ready.note,
        warning=" ".join(filter(None, (shown(mismatch), explained))),
        seconds=seconds,
        hosts=ready.hosts,
    )
