"""What a page gets behind outputs that it may have got before."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest
from jupyter_client.session import DELIM
from virtual_loop import VirtualLoop

from jupyter_tpu.errors import LoginRefused, WorkerUnreachable
from jupyter_tpu.kernels.connections.pool import LinkStatus
from jupyter_tpu.server.websocket.page_messages import PageMessage
from jupyter_tpu.server.websocket.repeats import with_cells_refilled
from jupyter_tpu.wire.entries import encode_entry
from jupyter_tpu.wire.multipart import Channel, channel_name

Entry = tuple[Channel, list[bytes]]


def entry(kind: str, channel: Channel = Channel.IOPUB, parent: str = "a", msg_id: str = "", **content: Any) -> Entry:
    header = {"msg_id": msg_id or f"{kind} of {parent}", "msg_type": kind, "session": "s"}
    parent_header = {} if msg_id else {"msg_id": parent, "msg_type": "execute_request"}
    frames = [json.dumps(each).encode() for each in (header, parent_header, {}, content)]
    return channel, [DELIM, b"", *frames]


REQUEST = entry("execute_request", Channel.REQUEST, msg_id="a", code="")
BUSY = entry("status", execution_state="busy")
IDLE = entry("status", execution_state="idle")
REPLY = entry("execute_reply", Channel.SHELL, status="ok")
ONE, TWO, THREE = (entry("stream", name="stdout", text=f"{text}\n") for text in ("one", "two", "three"))
CAPTURE = entry("comm_open", comm_id="c", data={"state": {"_model_name": "OutputModel", "msg_id": "a"}})


class Record:
    """A kernel whose agent has this record, of one request; a message's seq is its place, from 1 on."""

    def __init__(self, *entries: Entry, omitted: int = 0, link: str = "live") -> None:
        self._entries = list(enumerate(entries, 1))
        self._omitted = omitted
        self.link_state = LinkStatus(state=link, since=0.0)

    async def call(self, _method: str, **_params: Any) -> dict[str, Any]:
        data = b"".join(encode_entry(seq, 0.0, channel, parts) for seq, (channel, parts) in self._entries)
        entries = base64.b64encode(data).decode()
        return {"entries": entries, "head_seq": 1, "omitted_bytes": self._omitted, "omitted_messages": 1}

    def messages(self, from_seq: int) -> list[PageMessage]:
        """Those for a page."""
        made = [
            PageMessage.from_parts(seq, channel_name(channel), parts)
            for seq, (channel, parts) in self._entries
            if seq >= from_seq and channel != Channel.REQUEST
        ]
        return [message for message in made if message]


class LostRecord(Record):
    """A kernel whose link is lost."""

    async def call(self, _method: str, **_params: Any) -> dict[str, Any]:
        raise WorkerUnreachable("The connection to the worker is closed.")


async def told(record: Record, from_seq: int, repeated_until: int) -> list[tuple[int, str, Any]]:
    """Place, type and content of what the page gets."""

    def make_header(kind: str) -> dict[str, Any]:
        return {"msg_id": "new", "msg_type": kind}

    messages = await with_cells_refilled(record, record.messages(from_seq), repeated_until, make_header)
    return [(message.seq, message.msg_type, json.loads(message.content)) for message in messages]


def plain(record: Record, from_seq: int) -> list[tuple[int, str, Any]]:
    messages = record.messages(from_seq)
    return [(message.seq, message.msg_type, json.loads(message.content)) for message in messages]


async def test_a_cell_is_cleared_and_filled_behind_the_last_output_that_a_page_may_have() -> None:
    record = Record(REQUEST, BUSY, ONE, TWO, THREE)

    assert await told(record, from_seq=4, repeated_until=4) == [
        (4, "stream", {"name": "stdout", "text": "two\n"}),
        (4, "clear_output", {"wait": True}),
        (4, "stream", {"name": "stdout", "text": "one\ntwo\n"}),
        (5, "stream", {"name": "stdout", "text": "three\n"}),
    ]


