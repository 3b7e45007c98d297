"""Check that the chips are free before a framework starts, because only one process can use them."""

from __future__ import annotations

import importlib
import os

from jupyter_tpu.notebook.node.holders import find_holder, who_holds
from jupyter_tpu.notebook.node.this_worker import ThisWorker
from jupyter_tpu.notebook.tpu_init import diagnosis


def claim_chips(worker: ThisWorker, framework: str) -> None:
    """Raise an error if another process uses the chips. Call this just before the imported framework is started.

    Some frameworks don't detect the conflict; for example, PyTorch/XLA starts without libtpu's lock. If only some of
    the chips are visible to this process, this check is skipped, because other processes may use the other chips.

    Raises:
        AcceleratorBusy: another process uses the chips.
    """
    holders = who_holds(worker.devices, worker.lock_file) if worker.visible_chips is None else []
    if holders and os.getpid() not in holders:
        raise diagnosis.in_use(find_holder(holders[0]))
    if worker.is_emulated and os.environ.get("EMULATED_TPU"):
        _claim_emulated_chips(worker, framework)


def _claim_emulated_chips(worker: ThisWorker, framework: str) -> None:
    """Acquire the emulated chips, as libtpu would on a real worker."""
    try:
        importlib.import_module("emulated_tpu").take()
    except ModuleNotFoundError:  # the kernel's Python was started without the worker's own path
        return
    except (RuntimeError, OSError) as error:  # another process took the chips first, or the node is being deleted
        raise diagnosis.diagnose_start(str(error), worker, framework) from error
