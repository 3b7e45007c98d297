"""TPU processes, found from real processes, real locks and real device files."""

from __future__ import annotations

import getpass
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jupyter_tpu.agent.devices.holders import Holders, LockFile
from jupyter_tpu.agent.devices.release import ChipRelease
from jupyter_tpu.errors import BadInput

HOLD = """
import fcntl, os, signal, sys
files = [open(path, "r+") for path in sys.argv[3:]]
if sys.argv[1]:
    lock = open(sys.argv[1], "w")
    fcntl.lockf(lock, fcntl.LOCK_EX)
if sys.argv[2] == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("holding", flush=True)
sys.stdin.read()
"""

Hold = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "vfio").mkdir()
    for name in ("accel0", "accel1", "vfio/0"):
        (tmp_path / name).touch()
    return {"JUPYTER_TPU_DEVICES": str(tmp_path), "JUPYTER_TPU_LOCK_FILE": str(tmp_path / "lock")}


@pytest.fixture
def hold(environ: dict[str, str]) -> Iterator[Hold]:
    """Starts a process that has chips, the lock, or both; it has them when this returns."""
    started: list[subprocess.Popen[str]] = []

    def start(*chips: str, lock: bool = False, manner: str = "") -> subprocess.Popen[str]:
        paths = [str(Path(environ["JUPYTER_TPU_DEVICES"]) / chip) for chip in chips]
        argv = [sys.executable, "-c", HOLD, environ["JUPYTER_TPU_LOCK_FILE"] if lock else "", manner, *paths]
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "holding\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_nobody_holds_chips_that_nobody_has_open(environ: dict[str, str]) -> None:
    holders = Holders(environ, dict)

    assert (holders.scan(), holders.scan_if_changed()) == ([], [])
    assert holders.lock_file() == LockFile(environ["JUPYTER_TPU_LOCK_FILE"], is_there=False)


@pytest.mark.parametrize("chip", ["accel1", "vfio/0"])
def test_a_process_with_a_device_file_holds_the_chips(environ: dict[str, str], hold: Hold, chip: str) -> None:
    process = hold(chip)

    (holder,) = Holders(environ, dict).scan()

    assert (holder.pid, holder.user, holder.is_own_user) == (process.pid, getpass.getuser(), True)
    assert holder.command.startswith(sys.executable)
    assert holder.since is not None


def test_the_lock_alone_names_its_holder(environ: dict[str, str], hold: Hold) -> None:
    holders = Holders(environ, dict)
    holders.scan()
    process = hold(lock=True)

    assert [holder.pid for holder in holders.scan_if_changed()] == [process.pid]
    lock = holders.lock_file()
    assert (lock.is_there, lock.is_held, lock.pid) == (True, True, process.pid)


def test_a_lock_that_was_left_behind_holds_nothing(environ: dict[str, str], hold: Hold) -> None:
    process = hold(lock=True)
    process.communicate()

    lock = Holders(environ, dict).lock_file()

    assert (lock.is_there, lock.is_held, lock.pid) == (True, False, None)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_lock_file_holds_nobody_up(environ: dict[str, str], make: Callable[[str], None]) -> None:
    make(environ["JUPYTER_TPU_LOCK_FILE"])
    holders = Holders(environ, dict)

    assert holders.lock_file() == LockFile(environ["JUPYTER_TPU_LOCK_FILE"], is_there=True)
    assert (holders.scan(), holders.scan_if_changed()) == ([], [])


def test_the_kernel_that_started_a_holder_is_named(environ: dict[str, str], hold: Hold) -> None:
    hold("accel0")

    (holder,) = Holders(environ, lambda: {os.getpid(): ("k1", "folder/a.ipynb")}).scan()

    assert (holder.kernel_id, holder.notebook, holder.is_kernel) == ("k1", "folder/a.ipynb", False)


