"""`jupyter tpu sync`: a folder of the user and a folder on a node, over a real connection."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from emulator import Emulator, EmulatorPool
from replicas import tree

if TYPE_CHECKING:
    from terminal import Terminal

ZONE = "us-central1-a"
NODE = "my-node"


@pytest.fixture(scope="module")
def shared_emulator(emulator_pool: EmulatorPool) -> Iterator[Emulator]:
    with emulator_pool.lent("--link-faults") as emulator:
        yield emulator


@pytest.fixture(scope="module")
def node(terminal: Terminal) -> str:
    created = terminal.tpu("create", NODE, "--zone", ZONE, "--type", "v5litepod-8", "--yes")
    assert created.returncode == 0, created.stderr
    return f"projects/{terminal.environment['JUPYTER_TPU_PROJECT']}/locations/{ZONE}/nodes/{NODE}"


@pytest.fixture(scope="module")
def home(terminal: Terminal, node: str) -> Path:
    return Path(terminal.cloud.workers(node)[0]["home"])


def test_a_folder_is_synced_both_ways_and_both_versions_are_kept(terminal: Terminal, home: Path) -> None:
    here, there = terminal.home / "project", home / "project"
    (here / "src").mkdir(parents=True)
    (here / "src/train.py").write_text("mine = 1")
    (here / ".tpuignore").write_text("*.csv\n")
    (here / "table.csv").write_text("1,2")

    planned = terminal.tpu("sync", "status", NODE, "--folder", "project")
    assert (planned.returncode, (there / "src").exists()) == (0, False), planned.stderr
    assert "On my-node: 2 to write, 0 to rename, 0 to delete\n" in planned.stdout

    first = terminal.tpu("sync", NODE, "--folder", "project")
    assert first.returncode == 0, first.stderr
    assert first.stdout == ("On my-node: 2 written, 0 renamed, 0 deleted\nHere: 0 written, 0 renamed, 0 deleted\n")
    assert set(tree(there)) == {".tpuignore", "src", "src/train.py"}
    assert terminal.tpu("sync", NODE, "--folder", "project").stdout == "Both folders are equal.\n"

    (here / "src/train.py").write_text("mine = 2")
    (there / "src/train.py").write_text("theirs = 2")
    (there / "result.txt").write_text("0.93")
    second = terminal.tpu_json("sync", NODE, "--folder", "project")
    (conflict,) = second["conflicts"]
    assert conflict["path"] == "src/train.py"
    assert (there / "src/train.py").read_text() == (here / "src/train.py").read_text() == "mine = 2"
    assert (there / conflict["copy"]).read_text() == (here / conflict["copy"]).read_text() == "theirs = 2"
    assert (here / "result.txt").read_text() == "0.93"


def test_a_sync_goes_on_after_the_connection_was_cut(terminal: Terminal, home: Path, node: str) -> None:
    here = terminal.home / "cut"
    here.mkdir()
    content = os.urandom(20 << 20)
    (here / "big").write_bytes(content)
    terminal.cloud.fault_link(node, "cut", direction="up", after=10 << 20)

    synced = terminal.tpu("sync", "push", NODE, "--folder", "cut", "--on-node", "elsewhere")

    assert synced.returncode == 0, synced.stderr
    assert "The connection to my-node was lost. Reconnecting." in synced.stderr
    assert (home / "elsewhere/big").read_bytes() == content


def test_deleting_most_of_a_folder_needs_a_confirmation(terminal: Terminal, home: Path) -> None:
    here = terminal.home / "many"
    here.mkdir()
    for number in range(30):
        (here / f"{number}.txt").write_text(str(number))
    assert terminal.tpu("sync", NODE, "--folder", "many").returncode == 0
    for number in range(25):
        (here / f"{number}.txt").unlink()

    refused = terminal.tpu("sync", NODE, "--folder", "many")
    assert (refused.returncode, "was not confirmed" in refused.stderr) == (1, True), refused.stderr
    assert len(tree(home / "many")) == 30
    assert terminal.tpu("sync", NODE, "--folder", "many", "--yes").returncode == 0
    assert len(tree(home / "many")) == 5


@pytest.mark.parametrize(("folder", "words"), [("absent", "absent does not exist."), (".", "is too much to sync.")])
def test_what_cannot_be_synced_is_refused_in_a_sentence(
    terminal: Terminal, home: Path, folder: str, words: str
) -> None:
    refused = terminal.tpu("sync", NODE, "--folder", folder)
    assert (refused.returncode, words in refused.stderr) == (1, True), refused.stderr
    assert "Traceback" not in refused.stderr
