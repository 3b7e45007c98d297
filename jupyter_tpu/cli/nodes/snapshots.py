"""Send nodes what this machine knows about their price, cost, quota and grants, as a Jupyter server does.

So `%tpu cost` and `%tpu quota` work on nodes whose user runs no server, as with nbclient or in a terminal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from jupyter_tpu.errors import Text, TpuError, WorkerUnreachable
from jupyter_tpu.fleet.spend.spend_ledger import SpendLedger, observation_of
from jupyter_tpu.fleet.spend.unobserved import record_observation
from jupyter_tpu.models import NodeList

if TYPE_CHECKING:
    from jupyter_tpu.cloud.api import CloudApi
    from jupyter_tpu.fleet.reconciler.records import FleetSnapshot
    from jupyter_tpu.journal import Journal
    from jupyter_tpu.models import Node

# A new node is prepared for kernels first: SSH, the agent's environment, the agent.
_NEW_NODE_S = 60.0
# The list is printed by then, but the command must end soon.
_KNOWN_NODES_S = 5.0


async def send_to_new_node(
    cloud: CloudApi, journal: Journal, snapshot: FleetSnapshot, node: Node, show: Callable[[str], None]
) -> None:
    """Prepare a node that has become READY for kernels, and send it everything.

    Args:
        cloud: the node's cloud.
        journal: has the ledger.
        snapshot: all nodes, as just listed.
        node: one of them.
        show: called with the progress.

    Raises:
        TpuError: the node does not answer, or cannot be prepared.
    """
    try:
        async with asyncio.timeout(_NEW_NODE_S):
            # the cost of a node begins with its first observation
            listed = NodeList(nodes=snapshot.nodes, unreachable=snapshot.unreachable)
            ledger = SpendLedger(journal, cloud.settings)
            await record_observation(cloud, ledger, observation_of(listed, as_of=snapshot.as_of))
            errors = await _send(cloud, journal, snapshot, (node,), show)
    except TimeoutError:
        text = Text("{node} did not answer within {seconds} s.", node=node.name.node_id, seconds=round(_NEW_NODE_S))
        raise WorkerUnreachable(text) from None
    for error in errors:
        raise error


async def send_to_known_nodes(cloud: CloudApi, snapshot: FleetSnapshot) -> None:
    """Send everything to the READY nodes to which this machine has connected before, if they answer soon.

    Others are left alone: a list of nodes must not change them.
    """
    from jupyter_tpu.journal import Journal
    from jupyter_tpu.kernels.agents.open_links import was_reached

    known = [node for node in snapshot.nodes if node.state == "READY" and was_reached(node)]
    if known:
        with suppress(TpuError, TimeoutError), closing(Journal.of_user()) as journal:
            async with asyncio.timeout(_KNOWN_NODES_S):
                await _send(cloud, journal, snapshot, known, lambda _: None)


async def _send(
    cloud: CloudApi, journal: Journal, snapshot: FleetSnapshot, nodes: Iterable[Node], show: Callable[[str], None]
) -> list[TpuError]:
    from jupyter_tpu.fleet.autostop.snapshot_publisher import SnapshotPublisher
    from jupyter_tpu.kernels.agents.open_links import connected_agents

    async with connected_agents(cloud.settings, nodes, lambda step: show(str(step["message"]))) as agents:
        await SnapshotPublisher(cloud, journal, agents).publish(snapshot)
    return agents.errors
