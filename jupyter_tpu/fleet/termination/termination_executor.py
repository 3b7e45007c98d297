"""Stop and delete nodes and queued resources; add each result to the audit log."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from jupyter_tpu.errors import (
    CloudUnavailable,
    JournalUnwritable,
    NodeNotFound,
    RateExceeded,
    Text,
    TpuError,
    WrongState,
)
from jupyter_tpu.fleet.reconciler.new_intents import new_intent
from jupyter_tpu.fleet.termination.stop_refusals import (
    LAST_RESORT_OF_STOP_ALL_S,
    EndRequest,
    is_permanent,
    is_temporary,
)
from jupyter_tpu.journal.audit import Audit, Entry
from jupyter_tpu.lifecycle.intents import Intent, Verb
from jupyter_tpu.lifecycle.time_limits import Limits
from jupyter_tpu.lifecycle.to_ready import BOOTING
from jupyter_tpu.lifecycle.to_stopped import BEFORE_READY, WAITING
from jupyter_tpu.models import NodeName, Operation, QueuedName
from jupyter_tpu.money.quota import Kind
from jupyter_tpu.node_end import EndCause

if TYPE_CHECKING:
    from jupyter_tpu.cloud.api import CloudApi
    from jupyter_tpu.fleet.reconciler.fleet import Fleet
    from jupyter_tpu.journal import Journal

log = logging.getLogger(__name__)

# our choice: maximum number of concurrent requests
_AT_A_TIME = 16
ACCEPTED_S = 45.0
"""Seconds until an unaccepted request is reported as failed: our choice, because the user is waiting."""

_BEING_STARTED = Text("The node is being started. It is stopped as soon as it is READY.")
_OPERATION_POLL_S = 1.0
# our choice: stop waiting for an accepted operation after this time
_OPERATION_TIMEOUT_S = 120.0


class Opened(Protocol):
    """The part of an `OpenFleet` that this module uses."""

    @property
    def fleet(self) -> Fleet:
        """The fleet that performs the intents."""

    @property
    def cloud(self) -> CloudApi:
        """The client of the cloud. It is called without an intent for queued resources and when the disk is full."""

    @property
    def journal(self) -> Journal:
        """The journal with the audit log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of stopping or deleting one item.

    Attributes:
        action: the action, as in the audit log; empty if none was possible. ``wait`` is a stop that waits for the end
            of a start; another result follows.
        error: why the action failed; None if it was done, or was started and not rejected.
        why: why the item was deleted instead of stopped, or what a stop waits for; otherwise empty.
    """

    name: str
    action: str = ""
    error: TpuError | None = None
    why: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON, for the REST API and the CLI."""
        return {"name": self.name, "ok": self.error is None, "error": self.error.to_json() if self.error else None}


def ignore_result(result: Result) -> None:
    """Do nothing with a result. Callers that only wait for the end pass this as `on_result`."""


