"""This process's place in a slice: its worker number, the number of workers and the address of worker 0."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ThisSlice:
    """The place of this process in a slice.

    Attributes:
        worker: the number of this process's worker; worker 0 is the notebook's kernel.
        workers: the number of workers in the slice.
        address: the address of worker 0 in the slice's network; empty while the slice's controller is starting.
        kernel_id: the kernel's id, which is the same on all workers.
    """

    worker: int
    workers: int
    address: str
    kernel_id: str = ""


def this_slice(environ: Mapping[str, str]) -> ThisSlice | None:
    """Read this process's place in its slice from variables that the agent sets; return None outside a slice."""
    kernel_id = environ.get("JUPYTER_TPU_KERNEL_ID", "")
    if worker := environ.get("TPU_SLICE_WORKER"):
        return ThisSlice(
            worker=int(worker),
            workers=int(environ["TPU_SLICE_WORKERS"]),
            address=environ.get("TPU_SLICE_ADDRESS", ""),
            kernel_id=kernel_id,
        )
    if file := environ.get("TPU_SLICE_FILE"):
        facts = _read(file)
        # the controller listens on worker 0's own address
        client = Path(facts["client_file"])
        return ThisSlice(
            worker=0,
            workers=int(facts["workers"]),
            address=str(_read(str(client))["location"]) if client.exists() else "",
            kernel_id=kernel_id,
        )
    return None


def _read(file: str) -> Any:
    return json.loads(Path(file).read_text(encoding="utf-8"))
