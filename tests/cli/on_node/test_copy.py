"""`jupyter tpu cp` between the user's machine and nodes."""

from __future__ import annotations

import asyncio
import os
import resource
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from emulator import Emulator, EmulatorPool

from jupyter_tpu.cli.on_node.copy import LocalSide, Place
from jupyter_tpu.transfer.copying import Copy
from jupyter_tpu.transfer.problems import file_failed

if TYPE_CHECKING:
    from terminal import Terminal

ZONE = "us-central1-a"


@pytest.fixture(scope="module")
def shared_emulator(emulator_pool: EmulatorPool) -> Iterator[Emulator]:
    with emulator_pool.lent("--link-faults") as emulator:
        yield emulator


def home_of(terminal: Terminal, node: str) -> Path:
    name = f"projects/{terminal.environment['JUPYTER_TPU_PROJECT']}/locations/{ZONE}/nodes/{node}"
    return Path(terminal.cloud.workers(name)[0]["home"])


@pytest.fixture(scope="module")
def home(terminal: Terminal) -> Path:
    """The home folder on my-node."""
    created = terminal.tpu("create", "my-node", "--zone", ZONE, "--type", "v5litepod-8", "--yes")
    assert created.returncode == 0, created.stderr
    return home_of(terminal, "my-node")


@pytest.mark.parametrize(
    ("text", "node", "path"),
    [
        ("my-node:data/x", "my-node", b"data/x"),
        ("my-node:", "my-node", b""),
        ("my-node:~/x", "my-node", b"x"),
        ("my-node:~", "my-node", b""),
        ("my-node:/etc/hosts", "my-node", b"/etc/hosts"),
        ("my-node:a:b", "my-node", b"a:b"),
        ("./a:b", "", b"./a:b"),
        ("a/b:c", "", b"a/b:c"),
        (":x", "", b":x"),
        ("plain", "", b"plain"),
        ("my-node:caf\udce9", "my-node", b"caf\xe9"),
    ],
)
def test_a_path_is_read_as_by_scp(text: str, node: str, path: bytes) -> None:
    assert Place.parse(text) == Place(node, path)


def test_files_are_copied_both_ways(terminal: Terminal, home: Path) -> None:
    source = terminal.home / "two words"
    source.write_bytes(os.urandom(300_000))
    source.chmod(0o750)

    up = terminal.tpu("cp", "two words", "my-node:")
    down = terminal.tpu("cp", "my-node:two words", "back")

    assert (up.returncode, up.stdout) == (0, "Files copied: 1 (300.0 kB)\n"), up.stderr
    assert (home / "two words").read_bytes() == source.read_bytes() == (terminal.home / "back").read_bytes()
    assert stat.S_IMODE((home / "two words").stat().st_mode) == 0o750
    assert down.returncode == 0


def test_a_folder_is_copied_to_another_node_and_only_changes_again(terminal: Terminal, home: Path) -> None:
    assert terminal.tpu("create", "other", "--zone", ZONE, "--type", "v5litepod-8", "--yes").returncode == 0
    project = terminal.home / "project"
    (project / "inner").mkdir(parents=True)
    (project / "train.py").write_text("print()")
    (project / "inner" / "-rf").write_text("x")

    first = terminal.tpu_json("cp", "-r", "project", "my-node:")
    (project / "train.py").write_text("print(2)")
    second = terminal.tpu_json("cp", "-r", "project", "my-node:")
    across = terminal.tpu("cp", "-r", "my-node:project/", "other:copy")
    home_of_other = home_of(terminal, "other")

    assert (first["files"], first["unchanged"]) == (2, 0)
    assert (second["files"], second["unchanged"]) == (2, 1)
    assert across.returncode == 0, across.stderr
    assert (home_of_other / "copy" / "train.py").read_text() == "print(2)"
    assert (home_of_other / "copy" / "inner" / "-rf").read_text() == "x"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("absent", "my-node:"), "absent does not exist."),
        (("my-node:absent", "."), "my-node:absent does not exist."),
        (("my-node:.", "here"), "my-node:. is a folder."),
        (("a", "b", "my-node:absent"), "my-node:absent is not a folder."),
        (("-r", "my-node:.", "my-node:inside"), "can't be copied into itself"),
        (("here", "there"), "No path is on a node."),
        (("my-node:x",), "No target was given."),
        (("gs://bucket/x", "my-node:"), "is in a bucket"),
        (("my-node:x", "absent/x"), "absent does not exist."),
        (("-r", "folder", "my-node:absent/inner/x"), "my-node:absent/inner does not exist."),
        (("folder/x", "my-node:pipe"), "my-node:pipe is a device, pipe or socket."),
        (("my-node:x", "pipe"), "pipe is a device, pipe or socket."),
        (("nowhere:x", "."), "There is no node named nowhere."),
    ],
)
def test_what_cannot_be_copied_is_refused_in_a_sentence(
    terminal: Terminal, home: Path, arguments: tuple[str, ...], words: str
) -> None:
    (home / "x").touch()
    (terminal.home / "folder").mkdir(exist_ok=True)
    (terminal.home / "folder" / "x").touch()
    for folder in (home, terminal.home):
        if not (folder / "pipe").exists():
            os.mkfifo(folder / "pipe")
    refused = terminal.tpu("cp", *arguments)
    assert (refused.returncode, words in refused.stderr) == (1, True), refused.stderr
    assert "Traceback" not in refused.stderr


def test_an_error_of_the_target_names_the_users_file(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(bytes(2 << 20))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
    try:
        with pytest.raises(OSError, match="too large") as raised:
            asyncio.run(Copy(source=LocalSide(), target=LocalSide()).file(os.fsencode(source), os.fsencode(target)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert file_failed(raised.value).message == f"{target} is larger than a file can be there."


@pytest.mark.parametrize("direction", ["up", "down"])
def test_a_copy_goes_on_after_the_connection_was_cut(terminal: Terminal, home: Path, direction: str) -> None:
    source, target = (
        (terminal.home / "big", home / "big") if direction == "up" else (home / "big", terminal.home / "big")
    )
    source.write_bytes(os.urandom(11 << 20))
    target.unlink(missing_ok=True)
    name = f"projects/{terminal.environment['JUPYTER_TPU_PROJECT']}/locations/{ZONE}/nodes/my-node"
    terminal.cloud.fault_link(name, "cut", direction=direction, after=6 << 20)

    copied = terminal.tpu("cp", *(("big", "my-node:") if direction == "up" else ("my-node:big", ".")))

    assert copied.returncode == 0, copied.stderr
    assert "The connection to my-node was lost. Reconnecting." in copied.stderr
    assert copied.stdout == "Files copied: 1 (11.5 MB)\n"
    assert target.read_bytes() == source.read_bytes()
    assert not list(target.parent.glob(".big.*.part"))


def test_nothing_is_copied_to_a_stopped_node(terminal: Terminal, home: Path) -> None:
    assert terminal.tpu("create", "stopped", "--zone", ZONE, "--type", "v5litepod-8", "--yes").returncode == 0
    assert terminal.tpu("stop", "stopped", "--yes").returncode == 0
    refused = terminal.tpu("cp", "my-node:x", "stopped:")
    assert refused.returncode == 1
    assert "not READY" in refused.stderr
