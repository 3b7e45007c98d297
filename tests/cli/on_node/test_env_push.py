"""A node that reaches no package index, not even for what the agent needs: the packages are sent from the laptop."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tiny_wheels import write_index

from jupyter_tpu.emulator.control.client import EmulatorControl

if TYPE_CHECKING:
    from terminal import Terminal

pytestmark = pytest.mark.nightly

ZONE = "us-central1-a"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return write_index(tmp_path_factory.mktemp("index") / "wheels")


@pytest.fixture(scope="module", autouse=True)
def no_index(tmp_path_factory: pytest.TempPathFactory, index: dict[str, str]) -> Iterator[None]:
    """For the emulator, which hands it on to its workers: neither uv nor pip finds anything."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_TPU_WORKER_LOCK", index["JUPYTER_TPU_WORKER_LOCK"])
        patch.setenv("UV_OFFLINE", "1")
        patch.setenv("UV_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("PIP_NO_INDEX", "1")
        patch.delenv("PIP_FIND_LINKS", raising=False)
        yield


@pytest.fixture(scope="module")
def laptop(index: dict[str, str]) -> dict[str, str]:
    """The laptop's variables: it has an index, though only a folder."""
    return {**index, "PIP_FIND_LINKS": index["UV_FIND_LINKS"]}


@pytest.fixture(scope="module")
def worker_home(no_index: None, bare_terminal: Terminal) -> Path:
    """The home folder of the worker of a node."""
    created = bare_terminal.tpu("create", "far-node", "--type", "v5litepod-8", "--zone", ZONE)
    assert created.returncode == 0, created.stderr
    name = f"projects/{bare_terminal.environment['JUPYTER_TPU_PROJECT']}/locations/{ZONE}/nodes/far-node"
    return Path(EmulatorControl(bare_terminal.rest).workers(name)[0]["home"])


@pytest.fixture(scope="module")
def pushed(bare_terminal: Terminal, laptop: dict[str, str], worker_home: Path) -> subprocess.CompletedProcess[str]:
    """The first push to the node."""
    return bare_terminal.tpu("env", "make", "far-node", "jax", "--push", **laptop)


def test_packages_are_sent_to_a_node_without_an_index(pushed: subprocess.CompletedProcess[str]) -> None:
    assert pushed.returncode == 0, pushed.stderr
    assert "Sending jax-0.10.2+tiny-py3-none-any.whl" in pushed.stderr
    assert pushed.stdout.startswith("JAX 0.10 is installed on far-node")


def test_a_push_that_was_cut_goes_on_with_what_is_missing(
    pushed: subprocess.CompletedProcess[str], bare_terminal: Terminal, laptop: dict[str, str], worker_home: Path
) -> None:
    (cut,) = (worker_home / ".jupyter-tpu" / "wheels").glob("libtpu-*.whl")
    part = cut.with_name(cut.name + ".part")
    part.write_bytes(cut.read_bytes()[:100])
    cut.unlink()

    again = bare_terminal.tpu("env", "make", "far-node", "jax", "--push", **laptop)

    assert again.returncode == 0, again.stderr
    assert "Sending libtpu-0.0.42.99" in again.stderr
    assert "Sending jax" not in again.stderr
    assert (cut.is_file(), part.exists()) == (True, False)


def test_what_cannot_be_downloaded_is_not_sent(
    bare_terminal: Terminal, laptop: dict[str, str], worker_home: Path, tmp_path: Path
) -> None:
    (tmp_path / "requirements.txt").write_text("libtpu==0.0.21\n")
    arguments = ("env", "make", "far-node", "jax", "--push", "--folder", str(tmp_path))
    refused = bare_terminal.tpu(*arguments, **laptop)
    assert refused.returncode == 1
    assert "This machine could not choose versions for JAX 0.10" in refused.stderr
    assert "Nothing was sent." in refused.stderr


def test_all_workers_of_a_slice_get_the_packages_and_those_of_the_slice(
    bare_terminal: Terminal, laptop: dict[str, str]
) -> None:
    created = bare_terminal.tpu("create", "far-slice", "--type", "v4-16", "--zone", "us-central2-b")
    assert created.returncode == 0, created.stderr
    name = f"projects/{bare_terminal.environment['JUPYTER_TPU_PROJECT']}/locations/us-central2-b/nodes/far-slice"

    pushed = bare_terminal.tpu("env", "make", "far-slice", "jax", "--push", **laptop)

    assert pushed.returncode == 0, pushed.stderr
    for worker in EmulatorControl(bare_terminal.rest).workers(name):
        wheels = {path.name.split("-")[0] for path in (Path(worker["home"]) / ".jupyter-tpu" / "wheels").iterdir()}
        assert {"jax", "ipyparallel", "tqdm", "decorator"} <= wheels
