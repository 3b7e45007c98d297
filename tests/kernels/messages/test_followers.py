"""Following a kernel on a node: everything it says, once and in order, whatever the follower and the link do."""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from jupyter_client.manager import AsyncKernelManager
from jupyter_client.session import Session

from jupyter_tpu.errors import BadInput, WrongState
from jupyter_tpu.kernels.kernelspecs import write_kernelspec
from jupyter_tpu.kernels.messages.fanout import RecordFanout
from jupyter_tpu.kernels.messages.loop_bridge import KernelMessage, LoopBridge
from jupyter_tpu.kernels.provisioner import TPUProvisioner
from jupyter_tpu.link import KernelStream
from jupyter_tpu.models import Node


class FrontEnd:
    """What a front end without ZMQ does: it signs what it sends and keeps what it gets."""

    def __init__(self, manager: AsyncKernelManager) -> None:
        self.session = Session(key=manager.session.key)
        self.messages: list[KernelMessage] = []
        self.batches = 0
        self._manager = manager
        self._news = asyncio.Event()
        self._follower: LoopBridge | None = None

    @property
    def follower(self) -> LoopBridge:
        assert self._follower
        return self._follower

    async def follow(self, from_seq: Any = 0) -> FrontEnd:
        self._follower = await provisioner_of(self._manager).follow(from_seq, self._take)
        return self

    def _take(self, messages: list[KernelMessage]) -> None:
        self.messages += messages
        self.batches += 1
        self._news.set()

    def execute(self, code: str) -> str:
        content = {"code": code, "silent": False, "store_history": True, "stop_on_error": False}
        message = self.session.msg("execute_request", content)
        self.follower.send("shell", [b"front-end", *self.session.serialize(message)])
        return str(message["header"]["msg_id"])

    async def run(self, code: str) -> dict[str, Any]:
        """Execute; the reply, once the output is complete as well."""
        request = self.execute(code)
        await self.until(lambda each: is_idle_of(each, request))
        found = await self.until(lambda each: each.channel == "shell" and parent_of(each) == request)
        return dict(json.loads(fields(found)[3]))

    async def until(self, wanted: Callable[[KernelMessage], bool]) -> KernelMessage:
        """The first message, past or future, that is wanted."""
        seen = 0
        async with asyncio.timeout(60):
            while True:
                for message in self.messages[seen:]:
                    if wanted(message):
                        return message
                seen = len(self.messages)
                self._news.clear()
                await self._news.wait()

    async def event(self, name: str) -> dict[str, Any]:
        found = await self.until(lambda each: each.channel == "event" and json.loads(each.parts[0])["event"] == name)
        return dict(json.loads(found.parts[0]))

    def printed(self) -> str:
        streams = (each for each in self.messages if each.channel == "iopub" and b'"stream"' in fields(each)[0])
        return "".join(json.loads(fields(each)[3])["text"] for each in streams)

    @property
    def seqs(self) -> list[int]:
        return [each.seq for each in self.messages]


def fields(message: KernelMessage) -> list[bytes]:
    """Header, parent header, metadata, content."""
    return message.parts[message.parts.index(b"<IDS|MSG>") + 2 :]


def parent_of(message: KernelMessage) -> str:
    return str(json.loads(fields(message)[1]).get("msg_id"))


def is_idle_of(message: KernelMessage, request: str) -> bool:
    return message.channel == "iopub" and b'"idle"' in fields(message)[3] and parent_of(message) == request


def provisioner_of(manager: AsyncKernelManager) -> TPUProvisioner:
    assert isinstance(manager.provisioner, TPUProvisioner)
    return manager.provisioner


@pytest.fixture
async def manager(kernel_name: str) -> AsyncIterator[AsyncKernelManager]:
    manager = AsyncKernelManager(kernel_name=kernel_name)
    await manager.start_kernel()
    yield manager
    await manager.shutdown_kernel(now=True)