class TerminationExecutor:
    """Stops and deletes resources, and adds the results to the audit log. A failure does not affect the others.

    Args:
        reason: why the resources are stopped or deleted, for the audit log.
        because: reason shown to the users of a node's kernels; None if the user requested it.
        wait: whether to wait until a resource is stopped or deleted, not only until the cloud has accepted the request.
        on_result: called with each result as it arrives.
        accepted_s: timeout for the cloud to accept each request, in seconds.
        refused_s: how long a rejected stop is retried before the node is deleted with its disk, in seconds.
    """

    def __init__(
        self,
        opened: Opened,
        *,
        reason: str,
        because: EndCause | None = None,
        wait: bool,
        on_result: Callable[[Result], None] = ignore_result,
        accepted_s: float = ACCEPTED_S,
        refused_s: float = LAST_RESORT_OF_STOP_ALL_S,
    ) -> None:
        self._on_result = on_result
        self._refused_s = refused_s
        self._accepted_s = accepted_s
        self._fleet = opened.fleet
        self._cloud = opened.cloud
        self._reason = reason
        self._because = because
        self._wait = wait
        settings = opened.cloud.settings
        self._audit = Audit(opened.journal, endpoint=settings.endpoint, project=settings.project)
        self._direct = DirectEnds(opened.cloud, opened.journal)
        self._room = asyncio.Semaphore(_AT_A_TIME)

    async def each(self, works: Iterable[Awaitable[Result]]) -> tuple[Result, ...]:
        """Await the awaitables, only a few at a time, and return their results in the same order."""

        async def one(work: Awaitable[Result]) -> Result:
            async with self._room:
                result = await work
            self._on_result(result)
            return result

        return tuple(await asyncio.gather(*(one(work) for work in works)))

    async def delete(self, kind: Kind, name: str, nodes: Iterable[NodeName] = ()) -> Result:
        """Delete a node, or a queued resource with its `nodes`; the audit log lists these nodes."""
        if kind == "node":
            return Result(name=name, action="delete", error=await self._attempt("delete", kind, name))
        # log before the request, as for an intent: when the nodes are deleted, the log must already contain the user's
        # request
        await self._log("delete", name, {"nodes": [str(node) for node in nodes]})
        error = await _error_of(self._perform("delete", kind, name))
        if error:
            await self._log("delete", name, {"error": error.to_json()})
        return Result(name=name, action="delete", error=error)

    async def stop(self, name: str) -> Result:
        """Stop a node; delete it if the cloud can't stop it or keeps rejecting the request.

        Never deletes after a timeout or a rate-limit error: neither means that the node can't be stopped, and deletion
        loses its disk. For the same reason, waits for the end of a start, which is also a result.
        """
        await self._until_started(name)
        error = await self._attempt("stop", "node", name)
        # repeat the request before deleting the node: most refusals are temporary, and a deletion loses the disk
        waits_s = self._waits()
        while error and _is_worth_repeating(error) and (wait_s := next(waits_s, None)) is not None:
            await asyncio.sleep(wait_s)
            await self._until_started(name)
            error = await self._attempt("stop", "node", name)
        if error is None:
            return Result(name=name, action="stop")
        if not (is_permanent(error) or is_temporary(error)):
            return Result(name=name, error=error)
        why = Text(
            "The node was deleted with its disk, because the cloud refused to stop it: {reason}", reason=error.message
        )
        return replace(await self.delete("node", name), why=why)

    async def _until_started(self, name: str) -> None:
        """Wait until a node that is being started can be stopped, but not longer than a start may take."""
        if self._is_being_started(name):
            self._on_result(Result(name=name, action="wait", why=_BEING_STARTED))
        for _ in range(round(Limits().create_s / _OPERATION_POLL_S)):
            if not self._is_being_started(name):
                return
            await asyncio.sleep(_OPERATION_POLL_S)

    def _is_being_started(self, name: str) -> bool:
        snapshot = self._fleet.snapshot()
        if any(str(node.name) == name and node.state in BEFORE_READY for node in snapshot.nodes):
            return True
        starts = (each for each in snapshot.intents if each.verb == "start" and not each.settled)
        # while its workers boot, the node is READY
        return any(str(each.node_name) == name and each.phase != BOOTING for each in starts)

    def _waits(self) -> Iterator[float]:
        """Yield the delays before each retry of a request: 2 s, doubling up to 30 s, in total at most `refused_s`."""
        wait_s, left_s = 2.0, self._refused_s
        while left_s > 0:
            yield min(wait_s, left_s)
            left_s -= wait_s
            wait_s = min(2 * wait_s, 30.0)

    async def done(self, action: str, name: str, work: Awaitable[object]) -> Result:
        """Await `work`, which performs an action; add its result to the audit log and return the result."""
        result = Result(name=name, action=action, error=await self._logged(action, name, work))
        self._on_result(result)
        return result

    async def _attempt(self, verb: Verb, kind: Kind, name: str) -> TpuError | None:
        return await self._logged(verb, name, self._perform(verb, kind, name))

    async def _logged(self, action: str, name: str, work: Awaitable[object]) -> TpuError | None:
        error = await _error_of(work)
        await self._log(action, name, {"error": error.to_json()} if error else {})
        return error

    async def _log(self, action: str, subject: str, detail: dict[str, Any]) -> None:
        """Add an entry to the audit log, or queue the entry if the disk is full.

        A full disk must not prevent a stop or deletion.
        """
        entry = Entry(at=time.time(), action=action, subject=subject, reason=self._reason, detail=detail)
        try:
            await asyncio.to_thread(self._audit.record, entry)
        except JournalUnwritable:
            self._audit.record_later(entry)

    async def _perform(self, verb: Verb, kind: Kind, name: str) -> None:
        if kind == "queued_resource":
            await self._delete_queued(QueuedName.parse(name))
            return
        node = NodeName.parse(name)
        try:
            end = self._fleet.stop if verb == "stop" else self._fleet.delete
            intent = await end(node, because=self._because)
        except JournalUnwritable:  # a full disk must not keep a node billed
            await self._direct.end(verb, node, because=self._because, wait=self._wait)
            return
        if self._wait:
            await self._until_ended(intent)

    async def _until_ended(self, intent: Intent) -> None:
        """Wait until the intent has finished. After the cloud has accepted the request, wait only for a limited time.

        Raises:
            TpuError: the intent failed, or the cloud has not accepted it.
        """
        # first wait until the request is accepted: until then, it is unknown whether the node will be deleted
        try:
            async with asyncio.timeout(self._accepted_s):
                _check(await self._fleet.wait(intent.intent_id))
                return
        except TimeoutError:
            now = await self._fleet.intent(intent.intent_id) or intent
        if now.phase == WAITING:  # for the end of a start, which has a limit of its own
            _check(await self._fleet.wait(intent.intent_id))
            return
        if not (now.operation or now.may_appear):  # another process is creating the node, so wait for the node
            if now.cause is not None and _is_worth_repeating(now.cause):
                raise now.cause
            raise CloudUnavailable(
                Text(
                    "The cloud did not accept the request to {verb} {node} within {seconds} s.",
                    verb=intent.verb,
                    node=intent.node_name.node_id,
                    seconds=round(self._accepted_s),
                ),
                exists="The node may still be running and billed.",
                hint="Try again, or delete the node in the Google Cloud console.",
            )
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_OPERATION_TIMEOUT_S):
                _check(await self._fleet.wait(intent.intent_id))

    async def _delete_queued(self, name: QueuedName) -> None:
        try:
            operation = await self._cloud.delete_queued_resource(name, force=True)
            if self._wait:
                await _until_done(self._cloud, operation)
        except (CloudUnavailable, WrongState):  # the deletion may be under way
            # check in the list whether the deletion took effect
            listed = await self._cloud.list_queued_resources(name.zone)
            if any(each.name == name and each.state != "DELETING" for each in listed.items):
                raise


