"""A real kernel under a real agent, from start to end."""

from __future__ import annotations

import asyncio
import resource
import stat
from pathlib import Path
from typing import Any

import psutil
import pytest

from jupyter_tpu.errors import BadInput, EnvironmentFailed, KernelFailed, WorkerUnreachable


async def test_a_kernel_starts_and_runs_a_cell(client: Any) -> None:
    answer = await client.start()
    assert answer["alive"]
    assert (await client.run("1+1"))["content"]["status"] == "ok"
    result = await client.wait(lambda message: message.get("msg_type") == "execute_result")
    assert result["content"]["data"]["text/plain"] == "2"


@pytest.mark.nightly
async def test_a_kernel_can_be_attached_to_before_its_start_is_answered(client: Any) -> None:
    starting = asyncio.create_task(client.link.call("start_kernel", {"kernel_id": "kernel-1", "key": "secret"}))
    await asyncio.sleep(0)
    client.attach()
    assert (await client.run("1+1"))["content"]["status"] == "ok"
    await starting


@pytest.mark.nightly
@pytest.mark.parametrize("method", ["restart_kernel", "start_kernel"])
async def test_a_kernel_that_is_being_started_is_never_told_dead(client: Any, method: str) -> None:
    def ask(method: str) -> asyncio.Task[dict[str, Any]]:
        return asyncio.create_task(client.link.call(method, {"kernel_id": "kernel-1", "key": "secret"}))

    if method == "restart_kernel":
        await client.start()
        await client.run("1")
    starting, listings, infos = ask(method), [], []
    while not starting.done():
        listings.append(ask("list_requests"))
        infos.append(ask("kernel_info"))
        await asyncio.sleep(0)

    told = {(await asked)["execution_state"] for asked in [*listings, *infos]}
    assert told <= {"starting", "idle"}
    assert "starting" in told
    assert all([(await asked)["alive"] for asked in infos])


async def test_an_interrupt_ends_the_cell_and_the_kernel_goes_on(client: Any) -> None:
    await client.start()
    running = client.execute("print('on', flush=True)\nimport time\ntime.sleep(600)")
    await client.wait(lambda message: message.get("msg_type") == "stream")
    client.send("control", "interrupt_request", {})
    assert (await client.reply(running))["content"]["ename"] == "KeyboardInterrupt"
    assert (await client.run("'alive'"))["content"]["status"] == "ok"


@pytest.mark.nightly
async def test_a_signal_interrupts_as_well(client: Any) -> None:
    await client.start()
    running = client.execute("print('on', flush=True)\nimport time\ntime.sleep(600)")
    await client.wait(lambda message: message.get("msg_type") == "stream")
    await client.link.call("interrupt", {"kernel_id": "kernel-1"})
    assert (await client.reply(running))["content"]["ename"] == "KeyboardInterrupt"


async def test_input_asks_the_front_end(client: Any) -> None:
    await client.start()
    running = client.execute("name = input('who? ')\nprint('hello', name)", allow_stdin=True)
    question = await client.wait(lambda message: message["channel"] == "stdin")
    assert question["content"]["prompt"] == "who? "
    client.send("stdin", "input_reply", {"value": "Ada"}, parent=question)
    await client.reply(running)
    assert client.printed() == "hello Ada\n"


async def test_what_is_asked_behind_a_restart_runs_in_the_new_process(client: Any) -> None:
    await client.start()
    await client.run("x = 1")
    restarting = asyncio.create_task(client.link.call("restart_kernel", {"kernel_id": "kernel-1", "key": "secret"}))
    await asyncio.sleep(0)
    assert (await client.run("x"))["content"]["ename"] == "NameError"
    await restarting


@pytest.mark.nightly
async def test_a_restart_that_makes_no_sense_holds_nothing_up(client: Any) -> None:
    await client.start()
    await client.run("x = 1")
    with pytest.raises(BadInput):
        await client.link.call("restart_kernel", {"kernel_id": "kernel-1", "key": 1})
    assert (await client.run("x"))["content"]["status"] == "ok"


