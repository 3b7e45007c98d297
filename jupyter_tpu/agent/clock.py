"""Readings of this worker's clocks that a later agent can use, even after a reboot."""

from __future__ import annotations

from pathlib import Path

from jupyter_tpu.autostop import Moment
from jupyter_tpu.worker_clock import boot_clock, wall_clock


def this_moment() -> Moment:
    """Read this machine's wall clock and its boot clock."""
    return Moment(wall=wall_clock(), steady=boot_clock(), boot=boot_id())


def boot_id() -> str:
    """Return Linux's id for this boot, so that pids and times from another boot aren't confused with current ones."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
