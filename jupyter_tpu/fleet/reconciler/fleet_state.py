"""The fleet's state (nodes and intents) and the notification of changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from jupyter_tpu.autostop import Moment
from jupyter_tpu.fleet.reconciler.node_cache import NodeCache
from jupyter_tpu.fleet.reconciler.records import FleetChange, FleetSnapshot
from jupyter_tpu.lifecycle import intent_texts
from jupyter_tpu.lifecycle.conflicts import intents_to_show, overrules
from jupyter_tpu.lifecycle.intents import Intent
from jupyter_tpu.models import Node, NodeName

log = logging.getLogger(__name__)


class FleetState:
    """The fleet's state, which its loop and its intent runners write; implements `IntentObserver`.

    Attributes:
        node_cache: the nodes as last seen.
        intents: open and recently finished intents, by id.
        due: an event that is set when the nodes should be listed soon.
        intent_moved: an event that is set, and replaced with a new event, whenever an intent has progressed.
    """

    def __init__(self, on_change: Callable[[FleetChange], None]) -> None:
        self._on_change = on_change
        self.node_cache = NodeCache()
        self.intents: dict[str, Intent] = {}
        self.due = asyncio.Event()
        self.intent_moved = asyncio.Event()

    def snapshot(self, notices: tuple[str, ...], ahead_at: Callable[[float], float] = lambda _: 0.0) -> FleetSnapshot:
        """Return the state for front ends, with the given notices; `ahead_at` is described in `CloudClock`."""
        return FleetSnapshot(
            nodes=self.node_cache.nodes,
            unreachable=self.node_cache.unreachable,
            as_of=self.node_cache.as_of,
            error=self.node_cache.error,
            intents=tuple(filter(self._is_true, intents_to_show(self.intents.values()))),
            notices=notices,
            node_read_at=self.node_cache.read_at,
            clock_ahead_s=ahead_at(self.node_cache.as_of),
        )

    def _is_true(self, intent: Intent) -> bool:
        """Return whether the text of an intent is still true; "Nothing was created" is not true if its node exists."""
        # the queue may have created the node, or the cloud may have created it after the intent was abandoned
        exists = self.node_cache.get(intent.node_name) is not None
        return not (exists and intent.error is not None and intent.error.exists == intent_texts.NOTHING_CREATED)

    def intent_changed(self, intent: Intent) -> None:
        """Store the intent and notify front ends and waiters."""
        self.intents[intent.intent_id] = intent
        # the nodes have changed, so list them now instead of waiting for `Polling.idle_s`
        if intent.settled:
            self.due.set()
        node = self.node_cache.get(intent.node_name)
        self.notify(
            FleetChange(
                kind="intent",
                node_name=str(intent.node_name),
                state=node.state if node else "",
                phase=intent.phase,
                message=intent.message,
                error_code=intent.error.code if intent.error else "",
            )
        )
        self.wake_waiting()

    def node_seen(self, node: Node, at: Moment) -> None:
        """Store the state of a node that was read from the cloud."""
        self.nodes_changed(self.node_cache.merge_node(node, at))

    def node_missing(self, name: NodeName, at: Moment) -> None:
        """Record that the cloud did not find a node."""
        self.nodes_changed(self.node_cache.merge_missing(name, at))

    def is_overruled(self, intent: Intent) -> bool:
        """Return whether a newer open intent cancels this one."""
        return any(
            overrules(other, intent) and other.node_name == intent.node_name and other.created_at >= intent.created_at
            for other in self.intents.values()
            if not other.settled
        )

    def nodes_changed(self, names: set[NodeName]) -> None:
        """Notify front ends of nodes that appeared, changed or disappeared."""
        for name in sorted(names):
            node = self.node_cache.get(name)
            self.notify(FleetChange(kind="node", node_name=str(name), state=node.state if node else ""))

    def notify(self, change: FleetChange) -> None:
        """Call the listener; log its exceptions, because they must not stop the loop."""
        try:
            self._on_change(change)
        except Exception:
            log.exception("The listener failed on %s", change)

    def wake_waiting(self) -> None:
        """Wake all tasks that wait for an intent."""
        # create a new event for the next change; waiting tasks have the old one
        self.intent_moved.set()
        self.intent_moved = asyncio.Event()
