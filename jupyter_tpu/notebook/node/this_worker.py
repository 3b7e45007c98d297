"""The worker that this kernel runs on, as its environment variables describe it."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from jupyter_tpu.accelerators import Accelerator, find_accelerator
from jupyter_tpu.tpu_files import devices_folder, lock_file


@dataclass(frozen=True, slots=True, kw_only=True)
class ThisWorker:
    """The worker that this kernel runs on.

    Attributes:
        node_id: the node's name, as the kernel's start gave it; else the host name.
        accelerator: None if the catalogue does not know the accelerator type.
        is_emulated: whether the node belongs to the emulated cloud, so that there are no chips.
        devices: the folder with the chips' device files.
        lock_file: the file that libtpu locks while a process uses the chips.
        visible_chips: how many chips the environment lets this process see; None: all.
    """

    devices: Path
    lock_file: Path
    node_id: str = ""
    accelerator_type: str = ""
    accelerator: Accelerator | None = None
    is_emulated: bool = False
    visible_chips: int | None = None

    @property
    def jax_devices(self) -> int | None:
        """How many devices JAX has on this worker alone; None if the type is not known."""
        if self.accelerator is None:
            return None
        of_worker = self.accelerator.jax_devices // self.accelerator.workers
        # Only libtpu heeds TPU_VISIBLE_CHIPS; the CPU devices of an emulated worker are counted by the type alone.
        if self.visible_chips is None or self.is_emulated:
            return of_worker
        return of_worker * self.visible_chips // self.accelerator.chips_per_worker

    @property
    def workers(self) -> int:
        """How many workers the node has; 1 if the type is not known."""
        return self.accelerator.workers if self.accelerator else 1

    @property
    def is_on_node(self) -> bool:
        """Whether this is a TPU VM or an emulated worker: both name their accelerator type."""
        return bool(self.accelerator_type)


def this_worker(environ: Mapping[str, str]) -> ThisWorker:
    """Read the worker from the environment that TPU VMs and emulated workers give to a login shell."""
    accelerator_type = environ.get("TPU_ACCELERATOR_TYPE", "")
    # libtpu accepts both names; TPU_VISIBLE_DEVICES is the older one.
    chips = environ.get("TPU_VISIBLE_CHIPS") or environ.get("TPU_VISIBLE_DEVICES") or ""
    return ThisWorker(
        node_id=environ.get("JPY_TPU_NODE") or platform.node(),
        accelerator_type=accelerator_type,
        accelerator=find_accelerator(accelerator_type),
        is_emulated=environ.get("JUPYTER_TPU_EMULATED") == "1",
        devices=devices_folder(environ),
        lock_file=lock_file(environ),
        visible_chips=len(chips.split(",")) if chips else None,
    )
