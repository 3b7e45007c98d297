"""The result of a framework's start: the object ``tpu`` for the notebook and the test result for the report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jupyter_tpu.errors import Text
from jupyter_tpu.notebook.tpu_init.report import Device, Host

# Numbers per device in the test sum, enough for every device to get a share.
VALUES_PER_DEVICE = 128
_MOST_VALUES = 2**16  # the sum of all numbers below this fits into an int32


@dataclass(frozen=True, slots=True, kw_only=True)
class Tpu:
    """The accelerator of this kernel, as objects of the framework.

    Attributes:
        framework: ``jax``, ``torch_xla``, ``torch_tpu`` or ``tf``.
        devices: all devices; on a slice, the devices of all workers.
        device: the device for arrays: this worker's first device; for PyTorch/XLA, the virtual device that represents
            all devices.
        mesh: a one-dimensional mesh of all devices with the axis ``devices`` (JAX, PyTorch/XLA); None for other
            frameworks.
        strategy: for ``with tpu.strategy.scope():`` (TensorFlow); None for other frameworks.
        is_emulated: whether CPU devices replace the chips.
    """

    framework: str
    devices: tuple[Any, ...]
    device: Any
    mesh: Any = None
    strategy: Any = None
    is_emulated: bool = False

    def __repr__(self) -> str:
        parts = [f"framework={self.framework!r}", f"devices: {len(self.devices)}", f"device={self.device!r}"]
        parts += [f"tpu.{name}" for name in ("mesh", "strategy") if getattr(self, name) is not None]
        return f"<tpu {', '.join(parts)}{' (emulated)' if self.is_emulated else ''}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A running framework and its test result.

    Attributes:
        devices: this worker's devices, or all workers' devices if `hosts` is not empty.
        proof: a phrase with the result of the test computation on all devices.
        note: what the user should know about this framework; empty if nothing.
        hosts: the workers of a slice and their devices, on worker 0 only; empty if there is one worker.
    """

    tpu: Tpu
    devices: tuple[Device, ...]
    proof: str
    note: str = ""
    hosts: tuple[Host, ...] = ()


def expected_sum(count: int) -> tuple[int, int]:
    """Return how many numbers the test computation adds on `count` devices, and the exact sum."""
    numbers = count * max(1, min(VALUES_PER_DEVICE, _MOST_VALUES // count))
    return numbers, numbers * (numbers - 1) // 2


def proof_text(count: int) -> Text:
    """Return the test result on `count` devices as a phrase."""
    numbers, exact = expected_sum(count)
    if count > 1:
        return Text("the sum of 0 to {last}, spread over all devices, is {sum}", last=numbers - 1, sum=exact)
    return Text("the sum of 0 to {last}, computed on the device, is {sum}", last=numbers - 1, sum=exact)
