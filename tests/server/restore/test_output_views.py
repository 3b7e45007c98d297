"""The answer on outputs, from what agents of all kinds tell: what fits, what is one moment, what makes no sense."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping
from typing import Any

import pytest
from virtual_loop import VirtualLoop

from jupyter_tpu.errors import AgentBroken, BadInput, LinkDown
from jupyter_tpu.kernels.connections.pool import LinkStatus
from jupyter_tpu.server.restore.kernel_outputs import outputs_of
from jupyter_tpu.wire.entries import encode_entry
from jupyter_tpu.wire.multipart import Channel


class AgentThatSays:
    """A kernel's provisioner whose agent gives these answers."""

    def __init__(self, listing: Any, excerpts: Mapping[str, Any], link: str = "live") -> None:
        self.link_state = LinkStatus(state=link, since=0.0)
        self._listing = listing
        self._excerpts = excerpts

    async def call(self, method: str, **params: Any) -> Any:
        if method == "list_requests":
            return self._listing
        if params["msg_id"] not in self._excerpts:
            raise BadInput("The worker knows no such request.")
        return self._excerpts[params["msg_id"]]


def part(kind: str, content: Any, parent: Any, metadata: Any = None, msg_id: str = "") -> list[bytes]:
    header = {"msg_id": msg_id, "msg_type": kind, "session": "s"}
    return [b"<IDS|MSG>", b"", *(json.dumps(each).encode() for each in (header, parent, metadata or {}, content))]


def asked(seq: int, msg_id: str) -> bytes:
    return encode_entry(seq, 0.0, Channel.REQUEST, part("execute_request", {"code": msg_id}, {}, {}, msg_id))


def said(seq: int, msg_id: str, kind: str, **content: Any) -> bytes:
    parent = {"msg_id": msg_id, "msg_type": "execute_request"}
    return encode_entry(seq, 0.0, Channel.IOPUB, part(kind, content, parent))


def printed(seq: int, msg_id: str, text: str) -> bytes:
    return said(seq, msg_id, "stream", name="stdout", text=text)


def listed(msg_id: str, first_seq: int, cell_id: str | None = None, **fields: Any) -> dict[str, Any]:
    told = {"msg_id": msg_id, "session": "s", "cell_id": cell_id, "first_seq": first_seq, "last_seq": first_seq + 5}
    told |= {"bytes": 1000, "state": "done", "status": "ok", "execution_count": 1, "input_seq": None}
    return {**told, "unknown": "field", **fields}


def listing(*requests: Any, next_seq: int = 1000) -> dict[str, Any]:
    return {"requests": list(requests), "next_seq": next_seq, "execution_state": "idle"}


def excerpt(*entries: bytes, head_seq: int = 0, omitted_bytes: int = 0, omitted_messages: int = 0) -> dict[str, Any]:
    omitted = {"head_seq": head_seq, "omitted_bytes": omitted_bytes, "omitted_messages": omitted_messages}
    return {"entries": base64.b64encode(b"".join(entries)).decode(), "last_seq": 0, **omitted}


async def answer_of(agent: AgentThatSays, *only: str) -> dict[str, Any]:
    pieces = await outputs_of(agent, "k", only)
    answer: dict[str, Any] = json.loads(b"".join(pieces))
    return answer


async def test_nothing_newer_than_the_answer_is_part_of_it() -> None:
    excerpts = {"a": excerpt(asked(1, "a"), printed(5, "a", "known "), printed(9, "a", "newer"))}

    answer = await answer_of(AgentThatSays(listing(listed("a", 1), next_seq=6), excerpts))

    assert answer["seq"] == 5
    assert answer["requests"][0]["outputs"][0]["text"] == "known "


async def test_what_a_cell_printed_while_others_were_read_is_part_of_the_answer() -> None:
    class Busy(AgentThatSays):
        """Reading takes long enough for the running cell to print and for its user to run another."""

        async def call(self, method: str, **params: Any) -> Any:
            told = await super().call(method, **params)
            if method == "read_request" and params["msg_id"] == "old":
                running = listed("a", 11, "A", last_seq=14, state="running", status=None)
                self._listing = listing(self._listing["requests"][0], running, listed("b", 15, "B"), next_seq=18)
                self._excerpts = {
                    "a": excerpt(asked(11, "a"), printed(12, "a", "before "), printed(14, "a", "meanwhile")),
                    "b": excerpt(asked(15, "b"), printed(16, "b", "next")),
                }
            return told

    running = listed("a", 11, "A", last_seq=12, state="running", status=None)
    excerpts = {
        "old": excerpt(asked(1, "old"), printed(2, "old", "done")),
        "a": excerpt(asked(11, "a"), printed(12, "a", "before ")),
    }

    answer = await answer_of(Busy(listing(listed("old", 1, "O"), running, next_seq=13), excerpts))

    shown = {each["cell_id"]: each["outputs"][0]["text"] for each in answer["requests"]}
    assert shown == {"O": "done", "A": "before meanwhile", "B": "next"}
    assert answer["seq"] == 17


