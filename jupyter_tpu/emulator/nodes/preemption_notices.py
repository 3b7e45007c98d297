"""Announce pre-emptions 30 s ahead, so that a program on the node can save its work."""

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
from jupyter_tpu.emulator.store.settings import StoredSetting

NOTICE_S = 30.0
"""Virtual seconds between a notice and the pre-emption: Compute Engine's documented notice for spot VMs."""


class PreemptionNotices:
    """The announced pre-emptions. They are stored, so that they also happen after the emulator restarts."""

    def __init__(
        self,
        store: Store,
        clock: VirtualClock,
        preempt: Callable[[NodePb], Awaitable[Any]],
        notify_change: Callable[[str], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._preempt = preempt
        self._notify_change = notify_change
        self._setting = StoredSetting(store, "project:preempting")

    @documented(
        "preemption-notice",
        "The metadata server announces the pre-emption of a spot or preemptible node 30 seconds in advance: "
        "instance/preempted becomes TRUE.",
        source="cloud.google.com/compute/docs/instances/spot (preemption process)",
    )
    def announce(self, node: NodePb, notice_s: float = NOTICE_S) -> None:
        """Announce that a node will be pre-empted `notice_s` virtual seconds from now. Call `timeline.arm` afterwards.

        Raises:
            Refusal: the node's state does not allow a pre-emption.
        """
        if node.state not in ALLOWED_IN["preempt"]:
            raise errors.wrong_state("preempt", state_name(node))
        with self._store.transaction():
            # the UID distinguishes this node from a later node with the same name
            self._setting.write({**self._given(), node.name: [self._clock.now() + notice_s, str(node.id)]})
        self._notify_change(node.name)

    def is_announced(self, node: NodePb) -> bool:
        """Return whether this node has a notice; a notice for an earlier node of the same name does not count."""
        given = self._given().get(node.name)
        return given is not None and given[1] == str(node.id)

    def waiting(self) -> list[Due]:
        """Return the announced pre-emptions and their times."""
        return [
            Due(moment, f"preempt {name}", functools.partial(self._preempt_now, name))
            for name, (moment, _) in self._given().items()
        ]

    def _given(self) -> dict[str, tuple[float, str]]:
        """Return the virtual time and node uid of each announced pre-emption, by node name."""
        return self._setting.read() or {}

    async def _preempt_now(self, name: str) -> None:
        node = self._store.node(name)
        # don't pre-empt a node that was stopped, deleted or recreated in the meantime
        is_due = node is not None and node.state == State.READY and self.is_announced(node)
        with self._store.transaction():
            self._setting.write({other: given for other, given in self._given().items() if other != name})
        if is_due:
            await self._preempt(node)
