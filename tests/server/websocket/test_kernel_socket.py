"""A page gets all that its kernel has said, once, whatever becomes of its connection meanwhile."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import nbformat
import psutil
import pytest
from jupyter_client.session import Session
from nbclient import NotebookClient
from nbclient.client import CellExecutionComplete
from tiers import mostly_nightly

from jupyter_tpu.emulator.network_faults.fault_proxy import FaultProxy
from jupyter_tpu.emulator.network_faults.verbs import LinkFault
from jupyter_tpu.emulator.workers.process_tree import processes_of
from jupyter_tpu.outputs.rendering import format_bytes

if TYPE_CHECKING:
    from conftest import Cloud, OpenPages, Page, Server, StartServer

pytestmark = pytest.mark.timeout(600)

NODE = {"zone": "us-central1-a", "accelerator_type": "v5litepod-8", "runtime_version": "v2-alpha-tpuv5-lite"}
LINES = [f"line {number}\n" for number in range(100)]


@pytest.fixture(scope="module")
def server(cloud: Cloud, start_lasting_server: StartServer) -> Server:
    """A server with a READY node."""
    server = start_lasting_server(**cloud.variables)
    server.tpu("POST", "nodes", {**NODE, "node_id": "my-node"})
    until(lambda: any(node["kernelspec"] for node in server.tpu("GET", "nodes").json["nodes"]))
    return server


@pytest.fixture
def kernel_id(server: Server) -> Iterator[str]:
    """A kernel on the node."""
    yield from kernel_of(server, "tpu-my-node-us-central1-a")


@pytest.fixture
def local_kernel_id(server: Server) -> Iterator[str]:
    """A kernel on this machine."""
    yield from kernel_of(server, "python3")


def kernel_of(server: Server, name: str) -> Iterator[str]:
    answer = server.request("POST", "api/kernels", {"name": name})
    assert answer.status == 201, answer.text
    yield answer.json["id"]
    server.request("DELETE", f"api/kernels/{answer.json['id']}")


def until(check: Callable[[], Any]) -> Any:
    """What `check` finds; asked over and over, because a REST API never calls."""
    for _ in range(3600):
        if found := check():
            return found
        signal.sigtimedwait([], 0.05)
    raise AssertionError("it did not happen")


@dataclass(frozen=True)
class Cell:
    """A cell that prints 100 lines in two halves, and waits between them to be told to go on."""

    gate: Path

    @property
    def code(self) -> str:
        return (
            "import pathlib, time\n"
            "for number in range(100):\n"
            "    print('line', number, flush=True)\n"
            f"    while number == 49 and not pathlib.Path({str(self.gate)!r}).exists():\n"
            "        time.sleep(0.02)\n"
        )

    def go_on(self) -> None:
        self.gate.touch()


@pytest.fixture
def cell(tmp_path: Path) -> Cell:
    return Cell(tmp_path / "go")


async def half_printed(page: Page, cell: Cell) -> str:
    """Run the cell until its first half has arrived, and the server knows it."""
    msg_id = page.execute(cell.code)
    await page.until(lambda _: page.text(msg_id).endswith("line 49\n"))
    await page.settle()
    return msg_id


async def begun(server: Server, verb: str, route: str) -> asyncio.Task[int]:
    """A request that the server works on, because it has answered later ones; its status, once answered.

    Tornado takes up requests in the order in which they come. A request then advances in each turn of the server's
    loop, and one later answer can overtake the first steps of a restart: several take more turns than these have.
    """
    url = urlsplit(server.url)
    connection = HTTPConnection(url.hostname or "", url.port)
    connection.request(verb, f"{url.path}{route}", headers={"Authorization": f"token {server.token}"})
    for _ in range(5):
        await asyncio.to_thread(server.request, "GET", "api/status")

    def status() -> int:
        with closing(connection):
            return connection.getresponse().status

    return asyncio.create_task(asyncio.to_thread(status))


async def until_over(server: Server, kernel_id: str) -> None:
    """Until the kernel is idle, as somebody sees who has no page."""
    await asyncio.to_thread(
        until, lambda: server.request("GET", f"api/kernels/{kernel_id}").json["execution_state"] == "idle"
    )


async def test_a_dropped_connection_loses_and_repeats_nothing(
    server: Server, kernel_id: str, cell: Cell, open_page: OpenPages
) -> None:
    first = await open_page(server, kernel_id)
    msg_id = await half_printed(first, cell)
    await first.close()
    cell.go_on()
    again = await open_page(server, kernel_id, first.session_id)
    await again.until_idle(msg_id)

    assert (first.text(msg_id) + again.text(msg_id)).splitlines(keepends=True) == LINES
    assert first.kinds(msg_id) == ["status", "execute_input", *["stream"] * first.kinds(msg_id).count("stream")]
    assert sorted(kind for kind in again.kinds(msg_id) if kind != "stream") == ["execute_reply", "status"]


async def test_a_page_that_was_away_until_the_cell_ended_gets_the_rest_with_its_reply(
    server: Server, kernel_id: str, cell: Cell, open_page: OpenPages
) -> None:
    first = await open_page(server, kernel_id)
    msg_id = await half_printed(first, cell)
    await first.close()
    cell.go_on()
    await until_over(server, kernel_id)
    again = await open_page(server, kernel_id, first.session_id)
    await again.until_idle(msg_id)

    assert (first.text(msg_id) + again.text(msg_id)).splitlines(keepends=True) == LINES


async def test_a_page_that_comes_back_is_told_that_the_cell_still_runs(
    server: Server, kernel_id: str, cell: Cell, open_page: OpenPages
) -> None:
    first = await open_page(server, kernel_id)
    msg_id = await half_printed(first, cell)
    await first.close()

    again = await open_page(server, kernel_id, first.session_id)

    told = await again.until(lambda message: message["msg_type"] == "status")
    assert told["content"]["execution_state"] == "busy"
    cell.go_on()
    await again.until_idle(msg_id)


@pytest.mark.parametrize("is_over", mostly_nightly([False, True], count=1), ids=["while it runs", "when it is over"])
async def test_a_new_page_can_take_up_the_last_cell_with_all_its_lines(
    server: Server, kernel_id: str, cell: Cell, open_page: OpenPages, is_over: bool
) -> None:
    first = await open_page(server, kernel_id)
    msg_id = await half_printed(first, cell)
    await first.close()
    if is_over:
        cell.go_on()
        await until_over(server, kernel_id)
    second = await open_page(server, kernel_id)
    await second.until(lambda message: message["msg_type"] == "clear_output")
    cell.go_on()
    await second.until(lambda message: is_idle(message, msg_id))

    assert second.text(msg_id).splitlines(keepends=True) == LINES
    assert second.kinds(msg_id)[:4] == ["status", "clear_output", "status", "execute_input"]
    assert next(m["content"] for m in second.heard if m["msg_type"] == "status") == {"execution_state": "busy"}


async def test_a_page_that_looks_in_meanwhile_takes_nothing_away(
    server: Server, kernel_id: str, cell: Cell, open_page: OpenPages
) -> None:
    first = await open_page(server, kernel_id)
    msg_id = await half_printed(first, cell)
    await first.close()
    other = await open_page(server, kernel_id)
    cell.go_on()
    await other.until(lambda message: is_idle(message, msg_id))
    await other.close()
    again = await open_page(server, kernel_id, first.session_id)
    await again.until_idle(msg_id)

    assert (first.text(msg_id) + again.text(msg_id)).splitlines(keepends=True) == LINES
    assert other.text(msg_id).splitlines(keepends=True) == LINES
    assert "execute_reply" not in other.kinds(msg_id)


async def test_a_connection_that_hangs_in_the_air_is_replaced_by_the_next_and_loses_nothing(
    server: Server, kernel_id: str, cell: Cell, open_page: OpenPages
) -> None:
    async with proxy_before(server) as (proxy, address):
        first = await open_page(server, kernel_id, address=address)
        msg_id = await half_printed(first, cell)
        proxy.apply(LinkFault(verb="black_hole"))
        cell.go_on()
        await until_over(server, kernel_id)  # all of it is written, into nothing
        again = await open_page(server, kernel_id, first.session_id)
        await again.until_idle(msg_id)

    assert shown([*first.heard, *again.heard], msg_id).splitlines(keepends=True) == LINES


async def read_unheard(page: Page, proxy: FaultProxy, cell: Cell) -> str:
    """The page reads the first half of the cell, and the server does not hear that it did; the cell's msg_id."""
    await page.until_idle(page.execute("pass"))
    await page.settle()
    msg_id = page.execute(cell.code)
    await page.until(lambda message: parent_of(message) == msg_id)
    proxy.apply(LinkFault(verb="stall", direction="up"))
    await page.until(lambda _: page.text(msg_id).endswith("line 49\n"))
    return msg_id


