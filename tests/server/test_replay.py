"""A kernel whose node is taken away is started on the one that is recreated, and what had run there is offered."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from rest_api import assert_fits

if TYPE_CHECKING:
    from conftest import Cloud, Events, OpenPages, Page, Server, StartServer

pytestmark = pytest.mark.timeout(600)

ZONE = "us-central1-a"
CUT = "import time\nfor n in range(3):\n    display(n)\ntime.sleep(600)"


@dataclass(frozen=True)
class Notebook:
    """A session on a node that is recreated when it is taken away."""

    server: Server
    cloud: Cloud
    node_id: str
    session_id: str
    kernel_id: str

    @classmethod
    async def open(
        cls, server: Server, cloud: Cloud, events: Events, node_id: str, *, recovers: bool = True
    ) -> Notebook:
        node = {"accelerator_type": "v5litepod-8", "runtime_version": "v2-alpha-tpuv5-lite", "spot": True}
        server.tpu("POST", "nodes", {"node_id": node_id, "zone": ZONE, **node})
        # not a kernel's, which has a phase of that name too
        await events.until(lambda event: event.get("phase") == "ready" and "kind" in event)
        if recovers:
            assert server.tpu("PUT", f"nodes/{ZONE}/{node_id}/recovery", {"is_on": True}).json["is_on"]
        kernel = {"name": f"tpu-{node_id}-{ZONE}"}
        asked = {"path": "a.ipynb", "name": "a.ipynb", "type": "notebook", "kernel": kernel}
        made = server.request("POST", "api/sessions", asked)
        assert made.status == 201, made.text
        return cls(server, cloud, node_id, made.json["id"], made.json["kernel"]["id"])

    def on(self, server: Server) -> Notebook:
        """The same where another server runs in the folder."""
        return Notebook(server, self.cloud, self.node_id, self.session_id, self.kernel_id)

    def replay(self) -> Any:
        return self.server.tpu("GET", f"kernels/{self.kernel_id}/replay").json

    def preempt(self) -> None:
        self.cloud.control.preempt(f"projects/{self.cloud.project}/locations/{ZONE}/nodes/{self.node_id}")

    def is_back(self) -> bool:
        replay = self.replay()
        return bool(replay.get("is_back") and replay["lost_at"])

    async def run_until_cut(self, page: Page) -> str:
        """Run a cell to its end and one that keeps running; return the latter's id once all its outputs are here."""
        await page.until_idle(run(page, "one", "x = 1"))
        cut = run(page, "two", CUT)
        await page.until(lambda _: page.kinds(cut).count("display_data") == 3)
        return cut

    async def assert_it_goes_on(self, page: Page) -> None:
        """With the same ids, and without its variables."""
        [session] = self.server.request("GET", "api/sessions").json
        assert (session["id"], session["kernel"]["id"]) == (self.session_id, self.kernel_id)
        asked = run(page, "four", "print('x' in globals())")
        await page.until_idle(asked)
        assert page.text(asked) == "False\n"

    async def end(self, events: Events) -> None:
        self.server.request("DELETE", f"api/sessions/{self.session_id}")
        self.server.tpu("DELETE", f"nodes/{ZONE}/{self.node_id}")
        await events.until(lambda event: event.get("phase") == "deleted")
        self.server.tpu("DELETE", f"kernels/{self.kernel_id}/replay")
        assert list((self.server.folder / "tpu" / "runs").iterdir()) == []


def run(page: Page, cell_id: str, code: str) -> str:
    content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}
    return str(page.send("execute_request", content, metadata={"cellId": cell_id}))


def offered(replay: Any) -> list[tuple[str, str, int]]:
    return [(cell["cell_id"], cell["state"], cell["outputs"]) for cell in replay["cells"]]


