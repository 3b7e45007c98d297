"""The magics of a kernel on the user's own machine: ``%tpu`` is the command line, ``%%tpu`` runs a cell on a node.

Start with `magics`. As in `notebook`, IPython is accessed only through the shell that loads the extension. This package
must not call the cloud itself: commands do so in a separate process, and kernels on nodes are started from their
kernelspecs.
"""

from __future__ import annotations

from typing import Any


def load_ipython_extension(shell: Any) -> None:
    """Register the magics in a local kernel. Only ``%tpu`` differs from the magics on a node."""
    from jupyter_tpu import notebook
    from jupyter_tpu.local.magics import register_magics

    # Load in this order, because the local ``%tpu`` replaces the node's.
    notebook.load_ipython_extension(shell)
    register_magics(shell)
