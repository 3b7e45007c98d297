"""The rules between a client and the agent's sessions: turns, urgency, bounds, versions and zombies."""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import tracemalloc
from typing import Any

import pytest
from virtual_loop import VirtualLoop

from jupyter_tpu.link.dialogue import Dialogue
from jupyter_tpu.wire.frames import Kind, encode_frame, encode_json
from jupyter_tpu.wire.multipart import Channel, encode_request

ACCEPTS = ["express", "notice"]
MIB = 1024 * 1024


def kinds(frames: list[Any]) -> set[Kind]:
    return {frame.kind for frame in frames}


async def test_a_flood_of_one_kernel_does_not_starve_another(place: Any, dial: Any) -> None:
    loud, quiet = place.new_kernel(), place.new_kernel()
    loud.say(Channel.IOPUB, *[b"x" * MIB] * 8)
    raw = await dial()
    raw.greet()
    raw.attach(1, loud)
    raw.attach(2, quiet)
    await raw.until(Kind.DATA)
    quiet.say(Channel.IOPUB, b"small")
    heard = 0
    while True:
        data = (await raw.until(Kind.DATA))[-1]
        if data.stream == 2:
            break
        heard += 1
        raw.writer.write(encode_frame(Kind.ACK, 1, data.number + len(data.payload)))
    assert heard < 16, "the small message waited for half of the flood"


async def test_a_control_reply_overtakes_what_waits_for_room(place: Any, dial: Any) -> None:
    kernel = place.new_kernel()
    kernel.say(Channel.IOPUB, *[b"x" * MIB] * 4)
    kernel.say(Channel.CONTROL, b"urgent")
    raw = await dial()
    raw.greet(accepts=ACCEPTS)
    raw.attach(1, kernel)
    express = (await raw.until(Kind.EXPRESS))[-1]
    assert (express.number, express.payload[-6:]) == (5, b"urgent")


async def test_a_control_reply_that_need_not_wait_is_not_sent_twice(place: Any, new_ear: Any) -> None:
    kernel, ear, link = place.new_kernel(), new_ear(), place.link()
    await link.open()
    ear.attach(link, kernel)
    kernel.say(Channel.CONTROL, b"reply")
    await ear.count(1)
    assert (ear.bodies, ear.early) == ([b"reply"], [])
    await link.close()


async def test_early_copies_come_once_over_cuts(place: Any, new_ear: Any) -> None:
    kernel, ear, link = place.new_kernel(), new_ear(), place.link()
    await link.open()
    stream = ear.attach(link, kernel)
    stream.hold()
    await link.call("kernel_info", {"kernel_id": kernel.kernel_id})
    for number in range(5):
        kernel.say(Channel.CONTROL, b"%d" % number)
        await ear.until(lambda number=number: len(ear.early) > number or len(ear.messages) > number)
        place.connection.stream.cut()
        await link.call("kernel_info", {"kernel_id": kernel.kernel_id})
    stream.resume()
    await ear.count(5)
    assert ear.bodies == [b"0", b"1", b"2", b"3", b"4"]
    assert [seq for seq, _ in ear.early] == sorted({seq for seq, _ in ear.early})
    await link.close()


async def test_an_old_client_is_sent_nothing_it_does_not_know(place: Any, dial: Any) -> None:
    kernel = place.new_kernel()
    kernel.say(Channel.IOPUB, *[b"x" * MIB] * 4)
    kernel.say(Channel.CONTROL, b"urgent")
    raw = await dial()
    raw.greet()
    place.tell(spare={"kernel_info": {}})
    raw.attach(1, kernel)
    raw.writer.write(encode_frame(Kind.PING, number=7))
    frames = await raw.until(Kind.PONG)
    frames += [await raw.next() for _ in range(4)]
    assert kinds(frames) <= {Kind.HELLO, Kind.POSITION, Kind.DATA, Kind.PONG}


async def test_what_a_newer_client_accepts_besides_is_ignored(place: Any, dial: Any) -> None:
    raw = await dial()
    raw.greet(accepts=["notice", "teleport", {"a": 1}, None], protocols=[1, 2, 77], more="words")
    assert json.loads((await raw.until(Kind.NOTICE))[-1].payload) == {"spare": None}


async def test_news_of_the_worker_are_told_at_once_and_after_a_cut(place: Any, new_ear: Any) -> None:
    link, kernel = place.link(), place.new_kernel()
    await link.open()
    place.tell(spare={"kernel_info": {"banner": "one"}})
    await link.call("kernel_info", {"kernel_id": kernel.kernel_id})
    assert link.spare == {"kernel_info": {"banner": "one"}}
    place.notice = {"spare": None}
    place.connection.stream.cut()
    await link.call("kernel_info", {"kernel_id": kernel.kernel_id})
    assert link.spare is None
    await link.close()


async def test_a_late_connection_of_a_client_that_has_come_back_is_ended(place: Any, dial: Any) -> None:
    zombie, successor = await dial(), await dial()
    successor.greet(epoch=2)
    await successor.until(Kind.HELLO)
    zombie.greet(epoch=1)
    await zombie.rest()
    successor.writer.write(encode_frame(Kind.PING, number=1))
    await successor.until(Kind.PONG)


