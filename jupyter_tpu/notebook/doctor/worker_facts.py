"""The facts about this worker for the doctor's checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jupyter_tpu.errors import TpuError
from jupyter_tpu.notebook.node.this_worker import ThisWorker


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The state of this worker at one time.

    Attributes:
        python: version of the kernels' Python.
        pid: pid of this process, which may be a kernel that uses the chips.
        versions: the version of each library, by framework.
        requirements: the requirements in each framework's package metadata.
        platforms: the platform (``tpu``, ``cpu``, …) of each framework that has started in this process, by framework.
        disks: free and total bytes by folder.
        read_only: the folders among `disks` that are not writable.
        clock_ahead_s: how many seconds this machine's clock is ahead of the cloud's clock; None if unknown.
        answers: the agent's response to each call, or the error of a call that failed.
    """

    worker: ThisWorker
    environ: Mapping[str, str]
    python: tuple[int, int]
    executable: str
    pid: int
    installed: Sequence[str] = ()
    versions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    requirements: Mapping[str, Sequence[str]] = field(default_factory=dict)
    platforms: Mapping[str, str] = field(default_factory=dict)
    disks: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    read_only: Sequence[str] = ()
    clock_ahead_s: float | None = None
    answers: Mapping[str, Mapping[str, Any] | TpuError] = field(default_factory=dict)
