"""Auto-recovery: detect that a node was pre-empted, delete its leftovers, and recreate it.

Each decision is saved in the journal before it is performed, and only the process that has claimed the setting performs
it. Another process can therefore continue after a crash, and two processes never create the same node twice.
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
from jupyter_tpu.error_actions import show_queue
from jupyter_tpu.errors import BadInput, CloudRefused, JournalUnwritable, NodeNotFound, PermissionDenied, Text, TpuError
from jupyter_tpu.fleet.reconciler.records import FleetChange
from jupyter_tpu.fleet.spend.grant_usage import is_covered
from jupyter_tpu.journal.recovery_store import Recoveries, entry_of
from jupyter_tpu.lifecycle.actions import CreateNode, DeleteNode
from jupyter_tpu.lifecycle.auto_recovery import decide, refused
from jupyter_tpu.lifecycle.intent_texts import terms
from jupyter_tpu.lifecycle.intents import Intent
from jupyter_tpu.lifecycle.recovery_state import (
    ATTEMPT_LABEL,
    DEFAULT_ATTEMPTS,
    CancelAttempt,
    DeleteQueued,
    Observation,
    Recovery,
    Step,
    is_lost,
    spec_of,
    watching_text,
)
from jupyter_tpu.lifecycle.time_limits import Limits
from jupyter_tpu.models import Node, NodeName, NodeSpec, QueuedResource
from jupyter_tpu.money.coverage import NodeRequest

if TYPE_CHECKING:
    from jupyter_tpu.cloud.api import CloudApi
    from jupyter_tpu.fleet.reconciler.fleet import Fleet
    from jupyter_tpu.journal import Journal

log = logging.getLogger(__name__)

# our choice: maximum number of attempts, so that a loop of pre-emptions ends
MOST_ATTEMPTS = 100
# this process has observed a node's disappearance only if it saw the node within this time. The time is long enough for
# a few failed list requests, but shorter than a usual sleep of this computer.
_MOST_GAP_S = 60.0


class RecreateController:
    """The controller that applies the auto-recovery settings of the project."""

    def __init__(self, cloud: CloudApi, journal: Journal, limits: Limits | None = None) -> None:
        settings = cloud.settings
        self._cloud = cloud
        self._recoveries = Recoveries(journal, endpoint=settings.endpoint, project=settings.project)
        self._limits = limits or Limits()
        self._missing_since: dict[NodeName, float] = {}
        self._seen_at: dict[NodeName, float] = {}
        self._unreadable: set[str] = set()

    async def reconcile(self, fleet: Fleet, now: float) -> None:
        """Apply the auto-recovery setting of each node; a failure with one node does not affect the others."""
        for recovery in await asyncio.to_thread(self._recoveries.each):
            if isinstance(recovery, tuple):
                name, error = recovery
                if name not in self._unreadable:  # log this once, not in each pass
                    self._unreadable.add(name)
                    log.warning("%s is not recreated: %s", name, error)
                continue
            if not recovery.is_on or recovery.phase in ("off", "given_up"):
                continue
            try:
                await self._reconcile_one(fleet, recovery, now)
            except TpuError as error:
                log.warning("%s could not be recreated: %s", recovery.name.node_id, error)

    async def _reconcile_one(self, fleet: Fleet, recovery: Recovery, now: float) -> None:
        if await self._is_idle(fleet, recovery, now):
            return
        # a claim writes to the journal, so claim the setting only if there is something to do
        if decide(recovery, await self._observe(recovery, now), self._limits) == (recovery, None):
            return
        async with self._claimed(recovery, now) as claimed:
            if claimed is not None:  # the observation from before the claim may be out of date
                await self._perform(fleet, claimed, now)

    async def _is_idle(self, fleet: Fleet, recovery: Recovery, now: float) -> bool:
        """Return whether the known state shows that nothing needs to be done; this saves a call to the cloud."""
        if recovery.phase in ("waiting", "making"):
            intents = await asyncio.to_thread(self._recoveries.intents, recovery)
            if _deletion(intents) is not None:
                return False
            if recovery.phase == "waiting":
                return now < recovery.retry_at
            intent = _making(recovery, intents)
            return intent is not None and not intent.settled
        return recovery.phase == "watching" and self._is_well(fleet, recovery, now)

    def _is_well(self, fleet: Fleet, recovery: Recovery, now: float) -> bool:
        """Return whether the last list of nodes shows that nothing needs to be done."""
        snapshot = fleet.snapshot()
        node = snapshot.node(recovery.name)
        # if there is no list yet, or if this zone is missing from the list, the node may still exist
        if node is None:
            return not snapshot.as_of or recovery.name.zone in snapshot.unreachable
        self._seen_at[recovery.name] = snapshot.seen_at(recovery.name) + snapshot.clock_ahead_s
        return decide(recovery, Observation(at=now, node=node), self._limits) == (recovery, None)

    async def _observe(self, recovery: Recovery, now: float) -> Observation:
        """Observe the node and the journal.

        Raises:
            TpuError: the node or the journal could not be read, so no conclusion is possible.
        """
        node = await self._node(recovery.name)
        missing_s = self._missing_s(recovery.name, node, now)
        intents = await asyncio.to_thread(self._recoveries.intents, recovery)
        return Observation(
            at=now,
            node=node,
            missing_s=missing_s,
            is_witnessed=self._is_witnessed(recovery.name, now),
            was_deleted=node is None and not recovery.is_queued and await self._was_deleted(recovery.name),
            queued=await queued_of(self._cloud, recovery.name) if recovery.is_queued else None,
            deletion=_deletion(intents),
            stop=next((intent for intent in intents if intent.verb == "stop" and not intent.error), None),
            making=_making(recovery, intents),
            spent_usd=await asyncio.to_thread(self._recoveries.spent_usd, recovery.name, self._chosen_at(recovery)),
        )

    def _chosen_at(self, recovery: Recovery) -> float:
        """Return when the user made the setting, by the cloud's clock; the local clock may have been changed."""
        if recovery.chosen_at_of_cloud is not None:
            return recovery.chosen_at_of_cloud
        return self._cloud.clock.to_cloud(recovery.chosen_at)

    def _is_witnessed(self, name: NodeName, now: float) -> bool:
        """Return whether this process saw the node shortly before it disappeared; False if the computer was asleep."""
        went_at = self._missing_since.get(name, now)
        return went_at - self._seen_at.get(name, 0.0) <= _MOST_GAP_S

    async def _was_deleted(self, name: NodeName) -> bool:
        """Return whether someone deleted the node since it was last seen; False if operations can't be listed."""
        since = self._seen_at.get(name, 0.0) - self._limits.unsure_s
        try:
            operations = await self._cloud.list_operations(name.zone)
        except CloudRefused as error:
            log.info("The operations in %s could not be listed: %s", name.zone, error)
            return False
        return any(
            each.verb == "delete" and each.target == str(name) and self._cloud.clock.to_local(each.created_at) >= since
            for each in operations
            if each.created_at is not None and each.error is None
        )

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
        """Claim an auto-recovery setting within the context; yield None if another process has claimed it."""
        claimed = await asyncio.to_thread(self._recoveries.claim, recovery, now=now)
        try:
            yield claimed
        finally:
            if claimed is not None:
                await asyncio.to_thread(self._release, recovery.name, claimed.owner, now)

    def _release(self, name: NodeName, owner: str, now: float) -> None:
        """Release this process's claim on the auto-recovery setting.

        Never raises, because an error would hide that the task was cancelled. If releasing fails, another process can
        claim the setting later.
        """
        try:
            left = self._recoveries.get(name)
            if left is not None and left.owner == owner:
                self._recoveries.swap(left, replace(left, owner=""), now=now)
        except JournalUnwritable as error:
            log.warning("The auto-recovery of %s stays claimed by this process: %s", name.node_id, error)

    async def _perform(self, fleet: Fleet, claimed: Recovery, now: float) -> None:
        decided, action = step = decide(claimed, await self._observe(claimed, now), self._limits)
        if not await self._swap(claimed, decided, now):
            return  # the user has changed the setting in the meantime
        if decided.phase != claimed.phase:
            self._notify(fleet, step)
        if isinstance(action, DeleteNode):
            await self._cloud.delete_node(action.name)
        elif isinstance(action, DeleteQueued):
            await self._cloud.delete_queued_resource(action.name)
        elif isinstance(action, CreateNode):
            await self._create(fleet, decided, action, now)
        elif isinstance(action, CancelAttempt):
            await fleet.delete(action.name)

    async def _create(self, fleet: Fleet, decided: Recovery, action: CreateNode, now: float) -> None:
        try:
            # the user accepted this price when the node was created
            await fleet.create(action.spec, accept_unknown_price=True)
        except TpuError as error:
            after = refused(decided, error, now)
            await self._swap(decided, after, now)
            self._notify(fleet, (after, None))

    async def _swap(self, old: Recovery, new: Recovery, now: float) -> bool:
        if new == old:
            return True
        entries = () if new.phase == old.phase else (entry_of(new, now),)
        return await asyncio.to_thread(self._recoveries.swap, old, new, entries, now=now)

    def _notify(self, fleet: Fleet, step: Step) -> None:
        recovery, _ = step
        node = fleet.snapshot().node(recovery.name)
        state = node.state if node else ""
        log.info("%s", recovery.message)
        fleet.notify(FleetChange(kind="node", node_name=str(recovery.name), state=state, message=recovery.message))


