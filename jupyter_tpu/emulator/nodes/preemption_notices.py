"""Nodes that were told they will be taken away, and when: half a minute in which a program can save its work."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any

from jupyter_tpu.emulator.engine.timeline import Due
from jupyter_tpu.emulator.resources import errors
from jupyter_tpu.emulator.resources.behaviours import documented
from jupyter_tpu.emulator.resources.clock import VirtualClock
from jupyter_tpu.emulator.resources.protos import ALLOWED_IN, NodePb, State, state_name
from jupyter_tpu.emulator.store.database import Store
from jupyter_tpu.emulator.store.settings import Kept

NOTICE_S = 30.0


class PreemptionNotices:
    """An agenda: what was announced happens when it is due, also after a restart."""

    def __init__(
        self,
        store: Store,
        clock: VirtualClock,
        preempt: Callable[[NodePb], Awaitable[Any]],
        tell_change: Callable[[str], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._preempt = preempt
        self._tell_change = tell_change
        self._kept = Kept(store, "project:preempting")

    @documented(
        "preemption-notice",
        "A spot or preemptible node learns 30 seconds before from the metadata server that it will be taken away: "
        "instance/preempted turns TRUE.",
        source="cloud.google.com/compute/docs/instances/spot (preemption process)",
    )
    def give(self, node: NodePb, notice_s: float = NOTICE_S) -> None:
        """Announce, in virtual seconds. Call `timeline.arm` afterwards.

        Raises:
            Refusal: the node is in no state in which it can be taken away.
        """
        if node.state not in ALLOWED_IN["preempt"]:
            raise errors.wrong_state("preempt", state_name(node))
        with self._store.transaction():
            self._kept.write({**self._given(), node.name: [self._clock.now() + notice_s, str(node.id)]})
        self._tell_change(node.name)

    def is_given(self, node: NodePb) -> bool:
        """Whether this node was told; another one of the same name was not."""
        given = self._given().get(node.name)
        return given is not None and given[1] == str(node.id)

    def waiting(self) -> list[Due]:
        """See `timeline.Agenda`."""
        return [
            Due(moment, f"preempt {name}", functools.partial(self._take, name))
            for name, (moment, _) in self._given().items()
        ]

    def _given(self) -> dict[str, tuple[float, str]]:
        """Virtual moment and uid of each node, by its name."""
        return self._kept.read() or {}

    async def _take(self, name: str) -> None:
        node = self._store.node(name)
        is_due = node is not None and node.state == State.READY and self.is_given(node)
        with self._store.transaction():
            self._kept.write({told: given for told, given in self._given().items() if told != name})
        if is_due:
            await self._preempt(node)