def test_a_kernel_that_holds_chips_is_named_as_one(environ: dict[str, str], hold: Hold) -> None:
    process = hold("accel0")

    (holder,) = Holders(environ, lambda: {process.pid: ("k1", "folder/a.ipynb")}).scan()

    assert (holder.kernel_id, holder.notebook, holder.is_kernel) == ("k1", "folder/a.ipynb", True)


def test_a_glance_sees_that_a_holder_has_gone(environ: dict[str, str], hold: Hold) -> None:
    process = hold("accel0")
    holders = Holders(environ, dict)
    assert len(holders.scan()) == 1

    process.communicate()

    assert holders.scan_if_changed() == []


def test_since_when_it_is_held_stays_the_same(environ: dict[str, str], hold: Hold) -> None:
    holders = Holders(environ, dict)
    holders.scan()
    hold("accel0")

    (first,), (second,) = holders.scan(), holders.scan()

    assert first == second


@pytest.mark.parametrize("manner", ["polite", "stubborn"])
async def test_free_ends_those_who_hold_the_chips(environ: dict[str, str], hold: Hold, manner: str) -> None:
    one, two = hold("accel0", lock=True, manner=manner), hold("accel1")

    freed = await ChipRelease(Holders(environ, dict), lambda _: None).release({})

    assert {each["pid"] for each in freed["freed"]} == {one.pid, two.pid}
    assert (freed["left"], freed["message"]) == ([], "")
    assert (one.wait(60) < 0, two.wait(60) < 0) == (True, True)


async def test_free_spares_whom_it_was_not_told_of(environ: dict[str, str], hold: Hold) -> None:
    one, two = hold("accel0"), hold("accel1")
    freeing = ChipRelease(Holders(environ, dict), lambda _: None)

    freed = await freeing.release({"pid": two.pid})
    nobody = await freeing.release({"pid": os.getpid()})

    assert ([each["pid"] for each in freed["freed"]], [each["pid"] for each in freed["left"]]) == ([two.pid], [one.pid])
    assert (nobody["freed"], nobody["message"]) == ([], f"Process {os.getpid()} does not use the chips.")
    assert one.poll() is None


async def test_free_ends_those_that_were_shown_and_nobody_in_their_place(environ: dict[str, str], hold: Hold) -> None:
    one, two = hold("accel0"), hold("accel0", manner="stubborn")
    holders = Holders(environ, dict)
    shown = {holder.pid: holder.since for holder in holders.scan()}
    later = hold("accel1")

    wish = [{"pid": one.pid, "since": shown[one.pid]}, {"pid": two.pid, "since": 1.5}]
    freed = await ChipRelease(holders, lambda _: None).release({"processes": wish})

    assert [each["pid"] for each in freed["freed"]] == [one.pid]
    assert {each["pid"] for each in freed["left"]} == {two.pid, later.pid}
    assert freed["message"] == f"Process {two.pid} does not use the chips any more."
    assert (two.poll(), later.poll()) == (None, None)


async def test_free_of_nobody_spares_all(environ: dict[str, str], hold: Hold) -> None:
    process = hold("accel0")

    freed = await ChipRelease(Holders(environ, dict), lambda _: None).release({"processes": []})

    assert (freed["freed"], [each["pid"] for each in freed["left"]]) == ([], [process.pid])
    assert process.poll() is None


NONSENSE: list[dict[str, object]] = [
    {"pid": 0},
    {"pid": True},
    {"pid": "1"},
    {"force": 1},
    {"by": 5},
    {"processes": 5},
    {"processes": [5]},
    {"processes": [{}]},
    {"processes": [{"pid": "1"}]},
]


@pytest.mark.parametrize("params", NONSENSE)
async def test_a_wish_that_makes_no_sense_ends_nobody(
    environ: dict[str, str], hold: Hold, params: dict[str, object]
) -> None:
    process = hold("accel0")

    with pytest.raises(BadInput):
        await ChipRelease(Holders(environ, dict), lambda _: None).release(params)

    assert process.poll() is None
