"""Live widgets in a real kernel on a worker: what they say, when, and on whose behalf."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from jupyter_client.session import Session

from jupyter_tpu.link import Link

PATIENCE_S = 90
SHOW = """\
from jupyter_tpu import TpuMonitor
monitor = TpuMonitor()
display(monitor)
"""
JOIN = """\
import threading
for thread in threading.enumerate():
    if thread.name == "jupyter-tpu-widget":
        thread.join(60)
        assert not thread.is_alive()
"""


class Page:
    """A front end of a kernel on a node, and everything that it heard."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._session = Session(key=b"secret")
        self._news = asyncio.Event()
        self.heard: list[dict[str, Any]] = []

    async def open(self, kernel_id: str) -> None:
        await self._link.call("start_kernel", {"kernel_id": kernel_id, "key": "secret"})
        self._stream = self._link.attach(kernel_id, from_seq=0, on_message=self._on_message)

    def ask(self, kind: str, **content: Any) -> str:
        """Send a request; its id."""
        request = self._session.msg(kind, content)
        self._stream.send("shell", [b"page", *self._session.serialize(request)])
        return str(request["header"]["msg_id"])

    async def run(self, code: str) -> None:
        """Run a cell to its end."""
        msg_id = self.ask("execute_request", code=code, silent=False, allow_stdin=False)
        reply = await self.hears(lambda message: message["msg_type"] == "execute_reply" and is_of(message, msg_id))
        assert reply["content"]["status"] == "ok", reply["content"]

    async def hears(self, is_wanted: Callable[[dict[str, Any]], Any], after: int = 0) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                for message in self.heard[after:]:
                    if is_wanted(message):
                        return message
                self._news.clear()
                await self._news.wait()

    def _on_message(self, _seq: int, channel: str, parts: list[bytes]) -> None:
        if channel != "event":
            _, rest = self._session.feed_identities(parts)
            self.heard.append(self._session.deserialize(rest))
            self._news.set()


def is_of(message: dict[str, Any], msg_id: str) -> bool:
    return message["parent_header"].get("msg_id") == msg_id


def is_picture(message: dict[str, Any]) -> bool:
    data = message["content"].get("data", {})
    return message["msg_type"] == "comm_msg" and "picture" in (data.get("state") or {})


def picture_of(message: dict[str, Any]) -> Any:
    return message["content"]["data"]["state"]["picture"]


def is_fresh_picture(message: dict[str, Any]) -> bool:
    """A picture of now: on a busy machine the agent may not have answered in time for each."""
    return is_picture(message) and picture_of(message)["problem"] == ""


def has_history(message: dict[str, Any]) -> bool:
    return "history" in picture_of(message)["data"]


@pytest.fixture
async def page(node: Any, open_link: Any, request: pytest.FixtureRequest) -> AsyncIterator[Page]:
    link = await open_link(node)
    page, kernel_id = Page(link), request.node.name[:40].replace("_", "-")
    await page.open(kernel_id)
    yield page
    await link.call("forget_kernel", {"kernel_id": kernel_id})


async def test_pictures_come_while_a_cell_runs_and_belong_to_no_cell(page: Page, tmp_path: Any) -> None:
    gate = tmp_path / "gate"
    await page.run(SHOW)
    wait = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.02)"
    cell = page.ask("execute_request", code=f"print('runs')\n{wait}", silent=False, allow_stdin=False)
    await page.hears(lambda message: message["msg_type"] == "stream" and is_of(message, cell))

    for _ in range(2):
        message = await page.hears(is_fresh_picture, after=len(page.heard))
    assert message["parent_header"] == {}
    assert picture_of(message)["data"]["type"] == "v5litepod-8"
    assert len(json.dumps(message["content"])) < 2000

    gate.touch()


async def test_the_display_has_a_picture_as_text_and_as_html(page: Page) -> None:
    await page.run(SHOW)
    shown = await page.hears(lambda message: message["msg_type"] == "display_data")
    data = shown["content"]["data"]
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"]
    assert "Host" in data["text/plain"]
    assert "<strong>TPU monitor</strong>" in data["text/html"]


async def test_a_page_that_comes_later_is_given_the_state_and_the_history(page: Page) -> None:
    await page.run(SHOW)
    latest = await page.hears(lambda message: is_fresh_picture(message) and not has_history(message))
    comm = latest["content"]["comm_id"]

    after = len(page.heard)
    page.ask("comm_msg", comm_id=comm, data={"method": "request_state"})
    state = await page.hears(lambda message: "_esm" in message["content"].get("data", {}).get("state", {}), after)
    assert "export default" in state["content"]["data"]["state"]["_esm"]
    assert picture_of(state)["data"]["type"] == "v5litepod-8"

    after = len(page.heard)
    page.ask("comm_msg", comm_id=comm, data={"method": "custom", "content": {"say": "shown", "whole": True}})
    await page.hears(lambda message: is_fresh_picture(message) and has_history(message), after)


async def test_the_thread_of_a_closed_widget_ends(page: Page) -> None:
    await page.run(SHOW)
    await page.hears(is_picture)

    await page.run("monitor.close()")
    await page.hears(lambda message: message["msg_type"] == "comm_close")
    await page.run(JOIN)


async def test_a_nodes_end_is_put_off_by_a_button(page: Page, open_link: Any, node: Any) -> None:
    await page.run("from jupyter_tpu import IdleTimer\ndisplay(IdleTimer())")
    comm = (await page.hears(is_picture))["content"]["comm_id"]

    wish = {"say": "act", "id": "x", "for_s": 3600, "at": picture_of(await page.hears(is_fresh_picture))["data"]["at"]}
    page.ask("comm_msg", comm_id=comm, data={"method": "custom", "content": wish})

    heard = await page.hears(lambda message: is_picture(message) and picture_of(message)["heard"])
    assert picture_of(heard)["heard"][0]["id"] == "x"
    assert picture_of(heard)["heard"][0]["text"].startswith("The node keeps running for ")
    await page.hears(lambda message: is_fresh_picture(message) and picture_of(message)["data"]["keep"]["for_s"])
