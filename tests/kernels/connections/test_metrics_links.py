"""Links that are held for those who look at the metrics of a node."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from jupyter_tpu.errors import AgentBroken
from jupyter_tpu.kernels.connections.metrics_pool import Answer, MetricsPool
from jupyter_tpu.kernels.connections.worker import WorkerKey
from jupyter_tpu.kernels.metrics_views import metrics_view, worker_view
from jupyter_tpu.metrics import Holder, Host, Sample

HOST = Host(
    cpus=1,
    cpu_percent=1.0,
    memory_used_bytes=1,
    memory_total_bytes=1,
    disk_used_bytes=1,
    disk_total_bytes=1,
)


@pytest.fixture
async def looks() -> AsyncIterator[MetricsPool]:
    looks = MetricsPool()
    yield looks
    await looks.close()


async def test_a_node_that_was_started_again_is_not_called_stopped(
    cloud: Any, make_node: Any, looks: MetricsPool
) -> None:
    node = await make_node("again")
    key = WorkerKey(node=node.name, endpoint=cloud.settings.endpoint)

    async def look() -> Answer:
        (answer,) = await looks.call([key], "metrics", {}, uid=node.uid)
        return answer

    async with asyncio.timeout(90):
        while (await look()).error is not None:  # noqa: ASYNC110 - a worker answers questions, it never calls
            await asyncio.sleep(0.1)
        await asyncio.to_thread(cloud.stop_node, node.name)
        while "STOPPED" not in str((await look()).error):  # noqa: ASYNC110 - the same
            await asyncio.sleep(0.1)
        # the caller has seen the node READY
        await asyncio.to_thread(cloud.start_node, node.name)
        errors = []
        while (answer := await look()).error is not None:
            errors.append(str(answer.error))
            await asyncio.sleep(0.1)
    assert [error for error in errors if "STOPPED" in error] == []


@pytest.mark.parametrize("ahead_s", [3600.0, -3600.0], ids=["ahead", "behind"])
def test_samples_are_fresh_and_the_clock_is_called_wrong_of_a_worker_whose_clock_is_an_hour(ahead_s: float) -> None:
    now = time.time()
    sample = Sample(at=now + ahead_s - 1, host=HOST, holders=()).to_json()
    history = {"at": [now + ahead_s - 2, now + ahead_s - 1], "duty_percent": {}, "hbm_used_bytes": {}}
    history |= {"tensorcore_percent": {}, "cpu_percent": [1, 1], "memory_used_bytes": [1, 1]}
    said = {"worker": {"hostname": "w"}, "now": now + ahead_s, "sample": sample, "history": history}
    view = worker_view(Answer(worker_id=0, content=said, at=now))
    assert (view["error"], view["clock_ahead_s"]) == (None, pytest.approx(ahead_s))
    assert view["sample"]["at"] == pytest.approx(now - 1)
    assert view["history"]["at"] == pytest.approx([now - 2, now - 1])
    older = worker_view(Answer(worker_id=0, content={**said, "now": None}, at=now))
    assert (older["error"], older["clock_ahead_s"]) == (None, 0.0)


def test_the_processes_of_a_kernel_have_one_notebook_on_all_workers() -> None:
    def answer(worker_id: int, notebook: str, kernel_id: str = "k") -> Answer:
        holder = Holder(pid=7, command="python", kernel_id=kernel_id, notebook=notebook, is_kernel=True)
        sample = Sample(at=1.0, host=HOST, holders=(holder,)).to_json()
        content = {"worker": {"hostname": "w"}, "now": 1.0, "sample": sample, "history": None}
        return Answer(worker_id=worker_id, content=content, at=1.0)

    answers = [
        answer(0, "digits.ipynb"),
        answer(1, "/home/ada/digits.ipynb"),
        answer(2, "/home/ada/b.ipynb", kernel_id="other"),
        Answer(worker_id=3, error=AgentBroken("it is silent")),
    ]
    workers = metrics_view(answers, "v5litepod-16", 1.0)["workers"]
    shown = [holder["notebook"] for worker in workers[:3] for holder in worker["sample"]["holders"]]
    assert shown == ["digits.ipynb", "digits.ipynb", "/home/ada/b.ipynb"]