@pytest.mark.parametrize("is_over", mostly_nightly([False, True], count=1), ids=["while it runs", "when it is over"])
async def test_a_page_that_knows_no_seqs_shows_once_what_it_had_read_before_its_connection_broke(
    server: Server, kernel_id: str, cell: Cell, open_page: OpenPages, is_over: bool
) -> None:
    async with proxy_before(server) as (proxy, address):
        first = await open_page(server, kernel_id, address=address)
        msg_id = await read_unheard(first, proxy, cell)
        if is_over:
            cell.go_on()
            await first.until_idle(msg_id)
        proxy.apply(LinkFault(verb="reset"))
        await first.close()
    again = await open_page(server, kernel_id, first.session_id)
    cell.go_on()
    await again.until_idle(msg_id)
    await again.until_idle(again.execute("pass"))

    read = max(message["metadata"].get("jupyter_tpu", {}).get("seq", 0) for message in first.heard)
    news = [m for m in again.heard if m["metadata"].get("jupyter_tpu", {}).get("seq", read + 1) > read]
    assert len(news) < len(again.heard)  # some of it was sent again
    assert shown([*first.heard, *again.heard], msg_id).splitlines(keepends=True) == LINES
    assert "clear_output" not in [message["msg_type"] for message in news]  # a page that goes by seqs is not cleared
    assert shown([*first.heard, *news], msg_id).splitlines(keepends=True) == LINES


@pytest.mark.nightly
async def test_a_page_whose_connection_breaks_again_at_once_shows_once_what_it_had_read_before(
    server: Server, kernel_id: str, cell: Cell, open_page: OpenPages
) -> None:
    async with proxy_before(server) as (proxy, address):
        first = await open_page(server, kernel_id, address=address)
        msg_id = await read_unheard(first, proxy, cell)
        proxy.apply(LinkFault(verb="reset"))
        await first.close()
    with deaf_page(server, kernel_id, first.session_id) as deaf:
        deaf.ask("pass")
    again = await open_page(server, kernel_id, first.session_id)
    cell.go_on()
    await again.until_idle(msg_id)

    assert shown([*first.heard, *again.heard], msg_id).splitlines(keepends=True) == LINES


