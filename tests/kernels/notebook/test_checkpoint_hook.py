"""``%%tpu_on_preempt`` on a node: the hook runs before the node is taken away, and once."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jupyter_client.session import Session

from jupyter_tpu.link import Link

PATIENCE_S = 90
A_LONG_NOTICE_S = 200_000  # of the emulator's time, a quarter of an hour of ours
IDLE_FOR_A_SECOND = {"idle_after_s": 1, "session_s": None, "action": "delete"}
SAVE = """\
%%tpu_on_preempt
import threading
with open({path!r}, "a") as file:
    print(threading.current_thread() is threading.main_thread(), step > 0, file=file)
"""
TRAIN = """\
step = 1
print("training", flush=True)
while True: step += 1
"""


class Notebook:
    """A kernel on a node, and everything that it said."""

    def __init__(self, link: Link, kernel_id: str = "training") -> None:
        self._kernel_id = kernel_id
        self._link = link
        self._session = Session(key=b"secret")
        self._news = asyncio.Event()
        self.heard: list[dict[str, Any]] = []

    async def start(self) -> None:
        await self._link.call("start_kernel", {"kernel_id": self._kernel_id, "key": "secret"})
        self._stream = self._link.attach(self._kernel_id, from_seq=0, on_message=self._on_message)

    def execute(self, code: str) -> None:
        request = self._session.msg("execute_request", {"code": code, "silent": False, "allow_stdin": False})
        self._stream.send("shell", [b"front-end", *self._session.serialize(request)])

    async def hears(self, is_wanted: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                for message in self.heard:
                    if is_wanted(message):
                        return message
                self._news.clear()
                await self._news.wait()

    async def event(self, name: str) -> dict[str, Any]:
        return await self.hears(lambda message: message.get("event") == name)

    def _on_message(self, _seq: int, channel: str, parts: list[bytes]) -> None:
        if channel == "event":
            self.heard.append(json.loads(parts[0]))
        else:
            _, rest = self._session.feed_identities(parts)
            self.heard.append(self._session.deserialize(rest))
        self._news.set()


def is_reply(message: dict[str, Any]) -> bool:
    return message.get("msg_type") == "execute_reply"


def is_training(message: dict[str, Any]) -> bool:
    return message.get("msg_type") == "stream" and "training" in message["content"]["text"]


async def hooks_of(link: Link) -> list[dict[str, Any]]:
    """What the agent tells of hooks, once it tells anything."""
    async with asyncio.timeout(PATIENCE_S):
        while not (hooks := (await link.call("activity"))["hooks"]):  # noqa: ASYNC110 - agents answer, they never call
            await asyncio.sleep(0.1)
    return list(hooks)


async def test_a_cell_that_trains_saves_its_work_on_the_clouds_notice_once(
    cloud: Any, make_node: Any, open_link: Any, tmp_path: Path
) -> None:
    node, saved = await make_node("spot"), tmp_path / "saved"
    link = await open_link(node)
    notebook = Notebook(link)
    await notebook.start()
    notebook.execute(SAVE.format(path=str(saved)))
    await notebook.hears(is_reply)
    notebook.execute(TRAIN)
    await notebook.hears(is_training)

    await asyncio.to_thread(cloud.control.preempt, str(node.name), notice_s=A_LONG_NOTICE_S)

    event = await notebook.event("checkpoint_hook")
    assert (event["status"], event["reason"]) == ("ran", "Google Cloud is pre-empting this node")
    assert await asyncio.to_thread(saved.read_text) == "True True\n"

    # the next agent is given the same notice again
    os.kill((await link.call("status"))["pid"], signal.SIGKILL)
    assert [hook["status"] for hook in await hooks_of(link)] == ["ran"]
    assert await asyncio.to_thread(saved.read_text) == "True True\n"
    assert [each for each in notebook.heard if each.get("event") == "checkpoint_hook"] == [event]


async def test_an_idle_kernel_saves_its_work_before_the_guard_ends_the_node(
    cloud: Any, make_node: Any, open_link: Any, tmp_path: Path
) -> None:
    node, saved = await make_node("idle"), tmp_path / "saved"
    link = await open_link(node)
    notebook = Notebook(link)
    await notebook.start()
    notebook.execute("step = 1")
    notebook.execute(SAVE.format(path=str(saved)))
    await notebook.hears(lambda message: is_reply(message) and message["content"]["execution_count"] == 2)
    await link.call("set_brakes", {"rules": IDLE_FOR_A_SECOND, "revision": 1})

    async with asyncio.timeout(PATIENCE_S):
        while await asyncio.to_thread(cloud.is_billed, node):  # noqa: ASYNC110 - a ledger answers, it never calls
            await asyncio.sleep(0.1)

    assert await asyncio.to_thread(saved.read_text) == "True True\n"
