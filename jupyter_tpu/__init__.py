"""Jupyter on Cloud TPU VMs: a server extension, a kernel provisioner and ``%tpu`` magics.

Importing this package does nothing: Jupyter loads each part when it is needed.
"""

from __future__ import annotations

from typing import Any

try:
    from jupyter_tpu._version import __version__ as __version__
except ImportError:  # The build writes _version.py, so a checkout that was never built lacks it.
    __version__ = "0.0.0"

__all__ = ["IdleTimer", "QuotaAndCredit", "TpuMonitor"]


def __getattr__(name: str) -> Any:
    """Load the widgets of `jupyter_tpu.notebook.widgets` when a notebook first uses a widget."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from jupyter_tpu.notebook import widgets

    return getattr(widgets, name)


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    return [{"src": "labextension", "dest": "jupyter-tpu"}]


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    from jupyter_tpu.server.app import TPUApp

    return [{"module": "jupyter_tpu", "app": TPUApp}]


def load_ipython_extension(shell: Any) -> None:
    """Run ``%load_ext jupyter_tpu``; IPython calls this in the user's kernel, on a node or elsewhere."""
    from jupyter_tpu import notebook

    if notebook.is_on_node():
        notebook.load_ipython_extension(shell)
        return
    from jupyter_tpu import local

    local.load_ipython_extension(shell)