async def queued_of(cloud: CloudApi, name: NodeName) -> QueuedResource | None:
    """Return the queued resource that creates or created a node, or None if there is none or it can't be listed."""
    try:
        listed = await cloud.list_queued_resources(name.zone)
    except PermissionDenied:
        return None
    return next((each for each in listed.items if name.node_id in each.node_ids), None)


def _deletion(intents: tuple[Intent, ...]) -> Intent | None:
    return next((intent for intent in intents if intent.verb == "delete"), None)


def _making(recovery: Recovery, intents: tuple[Intent, ...]) -> Intent | None:
    """Return the intent of the latest attempt to recreate the node, or None."""
    creations = (intent for intent in intents if intent.spec is not None)
    return next(
        (intent for intent in creations if intent.spec and intent.spec.labels.get(ATTEMPT_LABEL) == recovery.attempt),
        None,
    )


async def set_recovery(
    cloud: CloudApi,
    journal: Journal,
    name: NodeName,
    *,
    is_on: bool,
    max_attempts: int = DEFAULT_ATTEMPTS,
    max_usd: float | None = None,
    now: float,
) -> Recovery:
    """Turn auto-recovery of a node on or off.

    Attempts and costs are counted from now on; if the node is currently being recreated, counting continues.

    Args:
        max_attempts: 1 to `MOST_ATTEMPTS`.
        max_usd: cost of the node, in dollars, at which auto-recovery stops; None means no cap.
        now: Unix seconds.

    Raises:
        BadInput: a number is out of range, a cap can't be checked without a list price, or the node is flex-start.
        NodeNotFound: there is no such node and no setting for it.
        JournalUnwritable: the setting can't be written; nothing has changed.
    """
    check_caps(max_attempts, max_usd)
    settings = cloud.settings
    recoveries = Recoveries(journal, endpoint=settings.endpoint, project=settings.project)
    known = await asyncio.to_thread(recoveries.get, name)
    # turning the setting off needs no node, which may have been deleted
    if known is not None and not is_on:
        return await _store(recoveries, _off(known, now), now)
    # if the node is being recreated, keep the number of attempts and change only the limits
    if known is not None and known.is_being_recreated:
        await _require_price(cloud, journal, known.spec, max_usd)
        capped = replace(known, max_attempts=max_attempts, max_usd=max_usd)
        return await _store(recoveries, capped, now)
    node = await cloud.get_node(name)
    if is_on and node.provisioning == "flex-start":
        raise BadInput(
            Text("{node} is a flex-start node: the cloud deletes it after its run duration.", node=name.node_id),
            exists="Auto-recovery is unchanged.",
            hint="Queue another one with `jupyter tpu queue add` when you need it.",
            actions=(show_queue(),),
        )
    if is_on:
        await _require_price(cloud, journal, spec_of(node), max_usd)
    # also recover a node that has just been pre-empted
    recovery = Recovery(
        choice_id=secrets.token_hex(6),
        spec=spec_of(node),
        max_attempts=max_attempts,
        max_usd=max_usd,
        uid=node.uid,
        was_ready=node.state == "READY" or is_lost(node),
        is_queued=await queued_of(cloud, name) is not None,
        chosen_at=now,
        chosen_at_of_cloud=cloud.clock.to_cloud(now),
        since=now,
    )
    chosen = replace(recovery, message=watching_text(recovery)) if is_on else _off(recovery, now)
    return await _store(recoveries, chosen, now)


