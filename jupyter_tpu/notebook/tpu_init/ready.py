"""The result of a framework's start: the object ``tpu`` for the notebook and the test result for the report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jupyter_tpu.errors import Text
from jupyter_tpu.notebook.tpu_init.report import Device

# Enough for every device to get a part. The sum over the devices of one worker stays far below 2**31 (int32).
VALUES_PER_DEVICE = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Tpu:
    """The accelerator of this kernel, as objects of the framework.

    Attributes:
        framework: ``jax``, ``torch_xla``, ``torch_tpu`` or ``tf``.
        devices: all devices of this process.
        device: the device for arrays: the first one; for PyTorch/XLA, the device that represents all of them.
        mesh: all devices in one row, with an axis ``devices`` (JAX, PyTorch/XLA); None for the others.
        strategy: for ``with tpu.strategy.scope():`` (TensorFlow); None for the others.
        is_emulated: whether CPU devices stand in for the chips.
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
        proof: a phrase for the computation on all devices.
        note: a note for the user about this framework; empty if none.
    """

    tpu: Tpu
    devices: tuple[Device, ...]
    proof: str
    note: str = ""


def expected_sum(count: int) -> tuple[int, int]:
    """Return how many numbers the test sums on `count` devices, and the exact result."""
    numbers = VALUES_PER_DEVICE * count
    return numbers, numbers * (numbers - 1) // 2


def proof_text(count: int) -> Text:
    """Return the test result on `count` devices as a phrase."""
    numbers, exact = expected_sum(count)
    if count > 1:
        return Text("the sum of 0 to {last}, spread over all devices, is {sum}", last=numbers - 1, sum=exact)
    return Text("the sum of 0 to {last}, computed on the device, is {sum}", last=numbers - 1, sum=exact)
