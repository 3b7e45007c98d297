"""What a node's chips do and who holds them, on a real Jupyter server with notebooks on a node."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from agent_processes import agent_stopped
from rest_api import assert_fits

from jupyter_tpu.errors import BadInput
from jupyter_tpu.server.routes.metrics import release_from_body

if TYPE_CHECKING:
    from conftest import Cloud, OpenPages, Page, Server

ZONE = "us-central1-a"
NODE_ID = "measured"
NODE = {
    "node_id": NODE_ID,
    "zone": ZONE,
    "accelerator_type": "v5litepod-8",
    "runtime_version": "v2-alpha-tpuv5-lite",
    "spot": False,
}
TAKE = "import emulated_tpu; emulated_tpu.take(); print('taken')"
GIB = 2**30


class Measured:
    """A READY node that is looked at."""

    def __init__(self, server: Server, cloud: Cloud) -> None:
        self.server = server
        self.cloud = cloud
        self.sessions: list[str] = []

    def notebook(self, path: str) -> str:
        """A notebook of that path on the node; the id of its kernel."""
        asked = {"path": path, "name": path, "type": "notebook", "kernel": {"name": f"tpu-{NODE_ID}-{ZONE}"}}
        made = self.server.request("POST", "api/sessions", asked)
        assert made.status == 201, made.text
        self.sessions.append(made.json["id"])
        return str(made.json["kernel"]["id"])

    def metrics(self, query: str = "") -> Any:
        answer = self.server.tpu("GET", f"nodes/{ZONE}/{NODE_ID}/metrics{query}")
        assert answer.status == 200, answer.text
        assert_fits(answer.json, "Metrics")
        return answer.json

    async def worker_that(self, is_it: Callable[[Any], bool], query: str = "") -> Any:
        """The first worker, once it is so."""
        async with asyncio.timeout(120):
            while True:
                worker = (await asyncio.to_thread(self.metrics, query))["workers"][0]
                if worker["sample"] is not None and worker["error"] is None and is_it(worker):
                    return worker
                await asyncio.sleep(0.1)

    def free(self, **wish: Any) -> Any:
        answer = self.server.tpu("POST", f"nodes/{ZONE}/{NODE_ID}/release", wish)
        assert answer.status == 200, answer.text
        assert_fits(answer.json, "Freed")
        return answer.json


@pytest.fixture(scope="module")
def node(server: Server) -> Iterator[str]:
    """A READY node with its kernelspec, for the tests that look at one; its name."""
    assert server.tpu("POST", "nodes", NODE).status == 202
    end = time.monotonic() + 120
    while not server.tpu("GET", f"nodes/{ZONE}/{NODE_ID}").json.get("kernelspec"):
        assert time.monotonic() < end
        time.sleep(0.1)
    yield NODE_ID
    server.tpu("DELETE", f"nodes/{ZONE}/{NODE_ID}")


@pytest.fixture
def measured(server: Server, cloud: Cloud, node: str) -> Iterator[Measured]:
    """The node; what runs on it and what its chips are to tell is taken back."""
    measured = Measured(server, cloud)
    yield measured
    for session in measured.sessions:
        server.request("DELETE", f"api/sessions/{session}")
    cloud.control.set_metrics(node)


async def run(page: Page, code: str) -> str:
    asked = page.execute(code)
    await page.until_idle(asked)
    return asked


@pytest.mark.nightly
async def test_free_hands_the_chips_over_and_leaves_the_outputs_of_the_first_notebook(
    measured: Measured, open_page: OpenPages
) -> None:
    first, second = measured.notebook("one.ipynb"), measured.notebook("two.ipynb")
    page, other = await open_page(measured.server, first), await open_page(measured.server, second)
    taken = await run(page, TAKE)
    assert page.text(taken) == "taken\n"
    refused = await run(other, TAKE)
    assert "error" in other.kinds(refused)

    worker = await measured.worker_that(lambda worker: worker["sample"]["state"] == "measured")
    (holder,) = worker["sample"]["holders"]
    assert (holder["kernel_id"], holder["notebook"], holder["is_own_user"]) == (first, "one.ipynb", True)
    assert holder["is_kernel"]

    freed = await asyncio.to_thread(measured.free, pid=holder["pid"])

    assert ([each["pid"] for each in freed["freed"]], freed["left"], freed["message"]) == ([holder["pid"]], [], "")
    assert other.text(await run(other, TAKE)) == "taken\n"
    await page.until(lambda _: "released by the TPU panel" in page.text(taken))
    await asyncio.to_thread(until_dead, measured.server, first)
    outputs = measured.server.tpu("GET", f"kernels/{first}/outputs?msg_id={taken}")
    assert "taken" in outputs.text
    worker = await measured.worker_that(lambda worker: worker["sample"]["holders"][:1] not in ([], [holder]))
    assert [each["notebook"] for each in worker["sample"]["holders"]] == ["two.ipynb"]


def until_dead(server: Server, kernel_id: str) -> None:
    """Until Jupyter Server has heard that the kernel has ended for good, and lists it as dead or not at all."""
    end = time.monotonic() + 120
    while (answer := server.request("GET", f"api/kernels/{kernel_id}")).status == 200:
        if answer.json["execution_state"] == "dead":
            return
        assert time.monotonic() < end, answer.text
        time.sleep(0.1)


def duties_of_chip_1(worker: Any) -> list[float | None]:
    return list(worker["history"]["duty_percent"].get("1", []))


async def test_numbers_that_were_laid_down_are_shown_and_lies_are_not(measured: Measured, open_page: OpenPages) -> None:
    def lay_down(**metrics: Any) -> None:
        measured.cloud.control.set_metrics(NODE_ID, **metrics)

    idle = await measured.worker_that(lambda worker: worker["sample"]["state"] == "idle")
    assert (idle["sample"]["reason"], idle["sample"]["holders"]) == ("no process is using the chips", [])
    lay_down(duty_percent=[10, 20], memory_percent=[50], bandwidth_percent=[5], idle_s=[7])
    page = await open_page(measured.server, measured.notebook("one.ipynb"))
    await run(page, TAKE)

    worker = await measured.worker_that(lambda worker: worker["sample"]["state"] == "measured", "?history_s=3600")
    sample = worker["sample"]
    assert [chip["duty_percent"] for chip in sample["chips"]] == [10, 20] * 4
    assert [core["hbm_used_bytes"] for core in sample["cores"]] == [8 * GIB] * 8
    assert {(core["hbm_total_bytes"], core["hbm_bandwidth_percent"], core["idle_s"]) for core in sample["cores"]} == {
        (16 * GIB, 5, 7)
    }
    assert (sample["duty_per"], set(sample["unknown"])) == ("core", {"tensorcore_percent"})
    await measured.worker_that(lambda worker: duties_of_chip_1(worker)[-1:] == [20], "?history_s=3&points=3")
    assert len((await measured.worker_that(bool, "?history_s=3600&points=5"))["history"]["at"]) <= 5

    for lie, field in (("nan", "duty_percent"), ("missing", "cores")):
        lay_down(lie=lie)
        await measured.worker_that(lambda worker, field=field: field in worker["sample"]["unknown"])
    lay_down(lie="hang")
    await measured.worker_that(lambda worker: "is not responding" in worker["sample"]["reason"])
    lay_down()
    await measured.worker_that(lambda worker: worker["sample"]["state"] == "measured")


async def test_a_worker_that_does_not_answer_shows_what_it_said_last(measured: Measured) -> None:
    before = await measured.worker_that(lambda worker: True)
    with agent_stopped(measured.cloud.control.workers(NODE_ID)[0]["home"]):
        async with asyncio.timeout(120):
            while (silent := await asyncio.to_thread(measured.metrics))["is_complete"]:  # noqa: ASYNC110 - it is asked
                await asyncio.sleep(0.1)
    (worker,) = silent["workers"]
    assert worker["error"]["code"] in ("worker_unreachable", "link_down")
    assert worker["sample"]["at"] >= before["sample"]["at"]
    assert worker["as_of"] < silent["as_of"]

    await measured.worker_that(lambda worker: worker["sample"]["at"] > silent["workers"][0]["sample"]["at"])


async def test_looking_opens_no_first_connection(server: Server, elsewhere: Any) -> None:
    async with server.events() as events:
        elsewhere.create("apart")
        worker = await _once_seen_ready(server)
        assert (worker["sample"], worker["error"]["code"]) == (None, "worker_unreachable")
        assert "not been connected" in worker["error"]["message"]
        assert server.tpu("POST", f"nodes/{ZONE}/apart/release", {}).status == 502

        server.tpu("DELETE", f"nodes/{ZONE}/apart")
        await events.until(lambda event: event.get("phase") == "deleted")


async def _once_seen_ready(server: Server) -> Any:
    """The node's worker in an answer of the time when the server has seen it READY; it may have seen it being made."""
    async with asyncio.timeout(120):
        while True:
            answer = (await asyncio.to_thread(server.tpu, "GET", f"nodes/{ZONE}/apart/metrics")).json
            assert_fits(answer, "Metrics")
            assert answer["is_complete"] is False
            (worker,) = answer["workers"]
            if worker["error"]["code"] != "wrong_state":
                return worker
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("query", ["?history_s=-1", "?history_s=x", "?points=0", "?points=601", "?history_s=1e3"])
def test_a_query_that_makes_no_sense_is_refused(server: Server, query: str) -> None:
    assert server.tpu("GET", f"nodes/{ZONE}/none/metrics{query}").status == 400


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"pid": 0}',
        b'{"pid": true}',
        b'{"worker_id": -1}',
        b'{"force": 1}',
        b'{"by": "me"}',
        b'{"pid": "1"}',
    ],
)
def test_a_body_that_is_no_wish_to_free_is_refused(body: bytes) -> None:
    with pytest.raises(BadInput):
        release_from_body(body)


def test_a_node_that_is_not_there_has_no_metrics(server: Server) -> None:
    assert server.tpu("GET", f"nodes/{ZONE}/none/metrics").status == 404
