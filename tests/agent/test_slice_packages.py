"""A worker whose ipyparallel does not fit a slice and can't be replaced: the error says what it has, and what to do."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from jupyter_tpu.agent.paths import Home
from jupyter_tpu.agent.slices.packages import SlicePackages
from jupyter_tpu.errors import EnvironmentFailed


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """That of a worker with an old ipyparallel, which comes before any that is installed."""
    info = tmp_path / "old" / "ipyparallel-8.6.1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ipyparallel\nVersion: 8.6.1\n")
    monkeypatch.setenv("PYTHONPATH", str(info.parent))
    return Home(tmp_path / ".jupyter-tpu")


def put_uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    uv = tmp_path / "bin" / "uv"
    uv.parent.mkdir()
    uv.write_text(f"#!/bin/sh\n{program}\n")
    uv.chmod(0o700)
    monkeypatch.setenv("PATH", str(uv.parent), prepend=":")


def test_an_installation_that_fails_says_what_the_worker_has(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_uv(tmp_path, monkeypatch, "echo 'error: no index' >&2; exit 2")
    with pytest.raises(EnvironmentFailed, match="no index") as caught:
        SlicePackages(home, sys.executable).provide(sys.executable)
    assert "The worker has ipyparallel 8.6.1; a kernel on all workers needs ipyparallel 9.2." in caught.value.exists
    assert "to all workers: `jupyter tpu env make NODE jax --push`" in caught.value.hint


def test_an_installation_that_does_not_count_is_named_with_the_command_for_all_workers(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_uv(tmp_path, monkeypatch, "exit 0")
    python = home.environments / "mine" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    with pytest.raises(EnvironmentFailed, match="can't use the Python") as caught:
        SlicePackages(home, sys.executable).provide(str(python))
    assert "ipyparallel 8.6.1" in caught.value.exists
    assert f"install it on all workers: {python} -m pip install 'ipyparallel>=9.2,<9.3'" in caught.value.hint
