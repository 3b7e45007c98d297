"""A process that searches in two zones and kills itself (SIGKILL) in the second one; run by test_searching.py.

Usage: searching_process.py GRPC PROJECT FOLDER POINT ZONE ZONE, where POINT is a phase of the second try's wish,
``answered`` (the cloud has answered, and that is not written down) or ``written`` (nothing was tried yet).
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
from jupyter_tpu.fleet.capacity.search_controller import SearchController
from jupyter_tpu.fleet.capacity.search_service import SearchService
from jupyter_tpu.journal import Journal
from jupyter_tpu.lifecycle.search_state import Candidate
from jupyter_tpu.models import NodeSpec


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class DyingCloud:
    """A cloud whose answer to a creation in a zone kills who hears it."""

    def __init__(self, cloud: Any, zone: str) -> None:
        self._cloud = cloud
        self._zone = zone

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cloud, name)

    async def create_node(self, spec: NodeSpec) -> Any:
        answer = await self._cloud.create_node(spec)
        if spec.name.zone == self._zone:
            die()
        return answer


async def main(grpc: str, project: str, folder: str, point: str, *zones: str) -> None:
    def on_change(change: FleetChange) -> None:
        if change.kind == "intent" and change.phase == point and f"/{zones[-1]}/" in change.node_name:
            die()

    cloud: Any = await connect_cloud(CloudSettings(project=project, endpoint=grpc))
    if point == "answered":
        cloud = DyingCloud(cloud, zones[-1])
    journal = Journal.open(Path(folder))
    fleet = Fleet(
        cloud,
        journal,
        ssh_user="me",
        public_key="ssh-ed25519 AAAA",
        on_change=on_change,
        polling=Polling(open_s=0.05, idle_s=1.0),
        controllers=(SearchController(cloud, journal),),
    )
    wanted = [
        Candidate(zone=zone, accelerator_type="v5litepod-8", runtime_version="v2-alpha-tpuv5-lite") for zone in zones
    ]
    await SearchService(cloud, journal).begin("my-node", wanted)
    if point == "written":
        die()
    await fleet.start()
    await asyncio.Event().wait()


asyncio.run(main(*sys.argv[1:]))
