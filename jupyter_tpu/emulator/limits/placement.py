"""Find chips and addresses for new nodes, or return the error if there are not enough."""

from __future__ import annotations

from collections.abc import Sequence

from google.rpc import status_pb2

from jupyter_tpu.emulator.limits.rules import Rules
from jupyter_tpu.emulator.resources import errors, operation_errors
from jupyter_tpu.emulator.resources.behaviours import assumed
from jupyter_tpu.emulator.resources.protos import NodePb
from jupyter_tpu.emulator.store.database import Store
from jupyter_tpu.emulator.store.holdings import Held


class Placement:
    """Decides whether and when there are enough chips for all nodes of a request."""

    def __init__(self, store: Store, rules: Rules) -> None:
        self._store = store
        self._rules = rules

    def has_room(self, nodes: Sequence[NodePb], zone: str, held: Sequence[Held]) -> bool:
        """Return whether there are chips for these unreserved nodes; `held` lists the nodes that use chips."""
        return self._rules.capacity.has_room(nodes, zone, held)

    def reservation_verdict(
        self, nodes: Sequence[NodePb], zone: str, *, name: str = "", is_queued: bool = False
    ) -> status_pb2.Status | None:
        """Return an error if the reservation has too few chips for the nodes; otherwise, return None."""
        held = self._store.occupying_nodes()
        return self._rules.reservations.verdict(nodes, zone, held, name=name, is_queued=is_queued)

    @assumed(
        "E10-nodes",
        "If no external address is left, creating or starting a node fails as it does without capacity, but "
        "with the text of `E10-addresses`.",
    )
    def verdict(self, node: NodePb, zone: str) -> status_pb2.Status | None:
        """Return the error that prevents creating or starting a node, or None if it is possible."""
        if node.scheduling_config.reserved:
            # v2 has no reservation field
            name = reservation_of(self._store.extras(node.name))
            found = self.reservation_verdict([node], zone, name=name)
        else:
            found = None if self.has_room([node], zone, self._store.occupying_nodes()) else errors.stockout(zone)
        # check addresses only if there are chips, because one reason is enough
        if found is None and not self.addresses_left([node], zone):
            return operation_errors.addresses_used_up()
        return found

    def addresses_left(self, nodes: Sequence[NodePb], zone: str) -> bool:
        """Return whether the region has enough external IP addresses for these new nodes."""
        wanted = [Held(node, zone, 1) for node in nodes]
        return self._rules.admission.addresses_left([*self._store.occupying_nodes(), *wanted], zone)

    def next_change(self, now: float) -> float | None:
        """Return when more chips may next become available; None means never."""
        return self._rules.capacity.next_change(now)


def reservation_of(extras: dict[str, object]) -> str:
    """Return the name of the reservation that a v2alpha1 node requests; empty means any."""
    config = extras.get("schedulingConfig")
    return str(config.get("reservationName", "")) if isinstance(config, dict) else ""
