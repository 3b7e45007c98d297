"""Those who look after nodes at every turn of the fleet's loop: the ledger, the brakes, the recovery."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from jupyter_tpu.fleet.fleet import Fleet


class Keeper(Protocol):
    """Called about once a second in the event loop, never twice at a time; may await, and ask the fleet for changes."""

    async def tick(self, fleet: Fleet, now: float) -> None:
        """Look at `fleet.snapshot` and do what is due; `now` is in Unix seconds.

        Raises:
            TpuError: it could not; it is called again soon, in any case.
        """
