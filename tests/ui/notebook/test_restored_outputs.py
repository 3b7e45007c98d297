"""Outputs that were printed while nobody watched are in their cells when the notebook is opened again, each once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from open_notebooks import (
    CURRENT,
    SHOWN,
    Notebook,
    close_document,
    execute,
    expect_prompts,
    expect_shown,
    go_to_cell,
    numbers,
    run_all,
    save,
)
from playwright.sync_api import Page, expect

if TYPE_CHECKING:
    from conftest import Demo, OpenLab, Picture

pytestmark = [pytest.mark.system("chromium")]

IMAGE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
KINDS = [
    """
    count(0, 30)
    pass_gate('a')
    count(30, 60)
    pass_gate('b')
    count(60, 100)
    """,
    """
    bar = display({'text/plain': 'step 0'}, raw=True, display_id='bar')
    bar.update({'text/plain': 'step 1'}, raw=True)
    """,
    r"""
    for number in range(5):
        print(f'\r{number} of 4', end='')
    """,
    """
    print('old')
    clear_output(wait=True)
    print('new')
    """,
    f"""
    import base64
    update_display({{'text/plain': 'step 2'}}, display_id='bar', raw=True)
    display(Image(base64.b64decode('{IMAGE}')))
    'the result'
    """,
    """
    HTML('<b>drawn</b><script>window.pwned = true</script>')
    """,
    """
    print('to stderr', file=sys.stderr)
    """,
    """
    print('hello', input('Who? '))
    """,
]
KINDS_SHOWN = [
    ["[2]", numbers(0, 100)],
    ["[3]", "step 2"],
    ["[4]", "4 of 4"],
    ["[5]", "new\n"],
    ["[6]", "image", "'the result'"],
    ["[7]", "drawn"],
    ["[8]", "to stderr\n"],
]


def test_a_notebook_that_was_closed_while_it_ran_goes_on_when_it_is_opened_again(
    write_notebook: Callable[..., Notebook], open_lab: OpenLab, picture: Picture
) -> None:
    notebook = write_notebook("kinds.ipynb", *KINDS)
    page = open_lab()
    notebook.open_in(page)
    run_all(page)
    notebook.has_reached("a")
    page.close()
    notebook.pass_gate("a")
    notebook.has_reached("b")

    page = open_lab()
    notebook.open_in(page)

    expect_shown(page, ["[*]", numbers(0, 60)], *[["[*]"]] * 7)
    page.wait_for_function(f"() => {CURRENT}.sessionContext.session.kernel.status === 'busy'")
    picture(page, "restored-running")
    notebook.pass_gate("b")
    answer = page.locator(".jp-Stdin-input")
    expect_shown(page, *KINDS_SHOWN, ["[*]"])
    picture(page, "restored-input")
    answer.fill("bob")
    answer.press("Enter")
    expect_shown(page, *KINDS_SHOWN, ["[9]", "Who?  bob\n", "hello bob\n"])
    assert page.evaluate("() => window.pwned") is None, "a script of an untrusted notebook ran"
    assert not page.evaluate(f"() => {CURRENT}.content.widgets[6].model.trusted")
    assert not page.evaluate(f"() => {CURRENT}.context.model.sharedModel.canUndo()")
    save(page)
    assert [output["output_type"] for output in notebook.on_disk()["cells"][5]["outputs"]] == [
        "display_data",
        "execute_result",
    ]


@pytest.mark.nightly
def test_outputs_of_cells_that_ended_come_back_with_the_error_and_what_it_aborted(
    write_notebook: Callable[..., Notebook], open_lab: OpenLab
) -> None:
    notebook = write_notebook(
        "ended.ipynb", "pass_gate('a')\ncount(0, 50)", "count(50, 100)\nraise ValueError('no more')", "count(100, 150)"
    )
    page = open_lab()
    notebook.open_in(page)
    run_all(page)
    notebook.has_reached("a")
    page.close()
    notebook.pass_gate("a")
    notebook.has_ended()

    page = open_lab()
    shown = notebook.open_in(page)

    expect(shown.locator(".jp-CodeCell").nth(2)).to_contain_text("ValueError: no more")
    expect(shown.locator(".jp-CodeCell")).to_have_count(4)
    expect_prompts(page, "[2]", "[3]", "[ ]")
    first, second, third = page.evaluate(SHOWN)[1:]
    assert first == ["[2]", numbers(0, 50)]
    assert second[:2] == ["[3]", numbers(50, 100)]
    assert len(second) == 3
    assert third == ["[ ]"]


@pytest.mark.nightly
def test_what_a_user_removed_from_a_saved_notebook_does_not_come_back(
    write_notebook: Callable[..., Notebook], open_lab: OpenLab
) -> None:
    notebook = write_notebook("cleared.ipynb", "count(0, 10)")
    page = open_lab()
    notebook.open_in(page)
    run_all(page)
    expect_shown(page, ["[2]", numbers(0, 10)])
    execute(page, "notebook:clear-all-cell-outputs")
    expect_shown(page, ["[ ]"])
    save(page)
    close_document(page, discard=False)

    notebook.open_in(page)

    page.wait_for_function(f"() => {CURRENT}.sessionContext.session?.kernel?.connectionStatus === 'connected'")
    expect_shown(page, ["[ ]"])
    execute(page, "tpu:restore-outputs")
    expect_shown(page, ["[2]", numbers(0, 10)])


@pytest.mark.nightly
def test_a_notebook_that_was_saved_half_way_is_completed(
    write_notebook: Callable[..., Notebook], open_lab: OpenLab
) -> None:
    notebook = write_notebook("saved.ipynb", "count(0, 30)\npass_gate('a')\ncount(30, 100)", "count(100, 130)")
    page = open_lab()
    notebook.open_in(page)
    run_all(page)
    expect_shown(page, ["[*]", numbers(0, 30)], ["[*]"])
    save(page)
    page.close()

    page = open_lab()
    notebook.open_in(page)
    expect_shown(page, ["[*]", numbers(0, 30)], ["[*]"])
    close_document(page)
    notebook.pass_gate("a")
    notebook.has_ended()
    notebook.open_in(page)

    expect_shown(page, ["[2]", numbers(0, 100)], ["[3]", numbers(100, 130)])


@pytest.mark.nightly
def test_a_document_that_is_closed_and_opened_in_a_living_page_goes_on(
    write_notebook: Callable[..., Notebook], lab: Page
) -> None:
    notebook = write_notebook(
        "tab.ipynb",
        "bar = display({'text/plain': 'step 0'}, raw=True, display_id='bar')",
        """
        count(0, 10)
        pass_gate('a')
        bar.update({'text/plain': 'step 1'}, raw=True)
        own = display({'text/plain': 'own 0'}, raw=True, display_id='own')
        pass_gate('b')
        bar.update({'text/plain': 'step 2'}, raw=True)
        own.update({'text/plain': 'own 1'}, raw=True)
        clear_output(wait=True)
        pass_gate('c')
        count(10, 20)
        """,
    )
    notebook.open_in(lab)
    run_all(lab)
    expect_shown(lab, ["[2]", "step 0"], ["[*]", numbers(0, 10)])
    close_document(lab)
    notebook.pass_gate("a")
    notebook.has_reached("b")

    notebook.open_in(lab)

    expect_shown(lab, ["[2]", "step 1"], ["[*]", numbers(0, 10), "own 0"])
    notebook.pass_gate("b")
    expect_shown(lab, ["[2]", "step 2"], ["[*]", numbers(0, 10), "own 1"])
    notebook.pass_gate("c")
    expect_shown(lab, ["[2]", "step 2"], ["[3]", numbers(10, 20)])


@pytest.mark.nightly
def test_a_running_cell_may_be_moved_deleted_cut_and_edited(
    write_notebook: Callable[..., Notebook], open_lab: OpenLab
) -> None:
    gates = "abcde"
    counts = "\n".join(f"count({10 * n}, {10 * n + 10})\npass_gate('{gate}')" for n, gate in enumerate(gates))
    notebook = write_notebook("moved.ipynb", counts, "'other'")
    page = open_lab()
    notebook.open_in(page)
    run_all(page)
    notebook.has_reached("a")
    page.close()
    page = open_lab()
    notebook.open_in(page)
    expect_shown(page, ["[*]", numbers(0, 10)], ["[*]"])

    go_to_cell(page, 1)
    execute(page, "notebook:delete-cell")
    expect_shown(page, ["[*]"])
    notebook.pass_gate("a")
    notebook.has_reached("b")
    execute(page, "notebook:undo-cell-action")
    expect_shown(page, ["[*]", numbers(0, 20)], ["[*]"])

    go_to_cell(page, 1)
    execute(page, "notebook:move-cell-down")
    notebook.pass_gate("b")
    expect_shown(page, ["[*]"], ["[*]", numbers(0, 30)])

    go_to_cell(page, 2)
    execute(page, "notebook:cut-cell")
    expect_shown(page, ["[*]"])
    notebook.pass_gate("c")
    notebook.has_reached("d")
    execute(page, "notebook:paste-cell-below")
    expect_shown(page, ["[*]"], ["[*]", numbers(0, 40)])

    page.evaluate(f"() => {CURRENT}.content.widgets[2].model.sharedModel.setSource('edited')")
    notebook.pass_gate("d")
    expect_shown(page, ["[*]"], ["[*]", numbers(0, 50)])
    notebook.pass_gate("e")
    expect_shown(page, ["[3]", "'other'"], ["[2]", numbers(0, 50)])
    assert page.evaluate(f"() => {CURRENT}.content.widgets[2].model.isDirty")


@pytest.mark.nightly
def test_a_cell_that_is_run_anew_belongs_to_that_run_and_ends_with_its_kernel(
    write_notebook: Callable[..., Notebook], open_lab: OpenLab
) -> None:
    notebook = write_notebook(
        "anew.ipynb", "count(0, 10)\npass_gate('a')\ncount(10, 20)", "print('here')\npass_gate('b')"
    )
    page = open_lab()
    notebook.open_in(page)
    run_all(page)
    notebook.has_reached("a")
    page.close()
    page = open_lab()
    notebook.open_in(page)
    expect_shown(page, ["[*]", numbers(0, 10)], ["[*]"])

    page.evaluate(f"() => {CURRENT}.content.widgets[1].model.sharedModel.setSource('\"anew\"')")
    go_to_cell(page, 1)
    execute(page, "notebook:run-cell")
    expect_shown(page, ["[*]"], ["[*]"])
    notebook.pass_gate("a")
    notebook.has_reached("b")
    expect_shown(page, ["[*]"], ["[*]", "here\n"])
    page.evaluate(f"() => {CURRENT}.sessionContext.session.kernel.restart()")

    expect_prompts(page, "[ ]", "[3]")
    run_all(page)
    notebook.pass_gate("b")
    expect_shown(page, ["[2]", "'anew'"], ["[3]", "here\n"])


@pytest.mark.nightly
def test_outputs_of_cells_that_are_not_in_the_notebook_are_listed_and_can_be_added(
    write_notebook: Callable[..., Notebook], open_lab: OpenLab, picture: Picture
) -> None:
    notebook = write_notebook("never-saved.ipynb", "'saved'")
    page = open_lab()
    notebook.open_in(page)
    source = "count(0, 10)\nprint('<script>window.pwned = true</script>')\npass_gate('a')\ncount(10, 20)"
    page.evaluate(
        f"source => {CURRENT}.context.model.sharedModel.addCell({{cell_type: 'code', source, metadata: {{}}}})", source
    )
    run_all(page)
    notebook.has_reached("a")
    page.close()

    page = open_lab()
    notebook.open_in(page)
    page.get_by_role("button", name="1 output without a cell").click()

    dialog = page.locator(".jp-Dialog")
    expect(dialog).to_contain_text("From cells that are not in this notebook")
    expect(dialog.locator(".jp-tpu-Elsewhere-code")).to_contain_text("count(10, 20)")
    expect(dialog.locator(".jp-OutputArea")).to_contain_text("<script>window.pwned")
    picture(page, "outputs-elsewhere")
    dialog.get_by_role("button", name="Add as cell").click()
    dialog.get_by_role("button", name="Close").click()
    printed = numbers(0, 10) + "<script>window.pwned = true</script>\n"
    expect_shown(page, ["[2]", "'saved'"], ["[*]", printed])
    notebook.pass_gate("a")
    expect_shown(page, ["[2]", "'saved'"], ["[3]", printed + numbers(10, 20)])
    expect(page.get_by_role("button", name="1 output without a cell")).to_have_count(0)
    assert page.evaluate("() => window.pwned") is None


@pytest.mark.nightly
def test_two_pages_show_the_same_and_the_second_does_not_save_over_the_first(
    write_notebook: Callable[..., Notebook], open_lab: OpenLab
) -> None:
    notebook = write_notebook("two.ipynb", "count(0, 10)\npass_gate('a')\ncount(10, 20)")
    first = open_lab()
    notebook.open_in(first)
    run_all(first)
    expect_shown(first, ["[*]", numbers(0, 10)])
    save(first)

    second = open_lab()
    notebook.open_in(second)

    expect_shown(second, ["[*]", numbers(0, 10)])
    notebook.pass_gate("a")
    for page in (first, second):
        expect_shown(page, ["[2]", numbers(0, 20)])
    assert not second.evaluate(f"() => {CURRENT}.context.model.dirty")


@pytest.mark.nightly
def test_what_is_put_in_above_does_not_move_the_view(write_notebook: Callable[..., Notebook], lab: Page) -> None:
    notebook = write_notebook("long.ipynb", "count(0, 300)", *[f"# Heading {number}" for number in range(40)])
    notebook.open_in(lab)
    run_all(lab)
    expect_shown(lab, ["[2]", numbers(0, 300)])
    execute(lab, "notebook:clear-all-cell-outputs")
    expect_shown(lab, ["[ ]"])
    heading = lab.get_by_role("heading", name="Heading 35")
    heading.scroll_into_view_if_needed()
    before = heading.bounding_box()

    execute(lab, "tpu:restore-outputs")

    expect_shown(lab, ["[2]", numbers(0, 300)])
    assert before is not None
    after = heading.bounding_box()
    assert after is not None
    assert abs(after["y"] - before["y"]) < 2


@pytest.mark.nightly
def test_a_file_without_cell_ids_gets_its_outputs_by_its_code(
    write_notebook: Callable[..., Notebook], open_lab: OpenLab
) -> None:
    notebook = write_notebook("old.ipynb", "pass_gate('a')\ncount(0, 10)", "count(10, 20)", minor=4)
    page = open_lab()
    notebook.open_in(page)
    run_all(page)
    notebook.has_reached("a")
    page.close()
    notebook.pass_gate("a")
    notebook.has_ended()

    page = open_lab()
    notebook.open_in(page)

    expect_shown(page, ["[2]", numbers(0, 10)], ["[3]", numbers(10, 20)])


@pytest.mark.nightly
def test_notebook_7_restores_as_jupyterlab_does(
    demo: Demo, write_notebook: Callable[..., Notebook], open_lab: OpenLab, picture: Picture
) -> None:
    notebook = write_notebook("seven.ipynb", "count(0, 30)\npass_gate('a')\ncount(30, 60)", "count(60, 90)")
    page = open_lab()
    notebook.open_in(page)
    run_all(page)
    notebook.has_reached("a")

    page.goto(f"{demo.base_url}/notebooks/{notebook.path}")

    expect_shown(page, ["[*]", numbers(0, 30)], ["[*]"])
    notebook.pass_gate("a")
    expect_shown(page, ["[2]", numbers(0, 60)], ["[3]", numbers(60, 90)])
    picture(page, "restored-notebook-7")
