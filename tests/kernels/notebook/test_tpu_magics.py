"""The words of ``%tpu`` in the notebook of an emulated node."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from jupyter_client.manager import KernelManager

from jupyter_tpu.commands.shared import ON_NODE
from jupyter_tpu.errors import BadInput
from jupyter_tpu.fleet.assembly import open_fleet
from jupyter_tpu.journal.grant_store import Grants
from jupyter_tpu.kernels.agents.open_links import LinkedAgents
from jupyter_tpu.models import Node
from jupyter_tpu.money.grants import grant_from_json
from jupyter_tpu.notebook.magics.context import PATIENCE_VARIABLE

PATIENCE_S = 60


@dataclass
class Outcome:
    """What a cell brought."""

    status: str = ""
    error: str = ""
    text: str = ""
    html: str = ""
    asked: list[str] = field(default_factory=list)


class Notebook:
    """A kernel on the node with a front end of our own."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def run(self, code: str, *, answer: str | None = None) -> Outcome:
        """Run a cell; what it asks is answered by `answer`, or cannot be asked."""
        outcome = Outcome()

        def hear(message: dict[str, Any]) -> None:
            content = message["content"]
            if message["msg_type"] in ("display_data", "execute_result"):
                outcome.text += content["data"]["text/plain"] + "\n"
                outcome.html += content["data"].get("text/html", "")
            elif message["msg_type"] == "stream":
                outcome.text += content["text"]

        def reply(message: dict[str, Any]) -> None:
            outcome.asked.append(message["content"]["prompt"])
            self.client.input(answer)

        said = self.client.execute_interactive(
            code, allow_stdin=answer is not None, output_hook=hear, stdin_hook=reply, timeout=PATIENCE_S
        )["content"]
        outcome.status = said["status"]
        outcome.error = "\n".join(said.get("traceback", ()))
        return outcome


@contextmanager
def another_kernel(kernel_name: str) -> Iterator[Notebook]:
    manager = KernelManager(kernel_name=kernel_name)
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=PATIENCE_S)
    try:
        kernel = Notebook(client)
        assert kernel.run(f"%env {PATIENCE_VARIABLE}={PATIENCE_S}").status == "ok"
        yield kernel
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


@pytest.fixture(scope="module")
def notebook(kernel_name: str) -> Iterator[Notebook]:
    with another_kernel(kernel_name) as kernel:
        yield kernel


def test_the_screen_shows_what_is_known_and_why_the_rest_is_not(notebook: Notebook) -> None:
    shown = notebook.run("%tpu")
    assert shown.status == "ok", shown.error
    for part in (
        "v5litepod-8, emulated",
        "Node",
        "Chips (updated",
        "TPU processes",
        "Auto-stop",
        "Guard: off",
        "Cost",
    ):
        assert part in shown.text
        assert part.partition(" (")[0] in shown.html


@pytest.mark.parametrize("word", sorted(ON_NODE))
def test_every_word_explains_itself(notebook: Notebook, word: str) -> None:
    shown = notebook.run(f"%tpu {word} --help")
    assert f"%tpu {word}" in shown.text
    assert "<table>" in shown.html


@pytest.mark.parametrize(
    "word", ["top", "ps", "autostop", "idle", "cost", "quota", "grant", "python", "logs 5", "extend 3h", "extend off"]
)
def test_words_that_ask_nobody_show_text_and_html(notebook: Notebook, word: str) -> None:
    shown = notebook.run(f"%tpu {word}")
    assert shown.status == "ok", shown.error
    assert shown.text.strip()
    assert shown.html.startswith("<p>")


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("%tpu exten", "Did you mean `%tpu extend`?"),
        ("%tpu extend forever", "is not a valid duration or time"),
        ("%tpu logs 1e9", "is not a whole number from 1 to 1,000"),
        ("%tpu top --fast", "--fast is not a valid argument here"),
        ("%tpu release --pid", "--pid requires a value"),
        ("%tpu release --pid -1", "is not a whole number"),
        ("%tpu " + "a" * 10_000, "%tpu has no command"),
        ("%tpu \x1b[2J", "%tpu has no command"),
        ("%tpu stop", "This front end can't ask for confirmation"),
        ("%%tpu_time fast\n1", "%%tpu_time has no argument 'fast'"),
        ("%tpu_time", "There is nothing to time"),
        ("%%tpu_time\nawait sleep(1)", "cannot time a cell that uses await"),
    ],
    ids=lambda text: text[:30].replace("\x1b", "").replace("\n", " "),
)
def test_nonsense_is_answered_by_a_short_sentence(notebook: Notebook, line: str, part: str) -> None:
    refused = notebook.run(line)
    assert refused.status == "error"
    assert part in refused.error
    assert "Traceback" not in refused.error
    assert len(refused.error) < 500
    assert "\x1b[2J" not in refused.error


