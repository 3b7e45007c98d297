"""The worker on which this kernel runs, according to its environment variables."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from jupyter_tpu.accelerators import Accelerator, find_accelerator
from jupyter_tpu.notebook.node.this_slice import ThisSlice
from jupyter_tpu.tpu_files import devices_folder, lock_file


@dataclass(frozen=True, slots=True, kw_only=True)
class ThisWorker:
    """The worker on which this kernel runs.

    Attributes:
        node_id: the node's name if given when the kernel was started, else the host name.
        accelerator: the accelerator type; None if it is not in the catalogue.
        is_emulated: whether the node belongs to the emulated cloud and has no real chips.
        devices: the folder with the chips' device files.
        lock_file: the file that libtpu locks while a process uses the chips.
        visible_chips: number of chips that the environment makes visible to this process; None means all.
        place: this process's place in a slice on which each cell runs on all workers; None if cells run only here, or
            if the caller has not set it.
    """

    devices: Path
    lock_file: Path
    node_id: str = ""
    accelerator_type: str = ""
    accelerator: Accelerator | None = None
    is_emulated: bool = False
    visible_chips: int | None = None
    place: ThisSlice | None = None

    @property
    def jax_devices(self) -> int | None:
        """The number of JAX devices on this worker alone, or None if the accelerator type is unknown."""
        if self.accelerator is None:
            return None
        of_worker = self.accelerator.jax_devices // self.accelerator.workers
        # Only libtpu uses TPU_VISIBLE_CHIPS; for an emulated worker, count the CPU devices by type only.
        if self.visible_chips is None or self.is_emulated:
            return of_worker
        return of_worker * self.visible_chips // self.accelerator.chips_per_worker

    @property
    def workers(self) -> int:
        """The number of workers of the node, or 1 if the accelerator type is unknown."""
        return self.accelerator.workers if self.accelerator else 1

    @property
    def is_on_node(self) -> bool:
        """Whether this is a TPU VM or an emulated worker: the environment of both contains the accelerator type."""
        return bool(self.accelerator_type)


def host_name(environ: Mapping[str, str]) -> str:
    """Return this worker's host name. For an emulated worker, `environ` must be the environment of a login."""
    return environ.get("HOSTNAME") or platform.node()


def this_worker(environ: Mapping[str, str]) -> ThisWorker:
    """Read the worker from the environment of a login shell on a TPU VM or emulated worker."""
    accelerator_type = environ.get("TPU_ACCELERATOR_TYPE", "")
    # libtpu accepts both names; TPU_VISIBLE_DEVICES is the older name.
    chips = environ.get("TPU_VISIBLE_CHIPS") or environ.get("TPU_VISIBLE_DEVICES") or ""
    return ThisWorker(
        node_id=environ.get("JPY_TPU_NODE") or host_name(environ),
        accelerator_type=accelerator_type,
        accelerator=find_accelerator(accelerator_type),
        is_emulated=environ.get("JUPYTER_TPU_EMULATED") == "1",
        devices=devices_folder(environ),
        lock_file=lock_file(environ),
        visible_chips=len(chips.split(",")) if chips else None,
    )
