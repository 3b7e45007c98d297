"""The result of a framework's start: the object that the notebook gets as ``tpu``, and the proof for the report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jupyter_tpu.errors import Text
from jupyter_tpu.notebook.tpu_init.report import Device

# Enough for every device to get a part. The sum over the devices of one worker stays far below 2**31 (int32).
VALUES_PER_DEVICE = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Tpu:
    """The accelerator of this kernel, in the framework's own objects.

    Attributes:
        framework: ``jax``, ``torch_xla``, ``torch_tpu`` or ``tf``.
        devices: all devices of this process.
        device: the device to put arrays on: the first one; for PyTorch/XLA the one that stands for all of them.
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
    """A framework that runs, and the proof of it.

    Attributes:
        proof: a phrase for what was computed over all devices.
        note: what the user should know about this framework; empty if nothing.
    """

    tpu: Tpu
    devices: tuple[Device, ...]
    proof: str
    note: str = ""


def expected_sum(count: int) -> tuple[int, int]:
    """Return how many numbers the proof sums on `count` devices, and the exact result."""
    numbers = VALUES_PER_DEVICE * count
    return numbers, numbers * (numbers - 1) // 2


def proof_text(count: int) -> Text:
    """Return the proof on `count` devices as a phrase."""
    numbers, exact = expected_sum(count)
    if count > 1:
        return Text("the sum of 0 to {last}, spread over all devices, is {sum}", last=numbers - 1, sum=exact)
    return Text("the sum of 0 to {last}, computed on the device, is {sum}", last=numbers - 1, sum=exact)
