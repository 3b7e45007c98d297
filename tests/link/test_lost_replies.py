"""A cell that the kernel has finished without a reply gets one reply from the agent, and only when none can come."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tiers import mostly_nightly

# What happens at the very moment at which the code has ended and the reply is about to be sent: ipykernel calls this in
# between. Once, or the next cells would suffer it too.
AT_THE_END = """
import os, signal, time
kernel = get_ipython().kernel
def at_the_end(happens):
    finish = kernel.finish_metadata
    def finish_metadata(*args):
        kernel.finish_metadata = finish
        happens()
        return finish(*args)
    kernel.finish_metadata = finish_metadata
def interrupt():
    signal.raise_signal(signal.SIGINT)
def publish_idle():
    kernel._publish_status("idle", "shell")
"""


@pytest.fixture
async def kernel(client: Any) -> Any:
    """A front end whose kernel knows `at_the_end`."""
    await client.start()
    await client.run(AT_THE_END)
    return client


@pytest.fixture
def gate(worker: Any) -> Path:
    """Something that a cell waits for."""
    path = Path(worker.home / "gate")
    os.mkfifo(path)
    return path


def replies_to(client: Any, cell: str) -> list[dict[str, Any]]:
    return [
        message["content"]
        for message in client.messages
        if message.get("msg_type") == "execute_reply" and message["parent_header"]["msg_id"] == cell
    ]


def is_idle(cell: str) -> Callable[[dict[str, Any]], bool]:
    return lambda message: bool(
        message.get("parent_header", {}).get("msg_id") == cell and message["content"].get("execution_state") == "idle"
    )


async def listed(client: Any, cell: str) -> dict[str, Any]:
    requests = (await client.link.call("list_requests", {"kernel_id": client.kernel_id}))["requests"]
    return next(request for request in requests if request["msg_id"] == cell)


async def test_a_cell_whose_reply_an_interrupt_has_swallowed_is_answered_with_an_error_that_shows(kernel: Any) -> None:
    cell = kernel.execute("at_the_end(interrupt)")
    reply = await kernel.reply(cell)
    assert (reply["content"]["status"], reply["content"]["ename"]) == ("error", "NoReply")
    shown = [m["content"]["evalue"] for m in kernel.messages if m.get("msg_type") == "error"]
    assert shown == [reply["content"]["evalue"]]

    assert (await kernel.run("'alive'"))["content"]["status"] == "ok"
    assert len(replies_to(kernel, cell)) == 1
    assert (await listed(kernel, cell))["status"] == "error"


async def test_a_cell_that_had_failed_is_answered_with_its_own_error(kernel: Any) -> None:
    reply = await kernel.run("at_the_end(interrupt)\n1/0")
    assert reply["content"]["ename"] == "ZeroDivisionError"
    assert [m["content"]["ename"] for m in kernel.messages if m.get("msg_type") == "error"] == ["ZeroDivisionError"]


async def test_cells_behind_such_a_cell_run(kernel: Any) -> None:
    cells = [kernel.execute("at_the_end(interrupt)") for _ in range(3)]
    assert (await kernel.run("print('behind')"))["content"]["status"] == "ok"
    for cell in cells:
        assert (await kernel.reply(cell))["content"]["ename"] == "NoReply"
        assert len(replies_to(kernel, cell)) == 1


@pytest.mark.nightly
async def test_a_reply_that_comes_late_is_the_only_one(kernel: Any) -> None:
    # longer than the agent waits after "idle", so that its probe comes before the reply
    cell = kernel.execute("at_the_end(lambda: (publish_idle(), time.sleep(3)))")
    assert (await kernel.reply(cell))["content"]["status"] == "ok"
    await kernel.run("'after'")
    assert [reply["status"] for reply in replies_to(kernel, cell)] == ["ok"]


async def test_a_cell_whose_process_ends_between_idle_and_reply_is_answered_before_the_end(
    kernel: Any, gate: Path
) -> None:
    cell = kernel.execute(f"at_the_end(lambda: (publish_idle(), open({str(gate)!r}).read(), os._exit(3)))")
    await kernel.wait(is_idle(cell))
    await asyncio.to_thread(gate.write_text, "go")
    reply = await kernel.reply(cell)
    assert (reply["content"]["status"], reply["content"]["ename"]) == ("error", "KernelEnded")
    assert reply["seq"] < (await kernel.event("exited"))["seq"]

    await kernel.link.call("restart_kernel", {"kernel_id": kernel.kernel_id, "key": "secret"})
    await kernel.run("'there'")
    assert len(replies_to(kernel, cell)) == 1


async def test_a_restart_between_idle_and_reply_answers_the_cell(kernel: Any, gate: Path) -> None:
    cell = kernel.execute(f"at_the_end(lambda: (publish_idle(), open({str(gate)!r}).read()))")
    await kernel.wait(is_idle(cell))
    await kernel.link.call("restart_kernel", {"kernel_id": kernel.kernel_id, "key": "secret"})
    assert (await kernel.reply(cell))["content"]["ename"] == "KernelEnded"
    assert (await kernel.run("'there'"))["content"]["status"] == "ok"
    assert len(replies_to(kernel, cell)) == 1


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("then", "answer"),
    [("interrupt()", ("error", "NoReply")), ("None", ("ok", None))],
    ids=["interrupt", "reply"],
)
async def test_a_later_agent_answers_only_the_cell_whose_reply_does_not_come(
    kernel: Any, worker: Any, gate: Path, then: str, answer: tuple[str, str | None]
) -> None:
    cell = kernel.execute(f"at_the_end(lambda: (publish_idle(), open({str(gate)!r}).read(), {then}))")
    await kernel.wait(is_idle(cell))
    worker.kill(kernel.link.agent["pid"])
    await kernel.link.call("status")
    await asyncio.to_thread(gate.write_text, "go")
    reply = await kernel.reply(cell)
    assert (reply["content"]["status"], reply["content"].get("ename")) == answer

    worker.kill(kernel.link.agent["pid"])
    await kernel.run("'there'")
    assert len(replies_to(kernel, cell)) == 1


async def test_a_later_agent_answers_a_cell_whose_process_has_ended_with_the_earlier_agent(
    kernel: Any, worker: Any, gate: Path
) -> None:
    cell = kernel.execute(f"at_the_end(lambda: (publish_idle(), open({str(gate)!r}).read()))")
    await kernel.wait(is_idle(cell))
    worker.kill_everything()
    await kernel.link.call("restart_kernel", {"kernel_id": kernel.kernel_id, "key": "secret"})
    assert (await kernel.reply(cell))["content"]["ename"] == "KernelEnded"
    await kernel.run("'there'")
    assert len(replies_to(kernel, cell)) == 1


async def test_a_cell_in_a_subshell_is_answered_too(kernel: Any) -> None:
    asked = kernel.send("control", "create_subshell_request", {})
    made = await kernel.wait(lambda m: m["channel"] == "control" and m["parent_header"]["msg_id"] == asked)
    message = kernel.session.msg("execute_request", {"code": "at_the_end(lambda: 1/0)", "silent": False})
    message["header"]["subshell_id"] = made["content"]["subshell_id"]
    kernel.stream.send("shell", [b"front-end", *kernel.session.serialize(message)])
    assert (await kernel.reply(message["header"]["msg_id"]))["content"]["ename"] == "NoReply"


@pytest.mark.parametrize(
    ("kind", "content", "method"),
    mostly_nightly(
        [
            ("complete_request", {"code": "pri", "cursor_pos": 3}, "do_complete"),
            ("inspect_request", {"code": "print", "cursor_pos": 3}, "do_inspect"),
        ],
        count=1,
    ),
)
async def test_another_request_whose_reply_is_lost_is_answered_with_an_error(
    kernel: Any, kind: str, content: dict[str, Any], method: str
) -> None:
    await kernel.run(f"original = kernel.{method}\nkernel.{method} = lambda *args, **more: interrupt()")
    lost = kernel.send("shell", kind, content)
    reply = await kernel.reply(lost)
    assert (reply["msg_type"], reply["content"]["ename"]) == (kind.replace("request", "reply"), "NoReply")

    await kernel.run(f"kernel.{method} = original")
    assert (await kernel.reply(kernel.send("shell", kind, content)))["content"]["status"] == "ok"
    assert (
        len(
            [m for m in kernel.messages if m.get("parent_header", {}).get("msg_id") == lost and m["channel"] == "shell"]
        )
        == 1
    )
