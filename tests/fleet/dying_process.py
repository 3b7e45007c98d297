"""A process with a fleet that kills itself (SIGKILL) at a named point; run by test_death.py.

Usage: dying_process.py GRPC PROJECT FOLDER NODE VERB POINT, where POINT is a phase, or ``answered``: after the cloud
has answered the request and before that is written down.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from jupyter_tpu.cloud import CloudSettings, connect_cloud
from jupyter_tpu.fleet import Fleet, FleetChange, Polling
from jupyter_tpu.journal import Journal
from jupyter_tpu.models import NodeName, NodeSpec


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class DyingCloud:
    """A cloud whose answers to changes kill who hears them."""

    def __init__(self, cloud: Any) -> None:
        self._cloud = cloud

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cloud, name)

    async def create_node(self, spec: NodeSpec) -> None:
        await self._cloud.create_node(spec)
        die()

    async def delete_node(self, name: NodeName) -> None:
        await self._cloud.delete_node(name)
        die()


async def main(grpc: str, project: str, folder: str, node_id: str, verb: str, point: str) -> None:
    def on_change(change: FleetChange) -> None:
        if change.kind == "intent" and change.phase == point:
            die()

    cloud: Any = await connect_cloud(CloudSettings(project=project, endpoint=grpc))
    if point == "answered":
        cloud = DyingCloud(cloud)
    polling = Polling(open_s=0.05, idle_s=1.0)
    journal = Journal.open(Path(folder))
    fleet = Fleet(cloud, journal, ssh_user="me", public_key="ssh-ed25519 AAAA", on_change=on_change, polling=polling)
    await fleet.start()
    name = NodeName(project=project, zone="us-central1-a", node_id=node_id)
    spec = NodeSpec(name=name, accelerator_type="v5litepod-8", runtime_version="v2-alpha-tpuv5-lite")
    intent = await (fleet.create(spec) if verb == "create" else fleet.delete(name))
    await fleet.wait(intent.intent_id)


asyncio.run(main(*sys.argv[1:]))
