"""What the panel and the notebook say when something cannot be: what failed, what exists now, what to do."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from cards import choose
from playwright.sync_api import Locator, Page, expect
from tiers import mostly_nightly

from jupyter_tpu.emulator.control.client import EmulatorControl

if TYPE_CHECKING:
    from conftest import Demo, Picture

pytestmark = [pytest.mark.system("chromium")]

ZONE = "us-central1-a"
NAME = f"projects/demo-project/locations/{ZONE}/nodes/my-node"
SPEC = {
    "node_id": "my-node",
    "zone": ZONE,
    "accelerator_type": "v5litepod-8",
    "runtime_version": "v2-alpha-tpuv5-lite",
    "spot": False,
}
HOSTILE = "<img src=x onerror='window.pwned = true'><script>window.pwned = true</script>\u001b[31m"


def execute(page: Page, command: str, arguments: object) -> None:
    """Run a command as the palette does; what it answers is read from the page."""
    page.evaluate("([id, args]) => { void window.jupyterapp.commands.execute(id, args); }", [command, arguments])


@pytest.fixture
def control(demo: Demo) -> EmulatorControl:
    return EmulatorControl(demo.ledger_url.split("/emulator/")[0])


@pytest.fixture
def panel(lab: Page) -> Locator:
    lab.locator('.jp-SideBar [data-id="jupyter-tpu-panel"]').click()
    shown = lab.locator("#jupyter-tpu-panel")
    expect(shown).to_contain_text("Emulated cloud")
    return shown


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("fault", "words"),
    mostly_nightly(
        [
            ("quota", ["quota", "Nothing is billed"]),
            ("stockout", ["no capacity", "another zone", "Nothing is billed"]),
            ("api_disabled", ["API", "Nothing is billed"]),
            ("permission_denied", ["ermission", "Nothing is billed"]),
            ("not_allowlisted", ["not allowed", "Nothing is billed"]),
        ],
        count=1,
    ),
)
def test_a_refused_creation_is_a_card_that_can_be_dismissed(
    panel: Locator, control: EmulatorControl, picture: Picture, fault: str, words: list[str]
) -> None:
    control.add_fault("CreateNode", fault)

    execute(panel.page, "tpu:create-node", SPEC)

    card = panel.get_by_role("listitem").filter(has_text="my-node").get_by_role("alert")
    expect(card).to_be_visible()
    picture(panel.page, f"refused-{fault}")
    for word in words:
        expect(card).to_contain_text(word, ignore_case=True)
    expect(card).not_to_contain_text("Traceback")
    assert control.billing() == []
    card.get_by_role("button", name="Dismiss").click()
    expect(card).to_have_count(0)


@pytest.mark.nightly
def test_a_failed_creation_notifies_while_the_panel_is_closed_and_opens_the_form_elsewhere(
    lab: Page, control: EmulatorControl, picture: Picture
) -> None:
    panel = lab.locator("#jupyter-tpu-panel")
    control.add_fault("CreateNode", "stockout")

    execute(lab, "tpu:create-node", SPEC)

    notice = lab.locator(".Toastify__toast--error").filter(has_text="no capacity")
    expect(notice).to_be_visible()
    expect(panel).to_be_hidden()
    picture(lab, "refused-while-closed")
    button = notice.get_by_role("button", name="Try ")
    zone = button.inner_text().removeprefix("Try ")
    button.click()
    form = panel.get_by_role("form", name="Create a node")
    expect(form.get_by_label("Location")).to_have_value(zone)
    expect(form.get_by_label("Name", exact=True)).to_have_value("my-node")
    expect(form.get_by_role("searchbox", name="Chips")).to_be_focused()
    assert control.billing() == []
    card = panel.get_by_role("listitem").filter(has_text="my-node").get_by_role("alert")
    expect(card.locator("details pre").first).to_be_hidden()
    form.get_by_role("button", name="Cancel").click()
    card.get_by_role("button", name="Dismiss").click()


@pytest.mark.nightly
def test_a_bad_name_is_refused_before_anything_is_asked(panel: Locator, picture: Picture) -> None:
    panel.get_by_role("button", name="Create a node").first.click()
    form = panel.get_by_role("form", name="Create a node")

    form.get_by_text("More options", exact=True).click()
    form.get_by_label("Name", exact=True).fill("My Node!")

    expect(form).to_contain_text("lower-case letters")
    picture(panel.page, "bad-name")
    form.get_by_role("button", name="Cancel").click()


@pytest.mark.nightly
def test_words_of_the_cloud_are_never_rendered_as_html(panel: Locator, control: EmulatorControl) -> None:
    control.add_fault("CreateNode", "error", code="INVALID_ARGUMENT", message=HOSTILE)

    execute(panel.page, "tpu:create-node", SPEC)

    card = panel.get_by_role("listitem").filter(has_text="my-node").get_by_role("alert")
    card.locator("summary").click()
    expect(card).to_contain_text("<img src=x")
    assert panel.page.evaluate("() => window.pwned") is None
    card.get_by_role("button", name="Dismiss").click()


def dying_kernels(control: EmulatorControl) -> None:
    """Whatever the kernel is, it ends as soon as it reads its configuration."""
    profile = home_of(control) / ".ipython" / "profile_default"
    profile.mkdir(parents=True, exist_ok=True)
    (profile / "ipython_kernel_config.py").write_text("import os; os._exit(3)")


def closed_door(control: EmulatorControl) -> None:
    (home_of(control) / ".ipython" / "profile_default" / "ipython_kernel_config.py").unlink()
    control.close_ssh(NAME)


def broken_agent(control: EmulatorControl) -> None:
    """The agent's folder cannot be used, and nothing of the agent lives any more."""
    folder = home_of(control) / ".jupyter-tpu"
    end_everything_below(folder)
    folder.rename(folder.with_name("elsewhere"))
    folder.write_text("in the way")
    control.open_ssh(NAME)