@pytest.mark.parametrize("is_heard", mostly_nightly([False, True], count=1), ids=["at once", "when the cell is done"])
async def test_a_page_that_drops_before_its_first_pong_comes_back_to_all_answers(
    server: Server, kernel_id: str, open_page: OpenPages, tmp_path: Path, is_heard: bool
) -> None:
    done = tmp_path / "done"
    cells = ["print('one')", "1 + 1", f"print('three'); import pathlib; pathlib.Path({str(done)!r}).touch()"]
    with deaf_page(server, kernel_id, "early") as deaf:
        msg_ids = [deaf.ask(code) for code in cells]
        if is_heard:
            await asyncio.to_thread(until, done.exists)
            await until_over(server, kernel_id)
    again = await open_page(server, kernel_id, "early")
    for msg_id in msg_ids:
        await again.until_idle(msg_id)

    assert [shown(again.heard, msg_id) for msg_id in msg_ids] == ["one\n", "2", "three\n"]
    ends = [kind for kind in again.kinds(msg_ids[1]) if kind in ("status", "execute_input", "execute_reply")]
    assert sorted(ends) == ["execute_input", "execute_reply", "status", "status"]


async def test_a_page_that_drops_twice_before_its_first_pong_shows_once_what_it_had_read(
    server: Server, kernel_id: str, open_page: OpenPages, tmp_path: Path
) -> None:
    gate = tmp_path / "go"
    wait = f"import pathlib, time\nwhile not pathlib.Path({str(gate)!r}).exists():\n    time.sleep(0.02)\n"
    with deaf_page(server, kernel_id, "twice") as first:
        msg_id = first.ask(f"{wait}print('the output')")
    with deaf_page(server, kernel_id, "twice") as second:
        gate.touch()
        await asyncio.to_thread(second.until, lambda _, payload: b"the output\\n" in payload)
    again = await open_page(server, kernel_id, "twice")
    await again.until_idle(msg_id)

    assert shown([*first.heard, *second.heard, *again.heard], msg_id) == "the output\n"


@pytest.mark.nightly
async def test_a_page_that_drops_before_its_first_pong_still_takes_up_the_cell_of_another(
    server: Server, kernel_id: str, cell: Cell, open_page: OpenPages
) -> None:
    first = await open_page(server, kernel_id)
    msg_id = await half_printed(first, cell)
    await first.close()
    with deaf_page(server, kernel_id, "late") as deaf:
        deaf.ask("1")
    again = await open_page(server, kernel_id, "late")
    cell.go_on()
    await again.until(lambda message: is_idle(message, msg_id))

    assert again.text(msg_id).splitlines(keepends=True) == LINES


async def test_two_pages_see_the_same(server: Server, kernel_id: str, cell: Cell, open_page: OpenPages) -> None:
    one, other = await open_page(server, kernel_id), await open_page(server, kernel_id)
    msg_id = one.execute(cell.code)
    cell.go_on()
    await one.until_idle(msg_id)
    await other.until(lambda message: is_idle(message, msg_id))

    assert one.text(msg_id) == other.text(msg_id) == "".join(LINES)
    assert [kind for kind in one.kinds(msg_id) if kind not in ("stream", "execute_reply")] == [
        kind for kind in other.kinds(msg_id) if kind != "stream"
    ]


async def test_the_old_protocol_carries_the_same(
    server: Server, kernel_id: str, cell: Cell, open_page: OpenPages
) -> None:
    page = await open_page(server, kernel_id, protocol="")
    msg_id = await half_printed(page, cell)
    await page.close()
    cell.go_on()
    again = await open_page(server, kernel_id, page.session_id, protocol="")
    await again.until_idle(msg_id)

    assert (page.text(msg_id) + again.text(msg_id)).splitlines(keepends=True) == LINES


@pytest.mark.parametrize(
    "protocol", mostly_nightly(["v1.kernel.websocket.jupyter.org", ""], count=1), ids=["version 1", "old protocol"]
)
async def test_a_message_that_cannot_be_read_is_left_out_by_name_and_takes_no_other_along(
    server: Server, kernel_id: str, open_page: OpenPages, protocol: str
) -> None:
    page = await open_page(server, kernel_id, protocol=protocol)
    msg_id = page.execute(
        "kernel = get_ipython().kernel\n"
        "def send_deep():\n"
        "    header = kernel.session.msg_header('stream')\n"
        "    frames = [kernel.session.pack(header), kernel.session.pack(kernel.get_parent()['header']), b'{}', deep]\n"
        "    kernel.iopub_socket.send_multipart([b'stream', b'<IDS|MSG>', kernel.session.sign(frames), *frames])\n"
        "deep = b'[' * 200_000\n"
        "for number in range(100):\n"
        "    print('line', number, flush=True)\n"
        "    if number % 25 == 10:\n"
        "        send_deep()\n"
    )
    await page.until_idle(msg_id)

    told = [m["content"] for m in page.heard if m["msg_type"] == "stream"]
    assert "".join(each["text"] for each in told if each["name"] == "stdout").splitlines(keepends=True) == LINES
    words = [each["text"] for each in told if each["name"] == "stderr"]
    assert len(words) == 4
    assert all(re.fullmatch(r"\[Message \d+ of this kernel cannot be shown; .*\]\n", w) for w in words)


@pytest.mark.parametrize("size", mostly_nightly([300_000, 6_000_000], count=1))
async def test_a_message_that_is_too_large_for_a_client_is_left_out_by_name_when_it_comes_back(
    server: Server, kernel_id: str, open_page: OpenPages, size: int
) -> None:
    page = await open_page(server, kernel_id, largest_message=100_000)
    msg_id = page.execute(f"print('before'); display({{'text/plain': 'x' * {size}}}, raw=True); print('after')")
    heard: list[Any] = []
    while await ends_before(page, msg_id):  # the word why may be lost with the connection
        heard += page.heard
        page = await open_page(server, kernel_id, page.session_id, largest_message=100_000)
    heard += page.heard
    outputs = await asyncio.to_thread(server.tpu, "GET", f"kernels/{kernel_id}/outputs?msg_id={msg_id}")

    found = re.fullmatch(r"before\n(\[.*\]\n)after\n", shown(heard, msg_id))
    assert found, shown(heard, msg_id)
    words = found[1]
    is_readable = "x" * size in outputs.text
    where = (
        f"/jupyter-tpu/v1/kernels/{kernel_id}/outputs?msg_id={msg_id}" if is_readable else "raise the client's limit"
    )
    assert re.match(rf"\[Message \d+ of this kernel \({format_bytes(size)}\) was left out: ", words)
    assert where in words
    assert is_readable == (size < 4_000_000)


