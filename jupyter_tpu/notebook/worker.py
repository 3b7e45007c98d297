"""What the environment says about the machine that this kernel runs on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jupyter_tpu.accelerators import Accelerator, find_accelerator


@dataclass(frozen=True, slots=True, kw_only=True)
class ThisWorker:
    """The worker of this kernel.

    Attributes:
        accelerator: None where the environment does not name a type that the catalogue knows.
        is_emulated: the node belongs to the emulated cloud, so there are no chips.
    """

    accelerator_type: str = ""
    accelerator: Accelerator | None = None
    is_emulated: bool = False

    @property
    def jax_devices(self) -> int | None:
        """How many devices JAX has on this worker alone, or None where the type is not known."""
        if self.accelerator is None:
            return None
        return self.accelerator.jax_devices // self.accelerator.workers

    @property
    def workers(self) -> int:
        return self.accelerator.workers if self.accelerator else 1


def this_worker(environ: Mapping[str, str]) -> ThisWorker:
    """Read the worker from the environment that TPU VMs, and the emulator's workers, give to a login."""
    accelerator_type = environ.get("TPU_ACCELERATOR_TYPE", "")
    return ThisWorker(
        accelerator_type=accelerator_type,
        accelerator=find_accelerator(accelerator_type),
        is_emulated=environ.get("JUPYTER_TPU_EMULATED") == "1",
    )
