"""A notebook whose node is pre-empted offers to rerun the lost cells, and reruns them on the recreated node."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from open_notebooks import Notebook, expect_prompts, expect_shown, run_all, until
from playwright.sync_api import Page, expect

from jupyter_tpu.emulator.control.client import EmulatorControl

if TYPE_CHECKING:
    from conftest import Demo, Picture

pytestmark = [pytest.mark.nightly, pytest.mark.system("chromium")]

ZONE = "us-central1-a"
NODE = f"projects/demo-project/locations/{ZONE}/nodes/my-node"
SPEC = {
    "node_id": "my-node",
    "zone": ZONE,
    "accelerator_type": "v5litepod-8",
    "runtime_version": "v2-alpha-tpuv5-lite",
    "spot": True,
}


def send(demo: Demo, method: str, route: str, body: Any) -> None:
    request = urllib.request.Request(
        f"{demo.base_url}/jupyter-tpu/v1/{route}",
        data=json.dumps(body).encode(),
        method=method,
        headers={"Authorization": f"token {demo.token}"},
    )
    urllib.request.urlopen(request, timeout=120).close()


@pytest.fixture(scope="module")
def kernel_name(demo: Demo) -> str:
    """The kernelspec of a READY spot node that is recreated when it is taken away."""
    send(demo, "POST", "nodes", SPEC)

    def kernelspecs() -> list[Any]:
        return [node["kernelspec"] for node in demo.ask("jupyter-tpu/v1/nodes")["nodes"] if node["kernelspec"]]

    until(kernelspecs, "the node is not READY")
    send(demo, "PUT", f"nodes/{ZONE}/my-node/recovery", {"is_on": True})
    return str(kernelspecs()[0])


def test_what_was_lost_with_the_node_is_run_again(
    demo: Demo, write_notebook: Callable[..., Notebook], lab: Page, picture: Picture
) -> None:
    cut = "for number in range(3):\n    display(number)\npass_gate('a')"
    notebook = write_notebook("lost.ipynb", "x = 1", cut)
    notebook.open_in(lab)
    run_all(lab)
    expect_shown(lab, ["[2]"], ["[*]", "0", "1", "2"])

    EmulatorControl(demo.ledger_url.split("/emulator")[0]).preempt(NODE)
    again = lab.get_by_role("button", name="Rerun lost cells…")
    notice = lab.locator(".jp-tpu-LineAbove-line").filter(has=again)
    expect(notice).to_contain_text("2 cells had run; cell 3 was interrupted after 3 outputs")
    expect(lab.locator(".jp-tpu-Replay-mark")).to_contain_text("after output 3")
    expect(again).to_be_enabled()
    expect(lab.locator(".jp-Dialog")).to_have_count(0)
    picture(lab, "lost-with-its-node")
    lab.evaluate("() => window.jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'})")
    lab.wait_for_selector("body[data-jp-theme-light='false']", state="attached")
    again.click()
    expect(lab.locator(".jp-tpu-Replay-choice input:checked")).to_have_count(3)
    picture(lab, "run-again-dark")
    lab.locator(".jp-Dialog").get_by_role("button", name="Cancel").click()
    lab.set_viewport_size({"width": 620, "height": 800})
    picture(lab, "lost-dark-narrow")
    lab.set_viewport_size({"width": 1280, "height": 800})
    lab.evaluate("() => window.jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Light'})")
    again.click()
    picture(lab, "run-again")
    notebook.pass_gate("a")
    lab.locator(".jp-Dialog").get_by_role("button", name="Run").click()
    expect(notice).to_have_count(0)
    expect(lab.locator(".jp-tpu-Replay-mark")).to_have_count(0)
    expect_prompts(lab, "[2]", "[3]")
