"""Try the user's ``XLA_FLAGS`` in another process first, because an unknown flag makes XLA abort the process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from jupyter_tpu.notebook.tpu_init import diagnosis

# Time limit for a trial that hangs, with enough time for a slow import; an unknown flag kills the process at once.
_PATIENCE_S = 120
_REFUSED = re.compile(r"parse_flags_from_env\.cc:\d+\] (.*XLA_FLAGS.*)")


@dataclass(frozen=True)
class _Trial:
    """A program that makes a framework parse its flags, on the CPU so that it does not use the chips."""

    program: str
    variables: Mapping[str, str]


# TensorFlow reads the flags too, but not before XLA compiles a function.
_TRIALS = {
    "jax": _Trial("import jax; jax.devices()", {"JAX_PLATFORMS": "cpu"}),
    "torch_xla": _Trial("import torch_xla; torch_xla.device()", {"PJRT_DEVICE": "CPU"}),
}


def refuse_unknown_flags(framework: str) -> None:
    """Try the flags in ``XLA_FLAGS`` in a new process; do nothing if the variable is not set.

    Raises:
        AcceleratorFailed: XLA does not know one of the flags.
    """
    trial = _TRIALS.get(framework)
    if trial is None or not os.environ.get("XLA_FLAGS"):
        return
    if refused := _REFUSED.search(_stderr_of(trial)):
        raise diagnosis.unknown_flags(framework, refused[1])


def _stderr_of(trial: _Trial) -> str:
    """Return the program's stderr, or "" after a timeout. An unknown flag aborts the program immediately."""
    try:
        run = subprocess.run(
            [sys.executable, "-c", trial.program],
            env={**os.environ, **trial.variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return run.stderr.decode(errors="replace")