@pytest.mark.parametrize("end", [REPLY, IDLE], ids=["reply", "idle"])
async def test_a_cell_is_filled_before_its_end_with_which_a_front_end_stops_to_listen(end: Entry) -> None:
    record = Record(REQUEST, BUSY, ONE, end, TWO)

    kinds = [(seq, kind) for seq, kind, _ in await told(record, from_seq=3, repeated_until=5)]

    end_kind = json.loads(end[1][2])["msg_type"]
    assert kinds == [(3, "stream"), (3, "clear_output"), (3, "stream"), (4, end_kind), (5, "stream")]


async def test_a_cell_that_showed_nothing_is_cleared_at_once() -> None:
    record = Record(REQUEST, BUSY, ONE, entry("clear_output", wait=False))

    assert (await told(record, from_seq=3, repeated_until=4))[-1] == (4, "clear_output", {"wait": False})


@pytest.mark.parametrize(
    "record",
    [
        Record(REQUEST, BUSY, CAPTURE, ONE),
        Record(REQUEST, BUSY, ONE, TWO, omitted=1),
        LostRecord(REQUEST, BUSY, ONE, TWO),
        Record(ONE, ONE, ONE, TWO),
    ],
    ids=["Output widget", "more than is read", "link lost", "beginning not recorded"],
)
async def test_what_the_record_cannot_show_in_full_is_repeated_and_clears_nothing(record: Record) -> None:
    assert await told(record, from_seq=3, repeated_until=4) == plain(record, from_seq=3)


@pytest.mark.parametrize("link", ["live", "down"])
def test_a_cell_is_filled_however_long_its_node_takes_to_answer(link: str) -> None:
    class SlowRecord(Record):
        async def call(self, method: str, **params: Any) -> dict[str, Any]:
            await asyncio.sleep(60)
            return await super().call(method, **params)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        filled = runner.run(told(SlowRecord(REQUEST, BUSY, ONE, TWO, link=link), from_seq=4, repeated_until=4))
    assert filled[1:] == [
        (4, "clear_output", {"wait": True}),
        (4, "stream", {"name": "stdout", "text": "one\ntwo\n"}),
    ]


def test_no_page_waits_for_a_link_that_a_person_must_repair() -> None:
    class UnreachableRecord(Record):
        """A kernel whose link is found to need a repair only while it is waited for."""

        async def call(self, _method: str, **_params: Any) -> dict[str, Any]:
            await asyncio.sleep(60)
            self.link_state = LinkStatus(state="down", since=0.0, error_code=LoginRefused.code)
            await asyncio.get_running_loop().create_future()
            raise AssertionError("never")

    record = UnreachableRecord(REQUEST, BUSY, ONE, TWO, link="down")
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        sent = runner.run(asyncio.wait_for(told(record, from_seq=4, repeated_until=4), 600))
    assert sent == plain(record, from_seq=4)


async def test_a_cell_with_an_output_that_is_left_out_is_filled_with_the_notice_in_its_place() -> None:
    record = Record(REQUEST, BUSY, ONE, entry("display_data", data={"text/plain": "x" * 10_000}, metadata={}), TWO)

    def make_header(kind: str) -> dict[str, Any]:
        return {"msg_id": "new", "msg_type": kind}

    def unless_left_out(message: PageMessage) -> list[PageMessage]:
        notice = PageMessage.made(
            make_header("stream"), message.parent_header, {"name": "stderr", "text": "left out\n"}
        )
        return [notice.at(message.seq)] if (message.seq, message.msg_type) == (4, "display_data") else [message]

    sent = [each for message in record.messages(3) for each in unless_left_out(message)]
    messages = await with_cells_refilled(record, sent, 4, make_header, 10_000, unless_left_out)
    assert [(each.seq, json.loads(each.content).get("text", "")) for each in messages] == [
        (3, "one\n"),
        (4, "left out\n"),
        (4, ""),
        (4, "one\n"),
        (4, "left out\n"),
        (5, "two\n"),
    ]


async def test_what_a_page_cannot_have_is_sent_as_it_is() -> None:
    record = Record(REQUEST, BUSY, ONE, REPLY, IDLE)

    assert await told(record, from_seq=3, repeated_until=2) == plain(record, from_seq=3)
    assert await told(record, from_seq=4, repeated_until=5) == plain(record, from_seq=4)
