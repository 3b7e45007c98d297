"""A kernel's life on a node as a front end sees it, by provisioner and by argv."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.asynchronous import AsyncKernelClient
from jupyter_client.manager import AsyncKernelManager
from tiers import mostly_nightly

Client = AsyncKernelClient


@pytest.fixture(params=mostly_nightly(["kernel_name", "argv_kernel_name"], count=1))
def name(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(request.param)
    return found


@pytest.fixture
async def start() -> AsyncIterator[Callable[..., Awaitable[tuple[AsyncKernelManager, Client]]]]:
    """Starts kernels and clients; ends them."""
    started: list[tuple[AsyncKernelManager, Client]] = []

    async def start_one(name: str, **options: Any) -> tuple[AsyncKernelManager, Client]:
        manager = AsyncKernelManager(kernel_name=name)
        await manager.start_kernel(**options)
        client = manager.client()
        started.append((manager, client))
        client.start_channels()
        await client.wait_for_ready(timeout=60)
        return manager, client

    yield start_one
    for manager, client in started:
        client.stop_channels()
        await manager.shutdown_kernel()
        assert not await manager.is_alive()


@pytest.fixture
async def kernel(start: Any, name: str) -> tuple[AsyncKernelManager, Client]:
    found: tuple[AsyncKernelManager, Client] = await start(name)
    return found


async def printed(client: Client, code: str, **options: Any) -> str:
    """What `code` prints; an error in it fails the test."""
    texts: list[str] = []

    def keep(message: dict[str, Any]) -> None:
        if message["msg_type"] == "stream":
            texts.append(message["content"]["text"])

    reply = await client.execute_interactive(code, output_hook=keep, timeout=60, **options)
    assert reply["content"]["status"] == "ok", reply["content"]
    return "".join(texts)


async def until_it_prints(client: Client, request: str) -> None:
    """Busy is not enough: ipykernel ignores SIGINT between that and the first line of the cell."""
    while True:
        message = await client.get_iopub_msg(timeout=60)
        if message["parent_header"].get("msg_id") == request and message["msg_type"] == "stream":
            return


async def reply_to(client: Client, request: str) -> dict[str, Any]:
    while True:
        reply: dict[str, Any] = await client.get_shell_msg(timeout=60)
        if reply["parent_header"].get("msg_id") == request:
            return reply


async def test_a_cell_runs_in_the_workers_home(kernel: tuple[AsyncKernelManager, Client]) -> None:
    _, client = kernel
    text = await printed(client, "import os; print(os.getcwd() == os.environ['HOME'])")
    assert text == "True\n"


async def test_nothing_of_this_machines_environment_travels_but_the_notebooks_name_and_what_the_user_names(
    start: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_SECRET_OF_THE_LAPTOP", "canary")
    monkeypatch.setenv("A_WISH", "granted")
    monkeypatch.setenv("JPY_SESSION_NAME", "/home/ada/digits.ipynb")
    monkeypatch.setenv("JUPYTER_TPU_FORWARD_ENV", "IS_NOT_SET, A_WISH")
    _, client = await start(name)
    names = ("A_SECRET_OF_THE_LAPTOP", "IS_NOT_SET", "A_WISH", "JPY_SESSION_NAME")
    text = await printed(client, f"import os; print(*[os.environ.get(name) for name in {names}])")
    assert text == "None None granted /home/ada/digits.ipynb\n"


HELP = """
from IPython.utils.capture import capture_output
with capture_output() as shown:
    get_ipython().run_line_magic("tpu", "--help")