async def _require_price(cloud: CloudApi, journal: Journal, spec: NodeSpec, max_usd: float | None) -> None:
    """Reject a cost cap for a node without a list price, because it can't be enforced."""
    if max_usd is None or price_on_terms(spec.accelerator_type, spec.name.zone, spec.provisioning) is not None:
        return
    # a covered node costs nothing, so any limit allows it
    request = NodeRequest(accelerator_type=spec.accelerator_type, zone=spec.name.zone, provisioning=spec.provisioning)
    if not await is_covered(cloud, journal, spec.name, request):
        raise BadInput(
            Text(
                "There is no list price for {node} ({terms}), so a cap in dollars cannot be checked.",
                node=spec.name.node_id,
                terms=terms(spec),
            ),
            exists="Auto-recovery is unchanged.",
            hint="Omit the cap in dollars; the number of attempts limits how often the node is recreated.",
        )


def check_caps(max_attempts: int, max_usd: float | None) -> None:
    """Raise BadInput for caps that are out of range."""
    if not 1 <= max_attempts <= MOST_ATTEMPTS:
        raise BadInput(
            Text("{count} is not a valid number of attempts.", count=max_attempts),
            hint=Text("Use a whole number from 1 to {most}.", most=MOST_ATTEMPTS),
        )
    if max_usd is not None and not 0 < max_usd < 1e9:
        raise BadInput(Text("{usd} is not a valid cap in US dollars.", usd=max_usd), hint="Use a positive amount.")


def _off(recovery: Recovery, now: float) -> Recovery:
    message = Text(
        "Auto-recovery is off: {node} will not be recreated after a pre-emption.", node=recovery.name.node_id
    )
    return replace(recovery, is_on=False, phase="off", message=message, since=now, owner="")


async def _store(recoveries: Recoveries, recovery: Recovery, now: float) -> Recovery:
    action = "recover-on" if recovery.is_on else "recover-off"
    entry = replace(entry_of(recovery, now), action=action)
    await asyncio.to_thread(recoveries.put, recovery, entry)
    return recovery


def recovery_view(recovery: Recovery) -> dict[str, Any]:
    """Return an auto-recovery setting as JSON, for the REST API and the CLI."""
    return {
        "node_name": str(recovery.name),
        "is_on": recovery.is_on,
        "attempts": recovery.attempt_number,
        "max_attempts": recovery.max_attempts,
        "max_usd": recovery.max_usd,
        "state": recovery.phase,
        "message": recovery.message,
    }