async def test_a_message_that_the_consumer_cannot_take_is_named_and_takes_no_other_along() -> None:
    taken: list[KernelMessage] = []

    def take(batch: list[KernelMessage]) -> None:
        if any(message.parts == [b"bad"] for message in batch):
            raise RecursionError("too deep")
        taken.extend(batch)
        if batch[-1].seq == 3:
            is_over.set()

    is_over = asyncio.Event()
    follower = LoopBridge(take)
    follower.begin(following := RecordFanout(), "end", lambda _channel, _parts: None)
    following.reset()
    for seq, part in enumerate([b"one", b"bad", b"two"], start=1):
        follower._take(seq, "iopub", [part])
    async with asyncio.timeout(60):
        await is_over.wait()
    await follower.close()

    assert [message.seq for message in taken] == [1, 2, 3]
    assert [message.parts[0] for message in taken] == [b"one", b'{"event": "unreadable", "seq": 2}', b"two"]


async def test_whoever_follows_gets_all_that_was_recorded_once_and_in_order(manager: AsyncKernelManager) -> None:
    first = await FrontEnd(manager).follow()
    assert (await first.run("for n in range(500): print(n, flush=True)"))["status"] == "ok"
    late = await FrontEnd(manager).follow()
    middle = await FrontEnd(manager).follow(100)
    await first.run("'the end'")
    last = first.messages[-1].seq
    for each in (first, late, middle):
        await each.until(lambda message: message.seq == last)
    assert first.seqs == late.seqs == list(range(1, last + 1))
    assert middle.seqs == list(range(100, last + 1))
    assert (first.follower.first_seq, middle.follower.first_seq) == (1, 100)
    assert first.printed().split() == [str(n) for n in range(500)]
    assert {"shell", "iopub", "event", "request"} <= {message.channel for message in late.messages}


async def test_whoever_follows_from_the_end_gets_only_what_is_new(manager: AsyncKernelManager) -> None:
    first = await FrontEnd(manager).follow()
    await first.run("print('old')")
    new = await FrontEnd(manager).follow("end")
    await new.run("print('new')")
    assert new.printed() == "new\n"
    assert new.follower.first_seq == new.messages[0].seq > 1


@pytest.mark.nightly
async def test_batches_wait_for_each_other(manager: AsyncKernelManager) -> None:
    under_way, most, total = 0, 0, asyncio.Event()

    async def deliver(messages: list[KernelMessage]) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        if any(b"the last line" in part for message in messages for part in message.parts):
            total.set()

    follower = await provisioner_of(manager).follow(0, deliver)
    front_end = await FrontEnd(manager).follow("end")
    front_end.execute("for n in range(2000): print(n, flush=True)\nprint('the last ' + 'line')")
    await asyncio.wait_for(total.wait(), 60)
    assert most == 1
    await follower.close()


@pytest.mark.nightly
async def test_a_cut_of_the_link_loses_and_doubles_nothing(cloud: Any, node: Node, manager: AsyncKernelManager) -> None:
    live = await FrontEnd(manager).follow()
    request = live.execute("import time\nfor n in range(40): print(n, flush=True); time.sleep(0.05)")
    await live.until(lambda message: message.channel == "iopub" and b'"stream"' in fields(message)[0])
    cloud.control.close_ssh(str(node.name))
    late = await FrontEnd(manager).follow()
    cloud.control.open_ssh(str(node.name))
    for each in (live, late):
        await each.until(lambda message: is_idle_of(message, request))
        assert each.printed().split() == [str(n) for n in range(40)]
        assert each.seqs == list(range(1, len(each.seqs) + 1))


async def test_the_state_of_the_link_is_told(cloud: Any, node: Node, manager: AsyncKernelManager) -> None:
    provisioner = provisioner_of(manager)
    assert (provisioner.link_state.state, provisioner.link_state.error_code) == ("live", "")
    live_since = provisioner.link_state.since
    cloud.control.close_ssh(str(node.name))
    async with asyncio.timeout(60):
        while provisioner.link_state.state != "down":  # noqa: ASYNC110 - a field that is looked at when needed
            await asyncio.sleep(0.01)
    assert provisioner.link_state.error_code == "worker_unreachable"
    assert provisioner.link_state.since >= live_since
    cloud.control.open_ssh(str(node.name))
    info = await provisioner.call("kernel_info")  # waits for the link
    assert info["kernel_id"] == provisioner.kernel_id