async def test_a_request_whose_cell_was_run_again_still_updates_the_displays_of_others() -> None:
    def shown(seq: int, msg_id: str, kind: str, text: str) -> bytes:
        data = {"text/plain": text}
        return said(seq, msg_id, kind, data=data, metadata={}, transient={"display_id": "d"})

    excerpts = {
        "a": excerpt(asked(1, "a"), shown(2, "a", "display_data", "1")),
        "b": excerpt(asked(11, "b"), shown(12, "b", "update_display_data", "2")),
        "c": excerpt(asked(21, "c")),
    }
    agent = AgentThatSays(listing(listed("a", 1, "A"), listed("b", 11, "B"), listed("c", 21, "B")), excerpts)

    answer = await answer_of(agent)

    assert [request["msg_id"] for request in answer["requests"]] == ["a", "c"]
    assert answer["requests"][0]["outputs"][0]["data"] == {"text/plain": "2"}


async def test_of_requests_without_a_cell_the_newest_twenty_come() -> None:
    requests = [listed(f"r{number}", number * 10) for number in range(1, 31)]
    excerpts = {each["msg_id"]: excerpt(asked(each["first_seq"], each["msg_id"])) for each in requests}

    answer = await answer_of(AgentThatSays(listing(*requests), excerpts))

    assert [request["msg_id"] for request in answer["requests"]] == [f"r{number}" for number in range(11, 31)]


async def test_what_finds_no_room_is_named_without_outputs_and_can_be_asked_for_alone() -> None:
    requests = [listed(f"r{number}", number * 10 + 1, f"c{number}") for number in range(60)]
    excerpts = {
        each["msg_id"]: excerpt(
            asked(each["first_seq"], each["msg_id"]), printed(each["first_seq"] + 1, each["msg_id"], "x" * 199_000)
        )
        for each in requests
    }
    agent = AgentThatSays(listing(*requests), excerpts)

    all_of_them = (await answer_of(agent))["requests"]
    alone = (await answer_of(agent, "r0"))["requests"]

    assert [request["outputs"] is None for request in all_of_them] == [True] * 10 + [False] * 50
    assert all_of_them[0]["omitted_bytes"] == 1000
    assert all_of_them[0]["code"] == "r0"
    assert len(alone[0]["outputs"][0]["text"]) == 199_000


async def test_what_the_agent_left_out_is_told_where_it_is_missing() -> None:
    entries = [asked(1, "a"), printed(2, "a", "first\n"), printed(9, "a", "last\n")]
    excerpts = {"a": excerpt(*entries, head_seq=2, omitted_bytes=5_000_000, omitted_messages=6)}

    (request,) = (await answer_of(AgentThatSays(listing(listed("a", 1)), excerpts)))["requests"]

    assert request["outputs"][0]["text"] == "first\n… 5.0 MB more on the node\nlast\n"
    assert 4_990_000 < request["omitted_bytes"] <= 5_000_000


async def test_what_the_agent_knows_to_have_ended_is_not_shown_as_running() -> None:
    excerpts = {"a": excerpt(asked(1, "a"), said(2, "a", "status", execution_state="busy"))}
    agent = AgentThatSays(listing(listed("a", 1, status="lost")), excerpts)

    (request,) = (await answer_of(agent))["requests"]

    assert (request["state"], request["status"], request["messages"]) == ("lost", "lost", None)


async def test_a_request_that_the_agent_has_forgotten_meanwhile_keeps_no_other_from_its_cell() -> None:
    agent = AgentThatSays(listing(listed("a", 1, "A"), listed("b", 11, "B")), {"b": excerpt(asked(11, "b"))})

    first, second = (await answer_of(agent))["requests"]

    assert (first["outputs"], first["header"]["msg_id"]) == (None, "a")
    assert second["outputs"] == []


