"""What a notebook can do on one worker, it can do on a slice: questions, widgets, figures, `%pip` and debugging."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.manager import KernelManager
from raw_slice import Ran, SliceClient
from tiny_wheels import write_wheel

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]

PATIENCE_S = 120
SAME = "worker 1: same output"


@pytest.fixture(scope="module")
def notebook(slice_kernel_name: str) -> Iterator[SliceClient]:
    manager = KernelManager(kernel_name=slice_kernel_name)
    manager.start_kernel()
    notebook = SliceClient(manager.client())
    notebook.client.start_channels(hb=False)
    notebook.client.wait_for_ready(timeout=PATIENCE_S)
    assert notebook.run("import os, sys\nw = int(os.environ.get('TPU_SLICE_WORKER', 0))", timeout=240).error == ""
    yield notebook
    notebook.client.stop_channels()
    manager.shutdown_kernel(now=True)


def answered(notebook: SliceClient, code: str, *answers: str) -> Ran:
    """Run a cell that asks the user, and give these answers."""
    request = notebook.send(code, allow_stdin=True)
    for answer in answers:
        notebook.client.get_stdin_msg(timeout=PATIENCE_S)
        notebook.client.input(answer)
    return notebook.result(request, timeout=PATIENCE_S)


def test_all_workers_get_the_answers_to_several_questions(notebook: SliceClient) -> None:
    ran = answered(notebook, "import getpass\nprint(input('a'), getpass.getpass('b'), input('c'))", "1", "2", "3")
    assert (ran.printed, ran.others) == ("1 2 3\n", SAME)


def test_shell_commands_and_their_results_are_those_of_each_worker(notebook: SliceClient) -> None:
    ran = notebook.run("!echo $TPU_WORKER_ID\nfound = !echo $TPU_WORKER_ID\nprint(found)")
    assert (ran.printed.split(), ran.others.split()) == (["0", "['0']"], ["worker", "1:", "1", "['1']"])


def test_a_package_is_installed_on_all_workers(notebook: SliceClient, tmp_path: Path) -> None:
    write_wheel(tmp_path, "tiny_slices", "1.0")
    options = f"--quiet --disable-pip-version-check --no-index --find-links {tmp_path} --target"
    notebook.run("folder = os.path.expanduser('~/more')")
    assert notebook.run(f"%pip install {options} {{folder}} tiny_slices", timeout=240).error == ""
    ran = notebook.run("sys.path.append(folder)\nimport tiny_slices\nprint(tiny_slices.VERSION)")
    assert (ran.printed, ran.others) == ("1.0\n", SAME)


def test_times_are_shown_once(notebook: SliceClient) -> None:
    ran = notebook.run("%%time\nsum(range(100_000 * (1 + w)))\nprint('done')")
    assert "Wall time" in ran.printed
    assert ran.others == SAME


def test_a_cell_can_wait_for_a_task_that_an_earlier_cell_has_started(notebook: SliceClient) -> None:
    notebook.run("import asyncio\nasync def later(): return 6 * 7\ntask = asyncio.ensure_future(later())")
    ran = notebook.run("await task")
    assert "42" in str(ran.outputs[0])
    assert ran.others == SAME


def test_a_widget_is_shown_by_worker_0_and_follows_the_page(notebook: SliceClient) -> None:
    request = notebook.send("import ipywidgets\nslider = ipywidgets.IntSlider()\ndisplay(slider)")
    ran = notebook.result(request)
    (view,) = [data for each in ran.outputs if "application/vnd.jupyter.widget-view+json" in (data := each["data"])]
    assert ran.others == ""
    comm_id = view["application/vnd.jupyter.widget-view+json"]["model_id"]
    client = notebook.client
    update = {"method": "update", "state": {"value": 7}, "buffer_paths": []}
    client.shell_channel.send(client.session.msg("comm_msg", {"comm_id": comm_id, "data": update}))
    ran = notebook.run("print(slider.value)")
    assert (ran.printed, ran.others) == ("7\n", "worker 1:\n0")


@pytest.mark.parametrize(("values", "others"), [("[1, 2]", SAME), ("[1, 2 + w]", "worker 1:\n<Figure")])
def test_figures_of_all_workers_are_shown(notebook: SliceClient, values: str, others: str) -> None:
    ran = notebook.run(f"import matplotlib.pyplot as plt\nplt.plot({values})\nplt.show()", timeout=PATIENCE_S)
    assert ran.error == ""
    assert any("image/png" in each["data"] for each in ran.outputs if "data" in each)
    assert ran.others.startswith(others)


def test_an_error_of_worker_0_can_be_debugged(notebook: SliceClient) -> None:
    notebook.run("def fail(value): 1 / value\nif w == 0: fail(0)")
    ran = answered(notebook, "%debug", "p value + 42", "up", "p w", "q")
    assert ran.error == ""
    assert "42\n" in ran.printed
    assert "No traceback" in ran.others


def test_an_error_of_all_workers_is_debugged_on_all(notebook: SliceClient) -> None:
    notebook.run("def fail(value): return 1 / (value - w)\nfail(w)")
    ran = answered(notebook, "%debug", "p value + 42", "q")
    assert "42\n" in ran.printed
    assert ran.others.endswith("\n43")


def test_names_of_worker_0_are_completed_and_explained(notebook: SliceClient) -> None:
    notebook.run("%%worker 0\ndef only_of_worker_0():\n    '''Explained.'''")
    client = notebook.client
    assert replied(client, client.complete("only_of_w"))["matches"] == ["only_of_worker_0"]
    assert "Explained." in replied(client, client.inspect("only_of_worker_0"))["data"]["text/plain"]


def test_the_debugger_attaches_to_worker_0(notebook: SliceClient) -> None:
    client = notebook.client
    content = {"type": "request", "seq": 1, "command": "debugInfo", "arguments": {}}
    message = client.session.msg("debug_request", content)
    client.control_channel.send(message)
    while (reply := client.get_control_msg(timeout=PATIENCE_S))["msg_type"] != "debug_reply":
        pass
    assert reply["content"]["success"]


def replied(client: Any, request: str) -> dict[str, Any]:
    while (reply := client.get_shell_msg(timeout=PATIENCE_S))["parent_header"].get("msg_id") != request:
        pass
    content: dict[str, Any] = reply["content"]
    return content