async def test_a_kernels_death_and_its_next_life_are_told(manager: AsyncKernelManager) -> None:
    front_end = await FrontEnd(manager).follow()
    front_end.execute("import os; os._exit(3)")
    assert (await front_end.event("exited"))["exit_code"] == 3
    await manager.restart_kernel(now=True)
    assert (await front_end.run("print('back')"))["status"] == "ok"
    assert front_end.seqs == list(range(1, len(front_end.seqs) + 1))


@pytest.mark.nightly
async def test_the_loss_of_the_node_is_told_and_the_next_kernel_followed(cloud: Any) -> None:
    doomed = await asyncio.to_thread(cloud.create_node, "doomed-follower")
    manager = AsyncKernelManager(kernel_name=write_kernelspec(doomed, cloud.settings))
    await manager.start_kernel()
    front_end = await FrontEnd(manager).follow()
    await asyncio.to_thread(cloud.stop_node, doomed.name)
    assert (await front_end.event("lost"))["error_code"] == "wrong_state"
    await asyncio.to_thread(cloud.start_node, doomed.name)
    await manager.restart_kernel(now=True)
    assert (await front_end.run("1"))["status"] == "ok"
    await manager.shutdown_kernel(now=True)
    await front_end.event("closed")


@pytest.mark.nightly
async def test_a_kernel_forgotten_by_somebody_else_is_told_and_the_next_one_followed(
    manager: AsyncKernelManager,
) -> None:
    front_end = await FrontEnd(manager).follow()
    await front_end.run("'some output'")
    await provisioner_of(manager).call("forget_kernel")
    assert "shut down" in (await front_end.event("gone"))["message"]
    assert not await manager.is_alive()
    await manager.restart_kernel(now=True)
    assert (await front_end.run("print('anew')"))["status"] == "ok"
    fresh = await FrontEnd(manager).follow()
    await fresh.until(lambda message: message == front_end.messages[-1])
    assert front_end.seqs[-len(fresh.seqs) :] == fresh.seqs == list(range(1, len(fresh.seqs) + 1))


async def test_a_place_beyond_the_record_belongs_to_another_one(manager: AsyncKernelManager) -> None:
    lost = await FrontEnd(manager).follow(10_000)
    await lost.event("new_record")
    assert (await lost.run("1"))["status"] == "ok"
    assert [seq for seq in lost.seqs if seq < 9_999] == list(range(1, len(lost.seqs)))


@pytest.mark.nightly
async def test_followers_that_come_and_go_at_any_moment_leave_nothing_behind(manager: AsyncKernelManager) -> None:
    steady = await FrontEnd(manager).follow()
    request = steady.execute("for n in range(3000): print(n, flush=True)")
    stuck = asyncio.Event()

    async def wait(messages: list[KernelMessage]) -> None:
        await stuck.wait()

    def streams() -> int:
        gc.collect()  # what earlier tests left is nobody's
        return sum(isinstance(each, KernelStream) and not each.is_closed for each in gc.get_objects())

    before = len(asyncio.all_tasks()), threading.active_count()
    for number in range(300):
        following = asyncio.create_task(provisioner_of(manager).follow(number if number % 3 else "end", wait))
        for _ in range(number % 7):
            await asyncio.sleep(0)
        if not following.cancel():
            await (await following).close()
        await asyncio.gather(following, return_exceptions=True)
        follower = await provisioner_of(manager).follow(number, wait)
        for _ in range(number % 5):
            await asyncio.sleep(0)
        await follower.close()
        await follower.close()
    await steady.until(lambda message: is_idle_of(message, request))
    async with asyncio.timeout(60):
        while streams() != 1:  # noqa: ASYNC110 - a slow reader joins the live stream without any event
            await asyncio.sleep(0.1)
        while len(asyncio.all_tasks()) > before[0]:  # noqa: ASYNC110 - tasks that were cancelled end a turn later
            await asyncio.sleep(0.1)
    assert threading.active_count() <= before[1]
    assert steady.printed().split() == [str(n) for n in range(3000)]


