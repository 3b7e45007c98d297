"""Cells that show the widgets, and the widgets in a page of any front end."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page

AXE = Path(__file__).parents[2] / "labextension" / "node_modules" / "axe-core" / "axe.min.js"
TAKE = "import emulated_tpu\ntaken = emulated_tpu.take()"
SHOW = "from jupyter_tpu import IdleTimer, QuotaAndCredit, TpuMonitor"
GROW = "pass_gate('a')\nmemory = b'x' * 800_000_000\npass_gate('b')"
GROWN = re.compile(r"0\.1\d of 16\.00 GiB")  # 800 MB more, over 8 chips


def widget(page: Page, name: str) -> Locator:
    return page.get_by_role("group", name=name, exact=True)


def first_chip(page: Page) -> Locator:
    return widget(page, "TPU monitor").get_by_role("table").get_by_role("row").nth(1)


def violations(page: Page, name: str) -> Any:
    """What axe finds in a widget."""
    page.evaluate(AXE.read_text())
    found = page.evaluate(
        "selector => axe.run(selector).then(({violations}) => violations.map(({id, nodes}) => [id, nodes[0].html]))",
        f'.tpu-Widget[aria-label="{name}"]',
    )
    return {name: found} if found else {}


def all_violations(page: Page) -> Any:
    names = ("TPU monitor", "Idle timer", "Quota and credit")
    return {name: found for each in names for name, found in violations(page, each).items()}
