"""Take this worker's chips: only one process can have them, so first see who has."""

from __future__ import annotations

import importlib
import os

from jupyter_tpu.notebook.node.holders import find_holder, who_holds
from jupyter_tpu.notebook.node.worker import ThisWorker
from jupyter_tpu.notebook.tpu_init import diagnosis


def claim_chips(worker: ThisWorker, framework: str) -> None:
    """Called once the framework is imported and shortly before it starts on its devices.

    Not every framework names the process that is in its way: PyTorch/XLA does without libtpu's lock. A process that may
    see only some of the chips shares the machine with others, so there the framework alone can tell.

    Raises:
        AcceleratorBusy: another process has the chips.
    """
    holders = who_holds(worker.devices, worker.lock_file) if worker.visible_chips is None else []
    if holders and os.getpid() not in holders:
        raise diagnosis.in_use(find_holder(holders[0]))
    if worker.is_emulated and os.environ.get("EMULATED_TPU"):
        _take_emulated(worker, framework)


def _take_emulated(worker: ThisWorker, framework: str) -> None:
    """No libtpu is loaded there that would take them."""
    try:
        importlib.import_module("emulated_tpu").take()
    except ModuleNotFoundError:  # the kernel's Python was started without the worker's own path
        return
    except (RuntimeError, OSError) as error:  # somebody was faster, or the node is going away
        raise diagnosis.diagnose_start(str(error), worker, framework) from error
