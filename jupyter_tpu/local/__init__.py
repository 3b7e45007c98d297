"""The magics of a kernel on the user's own machine: ``%tpu`` is the command line, ``%%tpu`` runs a cell on a node.

Start with `magics`. IPython is reached only through the shell that loads the extension, as in `notebook`. It must not
call the cloud itself: commands do that in a process of their own, and kernels on nodes go through their kernelspecs.
"""

from __future__ import annotations

from typing import Any


def load_ipython_extension(shell: Any) -> None:
    """Register the magics in a kernel that is not on a node; only ``%tpu`` differs from the ones on a node."""
    from jupyter_tpu import notebook
    from jupyter_tpu.local.magics import register_magics

    # In this order, because the local ``%tpu`` replaces the node's.
    notebook.load_ipython_extension(shell)
    register_magics(shell)
