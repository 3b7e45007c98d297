"""Perform an intent from its current phase to its end.

`IntentRunner._advance` ensures the order on which the guarantees depend: decide, save, send. No request that may cost
money is sent before it is on disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass, replace
from typing import Protocol

from jupyter_tpu.autostop import Moment
from jupyter_tpu.cloud.api import CloudApi
from jupyter_tpu.error_actions import refresh
from jupyter_tpu.errors import JournalUnwritable, Text, TpuError
from jupyter_tpu.fleet.reconciler import executor
from jupyter_tpu.journal import Journal
from jupyter_tpu.journal.journal import ClaimLost
from jupyter_tpu.lifecycle.actions import Change, Query
from jupyter_tpu.lifecycle.intent_events import Event, NodeMissing, NodeSeen, Overruled
from jupyter_tpu.lifecycle.intent_machine import queries, step
from jupyter_tpu.lifecycle.intents import Intent
from jupyter_tpu.lifecycle.outcomes import failed
from jupyter_tpu.lifecycle.time_limits import Limits
from jupyter_tpu.models import Node, NodeName

log = logging.getLogger(__name__)


class IntentObserver(Protocol):
    """A receiver of a runner's events. Every method is called in the event loop and must return immediately."""

    def intent_changed(self, intent: Intent) -> None:
        """Receive an intent's new state."""

    def node_seen(self, node: Node, at: Moment) -> None:
        """Receive a node that was read at the time `at`."""

    def node_missing(self, name: NodeName, at: Moment) -> None:
        """Record that the node is missing in the cloud."""

    def is_overruled(self, intent: Intent) -> bool:
        """Return whether a newer open intent cancels this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerContext:
    """Data that all runners of a fleet share.

    Attributes:
        poll_s: seconds between two polls of an open intent.
    """

    cloud: CloudApi
    journal: Journal
    observer: IntentObserver
    limits: Limits
    clock: executor.Clock
    poll_s: float


class IntentRunner:
    """Performs one intent. All runners for the same node share `lock`, so that only one request is sent at a time."""

    def __init__(self, context: RunnerContext, intent: Intent, lock: asyncio.Lock) -> None:
        self._context = context
        self._intent = intent
        self._lock = lock
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Poll again now."""
        self._woken.set()

    async def run(self, first: Event) -> None:
        """Perform the intent until the intent has finished or another process owns it."""
        try:
            await self._advance(first)
            while not self._intent.settled:
                await self._pause()
                await self._poll()
        except ClaimLost:
            log.info("The intent %s is performed by another process now.", self._intent.intent_id)
        except Exception:  # a bug must lead to a failed intent, not to one that never finishes
            log.exception("Giving up on the intent %s to %s", self._intent.intent_id, self._intent.verb)
            self._give_up()

    async def _pause(self) -> None:
        self._woken.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._context.poll_s):
                await self._woken.wait()

    async def _poll(self) -> None:
        for query in queries(self._intent):
            # an earlier response may have made the query unnecessary
            if query in queries(self._intent) and not self._is_overruled(self._intent):
                seen = await self._read(query)
                if not self._is_overruled(self._intent):  # otherwise the node may show the effect of the newer intent
                    await self._advance(seen)
        if self._is_overruled(self._intent) and not self._intent.settled:
            await self._advance(Overruled(at=self._context.clock()))

    async def _read(self, query: Query) -> Event:
        requested = self._context.cloud.clock.steady()
        event = await executor.read(self._context.cloud, query, self._context.clock)
        at = self._context.cloud.clock.moment(requested)
        if isinstance(event, NodeSeen):
            self._context.observer.node_seen(event.node, at)
        elif isinstance(event, NodeMissing):
            self._context.observer.node_missing(self._intent.node_name, at)
        return event

    async def _advance(self, event: Event) -> None:
        waiting: Event | None = event
        while waiting is not None:
            decided, changes = step(self._intent, waiting, self._context.limits)
            waiting = await self._send(decided, changes[0]) if changes else None
            if not changes:
                await self._save_progress(decided)

    async def _save_progress(self, decided: Intent) -> None:
        """Save progress. A journal error must not stop the polling of an existing node."""
        # if only the time has changed, don't write every second
        if replace(decided, updated_at=self._intent.updated_at) == self._intent:
            return
        try:
            await asyncio.to_thread(self._context.journal.save, decided)
        except JournalUnwritable as error:
            log.warning("Progress of the intent %s is not in the journal: %s", decided.intent_id, error)
        self._show(decided)

    async def _send(self, decided: Intent, change: Change) -> Event | None:
        """Save the request, then send it. Don't send it if saving fails or a newer intent cancels this one."""
        async with self._lock:
            if self._is_overruled(self._intent):
                return Overruled(at=self._context.clock())
            try:
                await asyncio.to_thread(self._context.journal.save, decided)
            except JournalUnwritable as error:
                self._show(
                    failed(self._intent, decided.updated_at, error, exists="No request was sent to the cloud.")[0]
                )
                return None
            self._show(decided)
            return await executor.send(self._context.cloud, change, self._context.clock)

    def _is_overruled(self, intent: Intent) -> bool:
        return intent.verb != "delete" and self._context.observer.is_overruled(intent)

    def _show(self, intent: Intent) -> None:
        self._intent = intent
        self._context.observer.intent_changed(intent)

    def _give_up(self) -> None:
        error = TpuError("jupyter_tpu failed unexpectedly; see its log for details.")
        exists = Text("The node {node} may exist.", node=self._intent.node_name.node_id)
        hint, now = "See `jupyter tpu list`.", self._context.clock()
        given_up, _ = failed(self._intent, now, error, exists=exists, hint=hint, actions=(refresh(),))
        self._show(given_up)
