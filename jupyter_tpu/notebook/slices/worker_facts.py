"""The data that a worker sends when it joins, and the differences between two workers."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from jupyter_tpu.notebook.node.this_worker import host_name

_PACKAGES = ("ipykernel", "ipyparallel", "jax", "jaxlib", "libtpu", "numpy", "torch", "torch-xla", "tensorflow")


def worker_facts() -> dict[str, Any]:
    """Return the process id, host name and library versions of this worker."""
    return {"pid": os.getpid(), "host": host_name(os.environ), "versions": _versions()}


def difference(own: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Return the differences in another worker's versions, such as ``jax 0.6.0 ≠ 0.10.2``; empty if there are none."""
    mine, theirs = own["versions"], other["versions"]
    return ", ".join(
        f"{name} {theirs.get(name, '-')} ≠ {mine.get(name, '-')}"
        for name in sorted({*mine, *theirs})
        if mine.get(name) != theirs.get(name)
    )


@cache
def _versions() -> dict[str, str]:
    found = {"Python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
