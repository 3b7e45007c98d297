"""What a cell puts out on a node runs nothing in the page where the user wants that."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from open_notebooks import Notebook, run_all, save
from playwright.sync_api import Page, expect

if TYPE_CHECKING:
    from conftest import OpenLab

pytestmark = [pytest.mark.system("chromium")]

SCRIPTS = [
    """
    pass_gate('a')
    HTML('<b>drawn</b><img src="nowhere" onerror="(window.ran ??= []).push(`onerror`)">'
         '<script>(window.ran ??= []).push("script")</script>')
    """,
    """
    from IPython.display import Javascript
    Javascript('(window.ran ??= []).push("javascript")')
    """,
    """
    import anywidget
    class Widget(anywidget.AnyWidget):
        _esm = '(window.ran ??= []).push("widget"); export default { render: () => undefined };'
    Widget()
    """,
    "'the end'",
]
ALL = ["javascript", "onerror", "script", "widget"]


def set_untrusted(page: Page, wanted: str) -> None:
    page.evaluate(
        "raw => window.jupyterapp.serviceManager.settings.save('jupyter-tpu:restored-outputs', raw)",
        f'{{"untrustedOutputs": {wanted}}}',
    )


def what_ran(page: Page) -> Any:
    return page.evaluate("() => [...new Set(window.ran ?? [])].sort()")


def expect_all_shown(page: Page, notebook: Notebook) -> None:
    shown = notebook.open_in(page).locator(".jp-CodeCell")
    expect(shown.nth(4)).to_contain_text("the end")
    expect(shown.nth(1)).to_contain_text("drawn")


def test_outputs_of_a_node_run_no_script_where_they_are_untrusted(
    write_notebook: Callable[..., Notebook], open_lab: OpenLab
) -> None:
    page = open_lab()
    stock = write_notebook("stock.ipynb", *SCRIPTS)
    stock.pass_gate("a")
    stock.open_in(page)
    run_all(page)
    expect_all_shown(page, stock)
    page.wait_for_function("all => new Set(window.ran).size === all.length", arg=ALL)
    assert what_ran(page) == ALL
    (stock.gates / "a").unlink()
    (stock.gates / "a.reached").unlink()
    set_untrusted(page, "true")
    page.close()

    page = open_lab()
    notebook = write_notebook("untrusted.ipynb", *SCRIPTS)
    notebook.open_in(page)
    save(page)  # nothing in it can do harm, so the server trusts it from now on
    run_all(page)
    notebook.has_reached("a")
    page.close()
    notebook.pass_gate("a")
    notebook.has_ended()

    page = open_lab()
    expect_all_shown(page, notebook)  # restored
    assert what_ran(page) == []
    run_all(page)
    page.wait_for_function("() => window.jupyterapp.shell.currentWidget.content.widgets[4].model.executionCount === 10")
    expect_all_shown(page, notebook)
    save(page)
    assert what_ran(page) == []
    set_untrusted(page, "false")
    page.close()

    page = open_lab()
    expect_all_shown(page, notebook)  # as the file has it; the kernel goes on, and offers its widget to the page
    assert set(what_ran(page)) <= {"widget"}
