"""What a framework's start gives: the object that the notebook gets as ``tpu``, and what the report tells of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jupyter_tpu.notebook.tpu_init.report import Device

VALUES_PER_DEVICE = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Tpu:
    """The accelerator of this kernel, in the framework's own objects.

    Attributes:
        framework: ``jax``, ``torch_xla``, ``torch_tpu`` or ``tf``.
        devices: all devices that this process has.
        device: the one to put things on: the first; for PyTorch/XLA the one that stands for all of them.
        mesh: all devices in one row, its axis is called ``devices`` (JAX, PyTorch/XLA); None for the others.
        strategy: what to open with ``with tpu.strategy.scope():`` (TensorFlow); None for the others.
        is_emulated: devices of the CPU stand in for the chips.
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
    """A framework that runs, and how that was proved.

    Attributes:
        proof: what was computed over all devices, in words.
        note: what is particular about it; empty where nothing is.
    """

    tpu: Tpu
    devices: tuple[Device, ...]
    proof: str
    note: str = ""


def expected_sum(count: int) -> tuple[int, int]:
    """How many numbers the proof adds up on this many devices, and their exact sum."""
    numbers = VALUES_PER_DEVICE * count
    return numbers, numbers * (numbers - 1) // 2


def proof_words(count: int) -> str:
    numbers, exact = expected_sum(count)
    spread = "spread over all of them" if count > 1 else "computed on it"
    return f"the sum of 0 to {numbers - 1}, {spread}, is {exact}"