@pytest.mark.nightly
async def test_a_message_that_was_left_out_last_is_named_once_when_the_client_is_back_while_the_cell_runs(
    server: Server, kernel_id: str, open_page: OpenPages, cell: Cell
) -> None:
    page = await open_page(server, kernel_id, largest_message=100_000)
    waits = f"import pathlib, time\nwhile not pathlib.Path({str(cell.gate)!r}).exists():\n    time.sleep(0.02)\n"
    msg_id = page.execute(f"print('before'); display({{'text/plain': 'x' * 300_000}}, raw=True)\n{waits}print('after')")
    heard: list[Any] = []
    while not await says_what_is_left_out(page):
        heard += page.heard
        page = await open_page(server, kernel_id, page.session_id, largest_message=100_000)
    cell.go_on()
    await page.until_idle(msg_id)

    found = shown([*heard, *page.heard], msg_id)
    assert re.fullmatch(r"before\n\[Message \d+ of this kernel \(300 kB\) was left out: .*\]\nafter\n", found), found


async def test_a_client_for_which_the_last_output_is_too_large_opens_with_words_in_its_place(
    server: Server, kernel_id: str, open_page: OpenPages
) -> None:
    first = await open_page(server, kernel_id)
    msg_id = first.execute("print('before'); display({'text/plain': 'x' * 300_000}, raw=True)")
    await first.until_idle(msg_id)
    page = await open_page(server, kernel_id, largest_message=100_000)
    for _ in range(10):
        if not await ends_before(page, msg_id):
            break
        page = await open_page(server, kernel_id, page.session_id, largest_message=100_000)

    assert not page.is_closed
    streams = [message["content"] for message in page.heard if message["msg_type"] == "stream"]
    assert "".join(each["text"] for each in streams if each["name"] == "stdout") == "before\n"
    (words,) = (each["text"] for each in streams if each["name"] == "stderr")
    assert f"({format_bytes(300_000)}) was left out: " in words


async def test_every_message_says_where_it_stands_in_the_record(
    server: Server, kernel_id: str, cell: Cell, open_page: OpenPages
) -> None:
    page = await open_page(server, kernel_id)
    cell.go_on()
    msg_id = page.execute(cell.code)
    await page.until_idle(msg_id)

    seqs = [m["metadata"]["jupyter_tpu"]["seq"] for m in page.heard if m["parent_header"].get("msg_id") == msg_id]
    assert seqs == sorted(set(seqs))


async def test_a_question_that_somebody_was_asked_who_is_gone_is_asked_the_next_page(
    server: Server, kernel_id: str, open_page: OpenPages
) -> None:
    first = await open_page(server, kernel_id)
    msg_id = first.execute("print('hello', input('name? '))")
    await first.until(lambda message: message["msg_type"] == "input_request")
    await first.settle()
    await first.close()
    second = await open_page(server, kernel_id)
    question = await second.until(lambda message: message["msg_type"] == "input_request")
    second.send("input_reply", {"value": "ada", "status": "ok"}, "stdin", parent=question["header"])
    await second.until(lambda message: is_idle(message, msg_id))
    third = await open_page(server, kernel_id)
    await third.until(lambda message: message["msg_type"] == "status" and not message["parent_header"])

    assert question["content"]["prompt"] == "name? "
    assert second.text(msg_id) == "hello ada\n"
    assert "input_request" not in [message["msg_type"] for message in third.heard]


async def test_a_question_goes_to_the_page_that_stays_when_the_one_that_was_asked_leaves(
    server: Server, kernel_id: str, open_page: OpenPages
) -> None:
    asked, stays = await open_page(server, kernel_id), await open_page(server, kernel_id)
    msg_id = asked.execute("print('hello', input('name? '))")
    await asked.until(lambda message: message["msg_type"] == "input_request")
    await stays.until(lambda message: message["msg_type"] == "execute_input")
    await asked.close()
    question = await stays.until(lambda message: message["msg_type"] == "input_request")
    stays.send("input_reply", {"value": "eve", "status": "ok"}, "stdin", parent=question["header"])
    await stays.until(lambda message: is_idle(message, msg_id))

    assert stays.text(msg_id) == "hello eve\n"


async def test_a_question_of_a_page_that_has_closed_is_asked_the_page_that_is_open(
    server: Server, kernel_id: str, cell: Cell, open_page: OpenPages
) -> None:
    def is_alone() -> bool:
        return bool(server.request("GET", f"api/kernels/{kernel_id}").json["connections"] == 1)

    closing, stays = await open_page(server, kernel_id), await open_page(server, kernel_id)
    msg_id = closing.execute(f"{cell.code}print('hello', input('name? '))")
    await stays.until(lambda message: message["msg_type"] == "stream")
    await closing.close()
    await asyncio.to_thread(until, is_alone)
    cell.go_on()
    question = await stays.until(lambda message: message["msg_type"] == "input_request")
    stays.send("input_reply", {"value": "eve", "status": "ok"}, "stdin", parent=question["header"])
    await stays.until(lambda message: is_idle(message, msg_id))

    assert stays.text(msg_id).endswith("hello eve\n")


