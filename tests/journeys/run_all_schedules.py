"""Seeded faults while "Run all" runs in a plain client: the v1 WebSocket protocol, no acknowledgements, no seqs.

The client knows nothing of this product. It sends all cells of a notebook at once and applies each message that it
reads, as nbclient does: text that comes twice is shown twice, ``clear_output`` clears the cell, and of a reply that
comes twice the second finds nobody who waits for it. Each cell also writes its name into a file on the node, so that
what ran is known from there and not from what a page was told. A second page may run cells of its own in between.
"""

from __future__ import annotations

import asyncio
import json
import random
import resource
import shutil
import signal
import socket
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from journey_client import MAX_MESSAGE_BYTES, Cell, Message, Tab, open_session, outputs_of
from journey_place import Place, wait_for
from jupyter_server.services.kernels.connection.base import deserialize_msg_from_ws_v1, serialize_msg_to_ws_v1
from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

from jupyter_tpu.emulator.network_faults.fault_script import random_fault
from jupyter_tpu.emulator.network_faults.verbs import LinkFault

V1 = "v1.kernel.websocket.jupyter.org"
CELLS = 6
LINES = 25
WITHIN_S = 180
LINK_VERBS = ("reset", "finish", "half_close", "cut", "corrupt", "stall", "refuse", "slice", "latency")
ACTS = (
    *("link",) * 4,
    *("drop", "lose", "early drop", "second page") * 2,
    *("kill agent", "kill agent twice", "kill server"),
    *("stop agent", "stop server", "stop sshd"),
    *("fill disk", "delete home"),
)
LONGEST_STOP_S = 60.0
"""A process that stands still for longer than a connection waits for news (15 s) is what this is about."""


@dataclass(frozen=True)
class Act:
    """What happens once so many messages have arrived, and for how long."""

    after: int
    what: str
    for_s: float = 0.0
    fault: LinkFault | None = None

    def __str__(self) -> str:
        detail = f" {self.fault.verb}" if self.fault else f" {self.for_s:.1f}s" if self.for_s else ""
        return f"{self.what}{detail}@{self.after}"


@dataclass(frozen=True)
class Schedule:
    """The acts of a seed, and which cell fails, if one does."""

    acts: tuple[Act, ...]
    failing: int | None

    def __str__(self) -> str:
        failing = "" if self.failing is None else f" (cell {self.failing} fails)"
        return " ".join(map(str, self.acts)) + failing


def schedule(seed: int, longest_stop_s: float = LONGEST_STOP_S) -> Schedule:
    """Reproducible. No agent is killed where it can keep no record: what is lost then is lost with a notice."""
    rng = random.Random(f"run all {seed}")
    acts = [_act(rng, longest_stop_s) for _ in range(rng.randint(1, 4))]
    if any(act.what in ("fill disk", "delete home") for act in acts):
        acts = [act for act in acts if not act.what.startswith("kill agent")]
    failing = rng.randrange(1, CELLS) if rng.random() < 0.3 else None
    return Schedule(tuple(sorted(acts, key=lambda act: act.after)), failing)


def _act(rng: random.Random, longest_stop_s: float) -> Act:
    what, after = rng.choice(ACTS), rng.randrange(CELLS * (LINES + 3))
    if what == "early drop":
        return Act(-1, what)
    if what == "link":
        fault = random_fault(rng, rng.choice(LINK_VERBS))
        fields = {name: value for name, value in fault.to_json().items() if value}
        return Act(after, what, fault=LinkFault(**{**fields, "for_s": min(fault.for_s, 1.0)}))
    if what.startswith("stop "):
        return Act(after, what, for_s=rng.choice((rng.uniform(0.2, 3), rng.uniform(20, longest_stop_s))))
    if what in ("kill agent twice", "fill disk"):
        return Act(after, what, for_s=rng.uniform(0.1, 3))
    return Act(after, what)


