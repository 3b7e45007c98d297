"""The notes of kernels on this machine's disk."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from jupyter_tpu.kernels.registry.notes import (
    VERSION,
    KernelRegistry,
    RegisteredKernel,
    RegisteredSession,
    this_process,
)
from jupyter_tpu.kernels.registry.registry_sync import RegistrySync

NODE = "projects/demo-project/locations/us-central1-a/nodes/my-node"
NOTE = RegisteredKernel(
    kernel_id="a-kernel",
    kernel_name="tpu-my-node",
    node=NODE,
    key="secret",
    extra_arguments=("--debug",),
    root_dir="/work",
    owner="",
    sessions=(RegisteredSession(session_id="s", path="ü.ipynb", name="ü.ipynb", type="notebook"),),
)
WRITE_ON_A_FULL_DISK = """
import json, resource, signal, sys
from pathlib import Path
from jupyter_tpu.kernels.registry.notes import KernelRegistry, RegisteredKernel
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
try:
    KernelRegistry(Path(sys.argv[1])).write(RegisteredKernel.from_json(json.loads(sys.argv[2])))
except OSError as error:
    print(error.strerror)
"""


@pytest.fixture
def notes(tmp_path: Path) -> KernelRegistry:
    return KernelRegistry(tmp_path / "kernels")


def path_of(notes: KernelRegistry) -> Path:
    return notes.folder / "a-kernel.json"


def test_a_note_is_found_as_it_was_written_and_only_its_user_can_read_it(notes: KernelRegistry) -> None:
    notes.write(NOTE)

    # before it is read, which would close a file that is open to others
    assert path_of(notes).stat().st_mode & 0o777 == 0o600
    assert notes.folder.stat().st_mode & 0o777 == 0o700
    assert notes.find("a-kernel") == NOTE
    assert "secret" not in repr(NOTE)
    notes.remove("a-kernel")
    notes.remove("a-kernel")
    assert notes.list() == ()


@pytest.mark.parametrize("kernel_id", ["", "../up", "a/b", ".hidden", "x" * 65, "a\nb"])
def test_an_id_that_is_no_name_of_a_file_is_refused(notes: KernelRegistry, kernel_id: str) -> None:
    with pytest.raises(ValueError, match="cannot be the id"):
        notes.write(replace(NOTE, kernel_id=kernel_id))
    assert notes.find(kernel_id) is None


def test_a_note_is_claimed_when_its_process_has_ended(notes: KernelRegistry) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    owner = f"{ended.pid}:{psutil.Process(ended.pid).create_time():.0f}:0"
    ended.wait()
    notes.write(replace(NOTE, owner=owner))

    (claimed,) = notes.claim("/work")

    assert claimed == replace(NOTE, owner=this_process())
    assert notes.claim("/work") == ()


def test_a_note_is_claimed_when_another_process_has_the_pid_of_its_own(notes: KernelRegistry) -> None:
    notes.write(replace(NOTE, owner=f"{os.getpid()}:1000000:0"))

    assert len(notes.claim("/work")) == 1


def test_a_note_is_claimed_when_nobody_has_waited_for_its_process(notes: KernelRegistry) -> None:
    zombie = subprocess.Popen([sys.executable, "-c", "print()"], stdout=subprocess.PIPE)
    owner = f"{zombie.pid}:{psutil.Process(zombie.pid).create_time():.0f}:0"
    assert zombie.stdout is not None
    zombie.stdout.read()
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
    notes.write(replace(NOTE, owner=owner))

    assert len(notes.claim("/work")) == 1
    zombie.wait()
    zombie.stdout.close()


def test_a_note_of_a_process_that_lives_or_of_another_folder_is_not_claimed(notes: KernelRegistry) -> None:
    parent = psutil.Process(os.getppid())
    notes.write(replace(NOTE, owner=f"{parent.pid}:{parent.create_time():.0f}:0"))
    notes.write(replace(NOTE, kernel_id="other", root_dir="/elsewhere"))

    assert notes.claim("/work") == ()
    assert len(notes.list()) == 2


def changed(**fields: Any) -> str:
    return json.dumps({**NOTE.to_json(), **fields})


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        "\x00\x01",
        '{"version": 1}',
        changed(version="one"),
        changed(key=None),
        changed(worker_id="0"),
        changed(sessions=[{"unknown": 1}]),
        changed(sessions="none"),
        changed(further="field"),
        "[" * 100_000,
        " " * 2_000_000,
    ],
)
def test_a_damaged_note_is_named_kept_and_not_used(
    notes: KernelRegistry, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    notes.write(replace(NOTE, kernel_id="sound"))
    path_of(notes).write_text(content)
    path_of(notes).chmod(0o600)

    assert [note.kernel_id for note in notes.claim("/work")] == ["sound"]
    assert str(path_of(notes)) in caplog.text
    assert path_of(notes).read_text() == content


def test_a_note_that_is_not_text_is_not_used(notes: KernelRegistry) -> None:
    notes.write(NOTE)
    path_of(notes).write_bytes(b"\xff\xfe{")

    assert notes.list() == ()


def test_a_note_under_another_name_than_its_kernels_is_not_used(notes: KernelRegistry) -> None:
    notes.write(NOTE)
    path_of(notes).rename(notes.folder / "copy.json")

    assert notes.list() == ()


def test_a_note_that_others_can_read_is_closed_to_them(notes: KernelRegistry, caplog: pytest.LogCaptureFixture) -> None:
    notes.write(NOTE)
    path_of(notes).chmod(0o644)

    assert notes.list() == (NOTE,)
    assert path_of(notes).stat().st_mode & 0o777 == 0o600
    assert "was open to other users" in caplog.text


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_note_that_others_can_write_is_not_used(notes: KernelRegistry, mode: int) -> None:
    notes.write(NOTE)
    path_of(notes).chmod(mode)

    assert notes.list() == ()


def test_a_link_to_a_note_is_not_followed(notes: KernelRegistry, tmp_path: Path) -> None:
    notes.write(NOTE)
    path_of(notes).rename(tmp_path / "elsewhere.json")
    path_of(notes).symlink_to(tmp_path / "elsewhere.json")

    assert notes.list() == ()


def test_a_named_pipe_among_the_notes_keeps_nobody_waiting(notes: KernelRegistry) -> None:
    notes.write(replace(NOTE, kernel_id="sound"))
    os.mkfifo(path_of(notes), mode=0o600)

    assert [note.kernel_id for note in notes.list()] == ["sound"]


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs Linux's list of open files")
def test_a_folder_among_the_notes_leaves_no_file_open(notes: KernelRegistry) -> None:
    notes.write(replace(NOTE, kernel_id="sound"))
    path_of(notes).mkdir()
    before = len(list(Path("/proc/self/fd").iterdir()))

    assert [note.kernel_id for note in notes.list()] == ["sound"]
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_note_of_a_newer_version_is_kept_and_nothing_of_it_is_read(
    notes: KernelRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    notes.write(NOTE)
    newer = json.dumps({"version": VERSION + 1, "wholly": "different"})
    path_of(notes).write_text(newer)

    assert notes.claim("/work") == ()
    assert path_of(notes).read_text() == newer
    assert "newer version" in caplog.text


def test_a_full_disk_leaves_the_old_note(notes: KernelRegistry) -> None:
    notes.write(NOTE)
    larger = json.dumps(replace(NOTE, key="another").to_json())

    done = subprocess.run(
        [sys.executable, "-c", WRITE_ON_A_FULL_DISK, str(notes.folder), larger], capture_output=True, text=True
    )

    assert done.stdout.strip() == "File too large", done.stderr
    assert notes.list() == (NOTE,)
    assert [path.name for path in notes.folder.iterdir()] == ["a-kernel.json"]


def test_no_folder_is_made_by_looking(notes: KernelRegistry) -> None:
    assert notes.claim("/work") == ()
    assert notes.find("a-kernel") is None
    assert not notes.folder.exists()


async def test_the_agent_gets_no_key_as_others_can_read_its_copy() -> None:
    sent = asyncio.get_running_loop().create_future()

    async def send(copy: Mapping[str, Any]) -> None:
        sent.set_result(copy)

    sync = RegistrySync(send)
    sync.adopt(NOTE)
    sync.send_to_agent()

    copy = await asyncio.wait_for(sent, 60)
    assert copy["kernel_name"] == NOTE.kernel_name
    assert NOTE.key not in json.dumps(copy)
