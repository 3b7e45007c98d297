"""The record of a kernel on disk: capped, recoverable, and read in slices."""

from __future__ import annotations

import json
import resource
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_tpu.agent.recording.jupyter_messages import DELIMITER
from jupyter_tpu.agent.recording.record import Record
from jupyter_tpu.wire.multipart import Channel
from jupyter_tpu.wire.replay import Cut, Replay


def fill(record: Record, count: int, size: int = 10) -> None:
    for _ in range(count):
        record.append(3, [b"%d" % record.next_seq, b"x" * size], 0.0)
    record.flush()


def read_from(record: Record, seq: int, slice_bytes: int = 1000) -> list[int | Cut]:
    """What a client that wants `seq` gets."""
    replay = Replay(seq)
    offset, found = record.locate(seq)
    cut = replay.position(offset, found)
    items: list[int | Cut] = [cut] if cut else []
    while True:
        try:
            data = record.read(offset, slice_bytes)
        except LookupError:
            offset, found = record.resume_at(offset)
            items += filter(None, [replay.position(offset, found)])
            continue
        if not data:
            return items
        items += [item if isinstance(item, Cut) else item.seq for item in replay.data(offset, data)]
        offset += len(data)


def test_what_was_appended_is_read(tmp_path: Path) -> None:
    record = Record(tmp_path)
    fill(record, 100)
    assert read_from(record, 1, slice_bytes=7) == list(range(1, 101))
    record.close()


def test_what_was_not_flushed_is_not_visible_yet(tmp_path: Path) -> None:
    record = Record(tmp_path)
    record.append(3, [b"x"], 0.0)
    assert record.read(0, 100) == b""
    assert record.locate(1) == (0, 1)
    record.flush()
    assert read_from(record, 1) == [1]
    record.close()


@pytest.mark.parametrize("seq", [1, 2, 50, 99, 100, 101])
def test_a_reader_begins_where_it_wants(tmp_path: Path, seq: int) -> None:
    record = Record(tmp_path, cap_bytes=64 * 1024)
    fill(record, 100, size=100)
    assert read_from(record, seq) == list(range(seq, 101))
    record.close()


def test_the_record_stays_below_its_cap_and_the_cut_shows(tmp_path: Path) -> None:
    record = Record(tmp_path, cap_bytes=160 * 1024)
    for _ in range(40):
        fill(record, 10, size=1000)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 160 * 1024
    first, *rest = read_from(record, 1)
    assert first == Cut(1, record.first_seq - 1)
    assert rest == list(range(record.first_seq, 401))
    record.close()


def test_a_large_message_takes_the_place_of_as_many_segments_as_it_needs(tmp_path: Path) -> None:
    record = Record(tmp_path, cap_bytes=160 * 1024)
    for _ in range(40):
        fill(record, 10, size=1000)
    fill(record, 1, size=100 * 1024)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 160 * 1024
    assert read_from(record, 401, slice_bytes=100_000) == [401]
    record.close()


def test_a_reader_whose_place_was_trimmed_is_told(tmp_path: Path) -> None:
    record = Record(tmp_path, cap_bytes=16 * 1024)
    for _ in range(10):
        fill(record, 4, size=1000)
    with pytest.raises(LookupError):
        record.read(0, 100)
    record.close()


def test_a_message_larger_than_a_segment_is_kept_whole(tmp_path: Path) -> None:
    record = Record(tmp_path, cap_bytes=1024 * 1024)
    fill(record, 1, size=3 * 1024 * 1024)
    fill(record, 1)
    assert read_from(record, 1, slice_bytes=100_000)[-1] == 2
    record.close()


@pytest.mark.parametrize("cap_bytes", [1024 * 1024 * 1024, 256 * 1024])
def test_a_record_goes_on_after_it_was_opened_again(tmp_path: Path, cap_bytes: int) -> None:
    for _ in range(3):
        record = Record(tmp_path, cap_bytes=cap_bytes)
        fill(record, 60, size=1000)
        record.close()
    record = Record(tmp_path, cap_bytes=cap_bytes)
    assert record.next_seq == 181
    assert read_from(record, 75) == list(range(75, 181))
    record.close()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 3000), st.binary(max_size=60))
