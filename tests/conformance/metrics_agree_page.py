"""JupyterLab in a real browser, where the panel and the widget are read as they are shown, again with each change."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from playwright.async_api import JSHandle, Locator, Page, async_playwright, expect

PATIENCE_MS = 120_000
# /dev is replaced for tpu-info, so that shared memory must lie elsewhere
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage"]
CELLS = ("from jupyter_tpu import TpuMonitor", "TpuMonitor()")
SHOWN_NOTEBOOK = ".jp-NotebookPanel:not(.lm-mod-hidden)"
KERNEL_STATUS = "window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status"

# The node in one line, then of each worker its chips: their texts, but for what is not laid down, and their bars as a
# screen reader has them.
READ_PANEL = r"""section => {
  const told = /^(Chip \d+|Core \d+|Chip duty|Duty|HBM|[\d.]+ %|[\d.]+ of [\d.]+ GiB|unknown)$/;
  const bar = meter => {
    const [label, text, now, most] = ['label', 'valuetext', 'valuenow', 'valuemax'].map(name =>
      meter.getAttribute('aria-' + name)
    );
    return `${label}: ${text}, ${now} of ${most}`;
  };
  const chip = group => [
    group.getAttribute('aria-label'),
    ...group.innerText.split('\n').filter(line => told.test(line)),
    ...[...group.querySelectorAll('[role=meter]')].map(bar)
  ];
  const workers = [...section.querySelectorAll('[aria-label="Workers"] > li')];
  const line = section.innerText.split('\n').find(each => /^Duty .* on average/.test(each));
  return [
    line ?? '',
    ...(workers.length ? workers : [section]).map(worker =>
      [...worker.querySelectorAll('[role=group][aria-label^="chip "]')].map(chip)
    )
  ];
}"""
# The table without what is not laid down: idle times and queues.
READ_WIDGET = """notebook => {
  const rows = notebook.querySelectorAll('[role=group][aria-label="TPU monitor"] tr');
  const isLaidDown = cell => !cell.matches('.tpu-Fact') && !['Idle', 'Queued'].includes(cell.innerText.trim());
  return [...rows].map(row => [...row.cells].filter(isLaidDown).map(cell => cell.innerText.trim()));
}"""
KEEP = """root => {
  const read = %s;
  const seen = [read(root)];
  const look = () => {
    const now = read(root);
    if (JSON.stringify(now) !== JSON.stringify(seen[seen.length - 1])) {
      seen.push(now);
    }
  };
  new MutationObserver(look).observe(root, {
    subtree: true, childList: true, characterData: true, attributes: true
  });
  return seen;
}"""


class Watched:
    """A part of the page, and all that it has shown."""

    def __init__(self, seen: JSHandle) -> None:
        self._seen = seen

    async def seen(self) -> list[Any]:
        """One reading after another, the last is of now."""
        return list(await self._seen.json_value())


class Lab:
    """JupyterLab with the TPU panel open."""

    def __init__(self, page: Page, notebooks: Path) -> None:
        self._page = page
        self._notebooks = notebooks

    async def watch_panel(self, node_id: str) -> Watched:
        """The load of a node in the panel; the window is so high that all its workers are in sight."""
        await self._page.locator(f'.jp-tpu-Node[data-node-id="{node_id}"] .jp-tpu-Node-heading').click()
        section = self._section(node_id)
        await section.get_by_role("button").first.click()
        await section.evaluate("section => section.scrollIntoView({block: 'start'})")
        return await _watched(section, READ_PANEL)

    async def close_panel(self, node_id: str) -> None:
        await self._section(node_id).get_by_role("button").first.click()
        await self._page.locator(f'.jp-tpu-Node[data-node-id="{node_id}"] .jp-tpu-Node-heading').click()

    async def watch_widget(self, node_id: str, kernel_name: str) -> Watched:
        """A `TpuMonitor` in a new notebook whose kernel is on the node."""
        path = f"{node_id}.ipynb"
        (self._notebooks / path).write_text(json.dumps(_notebook(kernel_name)))
        await self._page.evaluate(
            "path => { void window.jupyterapp.commands.execute('docmanager:open', {path}); }", path
        )
        await self._page.wait_for_function(
            f"path => window.jupyterapp.shell.currentWidget?.context?.path === path && {KERNEL_STATUS} === 'idle'",
            arg=path,
        )
        await self._page.evaluate("() => { void window.jupyterapp.commands.execute('notebook:run-all-cells'); }")
        notebook = self._page.locator(SHOWN_NOTEBOOK)
        await expect(notebook.get_by_role("group", name="TPU monitor", exact=True)).to_be_visible(timeout=PATIENCE_MS)
        return await _watched(notebook, READ_WIDGET)

    async def picture(self, path: Path) -> None:
        await self._page.screenshot(path=path)

    def _section(self, node_id: str) -> Locator:
        return self._page.get_by_role("region", name=f"Load of {node_id}", exact=True)


@asynccontextmanager
async def opened_lab(chromium: str, url: str, notebooks: Path) -> AsyncIterator[Lab]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        page = await browser.new_page(viewport={"width": 1400, "height": 2000})
        page.set_default_timeout(PATIENCE_MS)
        await page.goto(url)
        await page.wait_for_function("() => window.jupyterapp?.restored.then(() => true)")
        await page.wait_for_selector("#jupyterlab-splash", state="detached")
        await page.evaluate("() => { void window.jupyterapp.commands.execute('tpu:open-panel'); }")
        yield Lab(page, notebooks)
        await browser.close()


async def _watched(root: Locator, read: str) -> Watched:
    return Watched(await root.evaluate_handle(KEEP % read))


def _notebook(kernel_name: str) -> Any:
    cells = [
        {"cell_type": "code", "id": f"c{at}", "metadata": {}, "source": source, "outputs": [], "execution_count": None}
        for at, source in enumerate(CELLS)
    ]
    spec = {"name": kernel_name, "display_name": kernel_name, "language": "python"}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": spec}, "cells": cells}
