"""The nodes as last seen, put together from lists of all and looks at single ones. Pure."""

from __future__ import annotations

from jupyter_tpu.brakes import Moment
from jupyter_tpu.errors import TpuError
from jupyter_tpu.models import Node, NodeList, NodeName


class NodeCache:
    """What is known of the nodes.

    A list is old when it arrives: a node that was looked at after the list was asked for is kept as it was seen then.
    Which was later is told by the steady clock: where the wall clock is set back, nothing stays as it was seen before.
    """

    def __init__(self) -> None:
        self._nodes: dict[NodeName, Node] = {}
        self._looked_at: dict[NodeName, Moment] = {}
        self.unreachable: tuple[str, ...] = ()
        self.as_of = 0.0
        self.error: TpuError | None = None

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All of them, by name."""
        return tuple(self._nodes[name] for name in sorted(self._nodes))

    @property
    def looked_at(self) -> dict[NodeName, float]:
        """When single nodes were looked at, also in vain, since the last list was asked for."""
        return {name: at.wall for name, at in self._looked_at.items()}

    def get(self, name: NodeName) -> Node | None:
        """One node."""
        return self._nodes.get(name)

    def listed(self, listed: NodeList, *, asked: Moment) -> set[NodeName]:
        """Take in a list; the names of nodes that came, changed or went."""
        found = {node.name: node for node in listed.nodes}
        kept = {name: node for name, node in self._nodes.items() if name.zone in listed.unreachable}
        later = {name for name, at in self._looked_at.items() if at.steady >= asked.steady}
        new = {name: node for name, node in {**kept, **found}.items() if name not in later}
        new.update({name: node for name, node in self._nodes.items() if name in later})
        self._looked_at = {name: self._looked_at[name] for name in later}
        self.unreachable, self.as_of, self.error = listed.unreachable, asked.wall, None
        return self._replace(new)

    def _replace(self, new: dict[NodeName, Node]) -> set[NodeName]:
        changed = {name for name in self._nodes.keys() | new.keys() if self._nodes.get(name) != new.get(name)}
        self._nodes = new
        return changed

    def seen(self, node: Node, at: Moment) -> set[NodeName]:
        """Take in a look at one node."""
        self._looked_at[node.name] = at
        return self._replace({**self._nodes, node.name: node})

    def missing(self, name: NodeName, at: Moment) -> set[NodeName]:
        """Take in that there is no such node."""
        self._looked_at[name] = at
        return self._replace({each: node for each, node in self._nodes.items() if each != name})

    def failed(self, error: TpuError) -> bool:
        """Keep the old nodes, marked with why there are no newer ones; whether that is news."""
        before, self.error = self.error, error
        return before is None or (before.code, before.message) != (error.code, error.message)
