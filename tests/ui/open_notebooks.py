"""Notebooks on a node as a browser shows them, and cells that wait at gates until a test opens them."""

from __future__ import annotations

import json
import textwrap
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError

from playwright.sync_api import Locator, Page, TimeoutError, expect

if TYPE_CHECKING:
    from conftest import Demo

WITHIN_S = 180.0
IS_OPEN = "() => window.jupyterapp?.restored.then(() => true)"
NOTEBOOK = ".jp-NotebookPanel:not(.lm-mod-hidden)"
CURRENT = "window.jupyterapp.shell.currentWidget"
KERNEL = f"{CURRENT}?.sessionContext?.session?.kernel"
# What each code cell shows: its prompt, then its outputs.
SHOWN = """() => [...document.querySelectorAll('.jp-NotebookPanel:not(.lm-mod-hidden) .jp-CodeCell')].map(cell => [
  cell.querySelector('.jp-InputPrompt').textContent.replace(':', '').trim(),
  ...[...cell.querySelectorAll('.jp-OutputArea-child:not(.jp-OutputArea-stdin-item) .jp-OutputArea-output')].map(
    output => output.querySelector('img') ? 'image' : output.textContent
  )
])"""

HELPERS = """
import os, sys, time
from IPython.display import HTML, Image, clear_output, display, update_display

def pass_gate(name):
    sys.stdout.flush()
    open(os.path.join(GATES, name + '.reached'), 'w').close()
    while not os.path.exists(os.path.join(GATES, name)):
        time.sleep(0.02)

def count(first, last):
    for number in range(first, last):
        print(f'#{number}')
"""


def numbers(first: int, last: int) -> str:
    return "".join(f"#{number}\n" for number in range(first, last))


def until(what: Callable[[], object], hint: str) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not what():
        assert time.monotonic() < deadline, hint
        time.sleep(0.05)


@dataclass
class Notebook:
    """A notebook file on a node's kernel, and the gates at which its cells wait."""

    demo: Demo
    path: str
    gates: Path

    def open_in(self, page: Page) -> Locator:
        page.evaluate(
            "path => { void window.jupyterapp.commands.execute('docmanager:open', {path}); }",
            self.path,
        )
        page.wait_for_function(f"path => {CURRENT}?.context?.path === path && {CURRENT}.context.isReady", arg=self.path)
        return page.locator(NOTEBOOK)

    def has_reached(self, gate: str) -> None:
        until((self.gates / f"{gate}.reached").exists, f"no cell of {self.path} came to the gate {gate}")

    def pass_gate(self, gate: str) -> None:
        (self.gates / gate).touch()

    @property
    def kernel(self) -> Any:
        return next(session["kernel"] for session in self._sessions())

    def has_ended(self) -> None:
        """Until the kernel has done all that was asked of it."""
        until(lambda: self.kernel["execution_state"] == "idle", "the kernel is still busy")

    def on_disk(self) -> Any:
        return json.loads((self.demo.notebooks / self.path).read_text())

    def end(self) -> None:
        for session in self._sessions():
            try:
                self.demo.ask(f"api/sessions/{session['id']}", "DELETE")
            except HTTPError as refusal:  # its page may have ended it meanwhile
                if refusal.code != 404:
                    raise

    def _sessions(self) -> Any:
        return [session for session in self.demo.ask("api/sessions") if session["path"] == self.path]


def execute(page: Page, command: str) -> None:
    page.evaluate("id => { void window.jupyterapp.commands.execute(id); }", command)


def run_all(page: Page) -> None:
    try:
        page.wait_for_function(f"() => {KERNEL}?.status === 'idle'")
    except TimeoutError as error:
        seen = page.evaluate(f"() => [{KERNEL}?.status, {KERNEL}?.connectionStatus, {KERNEL}?.id]")
        raise AssertionError(f"the page's kernel (status, connection, id) is {seen}") from error
    execute(page, "notebook:run-all-cells")


def save(page: Page) -> None:
    page.evaluate(f"() => {CURRENT}.context.save()")


def close_document(page: Page, *, discard: bool = True) -> None:
    execute(page, "application:close-all")
    if discard:
        page.locator(".jp-Dialog").get_by_role("button", name="Discard").click()
    expect(page.locator(".jp-NotebookPanel")).to_have_count(0)


def go_to_cell(page: Page, index: int) -> None:
    """Make a cell the active one, in command mode."""
    page.evaluate(
        f"index => {{ {CURRENT}.content.activeCellIndex = index; {CURRENT}.content.mode = 'command'; }}", index
    )


def expect_shown(page: Page, *cells: list[str]) -> None:
    """The code cells after the helpers' show these prompts and outputs, and nothing else."""
    _expect(page, f"({SHOWN})().slice(1)", [list(cell) for cell in cells])


def expect_prompts(page: Page, *prompts: str) -> None:
    """The code cells after the helpers' have these prompts."""
    _expect(page, f"({SHOWN})().slice(1).map(cell => cell[0])", list(prompts))


def _expect(page: Page, what: str, expected: list[Any]) -> None:
    with suppress(TimeoutError):
        page.wait_for_function(f"expected => JSON.stringify({what}) === JSON.stringify(expected)", arg=expected)
    shown = page.evaluate(f"() => {what}")
    assert shown == expected, f"the cells show {shown}"


def write(notebook: Notebook, kernel_name: str, sources: tuple[str, ...], *, minor: int) -> None:
    """Write the file; its first cell brings the helpers. Before nbformat 4.5 cells have no ids."""
    helpers = f"GATES = {str(notebook.gates)!r}\n{HELPERS}"
    cells = [_cell(index, source) for index, source in enumerate([helpers, *sources])]
    if minor < 5:
        cells = [{key: value for key, value in cell.items() if key != "id"} for cell in cells]
    spec = {"name": kernel_name, "display_name": kernel_name, "language": "python"}
    content = {"nbformat": 4, "nbformat_minor": minor, "metadata": {"kernelspec": spec}, "cells": cells}
    (notebook.demo.notebooks / notebook.path).write_text(json.dumps(content))


def _cell(index: int, source: str) -> dict[str, Any]:
    text = textwrap.dedent(source).strip()
    if text.startswith("#"):
        return {"cell_type": "markdown", "id": f"cell-{index}", "metadata": {}, "source": text}
    code = {"cell_type": "code", "id": f"cell-{index}", "metadata": {}, "source": text}
    return {**code, "outputs": [], "execution_count": None}
