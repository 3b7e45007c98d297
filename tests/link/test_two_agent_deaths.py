"""Agents that die in a row, and cuts: nothing runs twice, each request gets one reply, and what must be aborted is."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.session import Session
from tiers import mostly_nightly

from jupyter_tpu.kernels.launch import Launch
from jupyter_tpu.kernels.messages.fanout import RecordFanout
from jupyter_tpu.kernels.remote_kernel import RemoteKernel
from jupyter_tpu.wire.frames import FROM_AGENT, FrameDecoder, Kind, encode_json
from jupyter_tpu.wire.hello import client_hello

KERNEL = {"kernel_id": "kernel-1", "key": "secret"}


class Gate:
    """Something that a cell waits for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)

    @property
    def code(self) -> str:
        return f"open({str(self.path)!r}).read()"

    async def open(self) -> None:
        await asyncio.to_thread(self.path.write_text, "go")


@pytest.fixture
def gate(worker: Any) -> Gate:
    return Gate(worker.home / "gate")


@pytest.fixture
def plain_python(worker: Any) -> str:
    """A Python that starts ipykernel as it is, without what we change in it."""
    script = worker.home / "plain-python"
    script.write_text(f'#!/bin/sh\nshift 3\nexec {sys.executable} -Xfrozen_modules=off -m ipykernel_launcher -f "$1"\n')
    script.chmod(0o755)
    return str(script)


def replies(client: Any) -> list[str]:
    """What execute requests were answered, in order."""
    return [message["parent_header"]["msg_id"] for message in client.messages if is_reply(message)]


def is_reply(message: dict[str, Any]) -> bool:
    return message.get("msg_type") == "execute_reply"


def events(client: Any) -> list[str]:
    return [message["event"] for message in client.messages if message["channel"] == "event"]


async def until(condition: Callable[[], bool]) -> None:
    """Look again and again; the file system tells nobody of changes."""
    async with asyncio.timeout(60):
        while True:
            if condition():
                return
            await asyncio.sleep(0.02)


async def until_asked(client: Any, cell: str) -> None:
    """Until the agent has a cell."""
    await client.wait(lambda message: message["channel"] == "request" and message["msg_id"] == cell)


async def until_passed_on(client: Any) -> None:
    """Until the kernel has what was sent: it answers on its control channel while a cell runs."""
    asked = client.send("control", "kernel_info_request", {})

    def is_answer(message: dict[str, Any]) -> bool:
        return bool(message["channel"] == "control" and message["parent_header"]["msg_id"] == asked)

    await client.wait(is_answer)


async def until_running(client: Any, cell: str) -> None:
    def is_input(message: dict[str, Any]) -> bool:
        return message.get("msg_type") == "execute_input" and message["parent_header"]["msg_id"] == cell

    await client.wait(is_input)


async def kill_agent(client: Any, worker: Any) -> None:
    """Kill the agent; the next one is there."""
    worker.kill(client.link.agent["pid"])
    await client.link.call("status")


@pytest.mark.parametrize("kind", mostly_nightly(["signed", "plain unsigned", "unsigned", "plain"], count=1))
async def test_cells_behind_a_long_one_run_once_when_agents_die_twice(
    client: Any, worker: Any, gate: Gate, plain_python: str, kind: str
) -> None:
    options: dict[str, Any] = {"python": plain_python} if "plain" in kind else {}
    if "unsigned" in kind:  # then ipykernel does not see that it gets a request twice
        options["key"], client.session = "", Session(key=b"")
    await client.start(**options)
    await client.run("ran = []")
    long = client.execute(f"{gate.code}\nran.append('long')")
    await until_running(client, long)
    await kill_agent(client, worker)
    cells = [client.execute(f"ran.append({number})") for number in range(4)]
    await until_passed_on(client)
    await kill_agent(client, worker)
    await until_passed_on(client)  # a plain kernel says nothing again to an agent that comes late
    await gate.open()

    for cell in (long, *cells):
        assert (await client.reply(cell))["content"]["status"] == "ok"
    await client.run("print(ran)")
    assert client.printed() == "['long', 0, 1, 2, 3]\n"
    assert replies(client)[1:-1] == [long, *cells]
    assert "gap" not in events(client)


