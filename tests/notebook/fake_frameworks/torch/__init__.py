"""As much of PyTorch 2.13 as `%tpu_init` touches: it loads TorchTPU by itself, unless its variable says no."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

from touched import touch

int32 = "int32"


class Tensor:
    """Whole numbers that can be added up."""

    def __init__(self, values: list[int]) -> None:
        self.values = values

    def to(self, device: object) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return self

    def sum(self) -> Tensor:
        return Tensor([sum(self.values)])

    def __int__(self) -> int:
        return self.values[0]


def arange(count: int, *, dtype: str, device: object = "cpu") -> Tensor:
    touch(f"arange on {device}")
    return Tensor(list(range(count)))


def device(name: str) -> str:
    return name


def _current_accelerator() -> object:
    """TorchTPU looks for chips once, when it is loaded."""
    loaded = sys.modules.get("torch_tpu")
    return SimpleNamespace(type="tpu") if loaded and loaded.saw_chips else None


accelerator = SimpleNamespace(current_accelerator=_current_accelerator)

touch("import torch")
if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") == "1" and os.environ.get("FAKE_TORCH") == "torch_tpu":
    import torch_tpu  # noqa: F401