async def test_a_question_is_not_asked_of_a_page_beside_the_one_that_was_asked(
    server: Server, kernel_id: str, open_page: OpenPages
) -> None:
    one, other = await open_page(server, kernel_id), await open_page(server, kernel_id)
    msg_id = one.execute("print('hello', input('name? '))")
    question = await one.until(lambda message: message["msg_type"] == "input_request")
    one.send("input_reply", {"value": "bob", "status": "ok"}, "stdin", parent=question["header"])
    await other.until(lambda message: is_idle(message, msg_id))

    assert "input_request" not in other.kinds(msg_id)


async def test_a_page_that_opens_is_asked_only_once_the_page_that_was_asked_is_gone(
    server: Server, kernel_id: str, open_page: OpenPages
) -> None:
    asked = await open_page(server, kernel_id)
    msg_id = asked.execute("print('hello', input('name? '))")
    await asked.until(lambda message: message["msg_type"] == "input_request")
    opened = await open_page(server, kernel_id)
    await opened.until(lambda message: message["msg_type"] == "execute_input")
    await opened.settle()
    before = [message["msg_type"] for message in opened.heard]
    await asked.close()
    question = await opened.until(lambda message: message["msg_type"] == "input_request")
    opened.send("input_reply", {"value": "eve", "status": "ok"}, "stdin", parent=question["header"])
    await opened.until(lambda message: is_idle(message, msg_id))

    assert "input_request" not in before
    assert opened.text(msg_id) == "hello eve\n"


async def test_a_kernel_that_dies_and_one_that_is_restarted_go_on_in_the_same_page(
    server: Server, kernel_id: str, open_page: OpenPages
) -> None:
    page = await open_page(server, kernel_id)
    page.execute("import os; os.kill(os.getpid(), 9)")
    await page.until(lambda message: message["content"].get("execution_state") == "restarting")
    await page.until_idle(page.execute("x = 1"))
    restarted = await asyncio.to_thread(server.request, "POST", f"api/kernels/{kernel_id}/restart")
    msg_id = page.execute("print('x' in globals())")
    await page.until_idle(msg_id)

    assert restarted.status == 200
    assert page.text(msg_id) == "False\n"


async def test_a_page_beside_the_one_that_restarts_a_busy_kernel_hears_that_it_is_idle(
    server: Server, kernel_id: str, cell: Cell, open_page: OpenPages
) -> None:
    def last_state(page: Page) -> str:
        return [m["content"]["execution_state"] for m in page.heard if m["msg_type"] == "status"][-1]

    page = await open_page(server, kernel_id)
    other = await open_page(server, kernel_id)
    page.execute(cell.code)
    await other.until(lambda message: message["msg_type"] == "stream")
    assert last_state(other) == "busy"
    await asyncio.to_thread(server.request, "POST", f"api/kernels/{kernel_id}/restart")
    await other.until(lambda _: last_state(other) == "idle")


@pytest.mark.parametrize(
    "asked", mostly_nightly(["restart restart delete", "delete restart", "restart delete-session"], count=1)
)
async def test_restarts_and_shutdowns_that_overlap_come_one_after_the_other_and_leave_no_kernel(
    server: Server, cloud: Cloud, asked: str
) -> None:
    body = {"path": "n.ipynb", "name": "n", "type": "notebook", "kernel": {"name": "tpu-my-node-us-central1-a"}}
    session = server.request("POST", "api/sessions", body).json
    route = f"api/kernels/{session['kernel']['id']}"
    requests = {
        "restart": ("POST", f"{route}/restart"),
        "delete": ("DELETE", route),
        "delete-session": ("DELETE", f"api/sessions/{session['id']}"),
    }
    asking = [asyncio.to_thread(server.request, *requests[what]) for what in asked.split()]
    answers = await asyncio.gather(*asking)

    restarted = {answer.status for answer, what in zip(answers, asked.split(), strict=True) if what == "restart"}
    assert restarted in ({200}, {404})  # as the server got them first or last
    assert [answer.status for answer, what in zip(answers, asked.split(), strict=True) if what != "restart"] == [204]
    (worker,) = cloud.control.workers("projects/demo-project/locations/us-central1-a/nodes/my-node")
    folder = Path(worker["home"]) / ".jupyter-tpu" / "kernels" / session["kernel"]["id"]
    await asyncio.to_thread(until, lambda: not folder.exists())
    assert server.request("GET", route).status == 404


@pytest.mark.nightly
async def test_a_notebook_that_gets_another_kernel_while_its_own_is_restarted_leaves_none(
    server: Server, cloud: Cloud
) -> None:
    body = {"path": "n.ipynb", "name": "n", "type": "notebook", "kernel": {"name": "tpu-my-node-us-central1-a"}}
    session = server.request("POST", "api/sessions", body).json
    route, kernel = f"api/sessions/{session['id']}", f"api/kernels/{session['kernel']['id']}"
    restart = await begun(server, "POST", f"{kernel}/restart")
    changed = await asyncio.to_thread(server.request, "PATCH", route, {"kernel": {"name": "python3"}})

    assert changed.json["kernel"]["name"] == "python3"
    assert await restart == 200
    (worker,) = cloud.control.workers("projects/demo-project/locations/us-central1-a/nodes/my-node")
    folder = Path(worker["home"]) / ".jupyter-tpu" / "kernels" / session["kernel"]["id"]
    await asyncio.to_thread(until, lambda: not folder.exists())
    assert server.request("GET", kernel).status == 404
    server.request("DELETE", route)


