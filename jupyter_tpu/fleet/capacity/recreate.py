"""Keep the standing choices: see that a node was taken away, delete what is left of it, and make it again.

What is decided is in the journal before it is done, and only the process that claimed a choice does it; so whatever
dies in between, another process finds how far it has come, and two never make two.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jupyter_tpu.accelerators import price_on_terms
from jupyter_tpu.errors import BadInput, JournalUnwritable, NodeNotFound, PermissionDenied, TpuError
from jupyter_tpu.fleet.reconciler.records import FleetChange
from jupyter_tpu.fleet.spend.grants import is_covered
from jupyter_tpu.journal.audit import Entry
from jupyter_tpu.journal.recoveries import Recoveries
from jupyter_tpu.lifecycle.actions import CreateNode, DeleteNode
from jupyter_tpu.lifecycle.intents import Intent
from jupyter_tpu.lifecycle.limits import Limits
from jupyter_tpu.lifecycle.recoveries import (
    ATTEMPT_LABEL,
    DEFAULT_ATTEMPTS,
    DeleteQueued,
    Recovery,
    Seen,
    Step,
    is_lost,
    spec_of,
    watching_text,
)
from jupyter_tpu.lifecycle.recovery import decide, refused
from jupyter_tpu.lifecycle.words import terms
from jupyter_tpu.models import Node, NodeName, NodeSpec, QueuedResource
from jupyter_tpu.money.coverage import Request

if TYPE_CHECKING:
    from jupyter_tpu.cloud.api import CloudApi
    from jupyter_tpu.fleet.reconciler.fleet import Fleet
    from jupyter_tpu.journal import Journal

log = logging.getLogger(__name__)

MOST_ATTEMPTS = 100
_MOST_GAP_S = 60.0
# the words of the audit log for the phases that are worth a line
_ACTIONS = {
    "clearing": "preempted",
    "waiting": "recover-wait",
    "making": "recreate",
    "watching": "recreated",
    "given_up": "recover-give-up",
    "off": "recover-off",
}


class RecreateController:
    """See `Controller`."""

    def __init__(self, cloud: CloudApi, journal: Journal, limits: Limits | None = None) -> None:
        settings = cloud.settings
        self._cloud = cloud
        self._recoveries = Recoveries(journal, endpoint=settings.endpoint, project=settings.project)
        self._limits = limits or Limits()
        self._missing_since: dict[NodeName, float] = {}
        self._seen_at: dict[NodeName, float] = {}

    async def reconcile(self, fleet: Fleet, now: float) -> None:
        """Look after each choice that is on; the fault of one is not the others'."""
        for recovery in await asyncio.to_thread(self._recoveries.all):
            if not recovery.is_on or recovery.phase in ("off", "given_up"):
                continue
            try:
                await self._look_after(fleet, recovery, now)
            except TpuError as error:
                log.warning("Making %s again: %s", recovery.name.node_id, error)

    async def _look_after(self, fleet: Fleet, recovery: Recovery, now: float) -> None:
        if await self._is_idle(fleet, recovery, now):
            return
        if decide(recovery, await self._seen(recovery, now), self._limits) == (recovery, None):
            return
        async with self._claimed(recovery, now) as claimed:
            if claimed is not None:  # what was seen before the claim may be old by now
                await self._perform(fleet, claimed, now)

    async def _is_idle(self, fleet: Fleet, recovery: Recovery, now: float) -> bool:
        """Whether what is known already says that nothing is to be done; spares the cloud a question."""
        if recovery.phase == "waiting":
            return now < recovery.retry_at
        if recovery.phase == "making":
            intent = _making(recovery, await asyncio.to_thread(self._recoveries.wishes, recovery))
            return intent is not None and not intent.settled
        return recovery.phase == "watching" and self._is_well(fleet, recovery, now)

    def _is_well(self, fleet: Fleet, recovery: Recovery, now: float) -> bool:
        """By the last list."""
        snapshot = fleet.snapshot()
        node = snapshot.node(recovery.name)
        if node is None:
            return not snapshot.as_of or recovery.name.zone in snapshot.unreachable
        self._seen_at[recovery.name] = snapshot.seen_at(recovery.name) + snapshot.clock_ahead_s
        return decide(recovery, Seen(at=now, node=node), self._limits) == (recovery, None)

    async def _seen(self, recovery: Recovery, now: float) -> Seen:
        """A look at the node and at the journal.

        Raises:
            TpuError: one of them did not answer; nothing may be concluded.
        """
        node = await self._node(recovery.name)
        missing_s = self._missing_s(recovery.name, node, now)
        wishes = await asyncio.to_thread(self._recoveries.wishes, recovery)
        return Seen(
            at=now,
            node=node,
            missing_s=missing_s,
            is_witnessed=self._is_witnessed(recovery.name, now),
            queued=await queued_of(self._cloud, recovery.name) if recovery.is_queued else None,
            deletion=next((wish for wish in wishes if wish.verb == "delete"), None),
            stop=next((wish for wish in wishes if wish.verb == "stop" and not wish.error), None),
            making=_making(recovery, wishes),
            spent_usd=await asyncio.to_thread(self._recoveries.spent_usd, recovery.name, self._chosen_at(recovery)),
        )

    def _chosen_at(self, recovery: Recovery) -> float:
        """By the cloud's clock, as the ledger counts; this computer's may have been set since."""
        if recovery.chosen_at_of_cloud is not None:
            return recovery.chosen_at_of_cloud
        return self._cloud.clock.of_cloud(recovery.chosen_at)

    def _is_witnessed(self, name: NodeName, now: float) -> bool:
        """Whether it went while this process looked: one that slept through it knows as little as one that starts."""
        went_at = self._missing_since.get(name, now)
        return went_at - self._seen_at.get(name, 0.0) <= _MOST_GAP_S

    async def _node(self, name: NodeName) -> Node | None:
        try:
            return await self._cloud.get_node(name)
        except NodeNotFound:
            return None

    def _missing_s(self, name: NodeName, node: Node | None, now: float) -> float:
        if node is not None:
            self._missing_since.pop(name, None)
            return 0.0
        return now - self._missing_since.setdefault(name, now)

    @contextlib.asynccontextmanager
    async def _claimed(self, recovery: Recovery, now: float) -> AsyncIterator[Recovery | None]:
        """The choice as ours for a while; None when another process has it."""
        claimed = await asyncio.to_thread(self._recoveries.claim, recovery, now=now)
        try:
            yield claimed
        finally:
            if claimed is not None:
                await asyncio.to_thread(self._let_go, recovery.name, claimed.owner, now)

    def _let_go(self, name: NodeName, owner: str, now: float) -> None:
        """Never raises, so that a cancellation passes; what stays claimed is ours to claim again."""
        try:
            left = self._recoveries.get(name)
            if left is not None and left.owner == owner:
                self._recoveries.swap(left, replace(left, owner=""), now=now)
        except JournalUnwritable as error:
            log.warning("The choice for %s stays claimed by this process: %s", name.node_id, error)

    async def _perform(self, fleet: Fleet, claimed: Recovery, now: float) -> None:
        decided, action = step = decide(claimed, await self._seen(claimed, now), self._limits)
        if not await self._written(claimed, decided, now):
            return  # the user has chosen otherwise meanwhile
        if decided.phase != claimed.phase:
            self._tell(fleet, step)
        if isinstance(action, DeleteNode):
            await self._cloud.delete_node(action.name)
        elif isinstance(action, DeleteQueued):
            await self._cloud.delete_queued_resource(action.name)
        elif isinstance(action, CreateNode):
            await self._create(fleet, decided, action, now)

    async def _create(self, fleet: Fleet, decided: Recovery, action: CreateNode, now: float) -> None:
        try:
            # the user took this price when the node was made, and chose to have it again
            await fleet.create(action.spec, accept_unknown_price=True)
        except TpuError as error:
            after = refused(decided, error, now)
            await self._written(decided, after, now)
            self._tell(fleet, (after, None))

    async def _written(self, old: Recovery, new: Recovery, now: float) -> bool:
        if new == old:
            return True
        entries = () if new.phase == old.phase else (_entry(new, now),)
        return await asyncio.to_thread(self._recoveries.swap, old, new, entries, now=now)

    def _tell(self, fleet: Fleet, step: Step) -> None:
        recovery, _ = step
        node = fleet.snapshot().node(recovery.name)
        state = node.state if node else ""
        log.info("%s", recovery.message)
        fleet.tell(FleetChange(kind="node", node_name=str(recovery.name), state=state, message=recovery.message))


