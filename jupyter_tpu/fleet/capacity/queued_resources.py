"""Queued resources: requests for nodes that the cloud creates when it has capacity, and leftovers of these requests.

The queue is in the cloud; only the times of state changes are stored here. A queued resource has the id of its node, so
that two tabs or servers that request the same node create only one request.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from jupyter_tpu.cloud.api import CloudApi
from jupyter_tpu.error_actions import show_queue
from jupyter_tpu.errors import (
    BadInput,
    CloudUnavailable,
    NodeExists,
    NodeNotFound,
    QueuedNotFound,
    Text,
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
"""How long a request waits by default, in seconds: our choice.

It is limited, because the user may be away when billing starts.
"""

SHORTEST_S, LONGEST_S = 60.0, 30 * 86_400.0
"""Bounds of the waiting time and the run duration, in seconds: our choice, to reject typos."""

LONGEST_RUN_S = 7 * 86_400.0
"""Google's limit for flex-start, in seconds (cloud.google.com/tpu/docs/request-using-flex-start)."""

_NOTHING = "No request was sent to the cloud."
# the format that gcloud accepts
_RESERVATION_ID = re.compile(r"[a-zA-Z0-9-]{1,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSnapshot:
    """The queued resources in the last response to a list request.

    Attributes:
        as_of: when the list was read (Unix seconds).
        unreachable: zones that did not respond.
        since: when each queued resource was first seen in its current state (Unix seconds); contains no entry if this
            time is unknown.
    """

    as_of: float
    items: tuple[QueuedResource, ...]
    unreachable: tuple[str, ...] = ()
    since: dict[QueuedName, float] = field(default_factory=dict)

    def find(self, name: QueuedName) -> QueuedResource | None:
        """Return the queued resource with this name, or None."""
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
        """List all queued resources, including leftovers.

        Raises:
            CloudUnavailable, CloudRefused: the cloud did not return the list.
        """
        as_of = time.time()
        listed = await self._cloud.list_queued_resources()
        since = self._since(listed.items, as_of)
        return QueueSnapshot(as_of=as_of, items=listed.items, unreachable=listed.unreachable, since=since)

    def _since(self, items: Iterable[QueuedResource], now: float) -> dict[QueuedName, float]:
        """Record the states. Return when each state began, except for queued resources seen for the first time."""
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
        """Queue a node; a second call for the same node returns the same queued resource.

        Args:
            spec: the node; its id is also the id of the queued resource.
            valid_for_s: seconds after which the cloud cancels the request.
            run_for_s: for flex-start, the seconds after READY at which the cloud deletes the node.
            reservation: id of the reservation for a reserved node; empty means any that fits.
            accept_unknown_price: see `Fleet.check_spending`.

        Raises:
            BudgetExceeded: a budget is used up.
            BadInput: the node is not offered, or a time is too short or too long.
            NodeExists: the name is taken.
            QuotaExceeded, NotAllowlisted, …: the cloud rejected the request; nothing is queued.
            JournalUnwritable: the request can't be saved, so nothing was requested.
            CloudUnavailable: the cloud did not respond, and does not list the queued resource.
        """
        _check_durations(valid_for_s, run_for_s)
        spec = _with_model(spec, run_for_s, reservation)
        wanted = QueuedSpec(name=_name_of(spec), node=self._fleet.equipped(spec), reservation=reservation)
        known = _same_or_refused((await self.list()).find(wanted.name), wanted)
        if known is not None:
            return known
        # run all checks before the audit entry, and write the entry before the request
        await self._fleet.check_offered(spec)
        await self._fleet.check_spending(spec, accept_unknown_price=accept_unknown_price)
        await self._refuse_taken(spec)
        reason = Text("The user queued a {type}.", type=spec.accelerator_type)
        await self._note("queue", wanted.name, reason)
        return await self._request(wanted, valid_for_s, run_for_s)

    async def _refuse_taken(self, spec: NodeSpec) -> None:
        try:
            node = await self._cloud.get_node(spec.name)
        except NodeNotFound:
            return
        raise name_taken(node)

    async def _request(self, wanted: QueuedSpec, valid_for_s: float, run_for_s: float | None) -> QueuedResource:
        try:
            operation = await self._cloud.create_queued_resource(wanted, valid_for_s, run_for_s=run_for_s)
        except (NodeExists, CloudUnavailable) as error:  # another tab was faster, or the response was lost
            known = _same_or_refused(await self._found(wanted.name), wanted)
            if known is None:
                raise _unsure(wanted.name, error) from error
            return known
        if operation.error is not None:
            raise operation.error
        return await self._found(wanted.name) or _new(wanted)

    async def _found(self, name: QueuedName) -> QueuedResource | None:
        """Return the queued resource from the cloud's list, or None if it is not listed or the cloud does not respond.

        Call this after a request that the cloud may have accepted. It returns None if the list can't be read, because
        an error here would hide from the user that the resource may exist and cost money.
        """
        try:
            return (await self.list()).find(name)
        except CloudUnavailable:
            return None

    async def remove(self, name: QueuedName) -> QueuedResource:
        """Delete a queued resource with its node, even one not created by jupyter_tpu; return its new state.

        Raises:
            QueuedNotFound: there is no such queued resource.
            JournalUnwritable: the request can't be saved, so nothing was requested.
            CloudUnavailable, CloudRefused: the queued resource was not deleted, or no response confirms the deletion.
        """
        known = (await self.list()).find(name)
        if known is None:
            raise QueuedNotFound(
                Text(
                    "There is no queued resource {queued_resource} in {zone}.",
                    queued_resource=name.queued_id,
                    zone=name.zone,
                ),
                exists="Nothing was removed.",
                hint="`jupyter tpu queue` lists the queued resources.",
                actions=(show_queue(),),
            )
        if known.state == "DELETING":
            return known
        # write the audit log first: if that fails, don't delete anything
        reason = Text("The user deleted a queued resource that was {state}.", state=known.state)
        await self._note("unqueue", name, reason, nodes=[str(node) for node in known.nodes])
        try:
            # force: delete the nodes of the queued resource, too
            await self._cloud.delete_queued_resource(name, force=True)
        except (NodeNotFound, WrongState, CloudUnavailable):
            return await self._left_of(known)
        return await self._found(name) or replace(known, state="DELETING")

    async def _left_of(self, known: QueuedResource) -> QueuedResource:
        """Check a deletion with an unclear response: return the new state, or raise an error if nothing was deleted."""
        now = (await self.list()).find(known.name)
        if now is None or now.state == "DELETING":
            return now or replace(known, state="DELETING")
        raise CloudUnavailable(
            Text("The queued resource {queued_resource} was not deleted.", queued_resource=known.name.queued_id),
            exists=Text("The queued resource is {state} and counts towards your quota.", state=now.state),
            hint="Try again.",
        )

    async def _note(self, action: str, name: QueuedName, reason: str, **detail: object) -> None:
        entry = Entry(at=time.time(), action=action, subject=str(name), reason=reason, detail=detail)
        await asyncio.to_thread(self._audit.record, entry)


def _name_of(spec: NodeSpec) -> QueuedName:
    return QueuedName(project=spec.name.project, zone=spec.name.zone, queued_id=spec.name.node_id)


def _check_durations(valid_for_s: float, run_for_s: float | None) -> None:
    if not SHORTEST_S <= valid_for_s <= LONGEST_S:
        raise BadInput("A queued resource can wait from 1 minute to 30 days.", hint="Choose a time in this range.")
    if run_for_s is not None and not SHORTEST_S <= run_for_s <= LONGEST_RUN_S:
        raise BadInput("A flex-start node can run from 1 minute to 7 days.", hint="Choose a time in this range.")


def _with_model(spec: NodeSpec, run_for_s: float | None, reservation: str) -> NodeSpec:
    """Return the spec, with labels for flex-start if `run_for_s` is set; raises BadInput for contradictory options."""
    if reservation and not spec.reserved:
        raise BadInput(
            "Only a reserved node can use a reservation.",
            exists=_NOTHING,
            hint="Choose the provisioning model reserved, or omit the reservation.",
        )
    if reservation and not _RESERVATION_ID.fullmatch(reservation):
        raise BadInput(
            Text("{reservation} is not a valid reservation ID.", reservation=repr(reservation[:70])),
            exists=_NOTHING,
            hint="Use letters, digits and hyphens.",
        )
    if run_for_s is None:
        return spec
    # a time limit means flex-start, even if the spec says on-demand
    if spec.provisioning not in ("on-demand", "flex-start"):
        raise BadInput(
            Text("A flex-start node cannot also be a {provisioning} node.", provisioning=spec.provisioning),
            exists=_NOTHING,
            hint="Choose one of the two.",
        )
    return replace(spec, labels={**spec.labels, **FLEX_START_LABELS})


def _same_or_refused(known: QueuedResource | None, wanted: QueuedSpec) -> QueuedResource | None:
    """Return the queued resource with this name if it is the requested one; raises NodeExists if not."""
    if known is None:
        return None
    node = wanted.node
    # zone and ID are already equal; the user's other choices must be equal too
    is_same = (known.accelerator_type, known.runtime_version, known.provisioning) == (
        node.accelerator_type,
        node.runtime_version,
        node.provisioning,
    )
    # if the request is ours and still waiting or active, it was sent twice
    if is_same and known.intent_id and not known.is_leftover and known.state != "DELETING":
        return known
    raise NodeExists(
        Text(
            "The queued resource {queued_resource} already exists in {zone}.",
            queued_resource=known.name.queued_id,
            zone=known.name.zone,
        ),
        exists=Text("The queued resource is {state} and counts towards your quota.", state=known.state)
        if known.holds_quota
        else Text("The queued resource is {state}.", state=known.state),
        hint=Text(
            "Choose another name, or delete the existing one with `jupyter tpu queue remove {queued_resource} "
            "--zone {zone}`.",
            queued_resource=known.name.queued_id,
            zone=known.name.zone,
        ),
        actions=(show_queue(),),
    )


def _unsure(name: QueuedName, error: TpuError) -> TpuError:
    if isinstance(error, NodeExists):
        return error
    return CloudUnavailable(
        error.message,
        exists=Text(
            "{queued_resource} may be queued in {zone}, although it is not in the list.",
            queued_resource=name.queued_id,
            zone=name.zone,
        ),
        hint=Text("{hint} Check with `jupyter tpu queue` before you try again.", hint=error.hint)
        if error.hint
        else "Check with `jupyter tpu queue` before you try again.",
        raw=error.raw,
        actions=(show_queue(),),
    )


def _new(wanted: QueuedSpec) -> QueuedResource:
    """Return a queued resource that was just created, as it will appear in the cloud's list."""
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
