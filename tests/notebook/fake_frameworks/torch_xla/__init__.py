"""PyTorch/XLA 2.9.0 as far as `%tpu_init` touches it; SPMD after a device ends the process, as it can there."""

import os
from types import SimpleNamespace

from touched import touch

touch("import torch_xla")
os.environ["TPU_ML_PLATFORM"] = "PyTorch/XLA"  # for libtpu, once
state = SimpleNamespace(is_locked=False, is_spmd=False)
_XLAC = SimpleNamespace(_xla_get_spmd_config_is_locked=lambda: state.is_locked)


def device():
    touch("device")
    state.is_locked = True
    return "xla:0"
