"""`jupyter tpu env`: a node's environments for frameworks, from the terminal."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from emulator import Emulator, own_emulator
from tiny_wheels import write_index

from jupyter_tpu.emulator.control.client import EmulatorControl

if TYPE_CHECKING:
    from terminal import Terminal

ZONE = "us-central2-b"


@pytest.fixture(scope="module", autouse=True)
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in write_index(tmp_path_factory.mktemp("index") / "wheels").items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="module")
def shared_emulator(index: None) -> Iterator[Emulator]:
    """It hands its variables for uv on to its workers."""
    with own_emulator(environment=os.environ) as emulator:
        yield emulator


@pytest.fixture(scope="module", autouse=True)
def homes(index: None, terminal: Terminal) -> list[Path]:
    """The agents' folders on the two workers of a node."""
    created = terminal.tpu("create", "my-node", "--type", "v4-16", "--zone", ZONE)
    assert created.returncode == 0, created.stderr
    name = f"projects/{terminal.environment['JUPYTER_TPU_PROJECT']}/locations/{ZONE}/nodes/my-node"
    return [Path(worker["home"]) / ".jupyter-tpu" for worker in EmulatorControl(terminal.rest).workers(name)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "mine"\ndependencies = ["tiny_plots", "mine @ ./x"]\n')
    return tmp_path


def specs(terminal: Terminal) -> dict[str, str]:
    return {spec["name"]: spec["display_name"] for spec in terminal.tpu_json("kernelspec")["kernelspecs"]}


def test_an_environment_is_made_listed_and_removed_on_all_workers(
    terminal: Terminal, folder: Path, homes: list[Path]
) -> None:
    assert "has no framework environments" in terminal.tpu("env", "list", "my-node").stderr
    pythons = [home / "env" / "jax" / "bin" / "python" for home in homes]

    made = terminal.tpu("env", "make", "my-node", "jax", "--folder", str(folder))
    listed = terminal.tpu("env", "list", "my-node")
    (found,) = terminal.tpu_json("env", "list", "my-node")["environments"]

    assert made.returncode == 0, made.stderr
    assert made.stdout.startswith("JAX 0.10 is installed on my-node, with Python 3.")
    assert "Notebooks with the kernel tpu-my-node-us-central2-b-jax run in it." in made.stdout
    assert "skipped a line of pyproject.toml that does not apply to the node: mine @ ./x" in made.stderr
    assert listed.stdout.splitlines()[1].split()[:2] == ["jax", "0.10.2"]
    assert (found["requirements"], found["is_ready"], found["added"]) == (["tiny_plots"], True, [])
    assert specs(terminal)["tpu-my-node-us-central2-b-jax"] == "JAX 0.10 · v4-16 · my-node · 2 workers"
    assert [python.exists() for python in pythons] == [True, True]

    pythons[1].unlink()
    assert "incomplete on workers: 1" in terminal.tpu("env", "list", "my-node").stdout
    removed = terminal.tpu("env", "remove", "my-node", "jax")

    assert removed.stdout.startswith("The environment jax and its kernelspec were removed from my-node")
    assert sorted(specs(terminal)) == ["tpu-my-node-us-central2-b", "tpu-my-node-us-central2-b-worker-0"]
    assert not terminal.tpu_json("env", "remove", "my-node", "jax")["was_there"]
    assert [python.parents[1].exists() for python in pythons] == [False, False]


def test_a_worker_on_which_an_environment_cannot_be_made_is_named(terminal: Terminal, homes: list[Path]) -> None:
    in_the_way = homes[1] / "env" / "jax"
    in_the_way.write_text("not a folder")
    failed = terminal.tpu("env", "make", "my-node", "jax")
    in_the_way.unlink()
    assert failed.returncode == 1
    assert "Worker 1 of my-node: " in failed.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("make", "my-node"), "No framework was given."),
        (("make", "my-node", "mxnet"), "'mxnet' is not a framework for TPUs"),
        (("make", "my-node", "tf", "--version", "2.18"), "no package index offers its libtpu"),
        (("make", "my-node", "jax", "--folder", "nowhere"), "There is no requirements.txt or pyproject.toml"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(
    terminal: Terminal, arguments: tuple[str, ...], words: str
) -> None:
    refused = terminal.tpu("env", *arguments)

    assert refused.returncode == 1
    assert words in refused.stderr
    assert "Traceback" not in refused.stderr
