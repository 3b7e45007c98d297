"""Print what `snapshot_publisher` would send to one node: ``python -m … FULL-NODE-NAME [ENDPOINT]``.

A kernel's launcher starts this program if it has a link to the node and no Jupyter server runs. The launcher does not
read the data itself, because loading Google's client takes seconds and much memory. This program prints one JSON object
per line.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import closing
from typing import Any

from jupyter_tpu.cloud.settings import CloudSettings
from jupyter_tpu.fleet.assembly import open_cloud
from jupyter_tpu.fleet.autostop.snapshot_publisher import LocalState, node_snapshots
from jupyter_tpu.fleet.reconciler.records import FleetSnapshot
from jupyter_tpu.fleet.spend.grant_usage import read_grant_usage
from jupyter_tpu.fleet.spend.price_updater import PriceUpdater
from jupyter_tpu.fleet.spend.quota_report import QuotaService
from jupyter_tpu.fleet.spend.spend_ledger import SpendLedger, observation_of
from jupyter_tpu.fleet.spend.unobserved import record_observation
from jupyter_tpu.journal import Journal
from jupyter_tpu.models import NodeName


async def read_snapshots(name: NodeName, endpoint: str) -> AsyncIterator[dict[str, Any]]:
    """Read the data for a node's notebooks; yield the parameters of the ``tell`` calls that send the data to the agent.

    Raises:
        TpuError: the cloud or the journal cannot be read.
    """
    async with open_cloud(CloudSettings(project=name.project, endpoint=endpoint)) as cloud:
        PriceUpdater.of_user(cloud.settings).apply_stored(time.time())
        asked = cloud.clock.steady()
        listed = await cloud.list_nodes()
        as_of = cloud.clock.moment(asked).wall
        snapshot = FleetSnapshot(
            nodes=listed.nodes, unreachable=listed.unreachable, as_of=as_of, clock_ahead_s=cloud.clock.ahead_s
        )
        node = snapshot.node(name)
        if node is None:
            return
        with closing(Journal.of_user(endpoint)) as journal:
            ledger = SpendLedger(journal, cloud.settings)
            await record_observation(cloud, ledger, observation_of(listed, as_of=as_of))
            known = LocalState(
                snapshot=snapshot,
                account=ledger.account(cloud.clock.now()),
                grants=await read_grant_usage(journal, cloud.settings, snapshot),
                quota=await QuotaService(cloud).report(
                    tuple((each.name, each.state, each.uid) for each in listed.nodes)
                ),
            )
        for kind, view in node_snapshots(known, node, cloud.clock).items():
            yield view.params(kind, cloud.clock, cloud.clock.to_real(cloud.clock.now()))


async def main(name: str, endpoint: str = "") -> None:
    """Print the snapshots for a node."""
    async for params in read_snapshots(NodeName.parse(name), endpoint):
        sys.stdout.write(json.dumps(params) + "\n")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