async def test_a_follower_may_close_itself_while_it_is_served(manager: AsyncKernelManager) -> None:
    follower, calls, closed = None, 0, asyncio.Event()

    async def deliver(messages: list[KernelMessage]) -> None:
        nonlocal calls
        if follower:  # what comes before it is returned cannot close it
            calls += 1
            await follower.close()
            closed.set()

    follower = await provisioner_of(manager).follow("end", deliver)
    front_end = await FrontEnd(manager).follow("end")
    await front_end.run("print(1)")
    await asyncio.wait_for(closed.wait(), 60)
    await front_end.run("print(2)")
    assert calls == 1


async def test_a_receiver_that_fails_once_misses_nothing(
    manager: AsyncKernelManager, caplog: pytest.LogCaptureFixture
) -> None:
    seqs: list[int] = []
    refused: list[KernelMessage] = []
    delivered = asyncio.Event()

    def fail_first(messages: list[KernelMessage]) -> None:
        if not refused:
            refused.extend(messages)
            raise ValueError("unwanted")
        seqs.extend(message.seq for message in messages)
        delivered.set()

    await provisioner_of(manager).follow(0, fail_first)
    front_end = await FrontEnd(manager).follow()
    await front_end.run("1")
    await asyncio.wait_for(delivered.wait(), 60)
    assert "could not be delivered" in caplog.text
    assert seqs == list(range(refused[0].seq, refused[0].seq + len(seqs)))


async def test_a_message_too_large_for_the_link_is_refused_to_who_sends_it(manager: AsyncKernelManager) -> None:
    front_end = await FrontEnd(manager).follow()
    with pytest.raises(BadInput, match="cannot be sent to a kernel"):
        front_end.follower.send("shell", [b"x"] * 0x10000)
    assert (await front_end.run("1"))["status"] == "ok"


async def test_a_kernel_that_was_never_started_cannot_be_followed() -> None:
    with pytest.raises(WrongState, match="No kernel"):
        await TPUProvisioner(kernel_id="x").follow(0, lambda messages: None)


FLOOD = """
import asyncio, os, sys
import psutil
from jupyter_client.manager import AsyncKernelManager
from jupyter_client.session import Session

MIB = 1024 * 1024

async def main():
    manager = AsyncKernelManager(kernel_name=sys.argv[1])
    await manager.start_kernel()
    session, got, ended = Session(key=manager.session.key), 0, asyncio.Event()

    async def stuck(messages):
        await ended.wait()

    def count(messages):
        nonlocal got
        got += sum(len(part) for message in messages for part in message.parts)
        if any(b"the last line" in part for message in messages for part in message.parts):
            ended.set()

    for _ in range(3):
        await manager.provisioner.follow(0, stuck)
    counting = await manager.provisioner.follow(0, count)
    before = psutil.Process().memory_info().rss
    code = "for n in range(3200): print('x' * 65535, flush=True)\\nprint('the last ' + 'line')"
    request = session.msg("execute_request", {"code": code, "silent": False})
    counting.send("shell", [b"me", *session.serialize(request)])
    most = before
    while not ended.is_set():
        await asyncio.sleep(0.05)
        most = max(most, psutil.Process().memory_info().rss)
    print(got // MIB, (most - before) // MIB)
    await manager.shutdown_kernel(now=True)

asyncio.run(main())
"""


@pytest.mark.nightly
def test_followers_that_never_finish_their_first_batch_cost_no_memory_and_stop_nobody(kernel_name: str) -> None:
    done = subprocess.run([sys.executable, "-c", FLOOD, kernel_name], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    got_mib, grown_mib = map(int, done.stdout.split())
    assert got_mib >= 200
    assert grown_mib < 64