async def test_cells_held_by_a_new_agent_are_aborted_with_those_before_them_when_a_cell_fails(
    client: Any, worker: Any, gate: Gate
) -> None:
    await client.start()
    failing = client.execute(f"{gate.code}\n1/0", stop_on_error=True)
    await until_running(client, failing)
    queued = client.execute("print('queued')", stop_on_error=True)
    await until_asked(client, queued)
    await kill_agent(client, worker)
    held = client.execute("print('held')", stop_on_error=True)
    await until_asked(client, held)
    await gate.open()

    assert (await client.reply(failing))["content"]["ename"] == "ZeroDivisionError"
    assert (await client.reply(queued))["content"]["status"] == "aborted"
    assert (await client.reply(held))["content"]["status"] == "aborted"
    await client.run("print('goes on')")
    assert client.printed() == "goes on\n"


async def test_a_restart_that_an_agent_has_done_before_it_died_is_not_done_again(client: Any, worker: Any) -> None:
    await client.start()
    await client.run("1")
    restarting = asyncio.create_task(client.link.call("restart_kernel", KERNEL))
    await client.link.call("status")  # the agent has the call as well
    agent = client.link.agent["pid"]
    worker.refuses_connections = True
    worker.cut()
    state = worker.home / ".jupyter-tpu/kernels/kernel-1/kernel.json"
    await until(lambda: json.loads(state.read_text())["generation"] == 2)
    worker.kill(agent)
    worker.refuses_connections = False

    assert (await restarting)["generation"] == 2
    await client.run("print('there')")
    assert events(client).count("started") == 2
    assert client.printed() == "there\n"


async def test_a_cell_asked_in_a_restart_runs_when_the_agent_dies_before_the_new_process_has_read_it(
    client: Any, worker: Any
) -> None:
    await client.start()
    await client.run("x = 1")
    restarting = asyncio.create_task(client.link.call("restart_kernel", KERNEL))
    await asyncio.sleep(0)
    cell = client.execute("print('x' in globals())")
    await client.wait(lambda message: message.get("event") == "started" and message["generation"] == 2)
    worker.kill(client.link.agent["pid"])
    await restarting
    assert (await client.reply(cell))["content"]["status"] == "ok"
    assert client.printed() == "False\n"


@asynccontextmanager
async def hand_made_client(path: str, client_id: str) -> AsyncIterator[Callable[..., Any]]:
    """Calls the agent under numbers of one's own."""
    reader, writer = await asyncio.open_unix_connection(path)
    decoder = FrameDecoder(FROM_AGENT)
    writer.write(encode_json(Kind.HELLO, client_hello(client_id, "test")))

    async def call(number: int, method: str, **params: Any) -> dict[str, Any]:
        writer.write(encode_json(Kind.CALL, {"method": method, "params": params}, number=number))
        while data := await reader.read(65536):
            for frame in decoder.feed(data):
                if frame.kind == Kind.RESULT and frame.number == number:
                    return frame.json()
        raise AssertionError("the agent hung up")

    try:
        yield call
    finally:
        writer.close()
        await writer.wait_closed()


async def until_done(call: Callable[..., Any]) -> None:
    """The kernel's only cell has ended."""
    for number in itertools.count(1):
        (request,) = (await call(number, "list_requests", kernel_id="kernel-1"))["result"]["requests"]
        if request["state"] == "done":
            return


async def test_a_cell_asked_in_a_cut_is_aborted_when_one_before_it_fails_meanwhile_and_a_later_one_runs(
    client: Any, worker: Any, gate: Gate
) -> None:
    await client.start()
    path = client.link.agent["socket"]
    failing = client.execute(f"{gate.code}\n1/0", stop_on_error=True)
    await until_running(client, failing)
    worker.refuses_connections = True
    worker.cut()
    behind = client.execute("print('behind')", stop_on_error=True)
    await gate.open()
    async with hand_made_client(path, "ab" * 16) as call:
        await until_done(call)
    later = client.execute("print('later')", stop_on_error=True)
    worker.refuses_connections = False

    assert (await client.reply(failing))["content"]["ename"] == "ZeroDivisionError"
    assert (await client.reply(behind))["content"]["status"] == "aborted"
    assert (await client.reply(later))["content"]["status"] == "ok"
    assert client.printed() == "later\n"


