"""A newcomer without an account, in the browser: from the first page to a notebook on an emulated node, and back."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from open_notebooks import IS_OPEN
from playwright.sync_api import BrowserContext, expect
from warm_python import WarmPopen

pytestmark = [pytest.mark.system("chromium"), pytest.mark.nightly]


@pytest.fixture
def lab_url(tmp_path: Path) -> Iterator[str]:
    """A JupyterLab of a user who has no credentials for any cloud."""
    for name in ("config", "notebooks", "runtime"):
        (tmp_path / name).mkdir()
    config = {
        "ServerApp": {
            "jpserver_extensions": {"jupyter_tpu": True},
            "allow_root": True,
            "open_browser": False,
            "root_dir": str(tmp_path / "notebooks"),
        },
        "LabApp": {"expose_app_in_browser": True},
    }
    (tmp_path / "config" / "jupyter_server_config.json").write_text(json.dumps(config))
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "GOOGLE"))},
        "HOME": str(tmp_path),
        "JUPYTER_CONFIG_DIR": str(tmp_path / "config"),
        "JUPYTER_DATA_DIR": str(tmp_path / "data"),
        "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"),
        "JUPYTER_TPU_DATA_DIR": str(tmp_path / "tpu"),
        "IPYTHONDIR": str(tmp_path / "ipython"),
        "JUPYTER_TOKEN": "newcomer",
        "NO_GCE_CHECK": "true",
    }
    with (tmp_path / "lab.log").open("wb") as log:
        argv = [sys.executable, "-m", "jupyterlab", "--ServerApp.ip=127.0.0.1", "--ServerApp.port=0"]
        process = WarmPopen(argv, env=environment, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    info = tmp_path / "runtime" / f"jpserver-{process.pid}.json"
    end = time.monotonic() + 180
    while not (info.exists() and info.stat().st_size):
        assert time.monotonic() < end, (tmp_path / "lab.log").read_text()
        time.sleep(0.1)
    yield f"{json.loads(info.read_text())['url']}lab?token=newcomer&reset"
    process.terminate()
    process.wait(timeout=120)


def test_a_newcomer_tries_the_emulated_cloud_and_goes_back(lab_url: str, browser: BrowserContext) -> None:
    page = browser.new_page()
    page.goto(lab_url)
    page.wait_for_function(IS_OPEN)
    page.evaluate("window.jupyterapp.shell.activateById('jupyter-tpu-panel')")
    panel = page.locator("#jupyter-tpu-panel")

    # five lines and a way without an account; nothing about money yet
    expect(panel.get_by_text("Credentials", exact=True)).to_be_visible()
    expect(panel.get_by_text("Budget and auto-stop", exact=True)).to_be_visible()
    expect(panel.get_by_role("button", name="Spend")).to_have_count(0)
    expect(panel).not_to_contain_text("`")

    panel.get_by_role("button", name="Try the emulated cloud").click()
    expect(panel.get_by_text("You are trying the emulated cloud.")).to_be_visible()
    panel.get_by_role("button", name="Create a node").last.click()
    panel.locator("form").get_by_role("button", name=re.compile("^Create")).click()
    panel.get_by_role("button", name=re.compile("^Open new notebook on")).click()
    expect(panel.get_by_role("heading", name="First steps")).to_have_count(0)
    page.wait_for_function(
        "() => window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'"
    )

    panel.get_by_role("button", name="Back to Google Cloud").click()
    page.locator(".jp-Dialog").get_by_role("button", name="Back to Google Cloud").click()
    expect(panel.get_by_text("Connect your Google Cloud project")).to_be_visible()
    expect(panel.get_by_text("You are trying the emulated cloud.")).to_have_count(0)
    page.close()