async def test_a_restart_gives_a_new_process_and_goes_on_in_the_same_record(client: Any) -> None:
    first = await client.start()
    await client.run("x = 1")
    second = await client.link.call("restart_kernel", {"kernel_id": "kernel-1", "key": "secret"})
    assert second["pid"] != first["pid"]
    assert second["generation"] == 2
    assert (await client.run("x"))["content"]["ename"] == "NameError"
    events = [message["event"] for message in client.messages if message["channel"] == "event"]
    assert events == ["started", "exited", "started"]
    assert [seq for seq, _, _ in client.raw] == list(range(1, len(client.raw) + 1))


async def test_starting_a_kernel_that_lives_changes_nothing(client: Any) -> None:
    first = await client.start()
    second = await client.link.call("start_kernel", {"kernel_id": "kernel-1", "key": "secret"})
    assert second["pid"] == first["pid"]


async def test_a_killed_kernel_is_gone_when_the_call_returns(client: Any) -> None:
    answer = await client.start()
    await client.run("1")
    ended = await client.link.call("kill_kernel", {"kernel_id": "kernel-1"})
    assert not ended["alive"]
    assert not psutil.pid_exists(answer["pid"])
    event = await client.event("exited")
    assert event["signal"] == "SIGKILL"
    assert event["asked"]


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["interrupt_request", "shutdown_request"])
async def test_a_control_request_that_finds_no_process_does_not_reach_the_next_one(client: Any, kind: str) -> None:
    await client.start()
    client.execute("import os; os._exit(3)")
    await client.event("exited")
    client.send("control", kind, {"restart": True} if kind == "shutdown_request" else {})
    await client.link.call("restart_kernel", {"kernel_id": "kernel-1", "key": "secret"})
    client.send("control", "kernel_info_request", {})
    reply = await client.wait(lambda message: message["channel"] == "control")

    assert reply["msg_type"] == "kernel_info_reply"
    assert (await client.run("'alive'"))["content"]["status"] == "ok"


async def test_a_shutdown_request_ends_the_kernel_with_exit_code_0(client: Any) -> None:
    await client.start()
    await client.run("1")
    client.send("control", "shutdown_request", {"restart": False})
    event = await client.event("exited")
    assert event["exit_code"] == 0
    reply = await client.wait(lambda message: message.get("msg_type") == "shutdown_reply")
    assert reply["seq"] < event["seq"]


async def test_a_kernel_that_dies_at_start_says_why(client: Any) -> None:
    await client.start(extra_arguments=["--IPKernelApp.no_such=1", "--debug=nonsense"])
    event = await client.event("exited")
    assert event["exit_code"] == 2
    assert "nonsense" in event["stderr"]
    assert not event["asked"]


