"""A worker at the other end of the world is reached by one connection, however long its handshake takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from emulator import Emulator, EmulatorPool

from jupyter_tpu.kernels.connections.worker import Worker, WorkerKey
from jupyter_tpu.link import Link
from jupyter_tpu.models import Node


@pytest.fixture(scope="module")
def shared_emulator(emulator_pool: EmulatorPool) -> Iterator[Emulator]:
    """One whose network can be slowed down."""
    with emulator_pool.lent("--link-faults") as emulator:
        yield emulator


async def test_a_known_worker_far_away_is_reached_in_the_round_trips_of_one_handshake(
    cloud: Any, node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    """The cloud is asked meanwhile, finds the worker where it is known to be, and the first attempt goes on."""
    caplog.set_level("INFO", "jupyter_tpu.ssh.attempts")
    phases: list[str] = []

    def listen(progress: Mapping[str, Any]) -> None:
        phases.append(progress["phase"])

    async def open_in_a_new_process() -> None:
        worker = Worker(WorkerKey(node=node.name, endpoint=cloud.settings.endpoint), listen)
        link = Link(worker.connect, memory=worker.preparation, on_progress=listen)
        await link.open()
        counts.append(count())
        await link.close()

    def count() -> tuple[int, int]:
        (link,) = cloud.control.links(str(node.name))
        return link["accepted"], link["round_trips"]

    counts: list[tuple[int, int]] = []
    await open_in_a_new_process()
    phases.clear()
    before = count()
    cloud.control.fault_link(str(node.name), "latency", ms=250)
    await open_in_a_new_process()
    cloud.control.fault_link(str(node.name), "clear")

    assert "finding_node" in phases, "the handshake was too short to show anything"
    assert "agent" not in phases, "the worker was prepared once more"
    # a machine so busy that the worker is silent for 2 s is no distance: then another attempt is right
    needed = (counts[-1][0] - before[0], counts[-1][1] - before[1])
    assert "another attempt" in caplog.text or needed == (1, 9), "7 of SSH, its channel, the agent"
