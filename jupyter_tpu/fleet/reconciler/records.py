"""The records that the fleet returns to the server and the CLI."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from jupyter_tpu.errors import TpuError
from jupyter_tpu.lifecycle.intents import Intent
from jupyter_tpu.models import Node, NodeName


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSnapshot:
    """The last known state of the fleet.

    Attributes:
        nodes: the nodes, sorted by name; unchanged if a poll fails.
        unreachable: zones that did not respond. Their nodes are missing from `nodes`.
        as_of: when `nodes` was read (Unix seconds by the cloud's clock); 0 if it was never read.
        error: why the last poll failed; None if it succeeded.
        intents: open intents, and failed intents that the user has not dismissed, oldest first.
        notices: messages for the user about the journal, the clock and budgets, one sentence each.
        node_read_at: for each node that was requested individually after `as_of`, the time of the last response (Unix
            seconds by the cloud's clock).
        clock_ahead_s: how far this computer's clock is ahead of the cloud's, in seconds; 0 if it is correct.
    """

    nodes: tuple[Node, ...] = ()
    unreachable: tuple[str, ...] = ()
    as_of: float = 0.0
    error: TpuError | None = None
    intents: tuple[Intent, ...] = ()
    notices: tuple[str, ...] = ()
    node_read_at: Mapping[NodeName, float] = field(default_factory=dict)
    clock_ahead_s: float = 0.0

    @property
    def as_of_here(self) -> float | None:
        """Return when `nodes` was read (Unix seconds by this computer's clock), or None if it was never read."""
        return self.as_of + self.clock_ahead_s if self.as_of else None

    def seen_at(self, name: NodeName) -> float:
        """Return when the cloud last reported this node as existing or missing (Unix seconds by its clock)."""
        return self.node_read_at.get(name, self.as_of)

    def node(self, name: NodeName) -> Node | None:
        """Return the node with this name, or None if the last poll did not find it."""
        return next((node for node in self.nodes if node.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetChange:
    """An event that tells front ends to fetch data again; the data itself is not part of the event.

    Attributes:
        kind: ``node`` (created, changed or deleted), ``intent`` (a new phase), ``list`` (a poll failed or works again),
            ``activity`` (a node became busy or idle), ``budgets`` (the budgets or their notices) or ``cloud`` (the
            server uses another cloud, project or account).
        state: the node's state; empty if the node was deleted.
    """

    kind: Literal["node", "intent", "list", "activity", "budgets", "cloud"]
    node_name: str = ""
    state: str = ""
    phase: str = ""
    message: str = ""
    error_code: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return all fields as the event's payload."""
        return {
            "kind": self.kind,
            "node_name": self.node_name,
            "state": self.state,
            "phase": self.phase,
            "message": self.message,
            "error_code": self.error_code,
        }