NONSENSE: dict[str, tuple[Any, Any]] = {
    "no requests": ({}, {}),
    "a list": ([], {}),
    "requests that are none": (listing("a"), {}),
    "a seq that is a word": (listing(listed("a", 1, last_seq="x")), {}),
    "no next seq": ({"requests": [], "execution_state": "idle"}, {}),
    "no entries": (listing(listed("a", 1)), {"omitted_bytes": 0}),
    "entries that are no base64": (listing(listed("a", 1)), {**excerpt(), "entries": "é"}),
    "entries that are damaged": (listing(listed("a", 1)), excerpt(asked(1, "a")[:-1] + b"x")),
    "entries without end": (listing(listed("a", 1)), excerpt(b"\xff" * 100)),
}


@pytest.mark.parametrize(("told", "read"), NONSENSE.values(), ids=NONSENSE)
async def test_an_agent_that_speaks_nonsense_is_called_broken(told: Any, read: Any) -> None:
    with pytest.raises(AgentBroken, match="is invalid"):
        await outputs_of(AgentThatSays(told, {"a": read}), "k")


async def test_nobody_waits_for_a_link_that_is_down() -> None:
    agent = AgentThatSays(listing(), {}, link="down")

    with pytest.raises(LinkDown, match="is disconnected"):
        await outputs_of(agent, "k")


LISTING_BYTES = 600_000
"""Of the 2,000 requests that an agent remembers."""


class Distant(AgentThatSays):
    """Answers come one after the other, as fast as the link carries them."""

    def __init__(self, listing: Any, excerpts: Mapping[str, Any], bytes_per_s: float) -> None:
        super().__init__(listing, excerpts)
        self._bytes = {each["msg_id"]: each["bytes"] for each in listing["requests"]}
        self._bytes_per_s = bytes_per_s
        self._line = asyncio.Lock()

    async def call(self, method: str, **params: Any) -> Any:
        async with self._line:
            await asyncio.sleep(self._bytes.get(params.get("msg_id", ""), LISTING_BYTES) / self._bytes_per_s)
        return await super().call(method, **params)


def test_over_a_slow_link_some_large_outputs_come_at_once_and_the_others_alone() -> None:
    async def run() -> tuple[list[str], list[str]]:
        agent = Distant(listing(*large, *small), excerpts, bytes_per_s=50_000)
        requests = (await answer_of(agent))["requests"]
        missing = [each["msg_id"] for each in requests if each["outputs"] is None]
        alone = [(await answer_of(agent, msg_id))["requests"][0] for msg_id in missing]
        return missing, [each["outputs"][0]["text"] for each in alone]

    large = [listed(f"large{number}", number * 10 + 1, f"c{number}", bytes=2_000_000) for number in range(8)]
    small = [listed(f"small{number}", number * 10 + 1, f"c{number}") for number in range(8, 20)]
    excerpts = {
        each["msg_id"]: excerpt(
            asked(each["first_seq"], each["msg_id"]), printed(each["first_seq"] + 1, each["msg_id"], each["msg_id"])
        )
        for each in large + small
    }

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        missing, alone = runner.run(run())

    assert missing == [each["msg_id"] for each in large[:6]]
    assert alone == missing


def test_what_grew_while_it_was_read_and_cannot_be_read_again_in_time_is_left_to_be_asked_for() -> None:
    class Growing(Distant):
        """Three cells print while their outputs are read, and the link gets slower."""

        async def call(self, method: str, **params: Any) -> Any:
            answer = await super().call(method, **params)
            if method == "read_request":
                each = next(each for each in self._listing["requests"] if each["msg_id"] == params["msg_id"])
                each["last_seq"] += 1
                self._bytes_per_s = 100_000 if each["msg_id"] == "a" else self._bytes_per_s
            return answer

    running = {"bytes": 2_000_000, "state": "running", "status": None}
    requests = [listed(msg_id, number * 100 + 1, msg_id, **running) for number, msg_id in enumerate("abc")]
    excerpts = {
        each["msg_id"]: excerpt(
            asked(each["first_seq"], each["msg_id"]), printed(each["first_seq"] + 1, each["msg_id"], "x")
        )
        for each in requests
    }

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        answer = runner.run(answer_of(Growing(listing(*requests), excerpts, bytes_per_s=1_000_000)))

    assert [each["outputs"] is None for each in answer["requests"]] == [True, False, False]


def test_a_read_is_given_up_when_the_link_goes() -> None:
    class Cut(AgentThatSays):
        async def call(self, method: str, **params: Any) -> Any:
            if method == "read_request":
                self.link_state = LinkStatus(state="down", since=0.0)
                await asyncio.sleep(3600)
            return await super().call(method, **params)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner, pytest.raises(LinkDown, match="is not responding"):
        runner.run(answer_of(Cut(listing(listed("a", 1)), {})))