async def test_a_kernel_that_is_killed_by_a_signal_names_it(client: Any) -> None:
    await client.start()
    client.execute("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    event = await client.event("exited")
    assert event["signal"] == "SIGSEGV"
    assert not event["asked"]


async def test_a_forgotten_kernel_leaves_nothing(client: Any, worker: Any) -> None:
    answer = await client.start()
    await client.link.call("forget_kernel", {"kernel_id": "kernel-1"})
    assert (await client.event("gone"))["error"]["code"] == "kernel_failed"
    assert not psutil.pid_exists(answer["pid"])
    assert list((worker.home / ".jupyter-tpu/kernels").iterdir()) == []
    assert (await client.link.call("list_kernels"))["kernels"] == []


async def test_attaching_to_an_unknown_kernel_says_that_it_is_gone(client: Any) -> None:
    client.attach()
    assert "There is no kernel" in (await client.event("gone"))["error"]["message"]
    assert client.stream.is_closed


BAD_CALLS = [
    ("kernel_info", {"kernel_id": "nobody"}, KernelFailed),
    ("kernel_info", {"kernel_id": ["a", "list"]}, KernelFailed),
    ("start_kernel", {"kernel_id": "../../etc", "key": "k"}, BadInput),
    ("start_kernel", {"kernel_id": "a" * 65, "key": "k"}, BadInput),
    ("start_kernel", {"kernel_id": "fine"}, BadInput),
    ("start_kernel", {"kernel_id": "fine", "key": "k", "env": "PATH"}, BadInput),
    ("start_kernel", {"kernel_id": "fine", "key": "k", "python": "/no/such/python"}, KernelFailed),
    ("kill_kernel", {"kernel_id": "nobody", "signal": 999}, KernelFailed),
    ("format_disk", {}, BadInput),
    (["status"], {}, BadInput),
    ("start_kernel", {"kernel_id": ["fine"], "key": "k"}, BadInput),
]


async def test_bad_calls_are_refused_in_words(client: Any) -> None:
    for method, params, error in BAD_CALLS:
        with pytest.raises(error):
            await client.link.call(method, params)
        assert (await client.link.call("status"))["kernels"] == []


async def test_status_tells_versions_load_and_kernels(client: Any) -> None:
    await client.start()
    status = await client.link.call("status")
    assert status["kernels"][0]["kernel_id"] == "kernel-1"
    assert status["memory_bytes"]["total"] > status["memory_bytes"]["available"] > 0
    assert {"version", "agent_python", "kernel_python", "load", "disk_bytes", "uptime_s"} <= set(status)


async def test_kernels_know_the_agents_socket_and_load_the_magics(client: Any, worker: Any) -> None:
    await client.start(env={"COLOUR": "blue"})
    await client.run("import os; print(os.environ['JUPYTER_TPU_AGENT_SOCKET'], os.environ['COLOUR'])")
    assert client.printed().endswith("agent.sock blue\n")
    await client.run("print('tpu_init' in get_ipython().magics_manager.magics['line'])")
    assert client.printed().endswith("True\n")


async def test_a_kernel_works_in_the_folder_asked_for_or_at_home(client: Any, worker: Any) -> None:
    folder = worker.home / "work"
    folder.mkdir()
    await client.start(cwd=str(folder))
    await client.run("import os; print(os.getcwd())")
    await client.link.call("restart_kernel", {"kernel_id": "kernel-1", "key": "secret", "cwd": "/laptop/only"})
    await client.run("import os; print(os.getcwd())")
    assert client.printed().splitlines() == [str(folder), str(worker.home)]


async def test_nothing_on_the_worker_is_open_to_other_users(client: Any, worker: Any) -> None:
    answer = await client.start()
    await client.run("1")
    run = Path((await client.link.call("status"))["socket"]).parent
    for folder in (worker.home / ".jupyter-tpu", run, *(path for path in run.iterdir() if path.is_dir())):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    listening = [
        connection
        for process in worker.processes()
        for connection in process.net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert listening == []
    assert "secret" not in " ".join(psutil.Process(answer["pid"]).cmdline())


def limit_files(pid: int, size: int) -> None:
    """The largest size a file that this process writes may have, which fails like a full disk; -1 lifts it."""
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, hard))


async def test_on_a_full_disk_the_kernel_goes_on_and_says_so_once(client: Any, new_client: Any, worker: Any) -> None:
    await client.start()
    limit_files(client.link.agent["pid"], 1)
    for _ in range(2):
        assert (await client.run("print('shown')"))["content"]["status"] == "ok"
    told = [message["message"] for message in client.messages if message.get("event") == "disk_full"]
    assert len(told) == 1
    assert "probably full" in told[0]

    limit_files(client.link.agent["pid"], -1)
    await client.run("print('recorded')")
    worker.kill(client.link.agent["pid"])
    later = new_client(client.link)
    later.attach()
    await later.wait(lambda message: "recorded" in str(message.get("content")))
    assert later.printed().split() == ["shown", "shown", "recorded"]


async def test_a_folder_that_others_may_enter_is_refused(worker: Any, open_link: Any) -> None:
    folder = worker.home / ".jupyter-tpu"
    folder.mkdir()
    folder.chmod(0o755)
    with pytest.raises(Exception, match="Other users have access"):
        await open_link()


async def test_a_python_that_is_not_there_is_named(open_link: Any) -> None:
    with pytest.raises(EnvironmentFailed, match="no-such-python"):
        await open_link(python="no-such-python")


async def test_a_closed_link_refuses_calls(client: Any) -> None:
    await client.link.close()
    with pytest.raises(WorkerUnreachable):
        await client.link.call("status")
