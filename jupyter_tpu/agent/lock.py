"""The lock file, with versions and hashes, of packages that jupyter_tpu itself installs on workers.

`make worker-lock` generates it for each supported Python and platform. Users' own requirements are not locked. For a
package index with different files, set `JUPYTER_TPU_WORKER_LOCK` to another lock file, both on the worker and on the
machine that sends wheels.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from pathlib import Path

from jupyter_tpu.errors import EnvironmentFailed

VARIABLE = "JUPYTER_TPU_WORKER_LOCK"
UV = "uv"
AGENT_NEEDS = ("pyzmq>=25", "psutil>=5.9")
KERNEL_NEEDS = ("ipykernel>=6.29",)
"""Requirements of kernels; they include the agent's own requirements."""
WIDGET_NEEDS = ("ipywidgets>=8.1", "anywidget>=0.9")
"""Additional packages in frameworks' environments, for live widgets (`jupyter_tpu.notebook.widgets`)."""
SLICE_NEEDS = ("ipyparallel>=9.2,<9.3", "tqdm", "decorator")
"""Packages that a slice's kernels need in addition to ipykernel.

The ipyparallel version is limited, because `jupyter_tpu.notebook.slices` uses private names.
"""
_ONLY_FOR_WIDGETS = frozenset({"anywidget", "ipywidgets", "jupyterlab-widgets", "psygnal", "widgetsnbextension"})
_ONLY_FOR_SLICES = frozenset({"ipyparallel", "tqdm"})


@cache
def lock_text() -> str:
    """Return the whole lock as the text of a requirements file.

    Raises:
        EnvironmentFailed: the file specified by `VARIABLE` can't be read.
    """
    own = os.environ.get(VARIABLE, "")
    try:
        return (Path(own) if own else files("jupyter_tpu") / "agent" / "lock.txt").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise EnvironmentFailed(f"The lock {own} cannot be read: {error}.", hint=f"Correct {VARIABLE}.") from error


def locked(needs: Sequence[str]) -> str:
    """Return the pinned versions for ``uv``, `AGENT_NEEDS`, `SLICE_NEEDS` or `KERNEL_NEEDS`, with dependencies."""
    named = {_name(need) for need in needs}
    # The lock is a flat list, so the packages that kernels don't need are listed here.
    of_others = _ONLY_FOR_WIDGETS | _ONLY_FOR_SLICES | {UV}
    others = of_others if named == set(map(_name, KERNEL_NEEDS)) else set(map(_name, _blocks())) - named
    return "\n".join(block for block in _blocks() if _name(block) not in others)


def with_hashes(lines: Iterable[str]) -> Iterator[str]:
    """Yield pinned requirements, with hashes for the packages in the lock."""
    hashes = {block.partition(" ")[0]: block[block.index("--hash") :] for block in _blocks()}
    return (f"{line} {hashes[line]}" if line in hashes else line for line in lines)


@contextmanager
def requirements_file(text: str) -> Iterator[Path]:
    """Write a temporary requirements file for uv or pip."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lock.txt"
        path.write_text(text, encoding="utf-8")
        yield path


@cache
def _blocks() -> tuple[str, ...]:
    """Return the lines ``NAME==VERSION ; MARKER --hash=…``; a package may occur twice, with different markers."""
    return tuple(line for line in lock_text().replace("\\\n", " ").splitlines() if line[:1].isalnum())


def _name(requirement: str) -> str:
    return re.split(r"[<>=]", requirement, maxsplit=1)[0]
