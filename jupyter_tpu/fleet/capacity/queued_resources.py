"""Queued resources: nodes that the cloud creates when it has capacity, and the leftovers that they leave.

The cloud keeps the queue, so nothing of it is kept here but the time of changes. A queued resource has the id of its
node: asked for twice, by two tabs or two servers, there is one.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from jupyter_tpu.cloud.api import CloudApi
from jupyter_tpu.errors import (
    BadInput,
    CloudUnavailable,
    NodeExists,
    NodeNotFound,
    QueuedNotFound,
    TpuError,
    WrongState,
)
from jupyter_tpu.fleet.reconciler.fleet import Fleet
from jupyter_tpu.fleet.reconciler.new_intents import name_taken
from jupyter_tpu.journal import Journal
from jupyter_tpu.journal.audit import Audit, Entry
from jupyter_tpu.models import NodeSpec, QueuedName, QueuedResource, QueuedSpec
from jupyter_tpu.provisioning import FLEX_START_LABELS, flags_of

VALID_FOR_S = 6 * 3600.0
SHORTEST_S, LONGEST_S = 60.0, 30 * 86_400.0
LONGEST_RUN_S = 7 * 86_400.0
_NOTHING = "Nothing was asked of the cloud."
# as gcloud takes it
_RESERVATION_ID = re.compile(r"[a-zA-Z0-9-]{1,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSnapshot:
    """The queue as the cloud told it.

    Attributes:
        as_of: when it was asked (Unix seconds).
        since: when we saw each come into its state (Unix seconds), where we did.
    """

    as_of: float
    items: tuple[QueuedResource, ...]
    unreachable: tuple[str, ...] = ()
    since: dict[QueuedName, float] = field(default_factory=dict)

    def find(self, name: QueuedName) -> QueuedResource | None:
        return next((each for each in self.items if each.name == name), None)


class Queue:
    """The queued resources of a project."""

    def __init__(self, fleet: Fleet, cloud: CloudApi, journal: Journal) -> None:
        self._fleet = fleet
        self._cloud = cloud
        settings = cloud.settings
        self._audit = Audit(journal, endpoint=settings.endpoint, project=settings.project)
        self._states: dict[QueuedName, tuple[str, float | None]] = {}

    async def list(self) -> QueueSnapshot:
        """Ask the cloud for all of them, husks too.

        Raises:
            CloudUnavailable, CloudRefused: it does not say.
        """
        as_of = time.time()
        listed = await self._cloud.list_queued_resources()
        since = self._noted(listed.items, as_of)
        return QueueSnapshot(as_of=as_of, items=listed.items, unreachable=listed.unreachable, since=since)

    def _noted(self, items: Iterable[QueuedResource], now: float) -> dict[QueuedName, float]:
        """What is seen for the first time may be in its state for long: since when is not known."""
        states: dict[QueuedName, tuple[str, float | None]] = {}
        for each in items:
            known = self._states.get(each.name)
            is_same = known is not None and known[0] == each.state
            states[each.name] = known if known and is_same else (each.state, now if known else None)
        self._states = states
        return {name: since for name, (_, since) in states.items() if since is not None}

    async def add(
        self,
        spec: NodeSpec,
        *,
        valid_for_s: float = VALID_FOR_S,
        run_for_s: float | None = None,
        reservation: str = "",
        accept_unknown_price: bool = False,
    ) -> QueuedResource:
        """Queue a node; asking twice for the same gives the same.

        Args:
            spec: the node; its id is that of the queued resource too.
            valid_for_s: after how many seconds the cloud gives up.
            run_for_s: flex-start: the cloud itself deletes the node so many seconds after it became READY.
            reservation: the id of the one to take the chips of a reserved node from; empty: any that fits.
            accept_unknown_price: see `Fleet.check_spending`.

        Raises:
            BudgetExceeded: a budget is used up.
            BadInput: what is asked for is not offered, or a time is too short or too long.
            NodeExists: the name is taken.
            QuotaExceeded, NotAllowlisted, …: the cloud refused; nothing is queued.
            JournalUnwritable: it cannot be written down, so nothing was asked for.
            CloudUnavailable: it did not answer, and does not list it.
        """
        _check_durations(valid_for_s, run_for_s)
        spec = _on_its_terms(spec, run_for_s, reservation)
        wanted = QueuedSpec(name=_name_of(spec), node=self._fleet.equipped(spec), reservation=reservation)
        known = _same_or_refused((await self.list()).find(wanted.name), wanted)
        if known is not None:
            return known
        await self._fleet.check_offered(spec)
        await self._fleet.check_spending(spec, accept_unknown_price=accept_unknown_price)
        await self._refuse_taken(spec)
        await self._note("queue", wanted.name, f"The user queued a {spec.accelerator_type}.")
        return await self._asked(wanted, valid_for_s, run_for_s)

    async def _refuse_taken(self, spec: NodeSpec) -> None:
        try:
            node = await self._cloud.get_node(spec.name)
        except NodeNotFound:
            return
        raise name_taken(node)

    async def _asked(self, wanted: QueuedSpec, valid_for_s: float, run_for_s: float | None) -> QueuedResource:
        try:
            operation = await self._cloud.create_queued_resource(wanted, valid_for_s, run_for_s=run_for_s)
        except (NodeExists, CloudUnavailable) as error:  # by another tab, or without an answer
            known = _same_or_refused((await self.list()).find(wanted.name), wanted)
            if known is None:
                raise _unsure(wanted.name, error) from error
            return known
        if operation.error is not None:
            raise operation.error
        return (await self.list()).find(wanted.name) or _new(wanted)

    async def remove(self, name: QueuedName) -> QueuedResource:
        """Delete a queued resource with its node, whoever made it; what it is now.

        Raises:
            QueuedNotFound: there is none.
            JournalUnwritable: it cannot be written down, so nothing was asked for.
            CloudUnavailable, CloudRefused: it was not deleted, as far as we know.
        """
        known = (await self.list()).find(name)
        if known is None:
            raise QueuedNotFound(
                f"There is no queued resource {name.queued_id} in {name.zone}.",
                exists="Nothing was removed.",
                hint="`jupyter tpu queue` shows what exists.",
            )
        if known.state == "DELETING":
            return known
        await self._note("unqueue", name, f"The user deleted a queued resource that was {known.state}.")
        try:
            await self._cloud.delete_queued_resource(name, force=True)
        except (NodeNotFound, WrongState, CloudUnavailable):
            return await self._left_of(known)
        return (await self.list()).find(name) or replace(known, state="DELETING")

    async def _left_of(self, known: QueuedResource) -> QueuedResource:
        """After a deletion without an answer, or in the middle of another; raises what went wrong if it goes on."""
        now = (await self.list()).find(known.name)
        if now is None or now.state == "DELETING":
            return now or replace(known, state="DELETING")
        raise CloudUnavailable(
            f"The queued resource {known.name.queued_id} was not deleted.",
            exists=f"It is {now.state} and counts towards your quota.",
            hint="Try again.",
        )

    async def _note(self, action: str, name: QueuedName, reason: str) -> None:
        entry = Entry(at=time.time(), action=action, subject=str(name), reason=reason)
        await asyncio.to_thread(self._audit.note, entry)


def _name_of(spec: NodeSpec) -> QueuedName:
    return QueuedName(project=spec.name.project, zone=spec.name.zone, queued_id=spec.name.node_id)


def _check_durations(valid_for_s: float, run_for_s: float | None) -> None:
    if not SHORTEST_S <= valid_for_s <= LONGEST_S:
        raise BadInput("A queued resource can wait for a minute to 30 days.", hint="Choose a time in between.")
    if run_for_s is not None and not SHORTEST_S <= run_for_s <= LONGEST_RUN_S:
        raise BadInput("A flex-start node can run for a minute to 7 days.", hint="Choose a time in between.")


def _on_its_terms(spec: NodeSpec, run_for_s: float | None, reservation: str) -> NodeSpec:
    """The node, labelled where it is asked for by flex-start; BadInput where its terms contradict each other."""
    if reservation and not spec.reserved:
        raise BadInput("Only a reserved node takes chips of a reservation.", exists=_NOTHING, hint="Ask for reserved.")
    if reservation and not _RESERVATION_ID.fullmatch(reservation):
        raise BadInput(
            f"{reservation[:70]!r} cannot be a reservation.",
            exists=_NOTHING,
            hint="Use its id: letters, digits and hyphens.",
        )
    if run_for_s is None:
        return spec
    if spec.provisioning not in ("on-demand", "flex-start"):
        raise BadInput(
            f"A flex-start node cannot be a {spec.provisioning} node too.",
            exists=_NOTHING,
            hint="Leave out one of the two.",
        )
    return replace(spec, labels={**spec.labels, **FLEX_START_LABELS})


def _same_or_refused(known: QueuedResource | None, wanted: QueuedSpec) -> QueuedResource | None:
    """The one that has this name, if it is what is wanted."""
    if known is None:
        return None
    node = wanted.node
    is_same = (known.accelerator_type, known.runtime_version, known.provisioning) == (
        node.accelerator_type,
        node.runtime_version,
        node.provisioning,
    )
    if is_same and known.intent_id and not known.is_husk and known.state != "DELETING":
        return known
    raise NodeExists(
        f"There is a queued resource {known.name.queued_id} in {known.name.zone} already.",
        exists=f"It is {known.state}{' and counts towards your quota' if known.holds_quota else ''}.",
        hint=f"Choose another name, or delete it with `jupyter tpu queue remove {known.name.queued_id} "
        f"--zone {known.name.zone}`.",
    )


def _unsure(name: QueuedName, error: TpuError) -> TpuError:
    if isinstance(error, NodeExists):
        return error
    return CloudUnavailable(
        error.message,
        exists=f"Whether {name.queued_id} is queued in {name.zone} is not known; the list does not show it.",
        hint=f"{error.hint} Look with `jupyter tpu queue` before you ask again.".strip(),
        raw=error.raw,
    )


def _new(wanted: QueuedSpec) -> QueuedResource:
    """One that the list does not show yet."""
    node = wanted.node
    return QueuedResource(
        name=wanted.name,
        state="CREATING",
        accelerator_type=node.accelerator_type,
        runtime_version=node.runtime_version,
        **flags_of(node.provisioning),
        node_ids=(node.name.node_id,),
        labels=node.labels,
    )