def other_host_key(control: EmulatorControl) -> None:
    control.change_host_key(NAME)


def end_everything_below(folder: Path) -> None:
    """Supervisor first, or it would start the agent again."""
    found = [
        process
        for process in psutil.process_iter(["cmdline"])
        if str(folder) in " ".join(process.info["cmdline"] or [])
    ]
    for process in sorted(found, key=lambda process: "supervise" not in process.info["cmdline"]):
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(found, timeout=30)


def home_of(control: EmulatorControl) -> Path:
    return Path(control.workers(NAME)[0]["home"])


@pytest.mark.nightly
def test_a_kernel_that_cannot_start_says_why(panel: Locator, control: EmulatorControl, picture: Picture) -> None:
    page = panel.page
    execute(page, "tpu:create-node", SPEC)
    node = panel.get_by_role("listitem").filter(has_text="my-node")
    expect(node.get_by_role("button", name="Open new notebook on my-node")).to_be_enabled()
    for sabotage, words in (
        (dying_kernels, "died during startup"),
        (closed_door, "is not responding over SSH"),
        (broken_agent, ".jupyter-tpu"),
        (other_host_key, "host key"),
    ):
        sabotage(control)

        node.get_by_role("button", name="Open new notebook on my-node").click()

        dialog = page.locator(".jp-Dialog")
        expect(dialog).to_contain_text(words)
        expect(dialog).not_to_contain_text("Traceback")
        picture(page, f"kernel-{sabotage.__name__}")
        dialog.get_by_role("button", name="Ok").click()
        dialog.get_by_role("button", name="No Kernel").click()  # JupyterLab asks for another one
        expect(page.locator(".jp-tpu-KernelStatus:visible").get_by_title(words)).to_have_text("Kernel not started")
        expect(page.locator(".Toastify__toast--error")).to_have_count(0)
    delete_node(panel)
    assert control.billing() == []


def delete_node(panel: Locator) -> None:
    choose(panel, "my-node", "Delete…")
    panel.page.locator(".jp-Dialog").get_by_role("button", name="Delete").click()
    expect(panel.get_by_role("listitem").filter(has_text="my-node")).to_have_count(0)
