"""Exclude control-channel requests from a kernel's activity in Jupyter Server."""

from __future__ import annotations

from typing import Any

# JupyterLab creates and deletes a subshell when it opens a notebook; Jupyter Server's own list doesn't include these
# requests yet.
_CONTROL_REQUESTS = ("create_subshell_request", "delete_subshell_request", "list_subshell_request")


def exclude_control_requests(kernel_manager: Any) -> None:
    """Add subshell requests to the server's ``untracked_message_types``.

    A kernel handles these requests while a cell runs and sends "busy" and "idle" for each; without the exclusion,
    server and pages would show the kernel as idle while the cell is still running. Call this before JupyterLab is
    loaded, because JupyterLab gets the list when it is loaded. A list that the user has configured stays unchanged.
    """
    name = "untracked_message_types"
    if not kernel_manager.has_trait(name):  # older Jupyter Server versions have no such trait
        return
    listed = getattr(kernel_manager, name)
    if listed == kernel_manager.trait_defaults(name):
        setattr(kernel_manager, name, [*listed, *(each for each in _CONTROL_REQUESTS if each not in listed)])
