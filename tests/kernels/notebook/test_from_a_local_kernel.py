"""`%tpu` and `%%tpu` in a kernel on this machine: a real local ipykernel, and a node of an emulated cloud."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager
from tiers import mostly_nightly

from jupyter_tpu.kernels.environments.saved_environments import SavedEnvironment
from jupyter_tpu.kernels.kernelspecs import remove_kernelspec, write_kernelspec
from jupyter_tpu.models import Node

if TYPE_CHECKING:
    from conftest import Cloud

PATIENCE_S = 100


@dataclass
class Ran:
    """A cell that has run: what stands below it, and how it ended."""

    status: str
    streams: dict[str, str] = field(default_factory=dict)
    data: list[dict[str, Any]] = field(default_factory=list)
    traceback: str = ""
    prompts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return self.streams.get("stdout", "")


@dataclass
class LocalKernel:
    """A kernel on this machine that has loaded the extension."""

    manager: KernelManager
    client: BlockingKernelClient

    def run(self, code: str, answers: tuple[str, ...] = (), on_text: Callable[[str], None] = str) -> Ran:
        ran, left = Ran(""), list(answers)

        def hear(message: dict[str, Any]) -> None:
            content, kind = message["content"], message["msg_type"]
            if kind == "stream":
                ran.streams[content["name"]] = ran.streams.get(content["name"], "") + content["text"]
                on_text(ran.streams[content["name"]])
            elif kind in ("display_data", "execute_result", "update_display_data"):
                ran.data.append(content["data"])
            elif kind == "error":
                ran.traceback = "\n".join(content["traceback"])

        def answer(message: dict[str, Any]) -> None:
            ran.prompts.append(message["content"]["prompt"])
            self.client.input(left.pop(0))

        reply = self.client.execute_interactive(code, output_hook=hear, stdin_hook=answer, timeout=PATIENCE_S)
        ran.status = reply["content"]["status"]
        return ran


@pytest.fixture(scope="module")
def local(cloud: Cloud, kernel_name: str, folders: Path) -> Iterator[LocalKernel]:
    """Beside a node that has a kernelspec."""
    settings = cloud.settings
    environment = {**os.environ, "JUPYTER_TPU_PROJECT": settings.project, "JUPYTER_TPU_ENDPOINT": settings.endpoint}
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(env=environment, cwd=str(folders))
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=60)
    local = LocalKernel(manager, client)
    assert local.run("%load_ext jupyter_tpu").status == "ok"
    yield local
    client.stop_channels()
    manager.shutdown_kernel()


@pytest.mark.parametrize("line", mostly_nightly(["%tpu list", "%tpu"], count=1))
def test_the_command_line_is_a_magic(local: LocalKernel, node: Node, line: str) -> None:
    ran = local.run(line)
    assert (ran.status, "my-node" in ran.text) == ("ok", True)


@pytest.mark.nightly
def test_a_question_of_a_command_is_asked_below_the_cell(local: LocalKernel, cloud: Cloud) -> None:
    node = cloud.create_node("another")
    assert local.run("%tpu delete another", answers=("n",)).status == "error"
    assert cloud.is_billed(node)
    assert local.run("%tpu delete another", answers=("y",)).status == "ok"
    assert not cloud.is_billed(node)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("%tpu nonsense", "there is no command"),
        ("%tpu describe no-such-node", "no-such-node"),
        ("%tpu ssh my-node", "needs a terminal"),
        ("%tpu create 'open", "parse the line"),
        ("%tpu attach", "NODE is missing."),
        ("%tpu attach no-such-node", "no-such-node"),
        ("%%tpu no-such-node\n1", "No node named no-such-node"),
        ("%%tpu -x\n1", "-x is not a valid argument here"),
        ("%%tpu -o\n1", "-o requires a value"),
        ("%%tpu -o a-b\n1", "not a valid variable name"),
    ],
)
def test_what_makes_no_sense_is_said_in_a_sentence(local: LocalKernel, line: str, said: str) -> None:
    ran = local.run(line)
    assert ran.status == "error"
    assert said in ran.traceback + ran.streams.get("stderr", "")
    assert "Traceback" not in ran.traceback


def test_a_cell_runs_on_the_node_and_keeps_its_variables(local: LocalKernel, cloud: Cloud, node: Node) -> None:
    assert local.run("%%tpu\nimport os\nhome = os.getcwd()").status == "ok"
    ran = local.run("%%tpu my-node\nimport sys\nprint(home)\nprint('beside', file=sys.stderr)\n6 * 7")
    assert ran.text.strip() == str(cloud.home_of(node))
    assert "beside" in ran.streams["stderr"]
    assert ran.data == [{"text/plain": "42"}]


def test_variables_come_back(local: LocalKernel) -> None:
    lines = ("%%tpu -o losses -o words", "import numpy", "losses = numpy.arange(6.0).reshape(2, 3)")
    assert local.run("\n".join((*lines, "words = {'a': (1, None, b'x', {2.5})}"))).status == "ok"
    assert local.run("float(losses.sum()), losses.shape, words").data == [
        {"text/plain": "(15.0, (2, 3), {'a': (1, None, b'x', {2.5})})"}
    ]


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("%%tpu -o nothing\n1", "no variable 'nothing'"),
        ("%%tpu -o thing\nthing = object()", "A object cannot be copied"),
        ("%%tpu -o loop\nloop = []\nloop.append(loop)", "contains itself"),
        ("%%tpu -o big\nbig = 'x' * 17_000_000", "too large to copy: more than 16 MiB"),
    ],
)
def test_a_variable_that_cannot_come_back_says_why(local: LocalKernel, cell: str, said: str) -> None:
    ran = local.run(cell)
    assert ran.status == "error"
    assert said in ran.traceback


def test_variables_before_one_that_cannot_come_back_are_kept(local: LocalKernel) -> None:
    assert local.run("%%tpu -o kept -o missing\nkept = 5").status == "error"
    assert local.run("kept").data == [{"text/plain": "5"}]


def test_a_kernel_that_dies_with_its_variable_is_told(local: LocalKernel) -> None:
    deadly = "class Deadly:\n    def detach(self): import os; os._exit(3)\n    __module__ = 'torch'\ndeadly = Deadly()"
    ran = local.run(f"%%tpu -o deadly\n{deadly}")
    assert ran.status == "error"
    assert "has died" in ran.traceback
    assert local.run("%%tpu my-node\n1 + 1").data == [{"text/plain": "2"}]


@pytest.mark.nightly
def test_the_environments_of_a_node_are_no_other_nodes(local: LocalKernel, cloud: Cloud, node: Node) -> None:
    write_kernelspec(node, cloud.settings, environment=SavedEnvironment(framework="jax", version="0.10.2"))
    assert local.run("%%tpu my-node\n1 + 1").data == [{"text/plain": "2"}]
    assert local.run("%tpu attach my-node").status == "ok"
    unknown = local.run("%%tpu my-node tf\n1")
    assert "no environment 'tf'" in unknown.traceback
    assert "Its environments: jax." in unknown.traceback


def test_an_error_on_the_node_is_the_cells_error(local: LocalKernel) -> None:
    ran = local.run("%%tpu -o x\nx = 1\n1 / 0")
    assert ran.status == "error"
    assert "ZeroDivisionError" in ran.traceback
    assert local.run("x").status == "error"


def test_a_question_on_the_node_is_asked_here(local: LocalKernel) -> None:
    ran = local.run("%%tpu\nname = input('Who? ')\nprint('Hello', name)", answers=("Ada",))
    assert "Hello Ada" in ran.text


def test_an_interrupt_goes_to_the_node(local: LocalKernel) -> None:
    interrupted = threading.Event()

    def interrupt_once(text: str) -> None:
        if "begun" in text and not interrupted.is_set():
            interrupted.set()
            local.manager.interrupt_kernel()

    cell = "%%tpu\nimport time\nprint('begun', flush=True)\ntime.sleep(1000)"
    ran = local.run(cell, on_text=interrupt_once)
    assert ran.status == "error"
    assert "KeyboardInterrupt" in ran.traceback
    assert local.run("%%tpu\n1 + 1").data == [{"text/plain": "2"}]


def test_a_cell_that_was_left_running_is_not_mistaken_for_the_next_one(local: LocalKernel, tmp_path: Path) -> None:
    def interrupt(text: str) -> None:
        if text.endswith(("begun\n", "once\n")):
            local.manager.interrupt_kernel()

    go_on = tmp_path / "go-on"
    cell = f"""%%tpu
