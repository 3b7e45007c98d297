"""List all nodes and queued resources of the project in all zones."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TypeVar

from jupyter_tpu.cloud.api import CloudApi
from jupyter_tpu.errors import TpuError
from jupyter_tpu.models import Node, NodeList, QueuedList, QueuedResource
from jupyter_tpu.money.quota import QuotaHolder, quota_holders

Listed = TypeVar("Listed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """The lists of nodes and of queued resources, read at one time.

    Attributes:
        unreachable: zones that did not respond.
        error: why a whole list is missing; None if no list is missing.
        as_of: when the lists were read (Unix seconds).
    """

    nodes: tuple[Node, ...] = ()
    queued: tuple[QueuedResource, ...] = ()
    unreachable: tuple[str, ...] = ()
    error: TpuError | None = None
    as_of: float = 0.0

    @property
    def is_complete(self) -> bool:
        """Whether the lists of nodes and of queued resources are complete."""
        return not self.unreachable and self.error is None

    @property
    def held(self) -> tuple[QuotaHolder, ...]:
        """Return everything that counts towards the quota, each item once."""
        return quota_holders(self.nodes, self.queued)


async def list_holdings(cloud: CloudApi) -> Holdings:
    """List all nodes and queued resources. If this fails, the error is not raised but stored in `Holdings.error`."""
    # use the time of the requests, because changes during the requests are newer
    as_of = time.time()
    (nodes, first), (queued, second) = await asyncio.gather(
        _listed(cloud.list_nodes(), NodeList(nodes=())),
        _listed(cloud.list_queued_resources(), QueuedList(items=())),
    )
    return Holdings(
        nodes=nodes.nodes,
        queued=queued.items,
        unreachable=tuple(sorted({*nodes.unreachable, *queued.unreachable})),
        error=first or second,
        as_of=as_of,
    )


async def _listed(listing: Awaitable[Listed], nothing: Listed) -> tuple[Listed, TpuError | None]:
    # each list is useful even if the other list is missing
    try:
        return await listing, None
    except TpuError as error:
        return nothing, error