async def end_directly(cloud: CloudApi, verb: str, node: NodeName, *, wait: bool = True) -> None:
    """Stop or delete a node without the journal, so that a full disk does not keep a node billed.

    If `wait` is set, wait up to 2 min for the operation.

    Raises:
        TpuError: the cloud rejected the request, or the operation failed.
    """
    operation = await (cloud.stop_node(node) if verb == "stop" else cloud.delete_node(node))
    if wait:
        await _until_done(cloud, operation)


class DirectEnds:
    """Stops and deletes nodes while the journal can't be written, and writes the intents later."""

    def __init__(self, cloud: CloudApi, journal: Journal) -> None:
        settings = cloud.settings
        self._cloud = cloud
        self._journal = journal
        self._audit = Audit(journal, endpoint=settings.endpoint, project=settings.project)

    async def end(self, verb: Verb, node: NodeName, *, because: EndCause | None = None, wait: bool = False) -> Intent:
        """Stop or delete a node as `end_directly` does. Return an intent for display only; the fleet does not run it.

        Raises:
            TpuError: see `end_directly`.
        """
        intent = new_intent(verb, node, endpoint=self._cloud.settings.endpoint, now=time.time(), because=because)
        await end_directly(self._cloud, verb, node, wait=wait)
        sent = replace(intent, phase="stopping" if verb == "stop" else "deleting", settled=True)
        self._journal.save_later(sent)
        return sent

    async def request(
        self, verb: Verb, node: NodeName, asked: EndRequest, at: float, *, because: EndCause, reason: str
    ) -> EndRequest:
        """Stop or delete a node for auto-stop or a budget; return the updated record of requests.

        Args:
            at: time of the request, by the same clock as `asked`.
            reason: for the audit log.
        """
        log.warning("The journal cannot be written. Asking the cloud to %s %s without it.", verb, node)
        asked = replace(asked, intent_id="", at=at, times=asked.times + 1)
        try:
            await self.end(verb, node, because=because)
        except TpuError as error:
            log.warning("The cloud did not %s %s: %s", verb, node, error)
            return asked.refused(verb, error)
        self._audit.record_later(Entry(at=time.time(), action=verb, subject=str(node), reason=reason))
        return replace(asked, refused_since=None)


async def _error_of(work: Awaitable[object]) -> TpuError | None:
    try:
        await work
    except NodeNotFound:
        return None  # the item has already been deleted
    except TpuError as refusal:
        return refusal
    return None


async def _until_done(cloud: CloudApi, operation: Operation) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_OPERATION_TIMEOUT_S):
            while not operation.done:
                await asyncio.sleep(_OPERATION_POLL_S)
                operation = await cloud.get_operation(operation.name)
    if operation.error:
        raise operation.error


def _is_worth_repeating(error: TpuError) -> bool:
    return is_temporary(error) or isinstance(error, RateExceeded)


def _check(intent: Intent) -> None:
    if intent.settled and intent.error:
        raise intent.error
