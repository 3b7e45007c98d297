"""What runs inside the user's kernel: the magics, such as ``%tpu_init``.

Runs on the worker, where Python may be 3.10 and only the standard library is certain: frameworks are imported when they
are asked for, IPython is reached only through the shell that loads the extension.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any


def is_on_node(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether this kernel runs on a TPU node: an agent of ours has started it, or the machine says so."""
    from jupyter_tpu.notebook.node.agent_call import is_agent_here

    return is_agent_here(environ) or bool(environ.get("TPU_ACCELERATOR_TYPE"))


def load_ipython_extension(shell: Any) -> None:
    """Called by IPython for ``%load_ext jupyter_tpu``, and by the agent in every kernel that it starts."""
    from jupyter_tpu.notebook.magics.commands import register_magics

    register_magics(shell)
