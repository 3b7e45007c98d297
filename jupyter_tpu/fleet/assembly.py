"""Assemble a fleet from the cloud, the journal and the SSH key: once for a server, or for each CLI command.

Imports are inside the functions, because neither the start of a Jupyter server nor a command that only lists nodes
should wait for Google's client and asyncssh.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_tpu.cloud.settings import CloudSettings
from jupyter_tpu.errors import TpuError

if TYPE_CHECKING:
    from jupyter_tpu.cloud.api import CloudApi
    from jupyter_tpu.fleet import Fleet, FleetChange
    from jupyter_tpu.fleet.agents import Agents
    from jupyter_tpu.fleet.autostop.controller import AutostopController
    from jupyter_tpu.fleet.autostop.snapshot_publisher import SnapshotPublisher
    from jupyter_tpu.fleet.capacity.queued_resources import Queue
    from jupyter_tpu.fleet.capacity.search_service import SearchService
    from jupyter_tpu.fleet.reconciler.fleet import Controller
    from jupyter_tpu.fleet.spend.price_updater import PriceUpdater
    from jupyter_tpu.journal import Journal
    from jupyter_tpu.lifecycle.time_limits import Limits
    from jupyter_tpu.models import NodeName, NodeSpec

OnChange = Callable[["FleetChange"], None]


def _ignore(change: FleetChange) -> None:
    """Ignore a change, for callers that only wait for results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFleet:
    """A running fleet with its cloud, journal and services."""

    fleet: Fleet
    cloud: CloudApi
    journal: Journal
    searches: SearchService
    queue: Queue
    autostop: AutostopController

    @property
    def settings(self) -> CloudSettings:
        """Return the cloud's settings, with the project filled in."""
        return self.cloud.settings


@asynccontextmanager
async def open_cloud(settings: CloudSettings) -> AsyncIterator[CloudApi]:
    """Connect to the cloud for the duration of the context.

    Raises:
        CredentialsMissing: there are no Google credentials.
    """
    from jupyter_tpu.cloud.connect import connect_cloud

    cloud = await connect_cloud(settings)
    try:
        yield cloud
    finally:
        await cloud.aclose()


@asynccontextmanager
async def open_fleet(
    settings: CloudSettings,
    *,
    ssh_user: str = "",
    on_change: OnChange = _ignore,
    limits: Limits | None = None,
    agents: Agents | None = None,
) -> AsyncIterator[OpenFleet]:
    """Run a fleet in the context; intents that are still open at the end remain in the journal for the next process.

    If the journal or the SSH key is unusable, no node can be created, but nodes can be listed, and
    `jupyter_tpu.fleet.termination.termination_executor` can stop or delete them.

    Args:
        ssh_user: login name on new nodes; if empty, the name is derived from the local user.
        agents: access to the agents, for a process that has links to them.

    Raises:
        BadInput: `ssh_user` is not a valid login name.
        CredentialsMissing: there are no Google credentials.
    """
    from jupyter_tpu.fleet.autostop.controller import AutostopController
    from jupyter_tpu.fleet.autostop.snapshot_publisher import SnapshotPublisher
    from jupyter_tpu.fleet.capacity.queued_resources import Queue
    from jupyter_tpu.fleet.capacity.search_service import SearchService

    async with AsyncExitStack() as stack:
        cloud = await stack.enter_async_context(open_cloud(settings))
        # load the prices first, because budgets and offers need them
        if not _is_trial(cloud.settings):
            stack.callback((await asyncio.to_thread(_pricing, cloud)).close)
        # load the key before opening the journal: if loading the key fails, for example on a full disk, there is
        # nothing to close
        key = await asyncio.to_thread(_Key.of_user)
        journal = await asyncio.to_thread(_open_journal, cloud, stack)
        braking = AutostopController(cloud, journal, agents, login_key=key.public_line)
        publisher = SnapshotPublisher(cloud, journal, agents)
        stack.push_async_callback(publisher.close)
        fleet = await asyncio.to_thread(
            _assembled, cloud, journal, key, ssh_user, on_change, limits, braking, publisher
        )
        # these are closed in reverse order, so the loop ends before the journal and the cloud that it uses
        stack.push_async_callback(fleet.close)
        await fleet.start()
        searches, queue = SearchService(cloud, journal), Queue(fleet, cloud, journal)
        yield OpenFleet(fleet=fleet, cloud=cloud, journal=journal, searches=searches, queue=queue, autostop=braking)


