"""``%tpu_init``: choose the framework, start it on this worker's accelerator, show the proof."""

from __future__ import annotations

import os
from typing import Any

from jupyter_tpu.errors import BadInput
from jupyter_tpu.notebook.jax_start import start_jax
from jupyter_tpu.notebook.worker import this_worker

READY = ("auto", "jax")
LATER = ("torch_xla", "torch_tpu", "tf")


def tpu_init(line: str, shell: Any) -> None:
    """Perform a line of ``%tpu_init`` in an IPython shell.

    Raises:
        BadInput: the line is not one word that names a framework we can start.
        AcceleratorFailed: the framework cannot use the accelerator.
    """
    parse_framework(line)
    report = start_jax(this_worker(os.environ))
    shell.display_pub.publish(data=report.to_mimebundle())


def parse_framework(line: str) -> str:
    """Which framework a ``%tpu_init`` line means; JAX is the only one so far, and what ``auto`` finds.

    Raises:
        BadInput: the line is not one word that names a framework we can start.
    """
    word = line.strip() or "auto"
    if word in READY:
        return "jax"
    if word in LATER:
        raise BadInput(f"%tpu_init cannot start {word} yet: it comes later.", hint="Today it starts JAX: %tpu_init jax")
    raise BadInput(f"{word[:70]!r} is not a framework that %tpu_init knows.", hint=f"Use one of: {', '.join(READY)}.")