async def test_a_client_that_is_not_heard_any_more_is_left_though_it_still_hears(place: Any, dial: Any) -> None:
    place.silence_s = 0.1
    kernel, raw = place.new_kernel(), await dial()
    raw.greet()
    raw.attach(1, kernel)
    hearing = asyncio.create_task(raw.rest())
    async with asyncio.timeout(60):
        while not hearing.done():
            kernel.say(Channel.IOPUB, b"a line")
            await asyncio.wait([hearing], timeout=0.01)
    assert Kind.DATA in kinds(hearing.result())


class FarAgent:
    """Answers pings after varying times: an answer that takes longer than the one before comes after its deadline."""

    def __init__(self) -> None:
        self._answers: asyncio.Queue[bytes] = asyncio.Queue()
        self._delays_s = itertools.cycle((0.1, 0.3))

    async def read(self, n: int) -> bytes:
        return await self._answers.get()

    def write(self, data: bytes) -> None:
        asyncio.get_running_loop().call_later(next(self._delays_s), self._answers.put_nowait, encode_frame(Kind.PONG))

    def close(self) -> None: ...


def test_a_quiet_link_over_a_long_way_stays() -> None:
    async def an_hour() -> None:
        async with asyncio.timeout(3600):
            await Dialogue(FarAgent(), silence_s=12.0).run(lambda _frame: None, lambda: None)  # type: ignore[arg-type]

    with asyncio.Runner(loop_factory=VirtualLoop) as runner, pytest.raises(TimeoutError):
        runner.run(an_hour())


async def test_what_a_fenced_client_writes_afterwards_reaches_no_kernel(place: Any, dial: Any) -> None:
    kernel = place.new_kernel()
    zombie, successor = await dial(), await dial()
    zombie.greet(epoch=1)
    zombie.attach(1, kernel)
    await zombie.until(Kind.POSITION)
    successor.greet(epoch=2)
    successor.attach(1, kernel)
    zombie.writer.write(encode_frame(Kind.REQUEST, 1, 1, encode_request(Channel.SHELL, [b"of the zombie"])))
    await successor.until(Kind.POSITION)
    await zombie.rest()
    successor.writer.write(encode_frame(Kind.REQUEST, 1, 2, encode_request(Channel.SHELL, [b"of the successor"])))
    record = (await successor.until(Kind.DATA))[-1].payload
    assert b"of the successor" in record
    assert kernel.record.next_seq == 2 or b"of the zombie" in record  # before it was fenced, or never


async def test_a_request_that_two_connections_bring_reaches_the_kernel_once(place: Any, dial: Any) -> None:
    kernel = place.new_kernel()
    for epoch in (1, 2):
        raw = await dial()
        raw.greet(epoch=epoch)
        raw.attach(1, kernel)
        raw.writer.write(encode_frame(Kind.REQUEST, 1, 1, encode_request(Channel.SHELL, [b"once"])))
        assert (await raw.until(Kind.REQACK))[-1].number == 1
    assert kernel.record.next_seq == 2


async def test_a_client_that_asks_but_does_not_read_is_not_read_either(place: Any, dial: Any) -> None:
    raw = await dial()
    raw.greet()
    await raw.until(Kind.HELLO)
    raw.writer.transport.pause_reading()
    raw.writer.transport.set_write_buffer_limits(high=0)
    pings = encode_frame(Kind.PING) * 10_000
    taken, is_taken = 0, True
    while is_taken and taken < 64 * MIB:
        raw.writer.write(pings)
        taken += len(pings)
        draining = asyncio.create_task(raw.writer.drain())
        for _ in range(10_000):
            await asyncio.sleep(0)
        is_taken = draining.done()
        draining.cancel()
        await asyncio.wait([draining])
    assert taken < 32 * MIB
    raw.writer.transport.abort()


async def test_a_stream_that_is_closed_frees_the_room_that_its_output_took(place: Any, dial: Any) -> None:
    loud, quiet = place.new_kernel(), place.new_kernel()
    loud.say(Channel.IOPUB, *[b"x" * MIB] * 4)
    quiet.say(Channel.IOPUB, b"small")
    raw = await dial()
    raw.greet()
    raw.attach(1, loud)
    for _ in range(4):
        await raw.until(Kind.DATA)
    raw.writer.write(encode_frame(Kind.DETACH, 1) + encode_frame(Kind.ACK, 1, MIB))
    raw.attach(2, quiet)
    assert (await raw.until(Kind.DATA))[-1].stream == 2


async def test_an_answer_larger_than_a_frame_is_an_error_and_not_a_broken_link(place: Any, dial: Any) -> None:
    kernel = place.new_kernel()
    raw = await dial()
    raw.greet()
    params = {"kernel_id": kernel.kernel_id, "size": 17 * MIB}
    raw.writer.write(encode_json(Kind.CALL, {"method": "talk", "params": params}, number=1))
    assert (await raw.until(Kind.RESULT))[-1].json()["error"]["code"] == "agent_broken"


@pytest.mark.nightly
async def test_memory_stays_flat_over_hundreds_of_cuts(place: Any, new_ear: Any) -> None:
    kernel, ear, link = place.new_kernel(), new_ear(), place.link()
    await link.open()
    stream = ear.attach(link, kernel)

    async def cut(times: int) -> int:
        for _ in range(times):
            stream.send("shell", [b"cell"])
            place.connection.stream.cut()
            await ear.count(1)
            ear.messages.clear()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    await cut(100)
    tracemalloc.start()
    try:
        before = await cut(100)
        after = await cut(600)
    finally:
        tracemalloc.stop()
    assert stream.applied_seq == 800
    assert after - before < 128 * 1024
    await link.close()
