"""The fleet: the loop that performs intents and reconciles the cloud's nodes with the user's requests.

Start with `Fleet._run`, then follow one request from `Fleet.create`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Protocol

from jupyter_tpu.cloud.api import CloudApi
from jupyter_tpu.error_actions import delete_node
from jupyter_tpu.errors import CloudUnavailable, IntentNotFound, NodeNotFound, RateExceeded, Text, TpuError
from jupyter_tpu.fleet.reconciler import executor
from jupyter_tpu.fleet.reconciler.admission_check import AdmissionCheck
from jupyter_tpu.fleet.reconciler.availability import check_offered
from jupyter_tpu.fleet.reconciler.fleet_state import FleetState
from jupyter_tpu.fleet.reconciler.intent_runner import IntentRunner, RunnerContext
from jupyter_tpu.fleet.reconciler.new_intents import name_taken, new_create_intent, new_intent
from jupyter_tpu.fleet.reconciler.polling import Polling
from jupyter_tpu.fleet.reconciler.records import FleetChange, FleetSnapshot
from jupyter_tpu.journal import Journal
from jupyter_tpu.journal.recovery_store import Recoveries, entry_of
from jupyter_tpu.lifecycle import intent_texts
from jupyter_tpu.lifecycle.auto_recovery import turned_off_by_deletion
from jupyter_tpu.lifecycle.conflicts import settle_conflict
from jupyter_tpu.lifecycle.intent_events import Event, Resumed, Started
from jupyter_tpu.lifecycle.intents import Intent, Verb
from jupyter_tpu.lifecycle.time_limits import Limits
from jupyter_tpu.lifecycle.to_ready import BOOTING
from jupyter_tpu.models import NodeName, NodeSpec
from jupyter_tpu.node_end import EndCause

log = logging.getLogger(__name__)

# how long to show a failure that isn't dismissed: our choice
_SHOW_FAILED_S = 24 * 3600.0
# how long a user's request waits for an intent to notice a change in the list: our choice, long enough for another
# process to poll a few times
_NOTICED_WITHIN_S = 10.0
# the state of a node that may be stopped or started
_BEFORE = {"stop": "READY", "start": "STOPPED"}


async def _cancelled(tasks: set[asyncio.Task[None]]) -> None:
    """Cancel tasks repeatedly until they have finished, because a library that they call may swallow a cancellation."""
    while tasks:
        for task in tasks:
            task.cancel()
        _, tasks = await asyncio.wait(tasks, timeout=1)


def _ignore(_change: FleetChange) -> None:
    """Do nothing, for fleets without a listener."""


def _may_be_recreated(name: NodeName) -> NodeNotFound:
    return NodeNotFound(
        Text("There is no node named {node} at the moment.", node=name.node_id),
        exists="Auto-recovery is on for it and may recreate it.",
        hint=Text(
            "Delete it with {command}; this also turns auto-recovery off.",
            command=intent_texts.command("delete", name),
        ),
        actions=(delete_node(name),),
    )


class Controller(Protocol):
    """A component that the fleet's loop calls about once a second.

    Calls do not overlap. A call may await, and may change nodes through the fleet.
    """

    async def reconcile(self, fleet: Fleet, now: float) -> None:
        """Read `fleet.snapshot` and perform due actions; `now` is in Unix seconds.

        Raises:
            TpuError: the controller failed; the loop logs the error and calls the controller again in its next turn.
        """


class Fleet:
    """The nodes of a project.

    Args:
        cloud: the cloud with the nodes; the caller closes it.
        journal: the storage to which intents are written before their requests are sent; the caller closes it.
        ssh_user: login name on created nodes.
        public_key: OpenSSH public key line for this login.
        on_change: called in the event loop with each change; must not block.
        polling: the intervals at which the cloud is polled.
        controllers: called in each iteration of the loop, in this order.
        admission_checks: checks that may reject a request that costs money, each called before an intent is written.
        limits: time limits for the steps of an intent.
        clock: returns Unix seconds.
    """

    def __init__(
        self,
        cloud: CloudApi,
        journal: Journal,
        *,
        ssh_user: str,
        public_key: str,
        on_change: Callable[[FleetChange], None] = _ignore,
        polling: Polling | None = None,
        limits: Limits | None = None,
        controllers: Iterable[Controller] = (),
        admission_checks: Iterable[AdmissionCheck] = (),
        clock: executor.Clock = time.time,
    ) -> None:
        self._cloud = cloud
        self._journal = journal
        self._ssh_key = f"{ssh_user}:{public_key}"
        self._state = FleetState(on_change)
        self._polling = polling or Polling()
        self._clock = clock
        self._controllers = tuple(controllers)
        self._guards = tuple(admission_checks)
        self._context = RunnerContext(
            cloud=cloud,
            journal=journal,
            observer=self._state,
            limits=limits or Limits(),
            clock=clock,
            poll_s=self._polling.open_s,
        )
        self._runners: dict[str, IntentRunner] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        # allow only one request at a time per node, even if several intents change the node
        self._locks: defaultdict[NodeName, asyncio.Lock] = defaultdict(asyncio.Lock)
        # `refresh` may be called while the loop is listing or reconciling
        self._listing = asyncio.Lock()
        self._reconciling = asyncio.Lock()
        self._loop: asyncio.Task[None] | None = None
        self._closed = False

    async def start(self) -> None:
        """Start polling, and claim open intents whose process has exited. Returns immediately; never raises."""
        self._loop = asyncio.create_task(self._run(), name="jupyter_tpu fleet")

    async def close(self) -> None:
        """Stop the loop; open intents remain in the journal for the next process to claim."""
        self._closed = True
        performed = list(self._tasks)
        await _cancelled({task for task in (self._loop, *self._tasks.values()) if task})
        with contextlib.suppress(TpuError):
            # release the intents now, so that the next process need not wait until this process exits
            await asyncio.to_thread(self._release, performed)
        self._state.wake_waiting()

    def _release(self, intent_ids: list[str]) -> None:
        for intent_id in intent_ids:
            self._journal.release(intent_id)

    def snapshot(self) -> FleetSnapshot:
        """Return the last known state of the fleet; never waits."""
        from_guards = (notice for guard in self._guards for notice in guard.notices)
        wrong_clock = filter(None, [self._cloud.clock.notice])
        return self._state.snapshot((*self._journal.notices, *wrong_clock, *from_guards), self._cloud.clock.ahead_at)

    async def refresh(self) -> FleetSnapshot:
        """Poll now. A failure is in `FleetSnapshot.error`, not raised."""
        await self._reconcile()
        await self._list_nodes()
        return self.snapshot()

    async def check_offered(self, spec: NodeSpec) -> None:
        """Check whether the cloud offers a node with these properties; call this before `check_spending`.

        Raises:
            BadInput: the zone, accelerator type or runtime version is not offered; the hint lists the offers.
            CloudUnavailable, CloudRefused: the cloud did not return its offers.
        """
        await check_offered(self._cloud, spec)

    async def check_spending(self, spec: NodeSpec, *, accept_unknown_price: bool = False) -> None:
        """Check whether the budgets allow a node with these properties, for callers that don't use `create`.

        Raises:
            BudgetExceeded: a budget is used up.
            BadInput: there is a budget, no grant covers the node, its price is unknown, and `accept_unknown_price` is
                false.
            JournalUnwritable: a budget can't be read.
        """
        for guard in self._guards:
            await guard.check_create(spec, accept_unknown_price=accept_unknown_price)

    def equipped(self, spec: NodeSpec) -> NodeSpec:
        """Return the spec with jupyter_tpu's label and the login key, for callers that don't use `create`."""
        settings = self._cloud.settings
        wanted = new_create_intent(spec, ssh_key=self._ssh_key, endpoint=settings.endpoint, now=self._clock())
        return wanted.spec or spec

    async def create(self, spec: NodeSpec, *, accept_unknown_price: bool = False) -> Intent:
        """Record an intent to create a node and start to perform it; return before the cloud has responded.

        A second call for the same node returns the first intent while it is open.

        Raises:
            BudgetExceeded: a budget is used up; see `check_spending` for other errors from budgets.
            BadInput: the zone, accelerator type or runtime version is not offered; the hint lists the offers.
            NodeExists: the name is taken.
            JournalUnwritable: the intent can't be saved, so nothing was requested.
            CloudUnavailable, CloudRefused: the cloud did not return its offers.
        """
        endpoint = self._cloud.settings.endpoint
        wanted = new_create_intent(spec, ssh_key=self._ssh_key, endpoint=endpoint, now=self._clock())
        known = await self._known(wanted)
        if known is wanted:
            # check the type before the budget: the price of a wrong type is unknown, and that error wouldn't help
            await self.check_offered(spec)
            await self.check_spending(spec, accept_unknown_price=accept_unknown_price)
            known = await self._unless_taken(wanted)
        return await self._begin(wanted) if known is wanted else known

    async def delete(self, name: NodeName, *, because: EndCause | None = None) -> Intent:
        """Begin deleting a node, even one not created by jupyter_tpu; cancel all other open intents for it.

        Args:
            because: reason shown to the users of the node's kernels; None if the user requested the deletion.

        Raises:
            NodeNotFound: there is no such node, and none is being created or recreated.
            JournalUnwritable: the intent can't be saved, so nothing was requested.
        """
        return await self._begin_on_node("delete", name, because)

    async def stop(self, name: NodeName, *, because: EndCause | None = None) -> Intent:
        """Begin stopping a node; `because` is described in `delete`.

        Raises:
            NodeNotFound: there is no such node.
            WrongState: another intent is changing the node.
            JournalUnwritable: the intent can't be saved, so nothing was requested.
        """
        if because is None:  # auto-stop and budgets need not wait, because they repeat their request in the next pass
            await self._until_noticed("stop", name)
        return await self._begin_on_node("stop", name, because)

    async def start_node(self, name: NodeName) -> Intent:
        """Request the start of a stopped node; raises the same errors as `stop`.

        Raises:
            BudgetExceeded: a budget is used up.
        """
        for guard in self._guards:
            await guard.check_start(name)
        await self._until_noticed("start", name)
        return await self._begin_on_node("start", name)

    async def wait(self, intent_id: str) -> Intent:
        """Wait until an intent has finished: done (`Intent.succeeded`) or failed (`Intent.error`).

        If the fleet is closed while waiting, return the intent in its current phase.

        Raises:
            NodeNotFound: there is no intent with this id.
        """
        while True:
            # get the event before reading, so that no change in between is missed
            news = self._state.intent_moved
            intent = await self.intent(intent_id)
            if intent is None:
                raise NodeNotFound(Text("There is no request {intent}.", intent=repr(intent_id[:70])))
            if intent.settled or self._closed:
                return intent
            await news.wait()

    async def intent(self, intent_id: str) -> Intent | None:
        """Return an intent by its id, open or finished; None if this cloud has none with this id."""
        shown = self._state.intents.get(intent_id)
        found = shown or await asyncio.to_thread(self._journal.find, intent_id)
        return found if found and found.endpoint == self._cloud.settings.endpoint else None

    async def dismiss(self, intent_id: str) -> None:
        """Hide a failed intent from the lists.

        Raises:
            IntentNotFound: there is no such intent.
            WrongState: the intent is open.
        """
        if await self.intent(intent_id) is None:
            raise IntentNotFound("There is no such request.", hint="The list of nodes shows all requests.")
        await asyncio.to_thread(self._journal.dismiss, intent_id)
        self._state.intents.pop(intent_id, None)

    def notify(self, change: FleetChange) -> None:
        """Notify the listener of a change made by a controller."""
        self._state.notify(change)

    # -- intents

    async def _known(self, wanted: Intent) -> Intent:
        """Return an open intent that is equivalent to `wanted`, or else `wanted`; raises as `settle_conflict` does."""
        return settle_conflict(await self._listed(self._clock()), wanted)

    async def _listed(self, failed_since: float) -> tuple[Intent, ...]:
        """Return the intents that the journal lists for this cloud."""
        settings = self._cloud.settings
        return await asyncio.to_thread(
            self._journal.listed, failed_since, endpoint=settings.endpoint, project=settings.project
        )

    async def _unless_taken(self, wanted: Intent) -> Intent:
        """Return `wanted` if the node is new, or the intent that created it; raise `NodeExists` if no intent did."""
        try:
            node = await self._cloud.get_node(wanted.node_name)
        except NodeNotFound:
            return wanted
        known = await self._known(wanted)
        if known is not wanted:
            return known
        raise name_taken(node)

    async def _begin_on_node(self, verb: Verb, name: NodeName, because: EndCause | None = None) -> Intent:
        endpoint, now = self._cloud.settings.endpoint, self._clock()
        wanted = new_intent(verb, name, endpoint=endpoint, now=now, because=because)
        listed = [await self._caught_up(each) for each in await self._listed(self._clock())]
        known = settle_conflict(listed, wanted)
        if known is not wanted:
            return known
        # without an open intent, the node must exist; a node in creation may not be listed yet
        open_intents = (each for each in (*listed, *self._state.intents.values()) if not each.settled)
        if all(each.node_name != name for each in open_intents):
            await self._require_node(verb, name)
        return await self._begin(wanted)

    async def _require_node(self, verb: Verb, name: NodeName) -> None:
        """Read the node; raises as `CloudApi.get_node` does, but a node that would be recreated may be deleted."""
        requested = self._cloud.clock.steady()
        try:
            node = await self._cloud.get_node(name)
        except (CloudUnavailable, RateExceeded):
            # send and retry a stop or deletion even if the cloud lists the node but refuses to read it
            if verb == "start" or self._state.node_cache.get(name) is None:
                raise
        except NodeNotFound:
            recoveries = Recoveries(self._journal, endpoint=self._cloud.settings.endpoint, project=name.project)
            recovery = await asyncio.to_thread(recoveries.get, name)
            if recovery is None or not recovery.is_on or recovery.phase == "given_up":
                raise
            if verb != "delete":
                raise _may_be_recreated(name) from None
            # an attempt in progress is cancelled by the controller that began it
            if recovery.phase != "making":
                now = self._clock()
                off = turned_off_by_deletion(recovery, now)
                await asyncio.to_thread(recoveries.swap, recovery, off, (entry_of(off, now),), now=now)
        else:
            self._state.node_seen(node, self._cloud.clock.moment(requested))

    async def _until_noticed(self, verb: Verb, name: NodeName) -> None:
        """If the node is already READY (or STOPPED, for a start), wait until its earlier intents have noticed this.

        Otherwise they would block the new intent. Nodes and intents are polled at different times, so a user may see
        READY and stop the node before its create intent has finished.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_NOTICED_WITHIN_S):
                while self._is_unnoticed(verb, name):
                    news = self._state.intent_moved
                    self._wake_runners_of(name)
                    await news.wait()

    def _is_unnoticed(self, verb: Verb, name: NodeName) -> bool:
        node = self._state.node_cache.get(name)
        if node is None or node.state != _BEFORE[verb]:
            return False
        others = (each for each in self._state.intents.values() if each.node_name == name and not each.settled)
        # a stop overrides an intent whose node is booting
        return any(each.verb not in (verb, "delete") and (verb, each.phase) != ("stop", BOOTING) for each in others)

    async def _caught_up(self, listed: Intent) -> Intent:
        """Store progress that couldn't be stored while the disk was full. The old state would block the new intent."""
        known = self._state.intents.get(listed.intent_id)
        if known is None or listed.owner != self._journal.owner or known.updated_at <= listed.updated_at:
            return listed
        await asyncio.to_thread(self._journal.save, known)
        return known

    async def _begin(self, wanted: Intent) -> Intent:
        # the journal checks again, because another process may have just started the same intent
        chosen = await asyncio.to_thread(self._journal.begin, wanted)
        if chosen.intent_id == wanted.intent_id:
            self._state.intent_changed(chosen)
            self._run_intent(chosen, Started(at=self._clock()))
            # runners of overridden intents stop at once
            self._wake_runners_of(chosen.node_name)
        return chosen

    # -- runners

    def _run_intent(self, intent: Intent, first: Event) -> None:
        if self._closed:
            return
        runner = IntentRunner(self._context, intent, self._locks[intent.node_name])
        task = asyncio.create_task(runner.run(first), name=f"jupyter_tpu {intent.verb} {intent.node_name.node_id}")
        self._runners[intent.intent_id] = runner
        self._tasks[intent.intent_id] = task
        task.add_done_callback(lambda _: self._runner_done(intent.intent_id))

    def _runner_done(self, intent_id: str) -> None:
        self._runners.pop(intent_id, None)
        self._tasks.pop(intent_id, None)

    def _wake_runners_of(self, name: NodeName) -> None:
        for intent_id, runner in self._runners.items():
            if self._state.intents[intent_id].node_name == name:
                runner.wake()

    # -- the loop

    async def _run(self) -> None:
        seconds, listed_at = asyncio.get_running_loop().time, float("-inf")
        while True:
            try:
                await self._reconcile()
                if self._state.due.is_set() or seconds() - listed_at >= self._list_every_s():
                    self._state.due.clear()
                    await self._list_nodes()
                    listed_at = seconds()
            except Exception:  # the loop must survive a bug, because it enforces the budgets
                log.exception("A poll of the nodes failed")
            await self._run_controllers()
            await self._pause()

    async def _run_controllers(self) -> None:
        """Call the controllers; a failure in one controller does not affect the others."""
        for controller in self._controllers:
            try:
                await controller.reconcile(self, self._clock())
            except TpuError as error:
                log.warning("%s: %s", type(controller).__name__, error)
            except Exception:
                log.exception("%s failed", type(controller).__name__)

    def _list_every_s(self) -> float:
        """Return the seconds between two list requests; the interval is shorter while another process changes nodes."""
        others = [
            each for each in self._state.intents.values() if not each.settled and each.intent_id not in self._tasks
        ]
        # the interval is in the cloud's time, which determines billing: changes between two lists are unmonitored, and
        # an emulated cloud's time may run faster
        return self._polling.open_s if others else self._cloud.clock.real_s(self._polling.idle_s)

    async def _pause(self) -> None:
        # don't use wait_for, which may suppress a cancellation before Python 3.12
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._polling.open_s):
                await self._state.due.wait()

    async def _list_nodes(self) -> None:
        async with self._listing:
            # the list has the time of its request, so a node read in the meantime is newer
            requested = self._cloud.clock.steady()
            failing = self._state.node_cache.error is not None
            try:
                listed = await self._cloud.list_nodes()
            except TpuError as error:
                if self._state.node_cache.record_failure(error):
                    self._state.notify(FleetChange(kind="list", message=error.message, error_code=error.code))
                return
            self._state.nodes_changed(
                self._state.node_cache.merge_list(listed, asked=self._cloud.clock.moment(requested))
            )
            if failing:
                self._state.notify(FleetChange(kind="list"))

    async def _reconcile(self) -> None:
        """Read changes by other processes, and claim intents whose process has exited."""
        async with self._reconciling:
            try:
                listed = await self._listed(self._clock() - _SHOW_FAILED_S)
                for intent in listed:
                    await self._adopt(intent)
                await self._forget_all_but(listed)
            except TpuError as error:
                log.debug("The journal cannot be read: %s", error)

    async def _forget_all_but(self, listed: tuple[Intent, ...]) -> None:
        """Drop intents that are no longer listed; notify listeners of intents that another process finished."""
        shown = {intent.intent_id for intent in listed}
        for intent_id in [each for each in self._state.intents if each not in shown and each not in self._tasks]:
            over = self._state.intents.pop(intent_id)
            ended = None if over.settled else await asyncio.to_thread(self._journal.find, intent_id)
            if ended is not None and ended.settled:
                self._state.intent_changed(ended)
            self._state.wake_waiting()

    async def _adopt(self, intent: Intent) -> None:
        if intent.intent_id in self._tasks:
            return
        known = self._state.intents.get(intent.intent_id)
        # this intent is ours but has no runner: it has ended, but the journal could not be written at that time
        if intent.owner == self._journal.owner and not intent.settled:
            await self._write_late(known)
            return
        claimed = None if intent.settled else await asyncio.to_thread(self._journal.claim, intent.intent_id)
        if claimed is not None:
            self._state.intent_changed(claimed)
            self._run_intent(claimed, Resumed(at=self._clock()))
        elif known != intent:
            self._state.intent_changed(intent)

    async def _write_late(self, known: Intent | None) -> None:
        """Write an intent that finished while the journal could not be written."""
        if known is not None and known.settled:
            await asyncio.to_thread(self._journal.save, known)