print(shown.outputs[0].data["text/plain"])
"""


async def test_a_kernel_speaks_the_users_language(start: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGUAGE", "zh_CN")
    _, client = await start(name)
    assert "在一个屏幕上显示此节点。" in await printed(client, HELP)
    # what the user's own cells print stays as it is
    assert await printed(client, "import os; print(os.environ.get('LANGUAGE'))") == "None\n"


async def test_an_interrupt_reaches_the_cell(kernel: tuple[AsyncKernelManager, Client]) -> None:
    manager, client = kernel
    # Without stop_on_error ipykernel also aborts what arrives shortly after the error.
    request = client.execute("import time; print('begun', flush=True); time.sleep(600)", stop_on_error=False)
    await until_it_prints(client, request)
    await manager.interrupt_kernel()
    reply = await reply_to(client, request)
    assert reply["content"]["ename"] == "KeyboardInterrupt"
    assert await printed(client, "print('goes on')") == "goes on\n"


async def test_a_restart_forgets_variables_and_keeps_the_client(kernel: tuple[AsyncKernelManager, Client]) -> None:
    manager, client = kernel
    await printed(client, "x = 1")
    await manager.restart_kernel()
    await client.wait_for_ready(timeout=60)
    assert await printed(client, "print('x' in globals())") == "False\n"


@pytest.mark.nightly
@pytest.mark.parametrize("options", [{"now": True}, {"newports": True}], ids=str)
async def test_a_restart_at_once_or_on_new_ports_works(
    kernel: tuple[AsyncKernelManager, Client], options: dict[str, bool]
) -> None:
    manager, client = kernel
    await manager.restart_kernel(**options)
    client.stop_channels()
    fresh = manager.client()
    fresh.start_channels()
    try:
        await fresh.wait_for_ready(timeout=60)
        assert await printed(fresh, "print('anew')") == "anew\n"
    finally:
        fresh.stop_channels()


async def test_a_cell_may_ask_for_input(kernel: tuple[AsyncKernelManager, Client]) -> None:
    _, client = kernel

    async def answer(message: dict[str, Any]) -> None:
        assert message["content"]["prompt"] == "name? "
        client.input("Ada")

    text = await printed(client, "print('hello', input('name? '))", allow_stdin=True, stdin_hook=answer)
    assert text == "hello Ada\n"


async def test_comms_carry_widget_messages_both_ways(kernel: tuple[AsyncKernelManager, Client]) -> None:
    _, client = kernel
    await printed(
        client,
        "def opened(comm, msg):\n"
        "    comm.on_msg(lambda m: comm.send(m['content']['data'], buffers=m['buffers']))\n"
        "get_ipython().kernel.comm_manager.register_target('echo', opened)",
    )
    session = client.session
    for kind, content in (("comm_open", {"target_name": "echo"}), ("comm_msg", {})):
        message = session.msg(kind, {"comm_id": "c1", "data": {"n": 7}, **content})
        session.send(client.shell_channel.socket, message, buffers=[b"\x00\xff"])
    while (echo := await client.get_iopub_msg(timeout=60))["msg_type"] != "comm_msg":
        pass
    assert echo["content"]["data"] == {"n": 7}
    assert bytes(echo["buffers"][0]) == b"\x00\xff"


async def test_the_debugger_answers(kernel: tuple[AsyncKernelManager, Client]) -> None:
    _, client = kernel
    arguments = {"clientID": "test", "adapterID": "", "linesStartAt1": True, "columnsStartAt1": True}
    request = {"seq": 1, "type": "request", "command": "initialize", "arguments": arguments}
    client.control_channel.send(client.session.msg("debug_request", request))
    reply = await client.control_channel.get_msg(timeout=60)
    assert reply["msg_type"] == "debug_reply"
    assert reply["content"]["success"]


async def test_two_clients_see_the_same_output(kernel: tuple[AsyncKernelManager, Client]) -> None:
    manager, client = kernel
    other = AsyncKernelClient()  # manager.client() would have the same identity as the first one
    other.load_connection_file(manager.connection_file)
    other.start_channels(hb=False)  # one that misses a beat of a second calls the kernel dead
    try:
        await other.wait_for_ready(timeout=60)
        await printed(client, "print('for all')")
        text = ""
        while not text.endswith("\n"):  # one print may arrive in several messages
            text += (await other.get_iopub_msg(timeout=60))["content"].get("text", "")
        assert text == "for all\n"
    finally:
        other.stop_channels()


@pytest.mark.nightly
async def test_a_flood_of_output_arrives_whole_and_in_order(kernel: tuple[AsyncKernelManager, Client]) -> None:
    _, client = kernel
    text = await printed(client, "for n in range(5000): print(n, flush=True)")
    assert text.split() == [str(n) for n in range(5000)]


@pytest.mark.nightly
async def test_a_client_that_waits_for_its_reply_and_reads_no_output_gets_both(start: Any, kernel_name: str) -> None:
    _, client = await start(kernel_name)
    request = client.execute("for n in range(4000): print(n, 'x' * 4000, flush=True)")
    async with asyncio.timeout(60):
        await reply_to(client, request)
    text = ""
    while text.count("\n") < 4000:
        message = await client.get_iopub_msg(timeout=60)
        text += message["content"].get("text", "")
    assert [line.partition(" ")[0] for line in text.splitlines()] == [str(n) for n in range(4000)]


async def test_a_kernel_that_dies_is_seen_dead_and_starts_again(kernel: tuple[AsyncKernelManager, Client]) -> None:
    manager, client = kernel
    client.execute("import os; os._exit(3)")
    async with asyncio.timeout(60):
        assert await manager.provisioner.wait() == 3
    assert not await manager.is_alive()
    await manager.restart_kernel(now=True)
    await client.wait_for_ready(timeout=60)
    assert await printed(client, "print('back')") == "back\n"


@pytest.mark.parametrize("kind", mostly_nightly(["interrupt_request", "shutdown_request"], count=1))
async def test_what_was_meant_for_a_dead_process_and_comes_late_spares_the_next_one(
    start: Any, kernel_name: str, tmp_path: Path, kind: str
) -> None:
    manager, client = await start(kernel_name)
    client.execute("import os; os._exit(3)")
    await asyncio.wait_for(manager.provisioner.wait(), 60)
    late = manager.session.msg(kind, {"restart": True} if kind == "shutdown_request" else {})
    await manager.restart_kernel(now=True)
    await client.wait_for_ready(timeout=60)
    go = tmp_path / "go"
    waits = f"while not pathlib.Path({str(go)!r}).exists(): time.sleep(0.02)"
    running = client.execute(f"import pathlib, time; print('begun', flush=True)\n{waits}")
    await until_it_prints(client, running)
    client.control_channel.send(late)
    asked = client.session.msg("kernel_info_request")
    client.control_channel.send(asked)
    reply = await client.get_control_msg(timeout=60)
    go.touch()

    assert reply["parent_header"]["msg_id"] == asked["header"]["msg_id"]
    assert (await reply_to(client, running))["content"]["status"] == "ok"


async def test_a_killed_kernel_is_seen_dead_by_its_signal(start: Any, kernel_name: str) -> None:
    manager, client = await start(kernel_name)
    client.execute("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    async with asyncio.timeout(60):
        assert await manager.provisioner.wait() == -9
    assert await manager.provisioner.poll() == -9
