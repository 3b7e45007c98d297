"""The agent knows what was asked of a kernel, how far it got, and gives back its messages."""

from __future__ import annotations

import asyncio
import os
import signal
from base64 import b64decode
from typing import Any

import pytest

from jupyter_tpu.errors import BadInput
from jupyter_tpu.wire.entries import Entry, EntryDecoder

KERNEL = {"kernel_id": "kernel-1"}


async def requests_of(client: Any) -> dict[str, dict[str, Any]]:
    """The index of the client's kernel, by msg_id."""
    answer = await client.link.call("list_requests", KERNEL)
    return {request["msg_id"]: request for request in answer["requests"]}


async def read(client: Any, msg_id: str, **sizes: int) -> tuple[list[Entry], dict[str, Any]]:
    answer = await client.link.call("read_request", {**KERNEL, "msg_id": msg_id, **sizes})
    return list(EntryDecoder().feed(b64decode(answer["entries"]))), answer


async def state_of(client: Any) -> str:
    return str((await client.link.call("list_requests", KERNEL))["execution_state"])


def assert_same(after: dict[str, dict[str, Any]], before: dict[str, dict[str, Any]]) -> None:
    """Both indexes are the same, but for the moment when each answer read both clocks."""
    for cell, request in before.items():
        moved = {name: pytest.approx(request[name], abs=1) for name in ("asked_at", "started_at", "ended_at")}
        assert after[cell] == {**request, **moved}
    assert list(after) == list(before)


async def test_a_cell_is_indexed_with_its_outcome(client: Any) -> None:
    await client.start()
    cell = client.execute("print('shown')\n1+1", metadata={"cellId": "cell-7"})
    await client.reply(cell)
    request = (await requests_of(client))[cell]
    assert request["cell_id"] == "cell-7"
    assert (request["state"], request["status"], request["execution_count"]) == ("done", "ok", 1)
    assert request["session"] == client.session.session
    assert request["asked_at"] <= request["started_at"] <= request["ended_at"]
    mine = [message["seq"] for message in client.messages if message.get("parent_header", {}).get("msg_id") == cell]
    assert request["first_seq"] < min(mine)
    assert request["last_seq"] == max(mine)
    assert await state_of(client) == "idle"


async def test_running_and_queued_cells_are_told_apart(client: Any) -> None:
    await client.start()
    first, second = client.execute("print(input('go?'))", allow_stdin=True), client.execute("1/0")
    question = await client.wait(lambda message: message["channel"] == "stdin")
    requests = await requests_of(client)
    assert [requests[cell]["state"] for cell in (first, second)] == ["running", "queued"]
    assert requests[first]["input_seq"] == question["seq"]
    assert await state_of(client) == "busy"
    client.send("stdin", "input_reply", {"value": "secret word"}, parent=question)
    await client.reply(second)
    requests = await requests_of(client)
    assert [requests[cell]["status"] for cell in (first, second)] == ["ok", "error"]
    assert requests[first]["input_seq"] is None


@pytest.mark.parametrize(("function", "kept"), [("input", {"value": "secret word"}), ("getpass", {})])
async def test_a_request_is_in_the_record_before_its_answers_and_an_input_reply_without_a_password(
    client: Any, function: str, kept: dict[str, str]
) -> None:
    await client.start()
    await client.run("from getpass import getpass")
    cell = client.execute(f"typed = {function}('who? ')", allow_stdin=True)
    question = await client.wait(lambda message: message["channel"] == "stdin")
    client.send("stdin", "input_reply", {"value": "secret word"}, parent=question)
    await client.reply(cell)
    _, *asked = [message for message in client.messages if message["channel"] == "request"]
    assert [message["msg_type"] for message in asked] == ["execute_request", "input_reply"]
    assert asked[0]["content"]["code"] == f"typed = {function}('who? ')"
    assert asked[1]["content"] == kept
    assert any(b"secret word" in part for _, _, parts in client.raw for part in parts) == bool(kept)


async def test_the_index_outlives_the_agent(client: Any) -> None:
    await client.start()
    done, failed = client.execute("print('x' * 1000)"), client.execute("1/0")
    await client.reply(failed)
    running = client.execute("print(input('go?'))", allow_stdin=True)
    await client.wait(lambda message: message["channel"] == "stdin")
    before = await requests_of(client)
    os.kill(client.link.agent["pid"], signal.SIGKILL)
    after = await requests_of(client)
    assert [after[cell]["state"] for cell in (done, failed, running)] == ["done", "done", "running"]
    assert_same(after, before)
    assert await state_of(client) == "busy"


