"""The main journey, create a node, run a notebook on it, delete it, in any version of JupyterLab and Notebook 7."""

from __future__ import annotations

from playwright.sync_api import BrowserContext, Locator, Page, expect

SPEC = {
    "node_id": "my-node",
    "zone": "us-central1-a",
    "accelerator_type": "v5litepod-8",
    "runtime_version": "v2-alpha-tpuv5-lite",
}
KERNEL_IS_IDLE = "() => window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'"
RUN = "([id, args]) => { void window.jupyterapp.commands.execute(id, args); }"
HAS_KERNEL = """() => Object.keys(window.jupyterapp.serviceManager.kernelspecs.specs?.kernelspecs ?? {})
  .some(name => name.startsWith('tpu-my-node'))"""
HAS_COMMAND = "() => window.jupyterapp?.commands.hasCommand('tpu:create-node')"


def in_jupyterlab(page: Page, url: str) -> None:
    """`url` opens JupyterLab, with its token."""
    page.goto(f"{url}&reset")
    page.wait_for_function(HAS_COMMAND)
    page.wait_for_selector("#jupyterlab-splash", state="detached")
    expect(page.locator(".jp-tpu-MoneyStatus")).to_contain_text("TPU: nothing running")
    page.evaluate(RUN, ["tpu:create-node", SPEC])
    ready(page).get_by_role("button", name="Open new notebook").click()
    run_on_node(page)
    page.locator('.jp-SideBar [data-id="jp-running-sessions"]').click()
    expect(page.locator(".jp-tpu-RunningNode")).to_contain_text("my-node$9.60/h")
    expect(page.locator(".jp-tpu-MoneyStatus")).to_contain_text("$9.60/h")
    delete_node(page)
    expect(page.locator(".jp-tpu-RunningNode")).to_have_count(0)
    # Notebook creates a node of the same name, which is free once the deletion has ended.
    page.locator('.jp-SideBar [data-id="jupyter-tpu-panel"]').click()
    expect(node_card(page)).to_have_count(0)


def in_notebook(page: Page, context: BrowserContext, url: str) -> None:
    """`url` opens Notebook's page of files, with its token."""
    page.goto(url)
    page.wait_for_function(HAS_COMMAND)
    tab = page.locator(".lm-TabBar-tab", has_text="TPU")
    expect(tab).to_be_visible()
    page.locator(".jp-DropdownMenu").get_by_text("New").click()
    page.locator(".lm-Menu-item", has_text="TPU Node…").click()
    expect(tab).to_have_attribute("aria-selected", "true")
    expect(page.locator("#jupyter-tpu-panel form")).to_be_visible()
    page.evaluate(RUN, ["tpu:create-node", SPEC])
    page.wait_for_function(HAS_KERNEL)
    page.locator(".lm-TabBar-tab", has_text="Files").click()
    page.locator(".jp-DropdownMenu").get_by_text("New").click()
    with context.expect_page() as opened:
        page.locator(".lm-Menu-item", has_text="my-node").click()
    opened.value.wait_for_function(HAS_COMMAND)
    run_on_node(opened.value)
    opened.value.close()
    tab.click()
    expect(node_card(page)).to_be_visible()
    delete_node(page)
    expect(node_card(page)).to_have_count(0)


def node_card(page: Page) -> Locator:
    return page.locator("#jupyter-tpu-panel").get_by_role("listitem").filter(has_text="my-node")


def ready(page: Page) -> Locator:
    """The notification that the node is ready."""
    notice = page.locator(".Toastify__toast", has_text="my-node is ready.")
    expect(notice).to_be_visible()
    return notice


def run_on_node(page: Page) -> None:
    """Run a cell of the new notebook, whose result only the node can give."""
    # a cell that is run before there is a kernel does not run, and the indicator is idle then, too
    page.wait_for_function(KERNEL_IS_IDLE)
    notebook = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
    code = notebook.locator(".jp-CodeCell .cm-content").first
    # both focus the cell themselves: JupyterLab moves the focus while it opens a notebook
    code.fill("%env TPU_ACCELERATOR_TYPE")
    code.press("Shift+Enter")
    expect(notebook.locator(".jp-OutputArea-output").first).to_contain_text("v5litepod-8")


def delete_node(page: Page) -> None:
    page.evaluate(RUN, ["tpu:delete-node", {"zone": SPEC["zone"], "node_id": SPEC["node_id"]}])
    dialog = page.locator(".jp-Dialog")
    expect(dialog).to_contain_text("$9.60 per hour")
    dialog.get_by_role("button", name="Delete").click()


def expect_focus_in(opened: Locator) -> None:
    """A dialog or menu has the keyboard: JupyterLab shows it first, and moves the focus there once it is rendered."""
    expect(opened.and_(opened.page.locator(":focus-within"))).to_be_visible()
