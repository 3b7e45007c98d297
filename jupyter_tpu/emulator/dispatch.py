"""Pass each due operation to `Effects` or `QueueEffects`, and make sure that it finishes."""

from __future__ import annotations

import logging

from jupyter_tpu.emulator.effects import Effects
from jupyter_tpu.emulator.engine.operations import Operations, is_queued_name
from jupyter_tpu.emulator.queued_resources.queue_effects import QueueEffects
from jupyter_tpu.emulator.resources import errors
from jupyter_tpu.emulator.resources.records import OperationRecord
from jupyter_tpu.emulator.store.database import Store

_log = logging.getLogger(__name__)


class Dispatcher:
    """Pass operations on nodes to `Effects`, and operations on queued resources to `QueueEffects`."""

    def __init__(self, store: Store, operations: Operations, effects: Effects, queue_effects: QueueEffects) -> None:
        self._store = store
        self._operations = operations
        self._effects = effects
        self._queue_effects = queue_effects

    async def perform(self, operation: OperationRecord) -> None:
        """Perform an operation. If the emulator has a bug, the operation fails with the service's internal error."""
        try:
            await self._effects_of(operation).perform(operation)
        except Exception:  # noqa: BLE001 - the performing loop: whatever it is, the operation must end
            _log.exception("%s of %s failed", operation.verb, operation.target)
            with self._store.transaction():
                self.roll_back(operation)
                self._operations.finish(operation, error=errors.internal_error())

    def roll_back(self, operation: OperationRecord) -> bool:
        """Undo what an operation's request changed. Returns False if this is impossible and the operation continues."""
        return self._effects_of(operation).roll_back(operation)

    def _effects_of(self, operation: OperationRecord) -> Effects | QueueEffects:
        return self._queue_effects if is_queued_name(operation.target) else self._effects
