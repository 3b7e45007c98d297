"""Nothing is lost, doubled or run twice when connections, agents and supervisors go away."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from jupyter_tpu.errors import AgentBroken
from jupyter_tpu.link import Link
from jupyter_tpu.link.preparation import PreparationCache

LINES = 3000
PRINT_LINES = f"""
import sys, time
for i in range({LINES}):
    print(i, flush=True)
    if i % 100 == 0:
        time.sleep(0.01)
"""
EXPECTED = "".join(f"{i}\n" for i in range(LINES))


def printed(client: Any, count: int) -> Callable[[dict[str, Any]], bool]:
    """True once `count` stream messages were delivered."""
    return lambda message: sum(1 for m in client.messages if m.get("msg_type") == "stream") >= count


@pytest.mark.nightly
async def test_every_line_arrives_once_over_many_cuts(client: Any, worker: Any) -> None:
    await client.start()
    running = client.execute(PRINT_LINES)
    for cut in range(1, 8):
        await client.wait(printed(client, cut * LINES // 10))
        worker.cut()
    await client.reply(running)
    assert client.printed() == EXPECTED
    assert [seq for seq, _, _ in client.raw] == list(range(1, len(client.raw) + 1))


async def test_cells_sent_while_the_link_is_down_run_once_and_in_order(client: Any, worker: Any) -> None:
    await client.start()
    await client.run("c = []")
    for number in range(30):
        client.execute(f"c.append({number})")
        if number % 5 == 0:
            worker.cut()
            await asyncio.sleep(0)
    await client.run("print(c)")
    assert client.printed() == f"{list(range(30))}\n"


async def test_a_call_waits_for_the_link_to_come_back(client: Any, worker: Any) -> None:
    await client.start()
    worker.cut()
    answer = await client.link.call("kernel_info", {"kernel_id": "kernel-1"})
    assert answer["alive"]
    assert client.link.state in ("resuming", "live")


@pytest.mark.nightly
async def test_a_kernel_can_be_started_and_attached_to_while_the_link_is_down(client: Any, worker: Any) -> None:
    worker.cut()
    starting = asyncio.create_task(client.link.call("start_kernel", {"kernel_id": "kernel-1", "key": "secret"}))
    await asyncio.sleep(0)
    client.attach()
    assert (await client.run("1+1"))["content"]["status"] == "ok"
    assert (await starting)["generation"] == 1


async def test_the_states_of_a_link_are_told(worker: Any, open_link: Callable[..., Awaitable[Link]]) -> None:
    states: list[str] = []
    back = asyncio.Event()

    def on_state(state: str, error: Exception | None, since: float) -> None:
        states.append(state)
        if states[-2:] == ["resuming", "live"]:
            back.set()

    link = await open_link(on_state=on_state)
    worker.cut()
    await asyncio.wait_for(back.wait(), 60)
    await link.close()
    assert states == ["connecting", "live", "down", "resuming", "live", "lost"]


@pytest.mark.nightly
async def test_a_replay_from_the_beginning_is_what_was_delivered(client: Any, open_link: Any) -> None:
    await client.start()
    await client.run("for i in range(50): print('line', i)\n1/0")
    other = type(client)(await open_link())
    other.attach()
    last_seq = client.stream.applied_seq
    await other.wait(lambda message: message["seq"] >= last_seq)
    assert other.raw[:last_seq] == client.raw[:last_seq]


@pytest.mark.nightly
async def test_a_second_client_continues_where_the_first_stopped(client: Any, open_link: Any) -> None:
    await client.start()
    await client.run("print('first')")
    stopped_at = client.stream.applied_seq
    client.stream.close()
    other = type(client)(await open_link())
    other.attach(from_seq=stopped_at + 1)
    await other.run("print('second')")
    assert other.raw[0][0] == stopped_at + 1
    assert other.printed().endswith("second\n")
    assert "first" not in other.printed()


async def test_a_kernel_outlives_its_agent_and_loses_no_line(client: Any, worker: Any) -> None:
    answer = await client.start()
    client.execute(PRINT_LINES)
    await client.wait(printed(client, LINES // 10))
    first_agent = client.link.agent["pid"]
    os.kill(first_agent, signal.SIGKILL)
    assert (await client.run("'alive'"))["content"]["status"] == "ok"
    assert client.link.agent["pid"] != first_agent
    info = await client.link.call("kernel_info", {"kernel_id": "kernel-1"})
    assert info["pid"] == answer["pid"]
    lines = client.printed().splitlines()
    assert lines == sorted(set(lines), key=int)
    assert lines[-1] == str(LINES - 1)
    assert client.messages[0]["event"] == "started"


@pytest.mark.nightly
async def test_an_adopted_kernel_can_still_be_interrupted_asked_and_killed(client: Any) -> None:
    await client.start()
    await client.run("1")
    os.kill(client.link.agent["pid"], signal.SIGKILL)
    running = client.execute("print('on', flush=True)\nimport time\ntime.sleep(600)")
    await client.wait(lambda message: message.get("msg_type") == "stream")
    client.send("control", "interrupt_request", {})
    assert (await client.reply(running))["content"]["ename"] == "KeyboardInterrupt"
    client.execute("import os; os._exit(3)")
    event = await client.event("exited")
    assert event["exit_code"] == 3


async def test_a_kernel_that_ends_while_no_agent_lives_is_recorded_with_its_exit_code(client: Any) -> None:
    answer = await client.start()
    await client.run("1")
    agent = psutil.Process(client.link.agent["pid"])
    agent.suspend()
    psutil.Process(answer["pid"]).terminate()
    agent.kill()
    event = await client.event("exited")
    assert event["signal"] == "SIGTERM"


async def test_a_dead_supervisor_is_replaced_without_harm_to_the_kernel(client: Any, worker: Any) -> None:
    answer = await client.start()
    await client.run("x = 7")
    os.kill(worker.supervisor_pid(), signal.SIGKILL)
    os.kill(client.link.agent["pid"], signal.SIGKILL)
    await client.run("print(x)")
    assert client.printed() == "7\n"
    assert (await client.link.call("kernel_info", {"kernel_id": "kernel-1"}))["pid"] == answer["pid"]


async def test_what_is_sent_twice_is_done_once(worker: Any, open_link: Any, new_client: Any) -> None:
    worker.stutters = True
    client = new_client(await open_link())
    answer = await client.start()
    await client.run("runs = 0")
    for _ in range(5):
        client.execute("runs += 1")
    await client.run("print(runs)")
    assert client.printed() == "5\n"
    assert answer["generation"] == 1


async def test_a_worker_that_forbids_forwarding_is_reached_through_a_relay(
    client: Any, worker: Any, open_link: Any
) -> None:
    worker.forbids_forwarding = True
    other = type(client)(await open_link(), "kernel-2")
    await other.start()
    running = other.execute("for i in range(200): print('x' * 10000)")
    await other.reply(running)
    assert len(other.printed()) == 200 * 10001


@pytest.mark.nightly
async def test_a_flood_is_delivered_whole_while_calls_are_answered(client: Any) -> None:
    await client.start()
    running = client.execute("for i in range(600): print('x' * 65536, flush=True)")
    await client.wait(printed(client, 5))
    status = await client.link.call("status")
    await client.reply(running)
    assert len(client.printed()) == 600 * 65537
    assert status["agent_rss_bytes"] < 150 * 1024 * 1024


async def test_a_held_stream_stops_and_goes_on_without_loss(client: Any) -> None:
    await client.start()
    client.stream.hold()
    await client.link.call("status")
    before = client.stream.applied_seq
    client.execute("print('while held')")
    await client.link.call("status")
    assert client.stream.applied_seq == before
    client.stream.resume()
    await client.wait(lambda message: message.get("msg_type") == "stream")
    assert client.printed() == "while held\n"


async def test_a_message_larger_than_the_window_passes(client: Any) -> None:
    await client.start()
    reply = await client.run("from IPython.display import display\ndisplay({'text/plain': 'y' * 20_000_000}, raw=True)")
    assert reply["content"]["status"] == "ok"
    shown = await client.wait(lambda message: message.get("msg_type") == "display_data")
    assert len(shown["content"]["data"]["text/plain"]) == 20_000_000


@pytest.mark.nightly
async def test_an_agent_that_cannot_start_any_more_is_given_up_with_its_own_words(worker: Any, open_link: Any) -> None:
    lost = asyncio.Event()
    link = await open_link(on_state=lambda state, error, since: lost.set() if state == "lost" else None)
    (module,) = worker.home.glob(".jupyter-tpu/env/agent/lib/python*/site-packages/zmq/utils/monitor.py")
    module.unlink()  # uv may have linked it to its cache
    module.write_text("raise ImportError('broken on purpose')")
    worker.kill(link.agent["pid"])
    await asyncio.wait_for(lost.wait(), 60)
    assert isinstance(link.error, AgentBroken)
    assert "broken on purpose" in link.error.raw
    assert "~/.jupyter-tpu/env/agent" in link.error.hint


async def end_supervisor(worker: Any) -> None:
    pidfd = os.pidfd_open(worker.supervisor_pid())
    signal.pidfd_send_signal(pidfd, signal.SIGTERM)
    await asyncio.to_thread(select.select, [pidfd], [], [], 60)
    os.close(pidfd)


async def test_a_supervisor_that_is_told_to_end_leaves_no_folder_of_sockets(worker: Any, open_link: Any) -> None:
    link = await open_link()
    folder = Path(link.agent["socket"]).parent
    worker.refuses_connections = True
    await end_supervisor(worker)
    assert not folder.exists()


def _libraries(pid: int, name: str) -> list[str]:
    return [mapped for mapped in Path(f"/proc/{pid}/maps").read_text().splitlines() if name in mapped]


async def test_the_supervisor_does_not_load_the_agent_that_it_starts(worker: Any, open_link: Any) -> None:
    link = await open_link()
    assert _libraries(link.agent["pid"], "zmq")
    assert not _libraries(worker.supervisor_pid(), "zmq")


@pytest.mark.nightly
async def test_a_supervisor_that_ends_leaves_the_sockets_of_kernels_that_live_on(client: Any, worker: Any) -> None:
    await client.start()
    await client.run("x = 1")
    await end_supervisor(worker)
    assert (await client.run("assert x == 1"))["content"]["status"] == "ok"


@pytest.fixture
def gates(tmp_path: Path) -> tuple[Path, Path]:
    """Two named pipes: a kernel waits at the first and tells of its passing through the second."""
    for name in ("gate", "passed"):
        os.mkfifo(tmp_path / name)
    return tmp_path / "gate", tmp_path / "passed"


async def test_what_a_kernel_prints_while_no_agent_lives_is_kept_in_the_kernel(
    client: Any, worker: Any, gates: tuple[Path, Path]
) -> None:
    gate, passed = gates
    await client.start()
    client.execute(
        f"open({str(gate)!r}).read()\n"
        "for i in range(300): print(i, flush=True)\n"
        f"print('end', file=open({str(passed)!r}, 'w'))"
    )
    await client.wait(lambda message: message.get("msg_type") == "execute_input")
    worker.refuses_connections = True
    worker.kill(worker.supervisor_pid())
    worker.kill(client.link.agent["pid"])
    await asyncio.to_thread(gate.write_text, "go")
    await asyncio.to_thread(passed.read_text)
    worker.refuses_connections = False
    await client.wait(lambda message: client.printed().endswith("299\n"))
    assert client.printed() == "".join(f"{i}\n" for i in range(300))


async def test_processes_that_a_kernel_forks_print_into_their_cell(client: Any) -> None:
    await client.start()
    await client.run(
        "import multiprocessing\n"
        "def work(i): print('child', i, flush=True)\n"
        "context = multiprocessing.get_context('fork')\n"
        "child = context.Process(target=work, args=(1,))\n"
        "child.start(); child.join()"
    )
    await client.wait(lambda message: "child 1\n" in client.printed())


async def test_a_link_that_comes_back_goes_straight_to_the_agent(
    new_client: Any, open_link: Callable[..., Awaitable[Link]], worker: Any
) -> None:
    client = new_client(await open_link())
    await client.start()
    worker.is_mute = True
    worker.cut()
    await client.run("print('there')")
    assert client.printed() == "there\n"


@pytest.mark.nightly
async def test_an_agent_that_is_not_where_it_was_is_started_anew(
    new_client: Any, open_link: Callable[..., Awaitable[Link]], worker: Any
) -> None:
    client = new_client(await open_link())
    await client.start()
    worker.kill(worker.supervisor_pid())
    worker.kill(worker.agent_pid())
    await client.run("print('there')")
    assert worker.connections[-1].commands == 1
    assert client.printed() == "there\n"


@pytest.mark.nightly
async def test_a_link_cut_after_any_byte_of_what_it_says_runs_each_cell_once(
    new_client: Any, open_link: Callable[..., Awaitable[Link]], worker: Any
) -> None:
    client = new_client(await open_link())
    await client.start()
    await client.run("c = []")
    worker.cut_after = [300 + 97 * number for number in range(30)]
    worker.cut()
    for number in range(30):
        await client.run(f"c.append({number}); print({number})")
    await client.run("print(c)")
    assert client.printed() == "".join(f"{number}\n" for number in range(30)) + f"{list(range(30))}\n"
    assert [seq for seq, _, _ in client.raw] == list(range(1, len(client.raw) + 1))
    assert not worker.cut_after


async def test_a_link_for_another_python_prepares_the_worker_again(
    open_link: Callable[..., Awaitable[Link]], worker: Any
) -> None:
    cache = PreparationCache()
    await open_link(memory=cache)
    other = worker.home / "another-python"
    other.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    other.chmod(0o755)
    await open_link(memory=cache, python=str(other))
    assert cache.ready is not None
    assert cache.ready.python == str(other)
