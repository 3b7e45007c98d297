"""The last known state of the nodes, merged from lists and reads of single nodes. Pure."""

from __future__ import annotations

from jupyter_tpu.autostop import Moment
from jupyter_tpu.errors import TpuError
from jupyter_tpu.models import Node, NodeList, NodeName


class NodeCache:
    """The last known state of the nodes.

    A list is already outdated when it arrives, so it does not replace a node that was read after the list was
    requested. The order is decided by the monotonic clock, because the wall clock may be set back.

    Attributes:
        unreachable: zones that did not respond to the last list request.
        as_of: when the last list was requested (Unix seconds); 0 if never.
        error: why the last list request failed; None if it succeeded.
    """

    def __init__(self) -> None:
        self._nodes: dict[NodeName, Node] = {}
        self._read_at: dict[NodeName, Moment] = {}
        self.unreachable: tuple[str, ...] = ()
        self.as_of = 0.0
        self.error: TpuError | None = None

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Return all nodes, sorted by name."""
        return tuple(self._nodes[name] for name in sorted(self._nodes))

    @property
    def read_at(self) -> dict[NodeName, float]:
        """Return when each node was read individually (found or not) since the last list request, in Unix seconds."""
        return {name: at.wall for name, at in self._read_at.items()}

    def get(self, name: NodeName) -> Node | None:
        """Return one node, or None."""
        return self._nodes.get(name)

    def merge_list(self, listed: NodeList, *, asked: Moment) -> set[NodeName]:
        """Merge a new list of nodes; return the names of the nodes that appeared, changed or disappeared."""
        found = {node.name: node for node in listed.nodes}
        # keep the nodes of zones that did not respond
        kept = {name: node for name, node in self._nodes.items() if name.zone in listed.unreachable}
        # these nodes were read after this list was requested, so they are newer than the list
        later = {name for name, at in self._read_at.items() if at.steady >= asked.steady}
        new = {name: node for name, node in {**kept, **found}.items() if name not in later}
        new.update({name: node for name, node in self._nodes.items() if name in later})
        self._read_at = {name: self._read_at[name] for name in later}
        self.unreachable, self.as_of, self.error = listed.unreachable, asked.wall, None
        return self._replace(new)

    def _replace(self, new: dict[NodeName, Node]) -> set[NodeName]:
        changed = {name for name in self._nodes.keys() | new.keys() if self._nodes.get(name) != new.get(name)}
        self._nodes = new
        return changed

    def merge_node(self, node: Node, at: Moment) -> set[NodeName]:
        """Add a node that was read from the cloud; return the names of the nodes that changed."""
        self._read_at[node.name] = at
        return self._replace({**self._nodes, node.name: node})

    def merge_missing(self, name: NodeName, at: Moment) -> set[NodeName]:
        """Record that the node does not exist; return the names of the nodes that changed."""
        self._read_at[name] = at
        return self._replace({each: node for each, node in self._nodes.items() if each != name})

    def record_failure(self, error: TpuError) -> bool:
        """Record why a list request failed; keep the nodes. Return whether the reason is new."""
        before, self.error = self.error, error
        # compare code and text: the same failure at each poll is one event
        return before is None or (before.code, before.message) != (error.code, error.message)
