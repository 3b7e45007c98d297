"""The nodes of a project: existing nodes, pending changes, and the loop that performs the changes.

Start with `reconciler.fleet` (the loop) and `assembly` (which connects the parts). `autostop`, `capacity`, `cleanup`,
`spend` and `termination` contain the controllers that the loop calls, and related services. Decisions are in
`jupyter_tpu.lifecycle` and `jupyter_tpu.money`, which are pure. The package does not depend on HTTP, kernels or SSH
connections.

The names below are imported on demand, because a command that only lists nodes does not need the loop.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jupyter_tpu.fleet.reconciler.fleet import Fleet
    from jupyter_tpu.fleet.reconciler.polling import Polling
    from jupyter_tpu.fleet.reconciler.records import FleetChange, FleetSnapshot
    from jupyter_tpu.lifecycle.intents import Intent

__all__ = ["Fleet", "FleetChange", "FleetSnapshot", "Intent", "Polling"]

_MODULES = {
    "Fleet": "fleet.reconciler.fleet",
    "FleetChange": "fleet.reconciler.records",
    "FleetSnapshot": "fleet.reconciler.records",
    "Intent": "lifecycle.intents",
    "Polling": "fleet.reconciler.polling",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"jupyter_tpu.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
