"""The data that a worker sends when it joins, and the differences between two workers."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from jupyter_tpu.errors import Text

_FIRST = ("Python", "jax", "jaxlib", "libtpu", "torch", "torch-xla", "tensorflow", "numpy")
_MOST = 6
_INFO = ".dist-info"


def worker_facts() -> dict[str, Any]:
    """Return the process id, host name and library versions of this worker."""
    # Import late, because this imports much, and the kernel would respond later.
    from jupyter_tpu.notebook.node.this_worker import host_name

    return {"pid": os.getpid(), "host": host_name(os.environ), "versions": _versions()}


def difference(own: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Return the differences in another worker's versions, such as ``jax 0.6.0 ≠ 0.10.2``; empty if there are none.

    The most important packages come first, and at most `_MOST` are named.
    """
    mine, theirs = own["versions"], other["versions"]
    names = [name for name in {**dict.fromkeys(_FIRST), **mine, **theirs} if mine.get(name) != theirs.get(name)]
    shown = ", ".join(f"{name} {theirs.get(name, '-')} ≠ {mine.get(name, '-')}" for name in names[:_MOST])
    if len(names) <= _MOST:
        return shown
    return Text("{versions} and {count} more", versions=shown, count=len(names) - _MOST)


@cache
def _versions() -> dict[str, str]:
    """Return the versions of Python and of all packages.

    Read them from the names of the packages' folders, because parsing the metadata of hundreds of packages takes long.
    """
    found = {"Python": platform.python_version()}
    for folder in sys.path:
        with suppress(OSError):
            for entry in sorted(Path(folder).iterdir()):
                if entry.suffix == _INFO:
                    name, _, version = entry.name.removesuffix(_INFO).rpartition("-")
                    found.setdefault(name.lower().replace("_", "-"), version)
    return found