@pytest.mark.parametrize(
    ("begun", "found"),
    [
        ("%tpu ex", ["extend"]),
        ("%tpu co", ["cost"]),
        ("x = 1\n%tpu extend wh", ["while-busy"]),
        ("%tpu release --", ["--pid", "--force", "--yes", "--help"]),
        ("%tpu stop --delete --y", ["--yes"]),
        ("%tpu help lo", ["logs"]),
    ],
)
def test_words_and_options_are_completed(notebook: Notebook, begun: str, found: list[str]) -> None:
    reply = notebook.client.complete(begun, reply=True, timeout=PATIENCE_S)["content"]
    assert sorted(reply["matches"]) == sorted(found)
    assert begun[reply["cursor_start"] :] == begun.split()[-1]


def test_a_word_is_completed_from_all_there_are_and_nothing_else(notebook: Notebook) -> None:
    reply = notebook.client.complete("%tpu ", reply=True, timeout=PATIENCE_S)["content"]
    assert set(reply["matches"]) == {*ON_NODE, "--help"}


def test_a_timed_cell_has_its_value_its_variables_and_its_times(notebook: Notebook) -> None:
    timed = notebook.run("%%tpu_time\nproduct = 6 * 7\nproduct + 0")
    assert timed.status == "ok", timed.error
    assert "wall: " in timed.text
    assert "device: unknown: this kernel does not use the chips" in timed.text
    assert "cost: " in timed.text
    assert timed.text.endswith("42\n")
    assert notebook.run("%tpu_time product").text.endswith("42\n")


def test_a_timed_cell_that_fails_is_timed_and_its_error_names_its_line(notebook: Notebook) -> None:
    failed = notebook.run("%%tpu_time\nzero = 0\n\n1 / zero")
    assert failed.status == "error"
    assert "wall: " in failed.text
    assert "4\x1b" in failed.error or "line 4" in failed.error


def test_a_question_is_asked_before_the_node_ends(notebook: Notebook) -> None:
    refused = notebook.run("%tpu stop", answer="n")
    assert refused.asked == ["Stop my-node? This kernel also stops. [y/N] "]
    assert "the node keeps running and is billed" in refused.text
    deletion = notebook.run("%tpu stop --delete", answer="")
    assert "Delete my-node and everything on its disk?" in deletion.asked[0]
    assert notebook.run("1").status == "ok"


async def test_the_node_ends_itself_by_the_word_of_a_notebook(cloud: Any, make_node: Any, open_link: Any) -> None:
    node = await make_node("to-be-stopped")
    link = await open_link(node)
    assert (await link.call("end_node", {"action": "stop", "is_trial": True}))["node"] == str(node.name)
    assert cloud.is_billed(node)
    with pytest.raises(BadInput):
        await link.call("end_node", {"action": "explode"})

    await link.call("end_node", {"action": "stop"})

    async with asyncio.timeout(PATIENCE_S):
        while await asyncio.to_thread(cloud.is_billed, node):  # noqa: ASYNC110 - a ledger answers, it never calls
            await asyncio.sleep(0.1)


async def comes_to_show(notebook: Notebook, line: str, part: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while part not in (await asyncio.to_thread(notebook.run, line)).text:  # noqa: ASYNC110 - it is told in time
            await asyncio.sleep(0.2)


async def test_what_a_laptop_knows_is_told_and_shown_with_its_age(cloud: Any, node: Node, notebook: Notebook) -> None:
    async with open_fleet(cloud.settings, agents=LinkedAgents(cloud.settings.endpoint)) as opened:
        body = {"kind": "credit", "starts_on": "2026-01-01", "days": 3000, "usd": 500.0}
        grants = Grants(opened.journal, endpoint=cloud.settings.endpoint, project=cloud.settings.project)
        await asyncio.to_thread(grants.put, grant_from_json("edu", body), now=time.time())
        await comes_to_show(notebook, "%tpu quota", "updated")
        await comes_to_show(notebook, "%tpu grant", "edu")
    shown = await asyncio.to_thread(notebook.run, "%tpu")
    assert "my-node in us-central1-a: v5litepod-8, on-demand" in shown.text
    assert "$9.60 per hour" in shown.text
    assert "edu: credit, until" in shown.text
    cost = await asyncio.to_thread(notebook.run, "%tpu cost")
    assert "All nodes of the project (updated" in cost.text
    quota = await asyncio.to_thread(notebook.run, "%tpu quota")
    assert "us-central1" in quota.text
    timed = await asyncio.to_thread(notebook.run, "%%tpu_time\n1")
    assert "at $9.60 per hour (updated" in timed.text


def test_the_chips_are_freed_after_a_question(notebook: Notebook, kernel_name: str) -> None:
    with another_kernel(kernel_name) as first:
        assert first.run("import emulated_tpu, os\nemulated_tpu.take()\nprint(os.getpid())").status == "ok"
        assert "This kernel itself uses the chips" in first.run("%tpu release --yes").text
        kept = notebook.run("%tpu release", answer="n")
        assert "End process " in kept.asked[0]
        assert "Nothing was done" in kept.text
        freed = notebook.run("%tpu release", answer="y")
        assert "The chips are free." in freed.text, freed
    assert "found no TPU processes" in notebook.run("%tpu ps").text
