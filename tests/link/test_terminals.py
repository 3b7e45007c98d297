"""A terminal on a worker: its shell outlives connections and agents, and every page sees the same output once."""

from __future__ import annotations

import asyncio
import json
import random
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tiers import mostly_nightly

from jupyter_tpu.errors import TerminalNotFound
from jupyter_tpu.link import Link


class Page:
    """A terminal as one page sees it."""

    def __init__(self, link: Link, terminal_id: str) -> None:
        self.link = link
        self.terminal_id = terminal_id
        self.seqs: list[int] = []
        self.text = ""
        self.events: list[dict[str, Any]] = []
        self._news = asyncio.Event()
        self.stream = link.attach(terminal_id, is_terminal=True, on_message=self._on_message)

    @classmethod
    async def open(cls, link: Link, rows: int = 24, columns: int = 80) -> Page:
        name = secrets.token_hex(4)
        await link.call("start_terminal", {"terminal_id": name, "rows": rows, "columns": columns})
        page = cls(link, name)
        # the same shell without editing and prompt, so that it prints only what commands print
        page.type("exec bash --norc --noediting\nPS1=; stty -echo; echo rea''dy\n")
        await page.until("ready\r\n")
        page.text = ""
        return page

    def _on_message(self, seq: int, channel: str, parts: list[bytes]) -> None:
        if channel == "terminal":
            self.seqs.append(seq)
            self.text += parts[0].decode()
        else:
            self.events.append(json.loads(parts[0]))
        self._news.set()

    def type(self, text: str) -> None:
        self.stream.send("stdin", [text.encode()])

    async def until(self, text: str) -> None:
        await self.wait(lambda: text in self.text[-4000:])

    async def wait(self, is_true: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not is_true():
                self._news.clear()
                await self._news.wait()

    async def run(self, command: str) -> str:
        """Run a command; return what it printed."""
        self.text = ""
        self.type(f"{command}; echo do''ne\n")
        await self.until("done\r\n")
        return self.text.removesuffix("done\r\n")


@pytest.fixture
async def page(open_link: Callable[..., Awaitable[Link]]) -> Page:
    return await Page.open(await open_link())


def size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


async def terminals(link: Link) -> list[dict[str, Any]]:
    return list((await link.call("list_terminals"))["terminals"])


@pytest.mark.nightly
async def test_it_is_a_login_shell_in_the_home_folder_without_variables_of_the_agent(page: Page, worker: Any) -> None:
    (worker.home / ".bash_profile").write_text("export FROM_PROFILE=yes\n")
    other = await Page.open(page.link)
    assert await other.run("pwd") == f"{worker.home}\r\n"
    assert await other.run("echo $FROM_PROFILE $TERM") == "yes xterm-256color\r\n"
    assert await other.run("env | grep ^JUPYTER_TPU_LISTENER\\|^JUPYTER_TPU_TERMINALS") == ""


@pytest.mark.nightly
async def test_its_size_is_that_of_the_page(page: Page) -> None:
    assert await page.run("stty size") == "24 80\r\n"
    page.stream.send("control", [json.dumps({"rows": 50, "columns": 132}).encode()])
    assert await page.run("stty size") == "50 132\r\n"
    page.stream.send("control", [b"[]"])
    page.stream.send("control", [json.dumps({"rows": -1, "columns": 10**9}).encode()])
    assert await page.run("stty size") == "50 132\r\n"


@pytest.mark.parametrize(("lines", "cuts"), mostly_nightly([(100_000, 10), (1_000_000, 100)], count=1))
async def test_cuts_leave_no_trace_on_the_screen(page: Page, worker: Any, lines: int, cuts: int) -> None:
    moments, expected = random.Random(1), "".join(f"{line}\r\n" for line in range(1, lines + 1))
    page.text = ""
    page.type(f"seq 1 {lines}; echo do''ne\n")
    for moment in sorted(moments.sample(range(len(expected)), cuts)):
        await page.wait(lambda moment=moment: len(page.text) > moment)  # type: ignore[misc]
        worker.cut()
        await page.link.call("status")
    await page.until("done\r\n")
    assert page.text == expected + "done\r\n"
    assert page.seqs == list(range(1, len(page.seqs) + 1))


@pytest.mark.nightly
async def test_each_input_arrives_once_over_cuts(page: Page, worker: Any) -> None:
    page.type('while read line; do echo "<$line>"; done\n')
    for number in range(20):
        page.type(f"{number}\n")
        if number % 5 == 0:
            worker.cut()
    await page.until("<19>")
    assert page.text == "".join(f"<{number}>\r\n" for number in range(20))


async def test_a_shell_and_its_job_outlive_their_agent(page: Page, worker: Any) -> None:
    shell = await page.run("echo $$")
    for _ in range(3):
        page.type("sleep 0.2; echo af''ter\n")
        worker.kill(page.link.agent["pid"])
        await page.until("after")
        assert await page.run("echo $$") == shell
    assert [each["terminal_id"] for each in await terminals(page.link)] == [page.terminal_id]


@pytest.mark.nightly
async def test_all_shells_outlive_the_agent_and_the_ended_ones_are_forgotten(page: Page, worker: Any) -> None:
    others = [await Page.open(page.link) for _ in range(3)]
    others[1].type("exit\n")
    await others[1].wait(lambda: bool(others[1].events))
    worker.kill(page.link.agent["pid"])
    living = {page.terminal_id, others[0].terminal_id, others[2].terminal_id}
    assert {each["terminal_id"] for each in await terminals(page.link)} == living
    assert await others[2].run("echo on") == "on\r\n"
    assert {folder.name for folder in (worker.home / ".jupyter-tpu/terminals").iterdir()} == living


async def test_the_exit_of_the_shell_is_reported_after_its_last_output(page: Page) -> None:
    page.type("printf 'last words'; exit 3\n")
    await page.wait(lambda: bool(page.events))
    assert page.text.startswith("last words")
    assert page.events == [{"event": "exited", "exit_code": 3, "signal": None}]
    assert await terminals(page.link) == []
    late = Page(page.link, page.terminal_id)
    await late.wait(lambda: bool(late.events))
    assert late.text.endswith(page.text)


@pytest.mark.nightly
async def test_to_end_a_terminal_ends_its_job(page: Page) -> None:
    page.type("sleep 1000\n")
    await page.link.call("end_terminal", {"terminal_id": page.terminal_id})
    await page.wait(lambda: bool(page.events))
    assert page.events[0]["signal"] == "SIGHUP"
    assert await terminals(page.link) == []


@pytest.mark.nightly
async def test_a_shell_that_ignores_the_hang_up_is_killed(page: Page) -> None:
    page.type("trap '' HUP; echo tra''pped\n")
    await page.until("trapped")
    await page.link.call("end_terminal", {"terminal_id": page.terminal_id})
    await page.wait(lambda: bool(page.events))
    assert page.events[0]["signal"] == "SIGKILL"


@pytest.mark.nightly
async def test_a_terminal_that_does_not_exist_is_refused(page: Page) -> None:
    gone = Page(page.link, "gone")
    await gone.wait(lambda: bool(gone.events))
    assert gone.events[0]["error"]["code"] == TerminalNotFound.code
    with pytest.raises(TerminalNotFound):
        await page.link.call("end_terminal", {"terminal_id": "gone"})


@pytest.mark.nightly
async def test_characters_are_never_split_between_messages(page: Page) -> None:
    pieces: list[bytes] = []
    page.link.attach(
        page.terminal_id,
        is_terminal=True,
        on_message=lambda _seq, channel, parts: pieces.append(parts[0]) if channel == "terminal" else None,
    )
    await page.run("for i in $(seq 2000); do printf 'é€😀'; done")
    await page.run("printf '\\303'; sleep 0.1; printf '\\251'")
    assert page.text.startswith("é")
    await page.wait(lambda: len(pieces) == len(page.seqs))
    for piece in pieces:
        piece.decode()


@pytest.mark.nightly
async def test_the_record_is_capped_and_a_new_page_gets_its_end(page: Page, worker: Any) -> None:
    await page.run("seq 1 3000000")
    folder = worker.home / ".jupyter-tpu/terminals" / page.terminal_id
    assert size_of(folder / "record") <= 16 * 1024 * 1024
    recent = (await terminals(page.link))[0]["recent_seq"]
    assert page.seqs[0] < recent < page.seqs[-1]


async def test_a_command_in_the_foreground_keeps_the_node_busy_but_a_prompt_does_not(page: Page) -> None:
    async def execution() -> tuple[str, str]:
        source = (await page.link.call("activity"))["sources"]["execution"]
        return source["state"], source["detail"]

    assert await execution() == ("quiet", "")
    page.type("sleep 1000 &\n")
    await page.run("true")
    assert await execution() == ("quiet", "")
    page.type("echo sta''rts; sleep 999\n")
    await page.until("starts")
    while (await terminals(page.link))[0]["command"] != "sleep 999":
        pass
    assert await execution() == ("active", "sleep 999 runs in a terminal")
    page.type("\x03")
    await page.run("true")
    assert await execution() == ("quiet", "")