async def queued_of(cloud: CloudApi, name: NodeName) -> QueuedResource | None:
    """The queued resource that makes or has made a node; None also where the user may not list them."""
    try:
        listed = await cloud.list_queued_resources(name.zone)
    except PermissionDenied:
        return None
    return next((each for each in listed.items if name.node_id in each.node_ids), None)


def _making(recovery: Recovery, wishes: tuple[Intent, ...]) -> Intent | None:
    """The intent of the attempt that was begun last."""
    creations = (wish for wish in wishes if wish.spec is not None)
    return next(
        (wish for wish in creations if wish.spec and wish.spec.labels.get(ATTEMPT_LABEL) == recovery.attempt), None
    )


def _entry(recovery: Recovery, now: float) -> Entry:
    counts = {"attempts": recovery.attempts, "max_attempts": recovery.max_attempts, "max_usd": recovery.max_usd}
    return Entry(
        at=now, action=_ACTIONS[recovery.phase], subject=str(recovery.name), reason=recovery.message, detail=counts
    )


async def choose(
    cloud: CloudApi,
    journal: Journal,
    name: NodeName,
    *,
    is_on: bool,
    max_attempts: int = DEFAULT_ATTEMPTS,
    max_usd: float | None = None,
    now: float,
) -> Recovery:
    """Lay down whether a node is to be made again.

    Attempts and costs are counted anew, unless it is being recreated just now.

    Raises:
        BadInput: the number of attempts or the cap can be none, the cap cannot be checked for want of a list price, or
            the node is one by flex-start.
        NodeNotFound: there is no such node, and no choice for one.
        JournalUnwritable: the choice is as it was.
    """
    check_caps(max_attempts, max_usd)
    settings = cloud.settings
    recoveries = Recoveries(journal, endpoint=settings.endpoint, project=settings.project)
    known = await asyncio.to_thread(recoveries.get, name)
    if known is not None and not is_on:
        return await _laid_down(recoveries, _off(known, now), now)
    if known is not None and known.is_being_made:
        await _require_price(cloud, journal, known.spec, max_usd)
        capped = replace(known, max_attempts=max_attempts, max_usd=max_usd)
        return await _laid_down(recoveries, capped, now)
    node = await cloud.get_node(name)
    if is_on and node.provisioning == "flex-start":
        raise BadInput(
            f"{name.node_id} is a flex-start node: the cloud ends it when its time is over.",
            exists="It is not recreated.",
            hint="Queue another one with `jupyter tpu queue add` when you need it.",
        )
    if is_on:
        await _require_price(cloud, journal, spec_of(node), max_usd)
    recovery = Recovery(
        choice_id=secrets.token_hex(6),
        spec=spec_of(node),
        max_attempts=max_attempts,
        max_usd=max_usd,
        uid=node.uid,
        was_ready=node.state == "READY" or is_lost(node),
        is_queued=await queued_of(cloud, name) is not None,
        chosen_at=now,
        chosen_at_of_cloud=cloud.clock.of_cloud(now),
        since=now,
    )
    chosen = replace(recovery, message=watching_text(recovery)) if is_on else _off(recovery, now)
    return await _laid_down(recoveries, chosen, now)


