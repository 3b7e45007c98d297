"""Name kernels by their notebooks, for display."""

from __future__ import annotations

from pathlib import PurePath

from jupyter_tpu.agent.kernels.kernel import Kernel
from jupyter_tpu.agent.kernels.kernels import Kernels


def notebook_of(kernel: Kernel) -> str:
    """Return the path of a kernel's notebook or console, or an empty string if no client has provided one."""
    note = kernel.client_note
    found = note.get("sessions")
    sessions = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
    # Prefer a notebook's name: a console may share the notebook's kernel, but users know the notebook.
    sessions.sort(key=lambda each: each.get("type") != "notebook")
    return str(sessions[0].get("path") or "")[:500] if sessions else kernel.notebook


def name_of(kernel: Kernel) -> str:
    """Return the file name of a kernel's notebook, or the beginning of its id."""
    return PurePath(notebook_of(kernel)).name or f"the kernel {kernel.kernel_id[:8]}"


def by_pid(kernels: Kernels) -> dict[int, tuple[str, str]]:
    """Return each kernel's id and notebook by the pid of its process. Any thread may call this."""
    return {kernel.pid: (kernel.kernel_id, notebook_of(kernel)) for kernel in kernels.all() if kernel.pid is not None}
