"""Put a fleet together: cloud, journal, SSH key. The server does it lazily; each CLI command for itself.

Imports happen inside: a Jupyter server must not wait for Google's client and asyncssh at its start, nor a command that
only lists nodes for the fleet.
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
    from jupyter_tpu.fleet.spend.prices import Pricing
    from jupyter_tpu.journal import Journal
    from jupyter_tpu.lifecycle.limits import Limits
    from jupyter_tpu.models import NodeName, NodeSpec

OnChange = Callable[["FleetChange"], None]


def _ignore(change: FleetChange) -> None:
    """For callers who only wait for results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFleet:
    """A running fleet with the cloud it asks and the journal it writes; `settings` has the project filled in."""

    fleet: Fleet
    cloud: CloudApi
    journal: Journal
    searches: SearchService
    queue: Queue
    braking: AutostopController

    @property
    def settings(self) -> CloudSettings:
        return self.cloud.settings


@asynccontextmanager
async def open_cloud(settings: CloudSettings) -> AsyncIterator[CloudApi]:
    """A connected cloud, closed at the end.

    Raises:
        CredentialsMissing: nobody is signed in.
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
    """A started fleet; what it has not finished at the end stays in the journal for the next process.

    `agents` is the way to the agents, for a process that has links to them.

    Without a journal or an SSH key that can be used nothing is created, but all can be looked at, and ended by
    `jupyter_tpu.fleet.termination.executor`.

    Raises:
        BadInput: `ssh_user` can be no login name.
        CredentialsMissing: nobody is signed in.
    """
    from jupyter_tpu.fleet.autostop.controller import AutostopController
    from jupyter_tpu.fleet.autostop.snapshot_publisher import SnapshotPublisher
    from jupyter_tpu.fleet.capacity.queued_resources import Queue
    from jupyter_tpu.fleet.capacity.search_service import SearchService

    async with AsyncExitStack() as stack:
        cloud = await stack.enter_async_context(open_cloud(settings))
        stack.callback((await asyncio.to_thread(_pricing, cloud)).close)
        key = await asyncio.to_thread(_Key.of_user)  # first: unlike the journal it leaves nothing on a full disk
        journal = await asyncio.to_thread(_open_journal, cloud, stack)
        braking = AutostopController(cloud, journal, agents, login_key=key.public_line)
        telling = SnapshotPublisher(cloud, journal, agents)
        stack.push_async_callback(telling.close)
        fleet = await asyncio.to_thread(_assembled, cloud, journal, key, ssh_user, on_change, limits, braking, telling)
        stack.push_async_callback(fleet.close)
        await fleet.start()
        searches, queue = SearchService(cloud, journal), Queue(fleet, cloud, journal)
        yield OpenFleet(fleet=fleet, cloud=cloud, journal=journal, searches=searches, queue=queue, braking=braking)


def _pricing(cloud: CloudApi) -> Pricing:
    """The prices that are kept hold from now on; newer ones come in the background."""
    from jupyter_tpu.fleet.spend.prices import Pricing

    pricing = Pricing.of_user(cloud.settings)
    pricing.take_kept(time.time())
    pricing.start()
    return pricing


@dataclass(frozen=True, slots=True)
class _Key:
    """The user's SSH key, or why there is none; a guard of the fleet, see `Guard`."""

    public_line: str = ""
    problem: TpuError | None = None

    @classmethod
    def of_user(cls) -> _Key:
        from jupyter_tpu.journal import data_dir
        from jupyter_tpu.ssh.keys import UserKey

        try:
            return cls(public_line=UserKey.load_or_create(data_dir() / "ssh").public_line)
        except TpuError as problem:
            return cls(problem=problem)

    @property
    def notices(self) -> tuple[str, ...]:
        return (self.problem.message,) if self.problem else ()

    async def check_create(self, spec: NodeSpec, *, accept_unknown_price: bool) -> None:  # noqa: ARG002 - see `Guard`
        """Nobody could log in on a node that was made without a key."""
        if self.problem is not None:
            raise self.problem

    async def check_start(self, name: NodeName) -> None:
        """A node's key was put on it when it was made."""


def _open_journal(cloud: CloudApi, stack: AsyncExitStack) -> Journal:
    from jupyter_tpu.fleet.capacity.search_controller import release_searches
    from jupyter_tpu.journal import Journal

    journal = Journal.of_user()
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
    telling: SnapshotPublisher,
) -> Fleet:
    """The parts that read and write files, off the event loop."""
    from jupyter_tpu.fleet.reconciler.fleet import Fleet
    from jupyter_tpu.fleet.spend.enforcer import BudgetEnforcer
    from jupyter_tpu.ssh.keys import login_name

    user = login_name(ssh_user)
    accounting = BudgetEnforcer(cloud, journal, saving=braking.saving)
    return Fleet(
        cloud,
        journal,
        ssh_user=user,
        public_key=key.public_line,
        on_change=on_change,
        limits=limits,
        controllers=(accounting, braking, *_controllers(cloud, journal, key), telling),
        guards=(accounting, key),
    )


def _controllers(cloud: CloudApi, journal: Journal, key: _Key) -> tuple[Controller, ...]:
    """In the order in which they look, after the accounting and the brakes."""
    from jupyter_tpu.fleet.autostop.external_deletions import ExternalDeletions
    from jupyter_tpu.fleet.capacity.recreate import RecreateController
    from jupyter_tpu.fleet.capacity.search_controller import SearchController

    return (
        ExternalDeletions(cloud, journal, key.public_line),
        RecreateController(cloud, journal),
        SearchController(cloud, journal),
    )
