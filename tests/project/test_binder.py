"""`binder/start` as repo2docker calls it: with the command of the Jupyter server, which it becomes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]

# Stands for the Jupyter server: asks the cloud that it was told of until that is up, and runs until its input ends.
SERVER = """
import subprocess, sys
for attempt in range(30):
    listed = subprocess.run(["jupyter", "tpu", "list", "--json"], stdout=subprocess.PIPE, text=True)
    if listed.returncode == 0:
        break
print(listed.stdout.replace("\\n", " "), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def binder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    environ = {**os.environ, "HOME": str(tmp_path), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command = [str(ROOT / "binder/start"), sys.executable, "-c", SERVER]
    with subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as started:
        try:
            yield started
        finally:
            started.kill()


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv of util-linux, which Binder's machines have")
def test_the_emulated_cloud_comes_with_the_server_and_ends_with_it(binder: subprocess.Popen[str]) -> None:
    assert binder.stdout is not None
    assert json.loads(binder.stdout.readline())["nodes"] == []
    server = psutil.Process(binder.pid)
    assert server.cmdline()[1] == "-c"
    (cloud,) = server.children()
    assert "emulator" in cloud.cmdline()

    binder.communicate(timeout=120)

    assert binder.returncode == 0
    cloud.wait(timeout=120)
