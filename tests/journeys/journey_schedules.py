"""Schedules of faults, made up from a seed, over a notebook that prints, updates displays, asks and sends comms.

A schedule says after how many messages what happens. Whatever it is, the notebook must end as in the run in which
nothing happens, and no cell may run twice. Two kinds of client: a `Link` of its own, over real SSH to a real agent
(quick), and a page of a real Jupyter server, which may be killed as well.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from journey_client import FrontEnd, Message, Tab, joined, open_session, outputs_of
from journey_place import Place, wait_for
from jupyter_client.session import Session

from jupyter_tpu.emulator.network_faults.fault_script import random_fault
from jupyter_tpu.emulator.network_faults.verbs import LinkFault
from jupyter_tpu.kernels.connections.worker import Worker, WorkerKey
from jupyter_tpu.link import KernelStream, Link
from jupyter_tpu.models import NodeName

CELLS = (
    """
runs = ["prints"]
import sys
for number in range(40):
    print("out", number, flush=True)
    if number % 10 == 0:
        print("err", number, file=sys.stderr, flush=True)
""",
    """
runs.append("displays")
from IPython.display import clear_output, display, update_display
display({"text/plain": "first", "image/png": "aGVsbG8="}, raw=True, display_id="kept")
for number in range(30):
    update_display({"text/plain": f"update {number}"}, raw=True, display_id="kept")
for number in range(10):
    clear_output(wait=True)
    print("progress", number)
    display({"text/plain": f"at {number}"}, raw=True, display_id="moving")
number
""",
    """
runs.append("asks")
print("hello", input("who? "), input("and? "))
update_display({"text/plain": "from another cell"}, raw=True, display_id="moving")
""",
    """
runs.append("comms")
from comm import create_comm
comm = create_comm(target_name="plain", data={"number": -1})
for number in range(30):
    comm.send({"number": number}, buffers=[bytes([number])])
comm.close()
""",
    """
runs.append("fails")
1 / 0
""",
    """
