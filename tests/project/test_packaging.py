"""What the checkout promises to those who install from it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONSTRAINTS = (ROOT / "constraints.txt").read_text(encoding="utf-8")


def test_every_pinned_package_carries_hashes():
    requirements = re.split(r"\n(?=\S)", CONSTRAINTS.strip())
    assert len(requirements) > 100
    assert [each for each in requirements if not re.match(r"[a-z0-9.-]+==\S+.*--hash=sha256:", each, re.DOTALL)] == []


def test_pins_name_no_package_index():
    assert "://" not in CONSTRAINTS
    assert "--index" not in CONSTRAINTS
    assert "--find-links" not in CONSTRAINTS


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
