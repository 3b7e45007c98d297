"""Drive one intent from where it stands to its end.

The order of things in `IntentRunner._advance` is what the promises rest on: decide, write down, ask. Nothing that may
cost money is asked before it is on disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass, replace
from typing import Protocol

from jupyter_tpu.brakes import Moment
from jupyter_tpu.cloud.api import CloudApi
from jupyter_tpu.errors import JournalUnwritable, TpuError
from jupyter_tpu.fleet.reconciler import executor
from jupyter_tpu.journal import Journal
from jupyter_tpu.journal.journal import ClaimLost
from jupyter_tpu.lifecycle.actions import Change, Look
from jupyter_tpu.lifecycle.events import Event, NodeMissing, NodeSeen, Overruled
from jupyter_tpu.lifecycle.intents import Intent
from jupyter_tpu.lifecycle.limits import Limits
from jupyter_tpu.lifecycle.machine import looks, step
from jupyter_tpu.lifecycle.outcomes import failed
from jupyter_tpu.models import Node, NodeName

log = logging.getLogger(__name__)


class IntentObserver(Protocol):
    """Who is told what a driver learns. Every method is called in the event loop and returns at once."""

    def intent_changed(self, intent: Intent) -> None:
        """An intent has moved on."""

    def node_seen(self, node: Node, at: Moment) -> None:
        """A node was looked at."""

    def node_missing(self, name: NodeName, at: Moment) -> None:
        """A node was looked for in vain."""

    def is_overruled(self, intent: Intent) -> bool:
        """Whether something has been asked for since that puts an end to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerContext:
    """What every driver of a fleet works with."""

    cloud: CloudApi
    journal: Journal
    watcher: IntentObserver
    limits: Limits
    clock: executor.Clock
    poll_s: float


class IntentRunner:
    """Performs one intent. `lock` is shared by all drivers of the same node: one request at a time."""

    def __init__(self, means: RunnerContext, intent: Intent, lock: asyncio.Lock) -> None:
        self._means = means
        self._intent = intent
        self._lock = lock
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Look again now."""
        self._woken.set()

    async def run(self, first: Event) -> None:
        """Perform the intent until it is settled or somebody else's."""
        try:
            await self._advance(first)
            while not self._intent.settled:
                await self._pause()
                await self._poll()
        except ClaimLost:
            log.info("The intent %s is performed by another process now.", self._intent.intent_id)
        except Exception:
            log.exception("Giving up on the intent %s to %s", self._intent.intent_id, self._intent.verb)
            self._give_up()

    async def _pause(self) -> None:
        self._woken.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._means.poll_s):
                await self._woken.wait()

    async def _poll(self) -> None:
        for look in looks(self._intent):
            if look in looks(self._intent) and not self._is_overruled(self._intent):  # an answer before may tell
                seen = await self._looked(look)
                if not self._is_overruled(self._intent):  # else it may show what the newer wish does to the node
                    await self._advance(seen)
        if self._is_overruled(self._intent) and not self._intent.settled:
            await self._advance(Overruled(at=self._means.clock()))

    async def _looked(self, look: Look) -> Event:
        asked = self._means.cloud.clock.steady()
        event = await executor.look(self._means.cloud, look, self._means.clock)
        at = self._means.cloud.clock.moment(asked)
        if isinstance(event, NodeSeen):
            self._means.watcher.node_seen(event.node, at)
        elif isinstance(event, NodeMissing):
            self._means.watcher.node_missing(self._intent.node_name, at)
        return event

    async def _advance(self, event: Event) -> None:
        waiting: Event | None = event
        while waiting is not None:
            decided, changes = step(self._intent, waiting, self._means.limits)
            waiting = await self._ask(decided, changes[0]) if changes else None
            if not changes:
                await self._note(decided)

    async def _note(self, decided: Intent) -> None:
        """Write progress down. A journal that fails now must not stop us from watching what exists already."""
        if replace(decided, updated_at=self._intent.updated_at) == self._intent:
            return
        try:
            await asyncio.to_thread(self._means.journal.save, decided)
        except JournalUnwritable as error:
            log.warning("Progress of the intent %s is not in the journal: %s", decided.intent_id, error)
        self._show(decided)

    async def _ask(self, decided: Intent, change: Change) -> Event | None:
        """Write the request down, then ask; not at all when it was overruled or cannot be written down."""
        async with self._lock:
            if self._is_overruled(self._intent):
                return Overruled(at=self._means.clock())
            try:
                await asyncio.to_thread(self._means.journal.save, decided)
            except JournalUnwritable as error:
                self._show(failed(self._intent, decided.updated_at, error, exists="Nothing was asked of the cloud.")[0])
                return None
            self._show(decided)
            return await executor.ask(self._means.cloud, change, self._means.clock)

    def _is_overruled(self, intent: Intent) -> bool:
        return intent.verb != "delete" and self._means.watcher.is_overruled(intent)

    def _show(self, intent: Intent) -> None:
        self._intent = intent
        self._means.watcher.intent_changed(intent)

    def _give_up(self) -> None:
        error = TpuError("jupyter_tpu made a mistake; its log has the details.")
        exists = f"Whether the node {self._intent.node_name.node_id} exists is not known."
        given_up, _ = failed(self._intent, self._means.clock(), error, exists=exists, hint="See `jupyter tpu list`.")
        self._show(given_up)