async def test_a_restart_that_a_full_disk_prevents_says_why_and_the_running_cell_goes_on(
    server: Server, cloud: Cloud, kernel_id: str, cell: Cell, open_page: OpenPages
) -> None:
    page = await open_page(server, kernel_id)
    await page.until_idle(page.execute("x = 41"))
    running = await half_printed(page, cell)
    (node,) = server.tpu("GET", "nodes").json["nodes"]
    token = cloud.control.workers(node["name"])[0]["token"]
    agent = next(process for process in processes_of([token]) if "agent" in process.cmdline())
    agent.rlimit(psutil.RLIMIT_FSIZE, (1, psutil.RLIM_INFINITY))  # fails as a full disk does
    try:
        answer = await asyncio.to_thread(server.request, "POST", f"api/kernels/{kernel_id}/restart")
    finally:
        agent.rlimit(psutil.RLIMIT_FSIZE, (psutil.RLIM_INFINITY, psutil.RLIM_INFINITY))
    assert answer.status == 507
    assert "disk of the worker can't be written" in answer.json["reason"]
    assert "MiB are free in" in answer.json["reason"]
    assert "worker 0 of my-node" in answer.json["message"]
    assert "`jupyter tpu ssh my-node --worker 0`" in answer.json["message"]
    assert answer.headers["Jupyter-Tpu-Error"] == answer.json["error"]["code"] == "worker_disk_full"
    cell.go_on()
    await page.until_idle(running)
    assert page.kinds(running).count("error") == 0
    msg_id = page.execute("print(x + 1)")
    await page.until_idle(msg_id)
    assert page.text(msg_id) == "42\n"
    restarted = await asyncio.to_thread(server.request, "POST", f"api/kernels/{kernel_id}/restart")
    assert restarted.status == 200


@pytest.mark.parametrize("route", ["kernels", "sessions"])
async def test_a_start_that_a_full_disk_prevents_says_where_how_full_it_is_and_what_to_do(
    server: Server, cloud: Cloud, kernel_id: str, route: str
) -> None:
    (node,) = server.tpu("GET", "nodes").json["nodes"]
    token = cloud.control.workers(node["name"])[0]["token"]
    agent = next(process for process in processes_of([token]) if "agent" in process.cmdline())
    agent.rlimit(psutil.RLIMIT_FSIZE, (1, psutil.RLIM_INFINITY))  # fails as a full disk does
    spec = {"name": "tpu-my-node-us-central1-a"}
    bodies = {"kernels": spec, "sessions": {"path": "full.ipynb", "name": "", "type": "notebook", "kernel": spec}}

    def refused() -> Any:
        # Only the first start can be answered before it has failed: while the worker has a pre-warmed kernel.
        answer = server.request("POST", f"api/{route}", bodies[route])
        if answer.status == 201:
            server.request("DELETE", f"api/{route}/{answer.json['id']}")
        return answer if answer.status != 201 else None

    try:
        answer = await asyncio.to_thread(until, refused)
    finally:
        agent.rlimit(psutil.RLIMIT_FSIZE, (psutil.RLIM_INFINITY, psutil.RLIM_INFINITY))
    assert answer.status == 507
    for part in ("disk of the worker can't be written", "MiB are free in", "worker 0 of my-node", "jupyter tpu ssh"):
        assert part in answer.json["message"]
    assert answer.json["error"]["code"] == "worker_disk_full"


async def test_a_kernel_whose_restart_has_failed_ends_when_it_is_shut_down(
    server: Server, cloud: Cloud, open_page: OpenPages
) -> None:
    kernel_id = server.request("POST", "api/kernels", {"name": "tpu-my-node-us-central1-a"}).json["id"]
    page = await open_page(server, kernel_id)
    await page.until_idle(page.execute("1"))
    (node,) = server.tpu("GET", "nodes").json["nodes"]
    (worker,) = cloud.control.workers(node["name"])
    agent = next(process for process in processes_of([worker["token"]]) if "agent" in process.cmdline())
    agent.suspend()  # it answers too late whether a restart is possible, so that is tried
    restart = await begun(server, "POST", f"api/kernels/{kernel_id}/restart")
    await asyncio.wait([restart], timeout=7)
    agent.rlimit(psutil.RLIMIT_FSIZE, (1, psutil.RLIM_INFINITY))  # fails as a full disk does
    agent.resume()
    try:
        assert await restart == 507
    finally:
        agent.rlimit(psutil.RLIMIT_FSIZE, (psutil.RLIM_INFINITY, psutil.RLIM_INFINITY))
    await page.until_idle(page.execute("1"))  # the kernel still runs

    deleted = await asyncio.to_thread(server.request, "DELETE", f"api/kernels/{kernel_id}")

    assert deleted.status == 204
    folder = Path(worker["home"]) / ".jupyter-tpu" / "kernels" / kernel_id
    await asyncio.to_thread(until, lambda: not folder.exists())


async def test_cells_sent_while_a_restart_waits_for_the_worker_run_in_the_new_process(
    server: Server, cloud: Cloud, open_page: OpenPages
) -> None:
    kernel_id = server.request("POST", "api/kernels", {"name": "tpu-my-node-us-central1-a"}).json["id"]
    page = await open_page(server, kernel_id)
    await page.until_idle(page.execute("of_the_old_process = 1"))
    (node,) = server.tpu("GET", "nodes").json["nodes"]
    (worker,) = cloud.control.workers(node["name"])
    agent = next(process for process in processes_of([worker["token"]]) if "agent" in process.cmdline())
    agent.suspend()
    restart = await begun(server, "POST", f"api/kernels/{kernel_id}/restart")
    asked = [page.execute("print('of_the_old_process' in globals())") for _ in range(3)]
    await page.settle()
    agent.resume()

    assert await restart == 200
    for msg_id in asked:
        await page.until_idle(msg_id)
        assert page.text(msg_id) == "False\n"