async def test_what_a_kernel_says_first_after_an_agent_has_answered_in_its_place_and_died_is_kept(
    client: Any, worker: Any, gate: Gate
) -> None:
    await client.start()
    failing = client.execute(f"{gate.code}\n1/0", stop_on_error=True)
    await until_running(client, failing)
    worker.refuses_connections = True
    worker.cut()
    behind = [client.execute("print('behind')", stop_on_error=True) for _ in range(3)]
    await gate.open()
    async with hand_made_client(client.link.agent["socket"], "ab" * 16) as call:
        await until_done(call)
    worker.refuses_connections = False
    for each in behind:
        assert (await client.reply(each))["content"]["status"] == "aborted"

    await kill_agent(client, worker)
    assert (await client.run("print('next')"))["content"]["status"] == "ok"
    assert client.printed() == "next\n"


async def test_a_cell_asked_in_a_cut_runs_behind_a_failure_that_ends_no_others(
    client: Any, worker: Any, gate: Gate
) -> None:
    await client.start()
    failing = client.execute(f"{gate.code}\n1/0", stop_on_error=False)
    await until_running(client, failing)
    worker.cut()
    behind = client.execute("print('behind')", stop_on_error=True)
    await gate.open()

    assert (await client.reply(failing))["content"]["status"] == "error"
    assert (await client.reply(behind))["content"]["status"] == "ok"


async def test_an_interrupt_that_an_agent_has_sent_before_it_died_is_not_sent_again(client: Any, worker: Any) -> None:
    await client.start()
    path, client_id = client.link.agent["socket"], "ab" * 16
    first = client.execute("print('first', flush=True)\nimport time\ntime.sleep(600)")
    await client.wait(lambda message: message.get("msg_type") == "stream")
    async with hand_made_client(path, client_id) as call:
        await call(1, "interrupt", kernel_id="kernel-1")
    assert (await client.reply(first))["content"]["ename"] == "KeyboardInterrupt"
    second = client.execute("answer = input('go on?')", allow_stdin=True)
    question = await client.wait(lambda message: message["channel"] == "stdin")
    await kill_agent(client, worker)

    async with hand_made_client(path, client_id) as call:
        assert "result" in await call(1, "interrupt", kernel_id="kernel-1")
    client.send("stdin", "input_reply", {"value": "yes"}, parent=question)
    assert (await client.reply(second))["content"]["status"] == "ok"


async def test_a_cell_for_a_kernel_that_has_ended_is_answered_with_the_reason_and_a_restart_works(client: Any) -> None:
    await client.start()
    client.execute("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    await client.event("exited")
    reply = await client.run("1")
    assert reply["content"]["status"] == "error"
    assert "SIGKILL" in reply["content"]["evalue"]
    assert "Restart the kernel" in reply["content"]["evalue"]

    await client.link.call("restart_kernel", KERNEL)
    assert (await client.run("print('back')"))["content"]["status"] == "ok"
    assert client.printed() == "back\n"


async def test_a_cell_that_waits_for_the_link_when_a_restart_is_asked_for_is_aborted(client: Any, worker: Any) -> None:
    following, told = RecordFanout(), list[str]()
    kernel = RemoteKernel(client.link, following, lambda progress: told.append(str(progress)))
    await kernel.start(Launch(kernel_id="kernel-1", key="secret"))
    await kernel.wait_until_up()
    client.attach()
    worker.refuses_connections = True
    worker.cut()
    await until(lambda: not client.link.is_up)
    message = client.session.msg("execute_request", {"code": "print('too late')", "silent": False})
    kernel.send("shell", [b"front-end", *client.session.serialize(message)])
    await kernel.restart(Launch(kernel_id="kernel-1", key="secret"))
    worker.refuses_connections = False

    assert (await client.reply(message["header"]["msg_id"]))["content"]["status"] == "aborted"
    await client.run("print('new')")
    assert client.printed() == "new\n"
    kernel.close()
