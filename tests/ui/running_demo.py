"""A running `jupyter tpu demo`."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warm_python import WarmPopen

SPEC = {
    "node_id": "my-node",
    "zone": "us-central1-a",
    "accelerator_type": "v5litepod-8",
    "runtime_version": "v2-alpha-tpuv5-lite",
    "spot": False,
}
# JupyterLab saves what is open every two minutes, which a test may take on a slow machine.
DOCUMENTS = "lab/api/settings/@jupyterlab/docmanager-extension:plugin"


@dataclass
class Demo:
    """A running `jupyter tpu demo`: `url` opens its JupyterLab, `ledger_url` its money ledger."""

    folder: Path
    process: subprocess.Popen[str]
    url: str
    ledger_url: str

    @property
    def base_url(self) -> str:
        return self.url.split("/lab")[0]

    @property
    def token(self) -> str:
        return self.url.split("token=")[1]

    @property
    def notebooks(self) -> Path:
        """What JupyterLab shows."""
        return self.folder / "notebooks"

    def ask(self, route: str, method: str = "GET", body: Any = None) -> Any:
        """What the Jupyter server answers to a request under its base address."""
        request = urllib.request.Request(
            f"{self.base_url}/{route}",
            data=None if body is None else json.dumps(body).encode(),
            method=method,
            headers={"Authorization": f"token {self.token}"},
        )
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.loads(answer.read() or "null")

    def create_node(self, spec: Mapping[str, Any] = SPEC) -> str:
        """Create a node; returns its kernelspec when it is READY."""
        self.ask("jupyter-tpu/v1/nodes", "POST", spec)
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline:
            for node in self.ask("jupyter-tpu/v1/nodes")["nodes"]:
                if node["node_id"] == spec["node_id"] and node["state"] == "READY" and node["kernelspec"]:
                    return str(node["kernelspec"])
            time.sleep(0.1)
        raise AssertionError("The node did not become READY.")

    def ledger(self) -> Any:
        with urllib.request.urlopen(self.ledger_url, timeout=120) as answer:
            return json.load(answer)


def start_demo(folder: Path, *options: str) -> Demo:
    process = WarmPopen(
        [
            *[sys.executable, "-m", "jupyter_tpu.cli", "demo", "--no-browser", "--dir", str(folder), *options],
            *["--", "--expose-app-in-browser", "--JupyterNotebookApp.expose_app_in_browser=True"],
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    printed = ""
    assert process.stdout is not None
    for line in process.stdout:
        printed += line
        lab = re.search(r"http://127\.0\.0\.1:\d+/lab\S*token=\w+", printed)
        ledger = re.search(r"http://127\.0\.0\.1:\d+/emulator/v1/ledger", printed)
        if lab and ledger:
            threading.Thread(target=process.stdout.read, daemon=True).start()  # nothing may block on a full pipe
            demo = Demo(folder=folder, process=process, url=lab[0], ledger_url=ledger[0])
            demo.ask(DOCUMENTS, "PUT", {"raw": '{"autosave": false}'})
            return demo
    raise AssertionError("The demo ended without saying where it is:\n" + printed)


def stop_demo(demo: Demo) -> None:
    demo.process.send_signal(signal.SIGINT)
    demo.process.wait(timeout=120)
    if demo.process.stdout is not None:
        demo.process.stdout.close()
