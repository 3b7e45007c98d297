"""An agent that is killed at any moment costs nothing: neither output, nor a reply, nor a question."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
from collections.abc import Callable
from typing import Any

import psutil
import pytest
from tiers import mostly_nightly

LINES = 20_000
PRINT_LINES = f"for i in range({LINES}): print(i, flush=True)"
KILLS = 8


def lines_printed(count: int) -> Callable[[dict[str, Any]], bool]:
    """True at the message with the line of this number; to be asked about each message once."""
    left = count

    def wanted(message: dict[str, Any]) -> bool:
        nonlocal left
        if message.get("msg_type") == "stream":
            left -= message["content"]["text"].count("\n")
        return left < 0

    return wanted


def answers(cell: str) -> Callable[[dict[str, Any]], bool]:
    """True at a message that belongs to this request."""
    return lambda message: bool(message.get("parent_header", {}).get("msg_id") == cell)


def events(client: Any) -> list[str]:
    return [message["event"] for message in client.messages if message["channel"] == "event"]


@pytest.mark.nightly
@pytest.mark.parametrize("seed", [1])
async def test_every_line_arrives_once_while_the_agent_is_killed_again_and_again(
    client: Any, worker: Any, seed: int
) -> None:
    moments = random.Random(seed)
    await client.start()
    running = client.execute(PRINT_LINES)
    for line in sorted(moments.sample(range(LINES), KILLS)):
        await client.wait(lines_printed(line), timeout=240)
        worker.kill(client.link.agent["pid"])
        await client.link.call("status")
    reply = await client.wait(lambda message: message["channel"] == "shell", timeout=240)
    assert (reply["parent_header"]["msg_id"], reply["content"]["status"]) == (running, "ok")
    assert client.printed() == "".join(f"{i}\n" for i in range(LINES))
    assert events(client) == ["started"]
    assert [seq for seq, _, _ in client.raw] == list(range(1, len(client.raw) + 1))


@pytest.mark.nightly
async def test_a_flood_that_the_agent_dies_in_arrives_whole(client: Any, worker: Any) -> None:
    await client.start()
    running = client.execute("for i in range(1000): print(f'{i:05}' * 13107, flush=True)")
    for count in (50, 300, 700):
        await client.wait(lines_printed(count), timeout=60)
        worker.kill(client.link.agent["pid"])
        await client.link.call("status")
    await client.reply(running)
    assert client.printed() == "".join(f"{i:05}" * 13107 + "\n" for i in range(1000))
    assert events(client) == ["started"]


@pytest.mark.nightly
async def test_a_question_asked_while_no_agent_lives_arrives_and_is_answered(client: Any, worker: Any) -> None:
    await client.start()
    await client.run("import os, signal, psutil")
    running = client.execute(
        f"agent = psutil.Process({client.link.agent['pid']})\n"
        "agent.kill()\n"
        "psutil.wait_procs([agent])\n"
        "name = input('who? ')\n"
        "print('hello', name)",
        allow_stdin=True,
    )
    question = await client.wait(lambda message: message["channel"] == "stdin")
    client.send("stdin", "input_reply", {"value": "Ada"}, parent=question)
    await client.reply(running)
    assert client.printed() == "hello Ada\n"


@pytest.mark.nightly
async def test_an_agent_that_dies_while_input_waits_changes_nothing(client: Any, worker: Any) -> None:
    await client.start()
    running = client.execute("print('hello', input('who? '))", allow_stdin=True)
    question = await client.wait(lambda message: message["channel"] == "stdin")
    for _ in range(2):
        worker.kill(client.link.agent["pid"])
        await client.link.call("status")
    client.send("stdin", "input_reply", {"value": "Ada"}, parent=question)
    await client.reply(running)
    assert client.printed() == "hello Ada\n"
    assert [message["channel"] for message in client.messages].count("stdin") == 1


@pytest.mark.nightly
async def test_what_a_stopped_agent_had_not_read_when_it_was_killed_arrives(client: Any) -> None:
    await client.start()
    await client.run("1")
    agent = psutil.Process(client.link.agent["pid"])
    running = client.execute(
        f"import os\nos.kill({agent.pid}, {signal.SIGSTOP})\n"
        "print('unread')\ndisplay('shown')\n"
        f"os.kill({agent.pid}, {signal.SIGKILL})\n'result'"
    )
    reply = await client.reply(running)
    assert reply["content"]["status"] == "ok"
    mine = [
        message["msg_type"] for message in client.messages if message.get("parent_header", {}).get("msg_id") == running
    ]
    assert sorted(mine) == sorted(
        ["status", "execute_input", "stream", "display_data", "execute_result", "execute_reply", "status"]
    )


@pytest.mark.parametrize("seed", mostly_nightly([1, 2], count=1))
async def test_each_of_many_cells_runs_once_and_is_answered_while_agents_die(
    client: Any, worker: Any, seed: int
) -> None:
    moments = random.Random(seed)
    await client.start()
    await client.run("ran = []")
    cells = []
    for number in range(60):
        cells.append(client.execute(f"ran.append({number})"))
        if moments.random() < 0.1:
            await client.wait(answers(moments.choice(cells)))
            worker.kill(client.link.agent["pid"])
            await asyncio.sleep(0)
    for cell in cells:
        assert (await client.reply(cell))["content"]["status"] == "ok"
    await client.run("print(ran)")
    assert client.printed() == f"{list(range(60))}\n"


async def test_a_cell_that_the_agent_had_not_passed_on_when_it_died_runs_once(client: Any, worker: Any) -> None:
    kernel = psutil.Process((await client.start())["pid"])
    await client.run("ran = []")
    kernel.suspend()
    large = client.execute(f"ran.append(1)  # {'x' * 5_000_000}")
    small = client.execute("ran.append(2)")
    await client.wait(lambda message: message["channel"] == "request" and message["msg_id"] == small)
    worker.kill(client.link.agent["pid"])
    kernel.resume()
    for cell in (large, small):
        assert (await client.reply(cell))["content"]["status"] == "ok"
    await client.run("print(ran)")
    assert client.printed() == "[1, 2]\n"


@pytest.mark.nightly
async def test_what_is_sent_after_the_death_of_an_agent_does_not_overtake_what_it_had_not_passed_on(
    client: Any, worker: Any
) -> None:
    kernel = psutil.Process((await client.start())["pid"])
    await client.run("ran = []")
    kernel.suspend()
    large = client.execute(f"ran.append(1)  # {'x' * 5_000_000}")
    await client.wait(lambda message: message["channel"] == "request" and message["msg_id"] == large)
    worker.kill(client.link.agent["pid"])
    later = client.execute("ran.append(2)")
    await client.wait(lambda message: message["channel"] == "request" and message["msg_id"] == later)
    kernel.resume()
    await client.reply(later)
    await client.run("print(ran)")
    assert client.printed() == "[1, 2]\n"


@pytest.mark.parametrize("method", mostly_nightly(["restart_kernel", "start_kernel"], count=1))
async def test_the_end_of_a_process_that_an_earlier_agent_had_started_is_not_that_of_the_next(
    client: Any, worker: Any, method: str
) -> None:
    await client.start()
    worker.kill_everything()  # as a machine that is stopped
    await client.link.call(method, {"kernel_id": client.kernel_id, "key": "secret"})
    await client.run("print('there')")
    info = await client.link.call("kernel_info", {"kernel_id": client.kernel_id})
    ends = [message for message in client.messages if message.get("event") in ("started", "exited")]
    assert [(end["event"], end["generation"]) for end in ends] == [("started", 1), ("exited", 1), ("started", 2)]
    assert (info["alive"], info["generation"]) == (True, 2)


async def test_cells_that_ended_with_their_kernel_and_its_agent_are_aborted_and_the_begun_one_stays_lost(
    client: Any, worker: Any
) -> None:
    await client.start()
    running = client.execute("print('on', flush=True)\nimport time\ntime.sleep(600)")
    queued = client.execute("1")
    await client.wait(lambda message: answers(running)(message) and message.get("msg_type") == "stream")
    await client.wait(lambda message: message["channel"] == "request" and message["msg_id"] == queued)
    worker.kill_everything()  # a restart has ended the kernel, and its agent is killed before it has said so
    await client.link.call("restart_kernel", {"kernel_id": client.kernel_id, "key": "secret"})
    for cell in (running, queued):
        assert (await client.reply(cell))["content"]["status"] == "aborted"
    await client.run("print('there')")
    listed = (await client.link.call("list_requests", {"kernel_id": client.kernel_id}))["requests"]
    assert [request["status"] for request in listed] == ["lost", "aborted", "ok"]


@pytest.mark.nightly
async def test_what_the_agent_asks_itself_is_not_in_the_record(client: Any, worker: Any) -> None:
    await client.start()
    running = client.execute("print('on', input())", allow_stdin=True)
    question = await client.wait(lambda message: message["channel"] == "stdin")
    worker.kill(client.link.agent["pid"])
    client.send("stdin", "input_reply", {"value": "it goes"}, parent=question)
    await client.reply(running)
    await client.run("'after'")
    assert not any(b"probe" in part for _, _, parts in client.raw for part in parts)


@pytest.fixture
def plain_python(worker: Any) -> str:
    """A Python that starts ipykernel as it is, without what we change in it."""
    script = worker.home / "plain-python"
    script.write_text(f'#!/bin/sh\nshift 3\nexec {sys.executable} -Xfrozen_modules=off -m ipykernel_launcher -f "$1"\n')
    script.chmod(0o755)
    return str(script)


@pytest.mark.nightly
async def test_a_kernel_that_knows_nothing_of_the_agent_works_and_outlives_it(
    client: Any, worker: Any, plain_python: str
) -> None:
    await client.start(python=plain_python)
    await client.run("print('before')")
    worker.kill(client.link.agent["pid"])
    running = client.execute("print('hello', input('who? '))", allow_stdin=True)
    question = await client.wait(lambda message: message["channel"] == "stdin")
    client.send("stdin", "input_reply", {"value": "Ada"}, parent=question)
    await client.reply(running)
    assert client.printed() == "before\nhello Ada\n"
    assert "gap" not in events(client)


async def test_what_such_a_kernel_said_while_no_agent_lived_is_told_as_a_gap(
    client: Any, worker: Any, plain_python: str
) -> None:
    await client.start(python=plain_python)
    gate, passed = worker.home / "gate", worker.home / "passed"
    os.mkfifo(gate)
    os.mkfifo(passed)
    first = client.execute(f"open({str(gate)!r}).read()")
    second = client.execute(f"open({str(passed)!r}, 'w').write('x')")
    await client.wait(lambda message: message.get("msg_type") == "execute_input")
    await client.wait(lambda message: message["channel"] == "request" and message["msg_id"] == second)
    worker.refuses_connections = True
    worker.kill(worker.supervisor_pid())
    worker.kill(client.link.agent["pid"])
    await asyncio.to_thread(gate.write_text, "go")
    await asyncio.to_thread(passed.read_text)
    worker.refuses_connections = False
    assert (await client.reply(first))["content"]["ename"] == "OutcomeUnknown"
    await client.reply(second)
    assert "gap" in events(client)
    assert (await client.run("'alive'"))["content"]["status"] == "ok"


async def test_no_seq_is_given_twice_after_a_restart_of_the_machine_though_its_disk_has_lost_the_end(
    client: Any, worker: Any
) -> None:
    await client.start()
    await client.run("1")
    shown = client.stream.applied_seq
    agent = psutil.Process(client.link.agent["pid"])
    agent.suspend()
    state = worker.home / ".jupyter-tpu/kernels/kernel-1/kernel.json"
    state.write_text(json.dumps({**json.loads(state.read_text()), "boot_id": "before the restart"}))
    worker.kill(agent.pid)
    ended = await client.event("exited")
    assert ended["seq"] > shown + 1_000_000  # more than a disk can have lost


async def test_a_kernel_whose_state_is_damaged_when_its_agent_dies_ends_and_its_cells_are_answered(
    client: Any, worker: Any
) -> None:
    kernel = psutil.Process((await client.start())["pid"])
    running = client.execute("print('on', flush=True)\nimport time\ntime.sleep(600)")
    queued = client.execute("1")
    await client.wait(lambda message: answers(running)(message) and message.get("msg_type") == "stream")
    await client.wait(lambda message: message["channel"] == "request" and message["msg_id"] == queued)
    agent = psutil.Process(client.link.agent["pid"])
    agent.suspend()
    (worker.home / ".jupyter-tpu/kernels/kernel-1/kernel.json").write_text("")
    worker.kill(agent.pid)
    assert "damaged" in (await client.event("exited"))["stderr"]
    for cell in (running, queued):
        assert (await client.reply(cell))["content"]["status"] == "aborted"
    kernel.wait(30)
    await client.link.call("restart_kernel", {"kernel_id": client.kernel_id, "key": "secret"})
    await client.run("print('there')")