import os, time
try:
    print("begun", flush=True)
    time.sleep(1000)
except KeyboardInterrupt:
    print("once", flush=True)
    while not os.path.exists({str(go_on)!r}):
        time.sleep(0.05)
old = input("OLD? ")
"""
    left = local.run(cell, on_text=interrupt)
    assert left.status == "error"
    assert left.traceback.startswith("The cell was left running on ")
    go_on.touch()
    ran = local.run("%%tpu\nnew = input('NEW? ')", answers=("first", "second"))
    assert ran.prompts == ["[a cell that was left running asks] OLD? ", "NEW? "]
    assert local.run("%%tpu\nprint(old, new)").text == "first second\n"


def test_of_two_nodes_of_one_name_the_zone_chooses(local: LocalKernel, cloud: Cloud, node: Node) -> None:
    zone = node.name.zone
    other = replace(node, name=replace(node.name, zone="us-west4-a"))
    write_kernelspec(other, cloud.settings)
    try:
        assert "Several nodes match." in local.run("%%tpu my-node\n1").traceback
        assert local.run(f"%tpu attach my-node --zone {zone}").status == "ok"
        assert local.run("%%tpu\n1 + 1").data == [{"text/plain": "2"}]
    finally:
        remove_kernelspec(other.name, cloud.settings.endpoint)


def test_the_words_of_the_command_line_complete(local: LocalKernel) -> None:
    def matches(line: str) -> list[str]:
        return list(local.client.complete(line, reply=True, timeout=60)["content"]["matches"])

    assert "attach" in matches("%tpu att")
    assert "--session" in matches("%tpu autostop --se")


@pytest.mark.parametrize("line", mostly_nightly(["%tpu detach my-node", "%tpu detach"], count=1))
def test_the_kernel_on_the_node_ends_when_it_is_detached(
    local: LocalKernel, cloud: Cloud, node: Node, line: str
) -> None:
    assert local.run("%tpu attach my-node").status == "ok"
    assert local.run("%%tpu\nkept = 1").status == "ok"
    assert "No node named other" in local.run("%tpu detach other").traceback
    assert "has ended" in local.run(line).data[0]["text/plain"]
    assert "is not in use here" in local.run(line).data[0]["text/plain"]
    assert local.run("%%tpu my-node\nkept").status == "error"


def test_a_kernel_that_used_a_node_ends_without_a_word(cloud: Cloud, kernel_name: str, folders: Path) -> None:
    settings = cloud.settings
    environment = {**os.environ, "JUPYTER_TPU_PROJECT": settings.project, "JUPYTER_TPU_ENDPOINT": settings.endpoint}
    manager = KernelManager(kernel_name="python3")
    with (folders / "local.log").open("wb") as log:
        manager.start_kernel(env=environment, cwd=str(folders), stderr=log)
        client = manager.client()
        client.start_channels()
        client.wait_for_ready(timeout=60)
        local = LocalKernel(manager, client)
        assert local.run("%load_ext jupyter_tpu").status == "ok"
        assert local.run("%%tpu my-node\n1 + 1").data == [{"text/plain": "2"}]
        client.stop_channels()
        manager.shutdown_kernel()
    said = (folders / "local.log").read_text()
    assert "Error" not in said, said
    assert "Traceback" not in said, said
