"""The nodes of a project: what exists, what is being done to them, and the one loop that does it."""

from __future__ import annotations

from jupyter_tpu.fleet.fleet import Fleet
from jupyter_tpu.fleet.records import FleetChange, FleetSnapshot, Polling
from jupyter_tpu.lifecycle.intents import Intent

__all__ = ["Fleet", "FleetChange", "FleetSnapshot", "Intent", "Polling"]
