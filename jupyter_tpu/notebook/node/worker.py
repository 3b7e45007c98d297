"""What the environment says about the machine that this kernel runs on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from jupyter_tpu.accelerators import Accelerator, find_accelerator

LOCK_FILE = Path("/tmp/libtpu_lockfile")
"""libtpu's own, on every TPU VM."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThisWorker:
    """The worker of this kernel.

    Attributes:
        accelerator: None where the environment does not name a type that the catalogue knows.
        is_emulated: the node belongs to the emulated cloud, so there are no chips.
        devices: the folder with the chips' device files.
        lock_file: what libtpu locks while a process has the chips.
        visible_chips: how many chips the environment lets this process see; None: all.
    """

    accelerator_type: str = ""
    accelerator: Accelerator | None = None
    is_emulated: bool = False
    devices: Path = Path("/dev")
    lock_file: Path = LOCK_FILE
    visible_chips: int | None = None

    @property
    def jax_devices(self) -> int | None:
        """How many devices JAX has on this worker alone, or None where the type is not known."""
        if self.accelerator is None:
            return None
        of_worker = self.accelerator.jax_devices // self.accelerator.workers
        if self.visible_chips is None or self.is_emulated:
            return of_worker
        return of_worker * self.visible_chips // self.accelerator.chips_per_worker

    @property
    def workers(self) -> int:
        return self.accelerator.workers if self.accelerator else 1

    @property
    def is_on_node(self) -> bool:
        return bool(self.accelerator_type)


def this_worker(environ: Mapping[str, str]) -> ThisWorker:
    """Read the worker from the environment that TPU VMs, and the emulator's workers, give to a login."""
    accelerator_type = environ.get("TPU_ACCELERATOR_TYPE", "")
    chips = environ.get("TPU_VISIBLE_CHIPS") or environ.get("TPU_VISIBLE_DEVICES") or ""
    return ThisWorker(
        accelerator_type=accelerator_type,
        accelerator=find_accelerator(accelerator_type),
        is_emulated=environ.get("JUPYTER_TPU_EMULATED") == "1",
        devices=Path(environ.get("JUPYTER_TPU_DEVICES") or "/dev"),
        lock_file=Path(environ.get("JUPYTER_TPU_LOCK_FILE") or LOCK_FILE),
        visible_chips=len(chips.split(",")) if chips else None,
    )
