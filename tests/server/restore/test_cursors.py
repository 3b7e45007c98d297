"""The file that says how far each page has read."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu.server.restore.cursors import Cursor, Cursors

Open = Callable[..., Cursors]


def at(seq: int) -> Cursor:
    return Cursor(seq, seq + 2)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


@pytest.fixture
def open_cursors(tmp_path: Path) -> Iterator[Open]:
    """Opens the file again and again, as servers do one after another or at once."""
    opened: list[Cursors] = []
    clock = Clock()

    def open_file(path: Path | None = tmp_path / "cursors.bin", places: int = 8) -> Cursors:
        opened.append(Cursors(path, places=places, now=clock))
        return opened[-1]

    yield open_file
    for cursors in opened:
        cursors.close()


def test_a_session_that_was_never_moved_is_not_known(open_cursors: Open) -> None:
    assert open_cursors().find("kernel", "session") is None


def test_the_next_server_finds_how_far_a_session_has_read(open_cursors: Open) -> None:
    open_cursors().store("kernel", "session", at(41))
    open_cursors().store("kernel", "session", at(42))

    assert open_cursors().find("kernel", "session") == at(42)


def test_the_next_server_finds_that_a_session_has_asked_and_heard_nothing(open_cursors: Open) -> None:
    open_cursors().store("kernel", "session", Cursor(41, 43, has_received=False))

    assert open_cursors().find("kernel", "session") == Cursor(41, 43, has_received=False)


def test_sessions_and_kernels_are_told_apart(open_cursors: Open) -> None:
    cursors = open_cursors()
    for number, name in enumerate([("a", "b"), ("a", "c"), ("c", "b")]):
        cursors.store(*name, at(number))

    assert [cursors.find(*name) for name in [("a", "b"), ("a", "c"), ("c", "b")]] == [at(0), at(1), at(2)]


def test_two_servers_see_each_others_cursors_at_once(open_cursors: Open) -> None:
    one, other = open_cursors(), open_cursors()
    one.store("kernel", "page of one", at(1))
    other.store("kernel", "page of other", at(2))
    one.store("kernel", "page of one", at(3))

    assert (other.find("kernel", "page of one"), one.find("kernel", "page of other")) == (at(3), at(2))


def test_the_file_stays_small_and_forgets_who_was_away_for_longest(open_cursors: Open, tmp_path: Path) -> None:
    cursors = open_cursors(places=8)
    for number in range(100):
        cursors.store("kernel", f"session {number}", at(number))
        cursors.store("kernel", "session 0", at(number))

    known = [number for number in range(100) if cursors.find("kernel", f"session {number}") is not None]

    assert known == [0, *range(93, 100)]
    assert (tmp_path / "cursors.bin").stat().st_size == 9 * 64


def test_a_session_whose_place_another_server_took_takes_a_new_one(open_cursors: Open) -> None:
    one, other = open_cursors(places=1), open_cursors(places=1)
    one.store("kernel", "page of one", at(1))
    other.store("kernel", "page of other", at(2))
    one.store("kernel", "page of one", at(3))

    assert other.find("kernel", "page of one") == at(3)
    assert other.find("kernel", "page of other") is None


@given(offset=st.integers(0, 9 * 64 - 1), damage=st.binary(min_size=1, max_size=200))
def test_damage_anywhere_loses_cursors_and_never_changes_one(
    tmp_path_factory: pytest.TempPathFactory, offset: int, damage: bytes
) -> None:
    path = tmp_path_factory.mktemp("damaged") / "cursors.bin"
    cursors = Cursors(path, places=8)
    for number in range(8):
        cursors.store("kernel", f"session {number}", at(number))
    whole = path.read_bytes()
    path.write_bytes((whole[:offset] + damage + whole[offset + len(damage) :])[: len(whole)])

    again = Cursors(path, places=8)

    assert all(again.find("kernel", f"session {number}") in (None, at(number)) for number in range(8))
    again.store("kernel", "session 3", at(77))
    assert again.find("kernel", "session 3") == at(77)
    cursors.close()
    again.close()


@pytest.mark.parametrize("content", [b"something else", b"\0" * 9 * 64, b"x" * 100_000])
def test_a_file_that_is_none_of_ours_is_started_anew_with_a_word_in_the_log(
    open_cursors: Open, tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    (tmp_path / "cursors.bin").write_bytes(content)
    open_cursors().store("kernel", "session", at(5))

    assert open_cursors().find("kernel", "session") == at(5)
    assert [record.getMessage() for record in caplog.records] == [
        f"{tmp_path / 'cursors.bin'} was damaged and is empty now: open pages may get some outputs again."
    ]


def test_a_folder_that_cannot_be_made_leaves_the_cursors_in_memory(
    open_cursors: Open, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "kernels").write_text("a file where the folder should be")
    cursors = open_cursors(tmp_path / "kernels" / "cursors.bin")
    cursors.store("kernel", "session", at(5))

    assert cursors.find("kernel", "session") == at(5)
    assert "are kept in memory only" in caplog.text


def test_the_file_is_closed_to_other_users(open_cursors: Open, tmp_path: Path) -> None:
    open_cursors().store("kernel", "session", at(5))

    assert (tmp_path / "cursors.bin").stat().st_mode & 0o077 == 0


def test_a_server_that_is_killed_leaves_the_last_cursor_it_told_of(tmp_path: Path) -> None:
    path = tmp_path / "cursors.bin"
    program = """
import sys
from pathlib import Path
from jupyter_tpu.server.restore.cursors import Cursor, Cursors
cursors = Cursors(Path(sys.argv[1]))
for number in range(1, 10**9):
    cursors.store("kernel", "session", Cursor(number, number))
    sys.stdout.write(f"{number}\\n")
    sys.stdout.flush()
"""
    for after in (1, 50, 500, 2_000):
        mover = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE)
        assert mover.stdout is not None
        with mover.stdout:
            for _ in range(after):
                mover.stdout.readline()
            mover.kill()
            told = [int(line) for line in mover.stdout.read().split(b"\n")[:-1] if line]
        mover.wait()
        cursors = Cursors(path)
        found = cursors.find("kernel", "session")
        cursors.close()
        assert found is not None
        assert found.arrived - max(told, default=after) in (0, 1)
