"""Report a kernel's start, death and link status in the log and as Jupyter Server events."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from jupyter_tpu.errors import TpuError, plain
from jupyter_tpu.kernels.connections.pool import LinkStatus

KERNEL_SCHEMA = "https://events.jupyter.org/jupyter_tpu/kernel/v1"
LINK_SCHEMA = "https://events.jupyter.org/jupyter_tpu/link/v1"
_STEP = {"phase": "", "message": "", "fraction": None, "error_code": ""}


class ProgressReport:
    """Reports the progress of one kernel. May be used from any thread.

    Events are emitted in the loop that created the report.

    Args:
        manager: the KernelManager; in Jupyter Server, it has an event logger.
        identity: the fields that every event contains: kernel_id, kernel_name, node_name.
    """

    def __init__(self, manager: Any, log: Any, identity: Mapping[str, str]) -> None:
        self._loop = asyncio.get_running_loop()
        self._events = _event_logger(manager, KERNEL_SCHEMA)
        self._log: logging.Logger = log
        self._identity = dict(identity)

    def __call__(self, progress: Mapping[str, Any]) -> None:
        """Report one step: ``{"phase", "message", "fraction"}``, optionally with an ``error_code``."""
        try:
            # The text may come from the worker, so remove control characters.
            step = {**progress, "message": plain(progress["message"])}
            self._loop.call_soon_threadsafe(self._report, step)
        except RuntimeError:  # the loop is closed, so no event can be delivered
            self._log.info("%s", progress.get("message"))

    def _report(self, progress: dict[str, Any]) -> None:
        level = logging.WARNING if progress.get("error_code") else logging.INFO
        self._log.log(level, "%s: %s", self._identity["node_name"].rpartition("/")[2], progress["message"])
        if self._events is not None:
            step = {name: progress.get(name, default) for name, default in _STEP.items()}
            self._events.emit(schema_id=KERNEL_SCHEMA, data={**self._identity, **step})


class LinkReport:
    """A reporter of a link's status to front ends, for use from any thread. Without a server, it does nothing.

    Args:
        manager, identity: see `ProgressReport`.
    """

    def __init__(self, manager: Any, identity: Mapping[str, str]) -> None:
        self._loop = asyncio.get_running_loop()
        self._events = _event_logger(manager, LINK_SCHEMA)
        self._manager: Any = manager if hasattr(manager, "execution_state") else None
        self._state_before = ""
        self._identity = dict(identity)

    def __call__(self, status: LinkStatus) -> None:
        """Report a new status."""
        if self._manager is not None and status.state != "connecting":  # the kernel reports "connecting" itself
            with suppress(RuntimeError):  # the server has exited
                self._loop.call_soon_threadsafe(self._report, status)

    def _report(self, status: LinkStatus) -> None:
        self._update_model(status)
        if self._events is not None:
            self._events.emit(schema_id=LINK_SCHEMA, data={**self._identity, **asdict(status)})

    def _update_model(self, status: LinkStatus) -> None:
        """If only the user can fix the link, set the kernel's state to "unknown" and give the reason."""
        manager = self._manager
        if status.needs_repair:
            # Keep the first state: "down" is reported again whenever the reason changes.
            self._state_before = self._state_before or manager.execution_state
            manager.execution_state, manager.reason = "unknown", status.message
        elif status.state in ("live", "resuming") and self._state_before:
            if manager.execution_state == "unknown":  # otherwise a message from the kernel has changed the state
                manager.execution_state = self._state_before
            self._state_before = manager.reason = ""


def keep_tracebacks_out(log: Any) -> None:
    """Make `log` show only the text of a `TpuError`; KernelManager logs a traceback for every failed start."""
    getattr(log, "logger", log).addFilter(_WITHOUT_TRACEBACK)  # traitlets returns a logger or an adapter


class _WithoutTraceback(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info and isinstance(record.exc_info[1], TpuError):
            record.exc_info = None
        return True


_WITHOUT_TRACEBACK = _WithoutTraceback()


def _event_logger(manager: Any, schema: str) -> Any:
    events = getattr(manager, "event_logger", None)
    return events if events is not None and schema in events.schemas else None
