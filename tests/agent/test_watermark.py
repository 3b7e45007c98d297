"""Which seqs a message had that a full disk did not take, as the next agent finds them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu.agent.recording.watermark import Watermark

Steps = list[tuple[int, int]]
steps = st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2)), max_size=40)


@given(steps=steps)
def test_the_next_agent_finds_the_seq_of_each_number(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int]]
) -> None:
    path = tmp_path_factory.mktemp("kernel") / "heard"
    mark, number, seq, given_seqs = Watermark(path), 7, 100, dict[int, int]()
    mark.save(number, seq, seq)
    for dropped, others in steps:
        number, seq = number + dropped, seq + 1 + others
        mark.note(number, seq)
        given_seqs[number] = seq
    mark.assign(seq + 1)
    later = Watermark(path)
    assert {number: later.seq_of(number) for number in given_seqs} == given_seqs
    assert later.seq_of(7) is None
    assert later.seq_of(number + 1) is None
    later.save(number, seq + 1, seq + 1)
    assert Watermark(path).seq_of(number) is None


def test_a_message_that_gets_another_seq_ends_what_was_known_of_the_later_ones(tmp_path: Path) -> None:
    mark = Watermark(tmp_path / "heard")
    for number in range(1, 10):
        mark.note(number, 100 + number)
    mark.note(5, 200)
    assert [mark.seq_of(number) for number in range(3, 8)] == [103, 104, 200, None, None]


def test_more_runs_than_the_file_takes_are_not_known_later(tmp_path: Path) -> None:
    mark = Watermark(tmp_path / "heard")
    for number in range(1, 3001):
        mark.note(number, 2 * number)
    mark.assign(6001)
    later = Watermark(tmp_path / "heard")
    known = [number for number in range(1, 3001) if later.seq_of(number)]
    assert known == list(range(1, len(known) + 1))
    assert 1000 < len(known) < 3000
    assert all(later.seq_of(number) == 2 * number for number in known)


def test_the_shorter_watermark_of_an_older_agent_is_read(tmp_path: Path) -> None:
    path = tmp_path / "heard"
    path.write_bytes(b"".join(number.to_bytes(8, "big") for number in (3, 10, 12)))
    mark = Watermark(path)
    assert (mark.number, mark.next_seq, mark.assigned, mark.seq_of(4)) == (3, 10, 12, None)