def _is_trial(settings: CloudSettings) -> bool:
    """Return whether this cloud is the emulated cloud that a user runs in addition to a real cloud.

    If so, the real cloud's prices apply to the whole process.
    """
    from jupyter_tpu.journal.paths import trial_endpoint

    return bool(settings.endpoint) and settings.endpoint == trial_endpoint()


def _pricing(cloud: CloudApi) -> PriceUpdater:
    """Apply the stored list prices and update them in the background."""
    from jupyter_tpu.fleet.spend.price_updater import PriceUpdater

    pricing = PriceUpdater.of_user(cloud.settings)
    pricing.apply_stored(time.time())
    pricing.start()
    return pricing


@dataclass(frozen=True, slots=True)
class _Key:
    """The user's SSH key, or the reason why there is none; implements `AdmissionCheck`."""

    public_line: str = ""
    problem: TpuError | None = None

    @classmethod
    def of_user(cls) -> _Key:
        """Read or create the user's key. Never raises, because some actions, such as deleting a node, need no key."""
        from jupyter_tpu.journal import data_dir
        from jupyter_tpu.ssh.keys import UserKey

        try:
            return cls(public_line=UserKey.load_or_create(data_dir() / "ssh").public_line)
        except TpuError as problem:
            return cls(problem=problem)

    @property
    def notices(self) -> tuple[str, ...]:
        """Return why there is no SSH key, or an empty tuple if there is a key."""
        return (self.problem.message,) if self.problem else ()

    async def check_create(self, spec: NodeSpec, *, accept_unknown_price: bool) -> None:  # noqa: ARG002 - the protocol
        """Raise an error if there is no SSH key, because nobody could log in to the new node."""
        if self.problem is not None:
            raise self.problem

    async def check_start(self, name: NodeName) -> None:
        """Allow the start, because the key was added to the node when it was created."""


def _open_journal(cloud: CloudApi, stack: AsyncExitStack) -> Journal:
    from jupyter_tpu.fleet.capacity.search_controller import release_searches
    from jupyter_tpu.journal import Journal

    journal = Journal.of_user(cloud.settings.endpoint)
    stack.callback(journal.close)
    stack.callback(release_searches, cloud, journal)
    return journal


def _assembled(
    cloud: CloudApi,
    journal: Journal,
    key: _Key,
    ssh_user: str,
    on_change: OnChange,
    limits: Limits | None,
    braking: AutostopController,
    publisher: SnapshotPublisher,
) -> Fleet:
    """Build the fleet. Call this in a thread, because it reads and writes files."""
    from jupyter_tpu.fleet.reconciler.fleet import Fleet
    from jupyter_tpu.fleet.spend.enforcer import BudgetEnforcer
    from jupyter_tpu.ssh.keys import login_name

    user = login_name(ssh_user)
    enforcer = BudgetEnforcer(cloud, journal, checkpoint_hooks=braking.checkpoint_hooks)
    return Fleet(
        cloud,
        journal,
        ssh_user=user,
        public_key=key.public_line,
        on_change=on_change,
        limits=limits,
        # the enforcer runs first: the ledger must be current before other controllers decide about money
        controllers=(enforcer, braking, *_controllers(cloud, journal, key), publisher),
        admission_checks=(enforcer, key),
    )


def _controllers(cloud: CloudApi, journal: Journal, key: _Key) -> tuple[Controller, ...]:
    """Return the controllers that run after budgets and auto-stop, in order."""
    from jupyter_tpu.fleet.autostop.external_deletions import ExternalDeletions
    from jupyter_tpu.fleet.capacity.recreate import RecreateController
    from jupyter_tpu.fleet.capacity.search_controller import SearchController

    return (
        ExternalDeletions(cloud, journal, key.public_line),
        RecreateController(cloud, journal),
        SearchController(cloud, journal),
    )
