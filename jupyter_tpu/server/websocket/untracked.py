"""Requests on the control channel say nothing of what a kernel works at."""

from __future__ import annotations

from typing import Any

# JupyterLab makes and ends a subshell when it opens a notebook; Jupyter Server's own list does not have them yet
_CONTROL_REQUESTS = ("create_subshell_request", "delete_subshell_request", "list_subshell_request")


def leave_control_out_of_activity(kernel_manager: Any) -> None:
    """Have the server and its pages not take the end of such a request for the end of a cell that still runs.

    A kernel handles them beside the cell, and says "busy" and "idle" of each. The server's list names those requests
    whose states count neither for it nor for JupyterLab, which is told the list; call this before JupyterLab is
    loaded. A list that the user has configured stays as it is.
    """
    name = "untracked_message_types"
    if not kernel_manager.has_trait(name):  # of an older Jupyter Server
        return
    listed = getattr(kernel_manager, name)
    if listed == kernel_manager.trait_defaults(name):
        setattr(kernel_manager, name, [*listed, *(each for each in _CONTROL_REQUESTS if each not in listed)])
