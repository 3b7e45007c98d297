"""What runs inside the user's kernel: the magics, such as ``%tpu_init``.

Runs on the worker, where Python may be 3.10 and only the standard library is certain: frameworks are imported when they
are asked for, IPython is reached only through the shell that loads the extension.
"""

from __future__ import annotations

from typing import Any


def load_ipython_extension(shell: Any) -> None:
    """Called by IPython for ``%load_ext jupyter_tpu``, and by the agent in every kernel that it starts."""
    from jupyter_tpu.notebook.magics import register_magics

    register_magics(shell)