async def test_what_was_open_when_the_kernel_ended_is_lost(client: Any) -> None:
    await client.start()
    running, queued = client.execute("input('never')", allow_stdin=True), client.execute("1")
    await client.wait(lambda message: message["channel"] == "stdin")
    await client.link.call("kill_kernel", KERNEL)
    requests = await requests_of(client)
    assert [(requests[cell]["state"], requests[cell]["status"]) for cell in (running, queued)] == [("done", "lost")] * 2
    assert await state_of(client) == "dead"


@pytest.mark.nightly
async def test_all_of_a_small_request_is_read_and_nothing_of_others(client: Any) -> None:
    await client.start()
    await client.run("print('before')")
    cell = client.execute("print('mine')\n'result'")
    await client.reply(cell)
    await client.run("print('after')")
    entries, answer = await read(client, cell)
    expected = [
        (message["seq"], message["channel"])
        for message in client.messages
        if message.get("parent_header", {}).get("msg_id") == cell or message.get("header", {}).get("msg_id") == cell
    ]
    assert [entry.seq for entry in entries] == [seq for seq, _ in expected]
    assert [entry.parts for entry in entries] == [client.raw[entry.seq - 1][2] for entry in entries]
    assert (answer["omitted_bytes"], answer["omitted_messages"]) == (0, 0)


async def test_of_a_large_request_the_beginning_and_the_end_are_read(client: Any) -> None:
    await client.start()
    cell = client.execute("for i in range(800): print(i, 'x' * 2000, flush=True)")
    await client.reply(cell)
    request = (await requests_of(client))[cell]
    entries, answer = await read(client, cell, head_bytes=20_000, tail_bytes=180_000)
    sizes = 200_000 + 2 * 800
    seqs = [entry.seq for entry in entries]
    assert seqs[0] == request["first_seq"]
    assert seqs[-1] == request["last_seq"] == answer["last_seq"]
    assert seqs == sorted(set(seqs))
    assert sum(len(part) for entry in entries for part in entry.parts) <= sizes
    assert answer["omitted_messages"] == request["messages"] - len(entries) > 500
    text = b"".join(part for entry in entries for part in entry.parts)
    assert b'"0 xxx' in text
    assert b"799 xxx" in text  # a kernel may put two lines into one message


async def test_a_request_that_nobody_made_is_refused(client: Any) -> None:
    await client.start()
    with pytest.raises(BadInput, match="no record of this request"):
        await client.link.call("read_request", {**KERNEL, "msg_id": "nonsense"})


async def test_a_note_is_kept_with_the_kernel_over_the_death_of_the_agent(client: Any) -> None:
    await client.start()
    await client.link.call("note_kernel", {**KERNEL, "note": {"path": "work/Übung.ipynb"}})
    os.kill(client.link.agent["pid"], signal.SIGKILL)
    (kernel,) = (await client.link.call("list_kernels"))["kernels"]
    assert kernel["note"] == {"path": "work/Übung.ipynb"}
    with pytest.raises(BadInput, match="16 KiB"):
        await client.link.call("note_kernel", {**KERNEL, "note": {"path": "x" * 20_000}})


@pytest.mark.nightly
async def test_calls_are_answered_while_a_large_request_is_read(client: Any) -> None:
    await client.start()
    cell = client.execute("for i in range(300): print(str(i) * 20000, flush=True)")
    await client.reply(cell)
    reading = [asyncio.create_task(read(client, cell)) for _ in range(3)]
    assert (await client.link.call("kernel_info", KERNEL))["alive"]
    assert len({len(entries) for entries, _ in await asyncio.gather(*reading)}) == 1


@pytest.mark.nightly
async def test_the_index_of_a_large_record_outlives_the_agent(client: Any) -> None:
    await client.start()
    small = client.execute("print('small')")
    large = client.execute("for i in range(400): print('x' * 65536, flush=True)")
    await client.reply(large)
    last = client.execute("1/0")
    await client.reply(last)
    before = await requests_of(client)
    assert before[large]["bytes"] > 20 * 1024 * 1024
    for _ in range(2):
        os.kill(client.link.agent["pid"], signal.SIGKILL)
        assert_same(await requests_of(client), before)
    assert list(before) == [small, large, last]
