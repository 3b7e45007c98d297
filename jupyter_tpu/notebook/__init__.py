"""Code that runs inside the user's kernel: the magics, the widgets and the doctor.

Start with `magics.registration`, which registers ``%tpu``, ``%tpu_init``, ``%%tpu_time`` and ``%%tpu_on_preempt``. The
package runs on the worker, where Python may be 3.10 and only the standard library is guaranteed: frameworks are
imported on demand, and IPython is used only through the shell that loads the extension. It must not depend on the
cloud, SSH or the Jupyter server: the agent provides their data.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any


def is_on_node(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether this kernel runs on a TPU node: the agent started it, or ``TPU_ACCELERATOR_TYPE`` is set."""
    # Import late, like everything that the magics need, so that loading the extension does not delay a kernel's start.
    from jupyter_tpu.notebook.node.agent_call import is_agent_here

    return is_agent_here(environ) or bool(environ.get("TPU_ACCELERATOR_TYPE"))


def load_ipython_extension(shell: Any) -> None:
    """Register the magics; called by IPython for ``%load_ext jupyter_tpu``, and by the agent in each new kernel."""
    from jupyter_tpu.notebook.magics.registration import register_magics
    from jupyter_tpu.notebook.streams import restore_streams

    register_magics(shell)
    restore_streams(shell)
    from jupyter_tpu.notebook.slices import join

    join(shell)
