"""Leftovers of failed creates: after a scripted fault, the node remains for a while although its operation failed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from jupyter_tpu.emulator.engine.timeline import Due
from jupyter_tpu.emulator.resources.clock import VirtualClock
from jupyter_tpu.emulator.resources.protos import State
from jupyter_tpu.emulator.resources.records import OperationRecord
from jupyter_tpu.emulator.store.database import Store
from jupyter_tpu.emulator.store.settings import StoredSetting


@dataclass(frozen=True, slots=True)
class Leftover:
    """A node whose creation has failed, identified by its uid, and the virtual time at which it disappears."""

    uid: str
    moment: float


class HalfCreated:
    """Nodes that failed creates left behind, and when each disappears. They are stored, so they survive a restart."""

    def __init__(self, store: Store, clock: VirtualClock) -> None:
        self._store = store
        self._clock = clock
        self._setting = StoredSetting(store, "half_created")
        kept = self._setting.read() or {}
        self._delays: dict[str, float] = kept.get("delays", {})
        self._leftovers = {name: Leftover(*value) for name, value in kept.get("leftovers", {}).items()}

    def expect(self, operation: str, seconds: float) -> None:
        """Keep the node of this create operation for `seconds` of virtual time after the operation fails."""
        self._delays[operation] = seconds
        self._save()

    def stays(self, operation: OperationRecord) -> bool:
        """Return whether the node remains for a while after its creation fails.

        Call this in the transaction that stores the failure.
        """
        # look up the operation: only the create call to which the fault applied leaves its node behind
        delay = self._delays.pop(operation.name, None)
        node = self._store.node(operation.target)
        if delay is None or node is None:
            return False
        self._leftovers[operation.target] = Leftover(str(node.id), self._clock.now() + delay)
        self._save()
        return True

    def waiting(self) -> list[Due]:
        """Return the actions that remove the leftovers, and the times at which they are due."""
        return [
            Due(leftover.moment, f"leftover {name}", partial(self._roll_back, name))
            for name, leftover in self._leftovers.items()
        ]

    def clear(self) -> None:
        """Remove all leftovers, for a reset."""
        self._delays.clear()
        self._leftovers.clear()
        self._setting.delete()

    async def _roll_back(self, name: str) -> None:
        """Remove the node, unless it is being deleted or another node with its name was created in the meantime."""
        leftover = self._leftovers.pop(name)
        with self._store.transaction():
            node = self._store.node(name)
            if node is not None and str(node.id) == leftover.uid and node.state == State.CREATING:
                self._store.remove_node(name, self._clock.now())
            self._save()

    def _save(self) -> None:
        leftovers = {name: (each.uid, each.moment) for name, each in self._leftovers.items()}
        self._setting.write({"delays": self._delays, "leftovers": leftovers})