class PlainPage(Tab):
    """A page of a client that nobody here wrote; it keeps its session id when it connects again."""

    def __init__(self, place: Place, kernel_id: str, on_news: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self._place = place
        self._kernel_id = kernel_id
        self._on_news = on_news
        self._socket: WebSocketClientConnection | None = None
        self._ended = asyncio.Event()
        self._is_closing = False

    async def connect(self) -> None:
        """Also while the server is busy or away: a client tries again."""
        address = f"ws://127.0.0.1:{self._place.port}/api/kernels/{self._kernel_id}/channels?session_id={self.session}"
        headers = {"Authorization": f"token {self._place.token}"}
        request = HTTPRequest(address, headers=headers, connect_timeout=WITHIN_S, request_timeout=WITHIN_S)
        self._ended, self._is_closing = asyncio.Event(), False
        async with asyncio.timeout(WITHIN_S):
            while self._socket is None:
                try:
                    self._socket = await websocket_connect(
                        request,
                        on_message_callback=self._read,
                        subprotocols=[V1],
                        max_message_size=MAX_MESSAGE_BYTES,
                    )
                except OSError:
                    await asyncio.sleep(0.1)
        assert self._socket.selected_subprotocol == V1

    def _read(self, data: str | bytes | None) -> None:
        """Called with each message as it is read, before the ping behind it; a page that closes reads no more."""
        if data is None:
            self._ended.set()
            self.wake()
        elif not self._is_closing:
            assert isinstance(data, bytes)
            channel, frames = deserialize_msg_from_ws_v1(data)  # type: ignore[no-untyped-call]
            header, parent, metadata, content = map(json.loads, frames[:4])
            message = {"channel": channel, "header": header, "parent_header": parent, "metadata": metadata}
            message["msg_type"] = header["msg_type"]
            self.take({**message, "content": content, "buffers": frames[4:]})
        self._on_news()

    @property
    def is_connected(self) -> bool:
        return self._socket is not None and not self._ended.is_set()

    async def run_all(self, codes: Sequence[str]) -> list[Cell]:
        """Send all cells at once; a cell that fails aborts those behind it."""
        made = [self.ask_to_execute(code) for code in codes]
        for request, _ in made:
            request["content"]["stop_on_error"] = True
            await self._send("shell", request)
        return [cell for _, cell in made]

    async def _send(self, channel: str, request: Message) -> None:
        assert self._socket is not None
        parts = [json.dumps(request[name]).encode() for name in ("header", "parent_header", "metadata", "content")]
        await self._socket.write_message(serialize_msg_to_ws_v1(parts, channel), binary=True)  # type: ignore[no-untyped-call]

    async def drop(self) -> None:
        """Close in good order, as a browser does: what comes behind that is not shown."""
        assert self._socket is not None
        self._is_closing = True
        self._socket.close()
        await self._gone()

    async def lose(self) -> None:
        """The connection ends without a word from this end; what the other end has sent by then is still read."""
        assert self._socket is not None
        stream: Any = self._socket.stream
        with suppress(OSError):
            stream.socket.shutdown(socket.SHUT_WR)
        await self._gone()

    async def _gone(self) -> None:
        await asyncio.wait_for(self._ended.wait(), WITHIN_S)
        assert self._socket is not None
        self._socket.close()
        self._socket = None

    async def close(self) -> None:
        """Also where the other end has gone."""
        if self._socket is not None:
            await self.drop()

    async def come_back(self) -> None:
        """After the server has gone."""
        await self._gone()
        await self.connect()


@dataclass
class Outcome:
    """What was wrong, in words; empty when nothing was."""

    complaints: list[str] = field(default_factory=list)

    def expect(self, is_right: bool, complaint: str) -> None:
        if not is_right:
            self.complaints.append(complaint)


class RunAll:
    """One notebook, run in one go in one page while a schedule happens to it."""

    def __init__(self, place: Place, chosen: Schedule) -> None:
        self._place = place
        self._acts = list(chosen.acts)
        self._failing = chosen.failing
        self._kernel_id = ""
        self._page: PlainPage
        self._others: list[tuple[PlainPage, Cell]] = []
        self._cells: list[Cell] = []
        self._mending: list[asyncio.Task[None]] = []
        self._stopped: list[psutil.Process] = []
        self._removed: list[Path] = []

    async def play(self) -> list[str]:
        """What was wrong."""
        self._kernel_id = await asyncio.to_thread(open_session, self._place)
        self._page = PlainPage(self._place, self._kernel_id)
        await self._page.connect()
        try:
            await self._run()
            return self._judge()
        finally:
            await self._clean_up()

    async def _run(self) -> None:
        self._cells = await self._page.run_all([self._code(number) for number in range(CELLS)])
        if self._acts and self._acts[0].what == "early drop":  # the page has not answered a single ping yet
            await self._perform(self._acts.pop(0))
        await self._until_have_arrived(self._cells)
        self._place.allow(self._gate)
        try:
            async with asyncio.timeout(WITHIN_S):
                while not self._all_done() or self._acts:
                    await self._perform_due()
                    await self._page.until(self._has_news, WITHIN_S)
        except (TimeoutError, AssertionError):
            raise AssertionError(self._where_it_stands()) from None

    @property
    def _gate(self) -> str:
        return f"gate-{self._kernel_id}"

    @property
    def _diary(self) -> str:
        return f"ran-{self._kernel_id}"

    def _code(self, number: int) -> str:
        head = f"""
import os, time
with open(os.path.expanduser("~/{self._diary}"), "a") as diary:
    print({number}, file=diary)
while not os.path.exists(os.path.expanduser("~/{self._gate}")):
    time.sleep(0.01)
for line in range({LINES}):
    print("cell {number} line", line, flush=True)
    time.sleep(0.01)
"""
        return head + ("1 / 0\n" if number == self._failing else "")

    async def _until_have_arrived(self, cells: Sequence[Cell]) -> None:
        """Whether a request that was sent into a dying connection arrived, no plain client can know."""
        wanted = {cell.msg_id for cell in cells}
        route = f"jupyter-tpu/v1/kernels/{self._kernel_id}/outputs"

        def have_arrived() -> bool:
            answer = self._place.ask_if_linked(route)
            return answer is not None and wanted <= {request["msg_id"] for request in answer["requests"]}

        await asyncio.to_thread(wait_for, have_arrived, lambda: "not all requests arrived", WITHIN_S)

    def _all_done(self) -> bool:
        cells = [*self._cells, *(cell for _, cell in self._others)]
        return all(cell.is_done and cell.replies for cell in cells)

    def _is_due(self) -> bool:
        return bool(self._acts) and (self._acts[0].after <= len(self._page.messages) or self._all_done())

    def _has_news(self) -> bool:
        return self._is_due() or (self._all_done() and not self._acts) or not self._page.is_connected

    async def _perform_due(self) -> None:
        if not self._page.is_connected:
            await self._page.come_back()
        while self._is_due():
            act = self._acts.pop(0)
            if not self._all_done():
                await self._perform(act)

    async def _perform(self, act: Act) -> None:
        place = self._place
        if act.what == "drop":
            await self._page.drop()
            await self._page.connect()
        elif act.what in ("lose", "early drop"):
            await self._page.lose()
            await self._page.connect()
        elif act.what == "second page":
            await self._open_second_page()
        elif act.what == "link":
            assert act.fault is not None
            await asyncio.to_thread(place.fault_link, act.fault)
        elif act.what == "kill agent":
            await asyncio.to_thread(place.kill_agent)
        elif act.what == "kill agent twice":
            await asyncio.to_thread(place.kill_agent)
            await asyncio.sleep(act.for_s)
            await asyncio.to_thread(place.kill_agent)
        elif act.what == "kill server":
            await self._until_have_arrived([cell for _, cell in self._others])
            await asyncio.to_thread(place.kill_server)
            await asyncio.to_thread(place.start_server)
            await self._page.come_back()
            for other, _ in self._others:
                await other.come_back()
        elif act.what.startswith("stop "):
            self._stop(act.what.removeprefix("stop "), act.for_s)
        elif act.what == "fill disk":
            self._fill_disk(act.for_s)
        elif act.what == "delete home":
            self._removed += place.home.glob(".jupyter-tpu/agent/*")
            for folder in place.home.glob(".jupyter*"):
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def _open_second_page(self) -> None:
        page = PlainPage(self._place, self._kernel_id, self._page.wake)
        await page.connect()
        (cell,) = await page.run_all([f"print('page {len(self._others)}')"])
        self._others.append((page, cell))

    def _stop(self, what: str, for_s: float) -> None:
        """SIGSTOP, and SIGCONT later; another act may come meanwhile."""
        self._stopped += (stopped := self._processes(what))
        for process in stopped:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGSTOP)
        self._later(for_s, lambda: _continue(stopped))

    def _processes(self, what: str) -> list[psutil.Process]:
        if what == "agent":
            return self._place.agents()
        if what == "server":
            assert self._place.server is not None
            return [psutil.Process(self._place.server.pid)]
        children = psutil.Process(self._place.emulator.pid).children(recursive=True)
        return [child for child in children if _is_sshd(child)]

    def _fill_disk(self, for_s: float) -> None:
        """No file of the agent grows any more."""
        limits = []
        for agent in self._place.agents():
            with suppress(ProcessLookupError):
                _, most = resource.prlimit(agent.pid, resource.RLIMIT_FSIZE)
                resource.prlimit(agent.pid, resource.RLIMIT_FSIZE, (4096, most))
                limits.append((agent.pid, (most, most)))  # what it had may be the limit of another fill
        self._later(for_s, lambda: _lift(limits))

    def _later(self, for_s: float, act: Any) -> None:
        async def perform() -> None:
            try:
                await asyncio.sleep(for_s)
            finally:
                act()

        self._mending.append(asyncio.create_task(perform()))

    def _judge(self) -> list[str]:
        outcome = Outcome()
        ran = [int(line) for line in (self._place.home / self._diary).read_text().split()]
        last = CELLS if self._failing is None else self._failing + 1
        outcome.expect(ran == list(range(last)), f"cells that ran on the node: {ran}")
        for number, cell in enumerate(self._cells):
            status = "ok" if number < last else "aborted"
            status = "error" if number == self._failing else status
            self._judge_cell(outcome, f"cell {number}", cell, status, LINES if number < last else 0)
        for number, (_, cell) in enumerate(self._others):
            statuses = _statuses(cell)
            right = (["ok"], ["aborted"]) if self._failing is not None else (["ok"],)
            outcome.expect(statuses in right, f"second page {number}: replies {statuses}")
            wanted = f"page {number}\n" if statuses == ["ok"] else ""
            text = _printed(cell, "stdout")
            outcome.expect(text == wanted, f"second page {number}: {text!r}")
        return outcome.complaints

    def _judge_cell(self, outcome: Outcome, name: str, cell: Cell, status: str, lines: int) -> None:
        statuses = _statuses(cell)
        outcome.expect(statuses == [status], f"{name}: replies {statuses}, not {status}")
        wanted = "".join(f"{name} line {line}\n" for line in range(lines))
        text = _printed(cell, "stdout")
        outcome.expect(text == wanted, f"{name}: {_differences(text, wanted)}")
        notices = _printed(cell, "stderr")
        is_lossless = not any(
            words in notices
            for words in ("were lost", "left out", "cannot be shown", "too large to show", "longer stored")
        )
        outcome.expect(is_lossless, f"{name} says: {notices}")

    def _where_it_stands(self) -> str:
        cells = [*self._cells, *(cell for _, cell in self._others)]
        states = [f"{len(cell.messages)}/{len(cell.replies)}/{'idle' if cell.is_done else 'open'}" for cell in cells]
        newest = [
            f"{m['channel']} {m['header']['msg_type']} {str(m['content'])[:200]}" for m in self._page.messages[-4:]
        ]
        diary = self._place.home / self._diary
        ran = diary.read_text().split() if diary.exists() else []
        return "\n".join([f"hangs: {states} ran {ran}", *newest, self._place.agent_log()])

    async def _clean_up(self) -> None:
        for task in self._mending:
            task.cancel()
        await asyncio.gather(*self._mending, return_exceptions=True)
        _continue(self._stopped)
        await asyncio.to_thread(self._place.fault_link, LinkFault(verb="clear"))
        for folder in self._removed:  # until then the node starts no other kernel, and says so
            await asyncio.to_thread(wait_for, folder.exists, lambda: "the agent's code does not come back")
        for page in [self._page, *(page for page, _ in self._others)]:
            await page.close()
        await asyncio.to_thread(self._end_kernel)

    def _end_kernel(self) -> None:
        """The next schedule would get it otherwise."""
        try:
            self._place.ask("DELETE", f"api/kernels/{self._kernel_id}")
        except RuntimeError as refusal:
            if ": 404 " not in str(refusal):
                raise


def _continue(stopped: Sequence[psutil.Process]) -> None:
    for process in stopped:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGCONT)


def _is_sshd(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.name() == "sshd"
    return False


def _lift(limits: Sequence[tuple[int, tuple[int, int]]]) -> None:
    for pid, limit in limits:
        with suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, limit)


def _printed(cell: Cell, name: str) -> str:
    """What a client shows that applies each message which it reads."""
    (outputs,) = outputs_of([cell])
    return "".join(output["text"] for output in outputs if output.get("name") == name)


def _statuses(cell: Cell) -> list[str]:
    """Of its replies, each of them once."""
    return list({reply["header"]["msg_id"]: str(reply["content"].get("status")) for reply in cell.replies}.values())


def _differences(text: str, wanted: str) -> str:
    """Which lines are missing, come twice or stand in another order."""
    mine, theirs = Counter(text.splitlines()), Counter(wanted.splitlines())
    if mine == theirs:
        return "lines in another order"
    return f"missing {sorted((theirs - mine).elements())[:5]}, too many {sorted((mine - theirs).elements())[:5]}"


async def play_run_all(place: Place, chosen: Schedule) -> list[str]:
    """What was wrong; a hang raises AssertionError."""
    return await RunAll(place, chosen).play()