@pytest.mark.nightly
async def test_a_kernel_is_shut_down_while_jupyter_starts_it_again(
    server: Server, cloud: Cloud, open_page: OpenPages
) -> None:
    kernel_id = server.request("POST", "api/kernels", {"name": "tpu-my-node-us-central1-a"}).json["id"]
    page = await open_page(server, kernel_id)
    (node,) = server.tpu("GET", "nodes").json["nodes"]
    (worker,) = cloud.control.workers(node["name"])
    agent = next(process for process in processes_of([worker["token"]]) if "agent" in process.cmdline())
    page.execute("import os; os.kill(os.getpid(), 9)")
    await page.until(lambda message: message["content"].get("execution_state") == "restarting")
    agent.suspend()  # so that the start takes a while
    deleting = await begun(server, "DELETE", f"api/kernels/{kernel_id}")
    agent.resume()
    assert await deleting == 204
    folder = Path(worker["home"]) / ".jupyter-tpu" / "kernels" / kernel_id
    await asyncio.to_thread(until, lambda: not folder.exists())


@pytest.mark.nightly
async def test_a_page_that_opens_while_a_dead_kernel_is_being_started_again_does_not_hear_that_it_is_dead(
    server: Server, kernel_id: str, open_page: OpenPages
) -> None:
    def states(page: Page) -> set[str]:
        return {m["content"]["execution_state"] for m in page.heard if m["msg_type"] == "status"}

    page = await open_page(server, kernel_id)
    page.execute("import os; os.kill(os.getpid(), 9)")
    others = [await open_page(server, kernel_id)]
    while "restarting" not in states(page):
        others.append(await open_page(server, kernel_id))
        await asyncio.sleep(0.25)

    for other in others:
        await other.until_idle(other.execute("1"))
        assert "dead" not in states(other)


async def test_a_page_counts_as_a_connection_while_it_is_open(
    server: Server, kernel_id: str, open_page: OpenPages
) -> None:
    def connections() -> int:
        return int(server.request("GET", f"api/kernels/{kernel_id}").json["connections"])

    page = await open_page(server, kernel_id)
    await page.until_idle(page.execute("1"))
    assert connections() == 1

    await page.close()
    await asyncio.to_thread(until, lambda: connections() == 0)


async def test_a_page_of_a_flood_gets_its_beginning_its_size_and_its_end(
    server: Server, kernel_id: str, open_page: OpenPages
) -> None:
    page = await open_page(server, kernel_id)
    msg_id = page.execute("for number in range(100_000):\n    print('line', number, '.' * 100)")
    await page.until_idle(msg_id)
    displays = [m["content"] for m in page.heard if m["msg_type"] in ("display_data", "update_display_data")]
    whole = [f"line {number} {'.' * 100}\n" for number in range(100_000)]
    shown = page.text(msg_id).splitlines(keepends=True)
    left_out = format_bytes(len("".join(whole)) - len("".join(shown)))
    route = displays[-1]["data"]["text/html"].partition('href="/')[2].partition('"')[0]
    text = (await asyncio.to_thread(server.request, "GET", route)).text

    beginning = next(place for place, (line, other) in enumerate(zip(whole, shown, strict=False)) if line != other)
    assert shown == whole[:beginning] + whole[beginning - len(shown) :]
    assert len("".join(shown)) in range(2_050_000, 2_150_000)
    assert displays[-1]["data"]["text/plain"] == f"{left_out} more on the node"
    assert len({each["transient"]["display_id"] for each in displays}) == 1
    assert text == "".join(whole)


@pytest.mark.nightly
async def test_a_page_that_does_not_read_costs_the_server_little_memory(
    server: Server, kernel_id: str, open_page: OpenPages
) -> None:
    async with proxy_before(server) as (proxy, address):
        slow = await open_page(server, kernel_id, address=address)
        quick = await open_page(server, kernel_id)
        await quick.until_idle(quick.execute("import base64, os"))
        before = memory_of(server)
        proxy.apply(LinkFault(verb="stall"))
        image = "display({'image/png': base64.b64encode(os.urandom(750_000)).decode()}, raw=True)"
        msg_id = quick.execute(f"for _ in range(100):\n    {image}")
        await quick.until_idle(msg_id)
        after = memory_of(server)
        proxy.apply(LinkFault(verb="clear"))
        await slow.until(lambda message: is_idle(message, msg_id))

    assert after - before < 64 << 20
    assert slow.kinds(msg_id).count("display_data") == 100


def test_vs_code_takes_up_a_running_cell_after_a_reload_and_misses_no_line(server: Server, cell: Cell) -> None:
    here = Path(__file__)
    packages = here.parents[3] / "labextension" / "package.json"
    made = here.parents[3] / ".make" / "node"  # where the machine has no Node of its own
    node = shutil.which("node") or shutil.which("node", path=str(made))
    assert node, "`make environment` brings Node"
    script = here.with_name("reload_while_busy.cjs")
    asked = (str(packages), server.url, server.token, "tpu-my-node-us-central1-a", str(cell.gate), cell.code)
    done = subprocess.run([node, str(script), *asked], capture_output=True, text=True, timeout=200)
    assert not done.returncode, done.stderr
    resumed = json.loads(done.stdout.splitlines()[-1])

    assert resumed["text"].splitlines(keepends=True) == LINES
    assert resumed["kinds"][:4] == ["status", "clear_output", "status", "execute_input"]
    assert resumed["statusWhileBusy"] == "busy"