def test_a_damaged_tail_is_cut_off_and_the_rest_kept(
    tmp_path_factory: pytest.TempPathFactory, keep: int, garbage: bytes
) -> None:
    folder = tmp_path_factory.mktemp("record")
    record = Record(folder)
    fill(record, 30, size=50)
    ends = [record.locate(seq)[0] for seq in range(2, 32)]
    record.close()
    (segment,) = folder.iterdir()
    segment.write_bytes(segment.read_bytes()[:keep] + garbage)
    record = Record(folder)
    whole = sum(end <= keep for end in ends)
    assert record.next_seq > whole
    fill(record, 1)
    seqs = [item for item in read_from(record, 1) if not isinstance(item, Cut)]
    assert seqs == [*range(1, whole + 1), record.next_seq - 1]
    record.close()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 3000))
def test_an_entry_that_was_cut_short_leaves_no_gap(tmp_path_factory: pytest.TempPathFactory, keep: int) -> None:
    folder = tmp_path_factory.mktemp("record")
    record = Record(folder)
    fill(record, 30, size=50)
    ends = [record.locate(seq)[0] for seq in range(2, 32)]
    record.close()
    (segment,) = folder.iterdir()
    segment.write_bytes(segment.read_bytes()[:keep])
    record = Record(folder)
    assert record.next_seq - 1 == sum(end <= keep for end in ends)
    fill(record, 1)
    assert read_from(record, 1) == list(range(1, record.next_seq))
    record.close()


def damaged(path: Path, content: bytes, at: int, flip: int) -> None:
    path.write_bytes(content[:at] + bytes([content[at] ^ flip]) + content[at + 1 :])


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_whichever_byte_is_damaged_only_its_entry_is_lost_and_no_seq_is_given_twice(tmp_path: Path, flip: int) -> None:
    record = Record(tmp_path)
    fill(record, 6, size=20)
    ends = [record.locate(seq)[0] for seq in range(2, 8)]
    record.close()
    (segment,) = tmp_path.iterdir()
    content = segment.read_bytes()
    for at in range(len(content)):
        damaged(segment, content, at, flip)
        hit = sum(end <= at for end in ends) + 1
        record = Record(tmp_path)
        assert record.next_seq >= 7
        fill(record, 1)
        seqs = [item for item in read_from(record, 1) if not isinstance(item, Cut)]
        assert seqs == [*(seq for seq in range(1, 7) if seq != hit), record.next_seq - 1]
        assert read_from(record, hit)[0] == Cut(hit, seqs[hit - 1] - 1)
        record.close()


@pytest.mark.parametrize("hole", [b"", b"\0" * 60_000, b"\0\0\0\x01" * 4000])
def test_a_hole_in_the_middle_costs_only_what_was_there(tmp_path: Path, hole: bytes) -> None:
    record = Record(tmp_path, cap_bytes=4 * 1024 * 1024)
    fill(record, 300, size=1000)
    fill(record, 300, size=1000)
    record.close()
    first, *_ = sorted(tmp_path.iterdir())
    content = first.read_bytes()
    first.write_bytes(content[:100_000] + hole + content[200_000:])
    record = Record(tmp_path, cap_bytes=4 * 1024 * 1024)
    items = read_from(record, 1, slice_bytes=5000)
    cuts = [item for item in items if isinstance(item, Cut)]
    seqs = [item for item in items if not isinstance(item, Cut)]
    assert 90 < cuts[0].last_seq - cuts[0].first_seq < 100
    assert len(cuts) == 1
    assert seqs == [*range(1, cuts[0].first_seq), *range(cuts[0].last_seq + 1, 601)]
    assert [entry.seq for entry, _ in record.entries()] == seqs
    record.close()


def test_a_segment_that_is_gone_shows_as_a_cut(tmp_path: Path) -> None:
    record = Record(tmp_path, cap_bytes=256 * 1024)
    for _ in range(100):
        fill(record, 1, size=1000)
    record.close()
    second = sorted(tmp_path.iterdir())[1]
    second.unlink()
    (tmp_path / "nonsense.segment").write_bytes(b"?")
    record = Record(tmp_path, cap_bytes=256 * 1024)
    items = read_from(record, 1)
    (cut,) = [item for item in items if isinstance(item, Cut)]
    assert items == [*range(1, cut.first_seq), cut, *range(cut.last_seq + 1, 101)]
    record.close()


def test_only_the_file_that_grows_is_held_open(tmp_path: Path) -> None:
    record = Record(tmp_path, cap_bytes=160_000)
    before = psutil.Process().num_fds()
    for _ in range(100):
        fill(record, 1, size=1000)
    assert len(list(tmp_path.glob("*.segment"))) > 3
    assert psutil.Process().num_fds() == before
    assert read_from(record, 1) == list(range(1, 101))
    assert psutil.Process().num_fds() == before
    record.close()