print(runs)
""",
)
RUNS = "['prints', 'displays', 'asks', 'comms', 'fails']\n"
MESSAGES = 200
"""About as many as there are when nothing happens; later ones of a schedule then do not happen at all."""

LINK_VERBS = ("reset", "finish", "half_close", "cut", "corrupt", "stall", "refuse", "slice", "latency")
WITHIN_S = 180
# an agent that is killed is up again after about a second, a server after three, a black hole is noticed after 12
LINK_ACTS = (*LINK_VERBS * 3, "kill agent", "new client", "new client")
SERVER_ACTS = (*LINK_VERBS, "kill agent", "drop", "drop", "drop", "stay away", "reload", "reload", "kill server")
SLOW_ACTS = ("black_hole",)


@dataclass(frozen=True)
class Act:
    """What happens once so many messages have arrived."""

    after: int
    what: str
    fault: LinkFault | None = None

    def __str__(self) -> str:
        return f"{self.what}@{self.after}"


def schedule(seed: int, acts: Sequence[str]) -> list[Act]:
    """The acts of a seed, in the order in which they come."""
    rng = random.Random(seed)
    count = rng.randint(1, 6)
    chosen = sorted((rng.randrange(MESSAGES), rng.choice(acts)) for _ in range(count))
    if rng.random() < 0.03:
        chosen.append((rng.randrange(MESSAGES), rng.choice(SLOW_ACTS)))
        chosen.sort()
    return [Act(after, what, _fault(rng, what)) for after, what in chosen]


def _fault(rng: random.Random, what: str) -> LinkFault | None:
    if what not in (*LINK_VERBS, *SLOW_ACTS):
        return None
    fault = random_fault(rng, what)
    return LinkFault(**{**_fields(fault), "for_s": min(fault.for_s, 1.0)})


def _fields(fault: LinkFault) -> dict[str, Any]:
    return {name: value for name, value in fault.to_json().items() if value}


@dataclass
class Notebook:
    """What a user has in the end; a page that is opened late asks the kernel for its comms and has seen no messages."""

    outputs: list[list[Any]]
    comms: list[Any] | None = None

    def differences(self, uncut: Notebook) -> list[str]:
        told = [
            f"cell {index}: {_short(mine)}\n  uncut: {_short(wanted)}"
            for index, (mine, wanted) in enumerate(zip(self.outputs, uncut.outputs, strict=True))
            if mine != wanted
        ]
        if self.comms is not None and self.comms != uncut.comms:
            told.append(f"comms: {_short(self.comms)}\n  uncut: {_short(uncut.comms)}")
        return told


def _short(value: Any) -> str:
    text = json.dumps(value, default=repr)
    return text if len(text) < 1500 else f"{text[:700]} … {text[-700:]}"


def notebook_of(tab: Tab) -> Notebook:
    comms = [
        (m["header"]["msg_type"], m["content"]["data"], [bytes(each).hex() for each in m.get("buffers", [])])
        for m in tab.messages
        if m["header"]["msg_type"].startswith("comm_") and m["channel"] == "iopub"
    ]
    return Notebook(outputs_of(list(tab.cells.values())), comms)


class Player:
    """Runs the notebook in a tab, cell after cell, while a schedule happens to it."""

    def __init__(self, place: Place, acts: list[Act]) -> None:
        self.place = place
        self._acts = list(acts)
        self._answered: set[str] = set()

    async def execute(self, code: str) -> Any:
        raise NotImplementedError

    async def answer(self, question: Message) -> None:
        raise NotImplementedError

    @property
    def tab(self) -> Tab:
        raise NotImplementedError

    async def play(self) -> None:
        """Raises AssertionError, with where it stands, when the notebook does not come to its end."""
        try:
            async with asyncio.timeout(WITHIN_S):
                await self._play()
        except TimeoutError:
            raise AssertionError(await self.where_it_stands()) from None

    async def where_it_stands(self) -> str:
        newest = [
            f"{m['channel']} {m['header']['msg_type']} {_short(m.get('content'))[:200]}" for m in self.tab.messages[-4:]
        ]
        agents = await asyncio.to_thread(self.place.agent_log)
        return "\n".join([f"it stands after {len(self.tab.messages)} messages:", *newest, "agent:", agents])

    async def _play(self) -> None:
        for code in CELLS:
            msg_id = (await self.execute(code)).msg_id
            while not self.tab.cells[msg_id].is_done:
                await self._perform_due()
                await self._answer_questions()
                await self.tab.until(lambda msg_id=msg_id: self._has_news(msg_id), 2 * WITHIN_S)
            await self._perform_due()

    def _has_news(self, msg_id: str) -> bool:
        return self.tab.cells[msg_id].is_done or bool(self._questions()) or self._is_due()

    def _is_due(self) -> bool:
        return bool(self._acts) and self._acts[0].after <= len(self.tab.messages)

    def _questions(self) -> list[Message]:
        asked = (m for m in self.tab.messages if m["header"]["msg_type"] == "input_request")
        return [m for m in asked if m["header"]["msg_id"] not in self._answered]

    async def _answer_questions(self) -> None:
        for question in self._questions():
            self._answered.add(question["header"]["msg_id"])
            await self.answer(question)

    async def _perform_due(self) -> None:
        while self._is_due():
            await self.perform(self._acts.pop(0))

    async def perform(self, act: Act) -> None:
        """What may happen to any client."""
        if act.what == "kill agent":
            await asyncio.to_thread(self.place.kill_agent)
        else:
            assert act.fault is not None
            await asyncio.to_thread(self.place.fault_link, act.fault)


class LinkTab(Tab):
    """Messages of a kernel as they come over a link."""

    def __init__(self) -> None:
        super().__init__()
        self.seqs: list[int] = []
        self.events: list[Any] = []
        self._session = Session(key=b"secret")

    def receive(self, seq: int, channel: str, parts: list[bytes]) -> None:
        self.seqs.append(seq)
        if channel == "event":
            self.events.append(json.loads(parts[0]))
        elif channel != "request":
            _, rest = self._session.feed_identities(parts)
            self.take({**self._session.deserialize(rest), "channel": channel})

    def packed(self, request: Message) -> list[bytes]:
        return [b"page", *self._session.serialize(request)]


class LinkPlayer(Player):
    """A client that is nothing but a link; another may take its place and go on behind the last message."""

    def __init__(self, place: Place, acts: list[Act], worker: Worker) -> None:
        super().__init__(place, acts)
        self._worker = worker
        self._tab = LinkTab()
        self.kernel_id = self._tab.session
        self._link: Link | None = None
        self._stream: KernelStream | None = None

    @property
    def tab(self) -> LinkTab:
        return self._tab

    async def start(self) -> None:
        await self._open()
        await self.link.call("start_kernel", {"kernel_id": self.kernel_id, "key": "secret"})
        self._attach()

    @property
    def link(self) -> Link:
        assert self._link is not None
        return self._link

    async def _open(self) -> None:
        self._link = Link(self._worker.connect)
        await self._link.open()

    def _attach(self) -> None:
        behind = self.tab.seqs[-1] + 1 if self.tab.seqs else 0
        self._stream = self.link.attach(self.kernel_id, from_seq=behind, on_message=self.tab.receive)

    async def execute(self, code: str) -> Any:
        request, cell = self.tab.ask_to_execute(code)
        self._send("shell", request)
        return cell

    async def answer(self, question: Message) -> None:
        reply = self.tab.ask("input_reply", {"value": f"answer to {question['content']['prompt']}"}, question["header"])
        self._send("stdin", reply)

    def _send(self, channel: str, request: Message) -> None:
        assert self._stream is not None
        self._stream.send(channel, self.tab.packed(request))

    async def perform(self, act: Act) -> None:
        if act.what != "new client":
            await super().perform(act)
            return
        await self._wait_for_a_sign()
        await self.link.close()
        await asyncio.to_thread(self.place.fault_link, LinkFault(verb="clear"))
        await self._open()
        self._attach()

    async def _wait_for_a_sign(self) -> None:
        """Of the newest cell: a client that goes away takes with it what the agent has not acknowledged."""
        newest = list(self.tab.cells.values())[-1]
        await self.tab.until(lambda: bool(newest.messages), WITHIN_S)
        await self._settle_answers()

    async def _settle_answers(self) -> None:
        """The same for an answer: the agent performs a call behind the requests before it."""
        await self.link.call("kernel_info", {"kernel_id": self.kernel_id})

    async def close(self) -> None:
        await self.link.call("kill_kernel", {"kernel_id": self.kernel_id})
        await self.link.call("forget_kernel", {"kernel_id": self.kernel_id})
        await self.link.close()

    async def where_it_stands(self) -> str:
        return f"link: {self.link.state} {self.link.error}\n{await super().where_it_stands()}"

    def complaints(self) -> list[str]:
        """What only a link can tell."""
        told = [f"event: {event}" for event in self.tab.events if event.get("event") in ("cut", "gap", "died")]
        if self.tab.seqs != list(range(1, len(self.tab.seqs) + 1)):
            told.append(f"seqs: {_short(self.tab.seqs)}")
        return told


class ServerPlayer(Player):
    """A page of a Jupyter server."""

    def __init__(self, place: Place, acts: list[Act]) -> None:
        super().__init__(place, acts)
        self._page: FrontEnd | None = None
        self._pages: list[FrontEnd] = []
        self._was_reloaded = False

    @property
    def tab(self) -> FrontEnd:
        assert self._page is not None
        return self._page

    async def start(self) -> None:
        kernel_id = await asyncio.to_thread(open_session, self.place)
        await self._open_page(kernel_id)

    async def _open_page(self, kernel_id: str) -> None:
        self._page = FrontEnd(self.place, kernel_id)
        self._pages.append(self._page)
        await self._page.connect()

    async def execute(self, code: str) -> Any:
        return await self.tab.execute(code)

    async def answer(self, question: Message) -> None:
        value = f"answer to {question['content']['prompt']}"
        self.tab.keep_answer(question, value)
        await self.tab.send("stdin", self.tab.ask("input_reply", {"value": value}, question["header"]))

    async def perform(self, act: Act) -> None:
        mine = {"drop": self._drop, "stay away": self._stay_away, "reload": self._reload, "kill server": self._kill}
        if act.what not in mine:
            await super().perform(act)
            return
        await self._wait_for_a_sign()
        await mine[act.what]()

    async def _wait_for_a_sign(self) -> None:
        """Of the newest cell: whether a request that was sent into a dying connection arrived, no page can know."""
        newest = list(self.tab.cells.values())[-1]
        await self.tab.until(lambda: bool(newest.messages), WITHIN_S)
        await self.tab.settle()

    async def _drop(self) -> None:
        await self.tab.drop()
        await self.tab.connect()

    async def _stay_away(self) -> None:
        """Until the kernel has nothing more to say without its user."""
        await self.tab.drop()
        await asyncio.to_thread(wait_for, self._is_idle_or_asks, lambda: "the kernel is busy forever", WITHIN_S)
        await self.tab.connect()

    def _is_idle_or_asks(self) -> bool:
        seen = self._outputs()
        return seen["execution_state"] == "idle" or any(request["input"] for request in seen["requests"])

    def _outputs(self) -> Any:
        """What a page that is opened now gets; it asks again while the link is down."""
        route = f"jupyter-tpu/v1/kernels/{self.tab.kernel_id}/outputs"
        return wait_for(lambda: self.place.ask_if_linked(route), lambda: "the link does not come back", WITHIN_S)

    async def _reload(self) -> None:
        before = self.tab
        await before.drop()
        self._was_reloaded = True
        self._page = FrontEnd(self.place, before.kernel_id)
        self._pages.append(self._page)
        for cell in before.cells.values():
            self._page.look_at(cell)
        self._page.messages = [{"header": {"msg_type": ""}, "parent_header": {}, "channel": ""}] * len(before.messages)
        self._answered.clear()  # what was asked and not answered is asked again
        await self._page.connect()

    async def _kill(self) -> None:
        await asyncio.to_thread(self.place.kill_server)
        await self.tab.lost()
        await asyncio.to_thread(self.place.start_server)
        await self.tab.connect()

    async def close(self) -> None:
        for page in self._pages:
            await page.close()
        await asyncio.to_thread(self.place.ask, "DELETE", f"api/kernels/{self.tab.kernel_id}")

    def notebooks(self) -> list[Notebook]:
        """As the page that saw everything has it, if there is one, and as a page that is opened now gets it."""
        answer = self._outputs()
        restored = {request["msg_id"]: joined(request["outputs"]) for request in answer["requests"]}
        anew = Notebook([restored.get(msg_id, ["missing"]) for msg_id in self.tab.cells])
        return [anew] if self._was_reloaded else [notebook_of(self.tab), anew]


@asynccontextmanager
async def link_player(place: Place, acts: list[Act]) -> AsyncIterator[LinkPlayer]:
    name = NodeName.parse(place.node)
    worker = Worker(WorkerKey(node=name, endpoint=place.environment["JUPYTER_TPU_ENDPOINT"]), lambda _: None)
    player = LinkPlayer(place, acts, worker)
    await player.start()
    try:
        yield player
    finally:
        await asyncio.to_thread(place.fault_link, LinkFault(verb="clear"))
        await player.close()


async def play_on_link(place: Place, acts: list[Act], uncut: Notebook | None = None) -> tuple[Notebook, list[str]]:
    """The notebook, and what is wrong with it."""
    async with link_player(place, acts) as player:
        await player.play()
        made = notebook_of(player.tab)
        return made, [*player.complaints(), *_wrong(made, uncut)]


async def play_on_server(place: Place, acts: list[Act], uncut: Notebook | None = None) -> tuple[Notebook, list[str]]:
    """The notebook, and what is wrong with it."""
    player = ServerPlayer(place, acts)
    await player.start()
    try:
        await player.play()
        made = await asyncio.to_thread(player.notebooks)
        return made[0], [told for each in made for told in _wrong(each, uncut)]
    finally:
        await asyncio.to_thread(place.fault_link, LinkFault(verb="clear"))
        await player.close()


def _wrong(made: Notebook, uncut: Notebook | None) -> list[str]:
    ran = made.outputs[-1]
    told = [] if ran and ran[0].get("text") == RUNS else [f"cells that ran: {_short(ran)}"]
    return told if uncut is None else [*told, *made.differences(uncut)]
