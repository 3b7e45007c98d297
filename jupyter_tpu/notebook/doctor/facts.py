"""What the doctor has found out about this worker, for the checks to judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jupyter_tpu.errors import TpuError
from jupyter_tpu.notebook.node.worker import ThisWorker


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is so on this worker now.

    Attributes:
        python: version of the kernels' Python.
        pid: the process that asks, which may be a kernel that uses the chips.
        versions, requirements: of each installed framework: its libraries, and what it asks for.
        platforms: what frameworks that have started in this process compute on.
        disks: free and total bytes by folder.
        read_only: those of these folders in which nothing can be written.
        clock_ahead_s: how far this machine's clock is ahead of the cloud's; None: not known.
        answers: the agent's, or why it did not answer.
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
