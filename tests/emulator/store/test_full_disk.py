"""The emulator on a disk without room: nothing is lost, reads answer, and the words say what to do."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_tpu.emulator.access.access_tokens import read_or_create_key
from jupyter_tpu.emulator.control.client import ControlRefused, EmulatorControl
from jupyter_tpu.emulator.store.database import Store
from jupyter_tpu.emulator.store.schema import DiskFull

_LARGEST_BYTES = 1024


@contextlib.contextmanager
def full_disk(pid: int) -> Iterator[None]:
    """A process whose files may not grow, which fails like a full disk."""
    soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (_LARGEST_BYTES, hard))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, hard))


def test_a_store_on_a_full_disk_is_not_called_broken(tmp_path: Path) -> None:
    path = tmp_path / "cloud.db"
    store = Store(path)
    store.save_fact("kept", "yes")
    store.close()

    with full_disk(os.getpid()), pytest.raises(DiskFull, match="free some space and start again") as refused:
        Store(path)
    assert "move it away" not in str(refused.value)

    store = Store(path)
    assert store.fact("kept") == "yes"
    store.close()


def test_a_change_that_found_no_room_leaves_the_store_as_it_was(tmp_path: Path) -> None:
    store = Store(tmp_path / "cloud.db")
    with full_disk(os.getpid()), pytest.raises(DiskFull), store.transaction():
        store.save_fact("lost", "yes")
    assert store.fact("lost") is None
    with store.transaction():
        store.save_fact("later", "yes")
    assert store.fact("later") == "yes"
    store.close()


def test_reads_answer_on_a_full_disk(paper_emulator: Any) -> None:
    control = EmulatorControl(paper_emulator.rest)
    nodes = f"{paper_emulator.rest}/v2/projects/demo-project/locations/us-west4-a/nodes"
    with full_disk(control.info()["pid"]):
        with urllib.request.urlopen(nodes, timeout=120) as answer:
            assert json.load(answer) == {}
        assert control.state()["nodes"] == []
        assert control.ledger()["nodes"] == []
        assert control.clock()["paused"]


def test_what_a_full_disk_refuses_says_so(paper_emulator: Any) -> None:
    control = EmulatorControl(paper_emulator.rest)
    with full_disk(control.info()["pid"]):
        with pytest.raises(ControlRefused) as refused:
            control.reserve("mine", "us-east5-a", "v6e", 64)
        assert "disk of the emulator's state folder is full" in refused.value.message
        assert "free some space" in refused.value.message
        with pytest.raises(ControlRefused, match="free some space"):
            control.set_time_scale(5)
    control.reserve("mine", "us-east5-a", "v6e", 64)
    assert len(control.reservations()) == 1


def test_a_key_is_kept_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "new" / "token_key"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with pytest.raises(OSError, match="large"):
            read_or_create_key(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(path.parent.iterdir()) == []
    key = read_or_create_key(path)
    assert len(key) == 32
    assert read_or_create_key(path) == key
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_empty_key_of_an_earlier_crash_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "token_key"
    path.touch()
    assert len(read_or_create_key(path)) == 32