def test_a_file_that_is_removed_under_a_running_agent_shows_as_a_cut(tmp_path: Path) -> None:
    record = Record(tmp_path, cap_bytes=160_000)
    for _ in range(100):
        fill(record, 1, size=1000)
    assert read_from(record, 1) == list(range(1, 101))
    sorted(tmp_path.glob("*.segment"))[1].unlink()
    items = read_from(record, 1)
    assert [item for item in items if isinstance(item, Cut)]
    assert items[-1] == 100
    record.close()


def test_damage_in_an_older_file_is_found_when_it_is_read(tmp_path: Path) -> None:
    record = Record(tmp_path, cap_bytes=256 * 1024)
    for _ in range(100):
        fill(record, 1, size=1000)
    record.close()
    first = min(tmp_path.iterdir())
    damaged(first, first.read_bytes(), 5000, 0xFF)
    record = Record(tmp_path, cap_bytes=256 * 1024)
    assert read_from(record, 1) == [1, 2, 3, 4, Cut(5, 5), *range(6, 101)]
    assert read_from(record, 5) == [Cut(5, 5), *range(6, 101)]
    record.close()


def test_seqs_that_were_skipped_show_as_a_cut(tmp_path: Path) -> None:
    record = Record(tmp_path)
    fill(record, 2)
    record.skip(100)
    fill(record, 1)
    assert read_from(record, 1) == [1, 2, Cut(3, 102), 103]
    assert read_from(record, 50) == [Cut(50, 102), 103]
    record.close()


def test_what_a_full_disk_does_not_take_is_read_all_the_same_and_written_later(
    tmp_path: Path, limited_files: Callable[[int], None]
) -> None:
    record = Record(tmp_path)
    fill(record, 3)
    limited_files(5000)
    fill(record, 1, size=10_000)
    fill(record, 2)
    assert record.has_overflow
    assert [read_from(record, seq, slice_bytes=7) for seq in (1, 5, 6, 7)] == [[1, 2, 3, 4, 5, 6], [5, 6], [6], []]
    limited_files(-1)
    fill(record, 2)
    assert not record.has_overflow
    record.close()
    record = Record(tmp_path)
    assert read_from(record, 1) == list(range(1, 9))
    record.close()


def test_what_cannot_be_held_either_is_lost_visibly(tmp_path: Path, limited_files: Callable[[int], None]) -> None:
    record = Record(tmp_path)
    fill(record, 1)
    limited_files(5000)
    for _ in range(5):
        fill(record, 1, size=10 * 1024 * 1024)
    fill(record, 1)
    assert read_from(record, 1, slice_bytes=1_000_000) == [1, 2, 3, 4, Cut(5, 6), 7]
    limited_files(-1)
    fill(record, 1)
    record.close()
    record = Record(tmp_path)
    assert read_from(record, 1) == [1, 2, 3, 4, Cut(5, 6), 7, 8]
    record.close()


def message(kind: str, size: int = 10) -> list[bytes]:
    return [DELIMITER, b"", json.dumps({"msg_type": kind}).encode(), b"{}", b"{}", b'"%b"' % (b"x" * size)]


def test_the_end_of_a_cell_is_kept_though_its_output_does_not_fit(
    tmp_path: Path, limited_files: Callable[[int], None]
) -> None:
    record = Record(tmp_path)
    limited_files(1)
    fill(record, 3, size=10 * 1024 * 1024)
    record.append(Channel.IOPUB, message("stream", 5 * 1024 * 1024), 0.0)
    record.append(Channel.SHELL, message("execute_reply"), 0.0)
    record.append(Channel.IOPUB, message("status"), 0.0)
    record.flush()
    assert read_from(record, 1, slice_bytes=1_000_000) == [1, 2, 3, Cut(4, 4), 5, 6]
    limited_files(-1)
    record.close()


@pytest.fixture
def limited_files() -> Iterator[Callable[[int], None]]:
    """Sets the largest size a file of this process may have, which fails like a full disk; -1 lifts it."""
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    signal.signal(signal.SIGXFSZ, previous)


def test_the_record_is_ours_alone(tmp_path: Path) -> None:
    record = Record(tmp_path / "record")
    fill(record, 1)
    (segment,) = (tmp_path / "record").iterdir()
    assert segment.stat().st_mode & 0o077 == 0
    assert (tmp_path / "record").stat().st_mode & 0o077 == 0
    record.close()
