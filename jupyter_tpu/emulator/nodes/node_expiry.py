"""Pre-empt preemptible nodes after 24 hours."""

from __future__ import annotations

from functools import partial

from jupyter_tpu.emulator.engine.operations import AT_ONCE
from jupyter_tpu.emulator.engine.timeline import Due
from jupyter_tpu.emulator.nodes.preemption_notices import PreemptionNotices
from jupyter_tpu.emulator.resources.behaviours import assumed
from jupyter_tpu.emulator.resources.protos import State
from jupyter_tpu.emulator.store.database import Store

AGAIN_S = 60.0
"""Virtual seconds until a node under maintenance is checked again. Bounds the delay of its pre-emption."""


class NodeExpiry:
    """Pre-empts each preemptible node at the maximum age of 24 hours; see `timeline.Agenda`."""

    def __init__(self, store: Store, notices: PreemptionNotices) -> None:
        self._store = store
        self._notices = notices

    def waiting(self) -> list[Due]:
        """Return the nodes that expire next."""
        return [
            Due(moment, name, partial(self._end, name, moment)) for moment, name in self._store.expiring_nodes(AT_ONCE)
        ]

    @assumed(
        "preemptible-end-state",
        "After 24 hours, a preemptible node is PREEMPTED like any other pre-empted node, with the same notice.",
    )
    async def _end(self, name: str, moment: float) -> None:
        """Announce the pre-emption of an expired node; if it is under maintenance, try again later."""
        node = self._store.node(name)
        if node is not None and node.state == State.READY:
            # an expired node is then pre-empted with the usual notice
            self._notices.announce(node)
        is_over = node is None or node.state not in (State.REPAIRING, State.RESTARTING)
        with self._store.transaction():
            self._store.set_expiry(name, None if is_over else moment + AGAIN_S)
