"""The nodes of a project: what exists, what is being done to them, and the one loop that does it.

The loop and what it needs are imported when they are used: a command that only lists nodes does without.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jupyter_tpu.fleet.reconciler.fleet import Fleet
    from jupyter_tpu.fleet.reconciler.records import FleetChange, FleetSnapshot, Polling
    from jupyter_tpu.lifecycle.intents import Intent

__all__ = ["Fleet", "FleetChange", "FleetSnapshot", "Intent", "Polling"]

_MODULES = {
    "Fleet": "fleet.reconciler.fleet",
    "FleetChange": "fleet.reconciler.records",
    "FleetSnapshot": "fleet.reconciler.records",
    "Intent": "lifecycle.intents",
    "Polling": "fleet.reconciler.records",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"jupyter_tpu.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
