"""What we install on workers ourselves is what `lock.txt` says, to the byte."""

from __future__ import annotations

import os
import re
import zipfile
from pathlib import Path

import pytest

from jupyter_tpu.agent.environments.uv import find_uv
from jupyter_tpu.agent.environments.venv import Environments
from jupyter_tpu.agent.lock import AGENT_NEEDS, KERNEL_NEEDS, UV, WIDGET_NEEDS, locked, with_hashes
from jupyter_tpu.agent.paths import Home
from jupyter_tpu.errors import EnvironmentFailed

LOCK = (Path(__file__).parents[2] / "jupyter_tpu/agent/lock.txt").read_text()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """That of a worker to which wheels were sent."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    for name, value in {
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_NO_INDEX": "1",
        "UV_NO_CONFIG": "1",
        "UV_NO_INDEX": "1",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    home = Home(tmp_path / ".jupyter-tpu")
    (home.root / "wheels").mkdir(parents=True, mode=0o700)
    return home


def forge(home: Home, package: str, module: str) -> None:
    """A wheel of the version in the lock that nobody published."""
    match = re.search(rf"^{package}==(\S+)", LOCK, re.MULTILINE)
    assert match
    name, version = package, match[1]
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(home.root / "wheels" / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{module}.py", "")
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


def test_a_forged_uv_is_not_installed(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    forge(home, "uv", "uv")
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(EnvironmentFailed):
        find_uv(home, "agent", lambda *_: None)
    assert not list((home.root / "uv").glob("uv*"))


def test_forged_packages_are_not_installed_for_the_agent(home: Home) -> None:
    forge(home, "pyzmq", "zmq")
    forge(home, "psutil", "psutil")
    Environments(home, lambda *_: None).agent_python()  # from an index, or the worker's own Python
    forged = [path for name in ("zmq.py", "psutil.py") for path in home.environments.rglob(name)]
    assert forged == []


def test_a_package_of_the_lock_gets_its_hashes_and_one_of_the_users_none() -> None:
    pinned = locked([UV]).partition(" ")[0]
    ours, theirs = with_hashes([pinned, "uv==0.0.1"])
    assert ours.startswith(f"{pinned} --hash=sha256:")
    assert theirs == "uv==0.0.1"


def test_the_agent_gets_its_two_packages_and_the_kernels_all_but_uv_and_widgets() -> None:
    names = [line.partition("==")[0] for line in locked(AGENT_NEEDS).splitlines()]
    assert names == ["psutil", "pyzmq"]
    of_kernels = {line.partition("==")[0] for line in locked(KERNEL_NEEDS).splitlines()}
    assert {"ipykernel", "ipython", "tornado", *names} <= of_kernels
    assert {UV, *(need.partition(">")[0] for need in WIDGET_NEEDS)}.isdisjoint(of_kernels)
