"""Notebooks on a slice of several workers: each cell runs on all of them.

The kernel is worker 0, an ordinary ipykernel; each other worker runs one ipyparallel engine. Start with `broadcast`,
which sends a cell to the engines while it runs on worker 0; `cell` manages one running cell, and `engine` runs on each
other worker. `targets`, `collected`, `complete_html`, `folding` and
`course` are pure. Only `cluster` depends on ipyparallel.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from typing import Any

FILE_VARIABLE = "TPU_SLICE_FILE"
"""The variable in a slice's kernel with the path of a JSON file.

The file has the number of `workers`, and the controller's `client_file` and `state_file`. The latter contains the
`losses`: how engines have exited, by worker.
"""

WORKER_VARIABLE = "TPU_SLICE_WORKER"
"""The variable in an engine with its worker's number."""

NOTE_VARIABLE = "TPU_SLICE_NOTE"
"""The variable with a text that the first cell of a slice's kernel shows once."""

_current: Any = None


def join(shell: Any) -> None:
    """Make this process part of its slice, if the environment describes a slice; a second call has no effect."""
    global _current
    if _current is not None:
        return
    # Import late, because most kernels are not part of a slice.
    if os.environ.get(WORKER_VARIABLE):
        from jupyter_tpu.notebook.slices.engine import Engine

        _current = Engine(shell, int(os.environ[WORKER_VARIABLE]))
    elif os.environ.get(FILE_VARIABLE):
        from jupyter_tpu.notebook.slices.broadcast import Slice

        _current = Slice(shell, os.environ[FILE_VARIABLE])


def current() -> Any:
    """Return the `Slice` on worker 0, the `Engine` on any other worker, or None outside a slice."""
    return _current


def showing_for_all() -> AbstractContextManager[None]:
    """Return a context for output that only worker 0 shows, on behalf of all workers."""
    return nullcontext() if _current is None else _current.showing_for_all()


def runs_here_only() -> bool:
    """Return whether the current cell runs only on some workers; if so, it must not wait for the other workers."""
    workers = None if _current is None else _current.cell_workers
    return workers is not None and len(workers) < _current.count
