"""What the checkout promises to those who install from it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.version import Version
from tiers import mostly_nightly

from jupyter_tpu.agent.lock import AGENT_NEEDS, KERNEL_NEEDS, UV, locked, requirements_file

ROOT = Path(__file__).parents[2]
CONSTRAINTS = (ROOT / "constraints.txt").read_text(encoding="utf-8")
WORKER_LOCK = (ROOT / "jupyter_tpu/agent/lock.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize(("lock", "least"), [(CONSTRAINTS, 100), (WORKER_LOCK, 30)])
def test_every_pinned_package_carries_hashes(lock, least):
    requirements = re.split(r"\n(?=\S)", lock.strip())
    assert len(requirements) > least
    assert [each for each in requirements if not re.match(r"[a-z0-9.-]+==\S+.*--hash=sha256:", each, re.DOTALL)] == []


@pytest.mark.parametrize("lock", [CONSTRAINTS, WORKER_LOCK])
def test_pins_name_no_package_index(lock):
    assert "://" not in lock
    assert "--index" not in lock
    assert "--find-links" not in lock


@pytest.mark.parametrize("python", mostly_nightly(["3.10", "3.13", "3.11", "3.12"], count=2))
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_workers_lock_has_all_that_we_install_there(python, machine):
    for needs in ([UV], AGENT_NEEDS, KERNEL_NEEDS):
        with requirements_file(locked(needs)) as lock:
            target = ["--python-version", python, "--python-platform", f"{machine}-manylinux_2_28"]
            options = [
                "--dry-run",
                "--require-hashes",
                "--only-binary",
                ":all:",
                "--target",
                str(lock.parent / "there"),
            ]
            argv = [sys.executable, "-m", "uv", "pip", "install", *target, *options, "--requirement", str(lock)]
            done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert f"+ {needs[0].partition('>')[0]}==" in done.stderr


def test_every_lower_bound_is_a_version_that_can_be_installed_with_all_others():
    """What `make bounds` installs and runs; a bound that the resolver has to raise is not what anybody has tried."""
    argv = ["pip", "compile", "--quiet", "--resolution", "lowest-direct", "--python-version", "3.11"]
    options = ["--no-annotate", "--no-header", "--extra", "demo", "pyproject.toml"]
    done = subprocess.run([sys.executable, "-m", "uv", *argv, *options], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    pinned = dict(re.findall(r"^([a-z0-9-]+)==([^\s;]+)", done.stdout, re.MULTILINE))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    bounds = dict(
        re.fullmatch(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)(?:,<[\d.]+)?", need).groups()
        for need in [*project["dependencies"], *extras["emulator"], *extras["demo"][1:]]
    )
    raised = {
        name: (bound, found)
        for name, bound in bounds.items()
        if Version(found := pinned[name.replace("_", "-")]) != Version(bound)
    }
    assert raised == {}


def test_binder_shows_the_tutorial_of_the_package():
    (copied,) = re.findall(r"^cp (\S+) \.$", (ROOT / "binder/postBuild").read_text(), re.MULTILINE)
    assert copied.endswith(".ipynb")
    assert (ROOT / copied).is_file()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> zipfile.ZipFile:
    """The wheel of this checkout, with the front end that is built already."""
    folder = tmp_path_factory.mktemp("wheel")
    build = "from hatchling.build import build_wheel; import sys; build_wheel(sys.argv[1])"
    environ = {**os.environ, "SKIP_JUPYTER_BUILDER": "1"}
    subprocess.run([sys.executable, "-c", build, str(folder)], cwd=ROOT, env=environ, check=True, capture_output=True)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as opened:
        yield opened


@pytest.mark.parametrize(
    "name",
    [
        "jupyter_tpu/_version.py",
        "jupyter_tpu/catalogue.json",
        "jupyter_tpu/notebook/examples/digits.ipynb",
        "jupyter_tpu/agent/bootstrap.py",
        "jupyter_tpu/server/rest-api.yml",
        "data/share/jupyter/labextensions/jupyter-tpu/package.json",
        "data/share/jupyter/labextensions/jupyter-tpu/install.json",
        "data/etc/jupyter/jupyter_server_config.d/jupyter_tpu.json",
        "licenses/LICENSE",
    ],
)
def test_the_wheel_brings_what_runs_need(wheel, name):
    assert any(found.endswith(name) for found in wheel.namelist())


def test_the_wheel_brings_nothing_else(wheel):
    own = re.compile(r"jupyter_tpu(-[^/]+\.(dist-info|data))?/")
    assert [name for name in wheel.namelist() if not own.match(name)] == []
    assert not any("node_modules" in name or name.endswith((".pyc", ".ts", ".tsx")) for name in wheel.namelist())