async def test_a_kernel_is_started_again_with_its_node(server: Server, cloud: Cloud, open_page: OpenPages) -> None:
    async with server.events() as events:
        notebook = await Notebook.open(server, cloud, events, "taken")
        page = await open_page(server, notebook.kernel_id)
        await notebook.run_until_cut(page)
        assert notebook.replay()["cells"] == []

        notebook.preempt()
        await page.until(lambda message: message["content"].get("execution_state") == "starting")
        await events.until(lambda event: event.get("state") == "live" and notebook.is_back())

        replay = notebook.replay()
        assert_fits(replay, "Replay")
        assert offered(replay) == [("one", "ok", 0), ("two", "cut", 3)]
        assert [cell["code"] for cell in replay["cells"]] == ["x = 1", CUT]
        await notebook.assert_it_goes_on(await open_page(server, notebook.kernel_id))

        assert server.tpu("DELETE", f"kernels/{notebook.kernel_id}/replay").status == 204
        assert notebook.replay()["cells"] == []
        await notebook.end(events)


@pytest.mark.nightly
async def test_a_node_that_is_taken_twice_says_when_it_was_taken_last(
    server: Server, cloud: Cloud, open_page: OpenPages
) -> None:
    async with server.events() as events:
        notebook = await Notebook.open(server, cloud, events, "twice")
        page = await open_page(server, notebook.kernel_id)
        await page.until_idle(run(page, "one", "x = 1"))
        notebook.preempt()
        await events.until(lambda event: event.get("state") == "live" and notebook.is_back())
        await events.until_true(lambda: notebook.replay()["end"] is None)  # the kernel has been started again
        first = notebook.replay()["lost_end"]

        assert not server.tpu("PUT", f"nodes/{ZONE}/twice/recovery", {"is_on": False}).json["is_on"]
        since = time.time()
        notebook.preempt()
        await events.until_true(lambda: bool(notebook.replay()["end"]))
        second = notebook.replay()["end"]
        assert first["at"] < since <= second["at"]
        await notebook.end(events)


@pytest.mark.nightly
async def test_what_had_run_stays_for_the_next_kernel_of_the_notebook(
    server: Server, cloud: Cloud, open_page: OpenPages
) -> None:
    async with server.events() as events:
        lost = await Notebook.open(server, cloud, events, "gone", recovers=False)
        await lost.run_until_cut(await open_page(server, lost.kernel_id))
        lost.preempt()
        await events.until_true(lambda: bool(lost.replay()["cells"]))
        server.request("DELETE", f"api/sessions/{lost.session_id}")
        replay = lost.replay()
        assert_fits(replay, "Replay")
        assert (offered(replay), replay["is_back"]) == ([("one", "ok", 0), ("two", "cut", 3)], False)
        assert replay["end"]["cause"] == "preempted"

        following = await Notebook.open(server, cloud, events, "next", recovers=False)
        assert offered(following.replay()) == offered(replay)
        assert following.replay()["end"] is None
        assert following.replay()["lost_end"] == replay["end"]
        assert server.tpu("DELETE", f"kernels/{following.kernel_id}/replay").status == 204
        assert following.replay()["cells"] == []
        assert lost.server.tpu("GET", f"kernels/{lost.kernel_id}/replay").status == 404
        await following.end(events)
        server.tpu("DELETE", f"nodes/{ZONE}/{lost.node_id}")
        await events.until(lambda event: event.get("phase") == "deleted")


@pytest.mark.nightly
async def test_what_had_run_outlives_a_killed_server(
    start_server: StartServer, cloud: Cloud, open_page: OpenPages
) -> None:
    first = start_server(**cloud.variables)
    async with first.events() as events:
        notebook = await Notebook.open(first, cloud, events, "outlived")
        await notebook.run_until_cut(await open_page(first, notebook.kernel_id))
        first.kill()
    notebook.preempt()
    following = start_server(after=first, **cloud.variables)
    notebook = notebook.on(following)
    async with following.events() as events:
        await events.until_true(notebook.is_back)
        assert offered(notebook.replay()) == [("one", "ok", 0), ("two", "cut", 3)]
        await notebook.assert_it_goes_on(await open_page(following, notebook.kernel_id))
        await notebook.end(events)