def test_a_connection_class_that_the_user_has_chosen_stays(start_server: StartServer) -> None:
    chosen = "jupyter_server.services.kernels.connection.channels.ZMQChannelsWebsocketConnection"
    server = start_server(f"--ServerApp.kernel_websocket_connection_class={chosen}")

    assert "ZMQChannelsWebsocketConnection is the configured connection class" in server.log()


async def test_a_kernel_on_this_machine_has_the_servers_own_connection(
    server: Server, local_kernel_id: str, open_page: OpenPages
) -> None:
    first = await open_page(server, local_kernel_id)
    msg_id = first.execute("print('before')\ninput()\nprint('after')")
    question = await first.until(lambda message: message["msg_type"] == "input_request")
    await first.until(lambda message: message["msg_type"] == "stream")  # of another socket, and lost if it comes now
    await first.close()
    again = await open_page(server, local_kernel_id, first.session_id)
    again.send("input_reply", {"value": "", "status": "ok"}, "stdin", parent=question["header"])
    await again.until_idle(msg_id)

    assert first.text(msg_id) + again.text(msg_id) == "before\nafter\n"
    assert all("jupyter_tpu" not in message["metadata"] for message in first.heard + again.heard)


class DeafPage:
    """A page that reads, but answers no ping.

    Attributes:
        heard: the messages that it has read.
    """

    def __init__(self, session_id: str, socket: socket.socket) -> None:
        self._session = Session(session=session_id)
        self._socket = socket
        self._unread = b""
        self.heard: list[dict[str, Any]] = []

    def ask(self, code: str) -> str:
        """Run code; returns the request's msg_id."""
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False, "stop_on_error": False}
        message = {**self._session.msg("execute_request", content), "channel": "shell", "buffers": []}
        text = json.dumps(message, default=str).encode()
        self._socket.sendall(struct.pack("!BBHI", 0x81, 0x80 | 126, len(text), 0) + text)  # whole, masked with zeros
        return str(message["header"]["msg_id"])

    def until(self, check: Callable[[int, bytes], bool]) -> None:
        """Read until a frame with such an opcode and payload has come."""
        while not check(*self._next_frame()):
            pass

    def break_off(self) -> None:
        """End with a reset, once the server has read all that was asked: what it has not read was never asked."""
        self._socket.sendall(struct.pack("!BBI", 0x89, 0x80 | 4, 0) + b"read")
        self.until(lambda opcode, payload: (opcode, payload) == (0xA, b"read"))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def _next_frame(self) -> tuple[int, bytes]:
        head, length = self._read(2)
        if length >= 126:
            length = int.from_bytes(self._read(2 if length == 126 else 8))
        opcode, payload = head & 0xF, self._read(length)
        if opcode == 0x1:
            self.heard.append(json.loads(payload))
        return opcode, payload

    def read_until(self, end: bytes) -> bytes:
        """Read bytes up to these."""
        while end not in self._unread:
            self._unread += self._socket.recv(1 << 16)
        return self._read(self._unread.index(end) + len(end))

    def _read(self, count: int) -> bytes:
        while len(self._unread) < count:
            self._unread += self._socket.recv(1 << 16)
        read, self._unread = self._unread[:count], self._unread[count:]
        return read


@contextmanager
def deaf_page(server: Server, kernel_id: str, session_id: str) -> Iterator[DeafPage]:
    """A page that answers no ping, and whose connection then breaks."""
    url = urlsplit(server.url)
    head = (
        f"GET {url.path}api/kernels/{kernel_id}/channels?session_id={session_id} HTTP/1.1",
        f"Host: {url.netloc}",
        f"Authorization: token {server.token}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}",
    )
    with socket.create_connection((url.hostname, url.port)) as connection:
        connection.sendall("\r\n".join([*head, "\r\n"]).encode())
        page = DeafPage(session_id, connection)
        assert page.read_until(b"\r\n\r\n").startswith(b"HTTP/1.1 101 ")
        yield page
        page.break_off()


def memory_of(server: Server) -> int:
    return int(psutil.Process(server.process.pid).memory_info().rss)


async def ends_before(page: Page, msg_id: str) -> bool:
    """Whether the page's connection ends before a request is over for it."""
    await page.until(lambda message: page.is_closed or is_idle(message, msg_id))
    return page.is_closed


async def says_what_is_left_out(page: Page) -> bool:
    """Whether a page is sent a notice before its connection ends."""
    await page.until(lambda message: page.is_closed or "was left out: " in message["content"].get("text", ""))
    return not page.is_closed


@asynccontextmanager
async def proxy_before(server: Server) -> AsyncIterator[tuple[FaultProxy, str]]:
    """A network between page and server; yields it and the server's address through it."""
    port = int(server.url.split(":")[2].partition("/")[0])
    proxy = FaultProxy(("127.0.0.1", port))
    proxy.listen(("127.0.0.1", 0))
    yield proxy, server.url.replace(f":{port}/", f":{proxy.port}/")
    await proxy.close()


def shown(messages: list[dict[str, Any]], msg_id: str) -> str:
    """What a front end shows that nobody here wrote: it takes what comes for a cell until it has reply and idle."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell()])
    client = NotebookClient(notebook, record_timing=False)
    client.reset_execution_trackers()
    client.clear_before_next_output = False
    for message in messages:
        if parent_of(message) == msg_id and message["channel"] == "iopub":
            with suppress(CellExecutionComplete):
                client.process_message(message, notebook.cells[0], 0)
    return "".join(output.get("text") or output["data"]["text/plain"] for output in notebook.cells[0].outputs)


def parent_of(message: dict[str, Any]) -> str:
    return str(message["parent_header"].get("msg_id", ""))


def is_idle(message: dict[str, Any], msg_id: str) -> bool:
    return message["parent_header"].get("msg_id") == msg_id and message["content"].get("execution_state") == "idle"