async def _require_price(cloud: CloudApi, journal: Journal, spec: NodeSpec, max_usd: float | None) -> None:
    """Refuse a cap that could never be checked: without a list price nobody knows what the node has cost."""
    if max_usd is None or price_on_terms(spec.accelerator_type, spec.name.zone, spec.provisioning) is not None:
        return
    request = Request(accelerator_type=spec.accelerator_type, zone=spec.name.zone, provisioning=spec.provisioning)
    if not await is_covered(cloud, journal, spec.name, request):
        raise BadInput(
            f"There is no list price for {spec.name.node_id} ({terms(spec)}), so a cap in dollars cannot be checked.",
            exists="The choice is as it was.",
            hint="Leave out the cap (--max-usd); --attempts limits how often the node is recreated.",
        )


def check_caps(max_attempts: int, max_usd: float | None) -> None:
    """Raises BadInput unless they are caps."""
    if not 1 <= max_attempts <= MOST_ATTEMPTS:
        raise BadInput(f"{max_attempts} is no number of attempts.", hint=f"Use 1 to {MOST_ATTEMPTS}.")
    if max_usd is not None and not 0 < max_usd < 1e9:
        raise BadInput(f"{max_usd} is no cap in US dollars.", hint="Use a positive amount.")


def _off(recovery: Recovery, now: float) -> Recovery:
    message = f"{recovery.name.node_id} is not recreated after a pre-emption."
    return replace(recovery, is_on=False, phase="off", message=message, since=now, owner="")


async def _laid_down(recoveries: Recoveries, recovery: Recovery, now: float) -> Recovery:
    action = "recover-on" if recovery.is_on else "recover-off"
    entry = replace(_entry(recovery, now), action=action)
    await asyncio.to_thread(recoveries.put, recovery, entry)
    return recovery


def recovery_view(recovery: Recovery) -> dict[str, Any]:
    """A standing choice as the REST API and the CLI show it."""
    return {
        "node_name": str(recovery.name),
        "is_on": recovery.is_on,
        "attempts": recovery.attempts,
        "max_attempts": recovery.max_attempts,
        "max_usd": recovery.max_usd,
        "state": recovery.phase,
        "message": recovery.message,
    }
