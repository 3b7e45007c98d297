"""In a kernel on this machine: ``%tpu``, which is the command line, and ``%%tpu``, which runs a cell on a node.

IPython is reached only through the shell that loads the extension, as in `notebook`.
"""

from __future__ import annotations

from typing import Any


def load_ipython_extension(shell: Any) -> None:
    """Called for ``%load_ext jupyter_tpu`` in a kernel that is not on a node; all but ``%tpu`` is as it is there."""
    from jupyter_tpu import notebook
    from jupyter_tpu.local.magics import register_magics

    notebook.load_ipython_extension(shell)
    register_magics(shell)
