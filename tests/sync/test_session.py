"""A sync of two real folders, one case for each sentence."""

from __future__ import annotations

import asyncio
import os
import resource
import zlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from replicas import tree

from jupyter_tpu.journal.sync_state import SyncState
from jupyter_tpu.sync.deltas import Blocks, Piece, pieces
from jupyter_tpu.sync.ignore_rules import ignore_rules
from jupyter_tpu.sync.replica_client import LocalReplica, ReplicaClient, ReplicaFailed
from jupyter_tpu.sync.session import SyncResult, SyncSession
from jupyter_tpu.wire.file_messages import MessageDecoder, encode_message


class Pair:
    """Two folders that are synced."""

    def __init__(self, folder: Path) -> None:
        self.local, self.remote = folder / "local", folder / "remote"
        self.local.mkdir()
        self.remote.mkdir()
        self.state = SyncState(folder / "state.sqlite")
        self.replicas: list[LocalReplica] = []
        self.before_request: Callable[[str, LocalReplica], None] = lambda op, replica: None

    async def start(self) -> None:
        self.replicas = [await LocalReplica.start(folder) for folder in (self.local, self.remote)]

    async def close(self) -> None:
        for replica in self.replicas:
            await replica.close()

    async def restart(self) -> None:
        await self.close()
        await self.start()

    async def sync(self, **options: Any) -> SyncResult:
        remote = Hooked(self.replicas[1], self)
        return await SyncSession(self.replicas[0], remote, self.state, node="my-node").run_once(**options)  # type: ignore[arg-type]

    def write(self, side: str, **files: str | bytes) -> None:
        for name, content in files.items():
            path = getattr(self, side) / name
            path.write_bytes(content.encode() if isinstance(content, str) else content)


class Hooked:
    """The replica of the node; a test may do something before each of its requests."""

    def __init__(self, replica: LocalReplica, pair: Pair) -> None:
        self._replica, self._pair = replica, pair

    def __getattr__(self, name: str) -> Any:
        return getattr(self._replica, name)

    async def ask(self, op: str, data: bytes = b"", **request: Any) -> Any:
        self._pair.before_request(op, self._replica)
        return await self._replica.ask(op, data, **request)


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    pair = Pair(tmp_path)
    await pair.start()
    try:
        yield pair
    finally:
        await pair.close()


async def test_changes_deletions_and_conflicts_go_both_ways(pair: Pair) -> None:
    pair.write("local", a="1", b="1", c="1")
    (pair.local / "src").mkdir()
    pair.write("local", **{"src/train.py": "1"})
    pair.write("remote", d="1")
    assert (await pair.sync()).is_complete
    assert tree(pair.local) == tree(pair.remote)
    pair.write("local", a="2", **{"src/train.py": "mine"})
    pair.write("remote", b="2", **{"src/train.py": "theirs"})
    (pair.local / "d").unlink()
    (pair.remote / "c").unlink()
    result = await pair.sync()
    assert result.is_complete
    assert tree(pair.local) == tree(pair.remote)
    assert (pair.local / "src/train.py").read_text() == "mine"
    assert (pair.local / result.conflicts[0].copy).read_text() == "theirs"
    assert sorted(path.name for path in pair.local.iterdir()) == [".jupyter-tpu", "a", "b", "src"]
    again = await pair.sync()
    assert (*again.local, *again.remote) == ()


async def test_what_was_deleted_here_and_changed_there_is_kept(pair: Pair) -> None:
    pair.write("local", a="1")
    await pair.sync()
    (pair.local / "a").unlink()
    pair.write("remote", a="2")
    assert (await pair.sync()).is_complete
    assert (pair.local / "a").read_text() == "2"


async def test_a_renamed_file_is_not_sent_again(pair: Pair) -> None:
    (pair.local / "old").mkdir()
    pair.write("local", **{"old/large": os.urandom(3_000_000)})
    assert (await pair.sync()).bytes_received["remote"] >= 3_000_000
    (pair.local / "old").rename(pair.local / "new")
    result = await pair.sync()
    assert result.bytes_received["remote"] == 0
    assert tree(pair.local) == tree(pair.remote)


@pytest.mark.parametrize("change", ["append", "insert", "in place", "prepend"])
async def test_of_a_changed_file_only_the_change_is_sent(pair: Pair, change: str) -> None:
    old = os.urandom(5_000_000)
    new = {
        "append": old + b"more",
        "insert": old[:2_000_000] + b"more" + old[2_000_000:],
        "in place": old[:2_000_000] + b"more" + old[2_000_004:],
        "prepend": b"more" + old,
    }[change]
    pair.write("local", a=old)
    await pair.sync()
    pair.write("local", a=new)
    result = await pair.sync()
    assert 0 < result.bytes_received["remote"] <= 400_000
    assert (pair.remote / "a").read_bytes() == new


async def test_a_cut_in_the_middle_of_a_large_file_costs_at_most_8_mb(pair: Pair) -> None:
    content = os.urandom(40_000_000)
    pair.write("local", a=content)
    sent = 0

    def cut(op: str, replica: LocalReplica) -> None:
        nonlocal sent
        sent += op == "write"
        if sent == 20:
            os.kill(replica.pid, 9)

    pair.before_request = cut
    with pytest.raises(ReplicaFailed, match="lost"):
        await pair.sync()
    await pair.restart()
    result = await pair.sync()
    assert result.bytes_received["remote"] <= len(content) - 20 * 2**20 + 8_000_000
    assert (pair.remote / "a").read_bytes() == content


async def test_many_files_in_nested_folders_arrive(pair: Pair) -> None:
    for number in range(2_500):
        folder = pair.local / f"pkg/{number % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.py").write_bytes(b"%d" % (number % 2_000))
    (pair.local / "pkg/large").write_bytes(b"x" * 9_000_000)
    (pair.local / "pkg/0/large too").write_bytes(b"x" * 9_000_000)
    (pair.local / "pkg/empty").mkdir()
    assert (await pair.sync()).is_complete
    assert tree(pair.local) == tree(pair.remote)


async def test_a_file_that_changes_during_the_sync_is_not_overwritten(pair: Pair) -> None:
    pair.write("local", a="1")
    await pair.sync()
    pair.write("local", a="2")
    pair.before_request = lambda op, replica: pair.write("remote", a="3") if op == "apply" else None
    assert not (await pair.sync()).is_complete
    pair.before_request = lambda op, replica: None
    assert (pair.remote / "a").read_text() == "3"
    assert (await pair.sync()).conflicts
    assert sorted(path.read_text() for path in pair.remote.glob("a*")) == ["2", "3"]


async def test_a_full_disk_stops_the_sync_and_loses_nothing(pair: Pair) -> None:
    pair.write("local", a="1", b="1")
    await pair.sync()
    pair.write("local", a="2" * 300_000, c=b"2" * 50_000)
    (pair.local / "b").unlink()
    limits = (100_000, resource.RLIM_INFINITY)
    resource.prlimit(pair.replicas[1].pid, resource.RLIMIT_FSIZE, limits)
    result = await pair.sync()
    assert (result.full, result.is_complete) == ("remote", False)
    assert (pair.remote / "a").read_text() == "1"
    resource.prlimit(pair.replicas[1].pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    assert (await pair.sync()).is_complete
    assert tree(pair.local) == tree(pair.remote)


async def test_a_folder_that_vanished_stops_the_sync(pair: Pair) -> None:
    pair.write("local", a="1")
    await pair.sync()
    pair.remote.rename(pair.remote.with_name("moved"))
    with pytest.raises(ReplicaFailed, match="root_gone"):
        await pair.sync()
    assert (pair.local / "a").exists()


async def test_an_empty_folder_of_a_new_node_deletes_nothing(pair: Pair) -> None:
    pair.write("local", a="1")
    await pair.sync()
    await pair.close()
    pair.remote.rename(pair.remote.with_name("moved"))
    pair.remote.mkdir()
    await pair.start()
    assert (await pair.sync()).is_complete
    assert (pair.local / "a").exists()
    assert (pair.remote / "a").exists()


async def test_deleting_most_of_a_folder_asks_first(pair: Pair) -> None:
    pair.write("local", **{f"f{number}": str(number) for number in range(30)})
    await pair.sync()
    for number in range(25):
        (pair.local / f"f{number}").unlink()
    result = await pair.sync()
    assert result.question is not None
    assert (result.question.about, result.question.files) == ("deletions", 25)
    assert (pair.remote / "f0").exists()
    assert (await pair.sync(is_confirmed=True)).is_complete
    assert not (pair.remote / "f0").exists()


async def test_sending_very_much_asks_first_with_the_size_by_folder(pair: Pair) -> None:
    for name in ("data", "src"):
        (pair.local / name).mkdir()
    with (pair.local / "data/large").open("wb") as sparse:
        sparse.truncate(2**30)
    pair.write("local", **{"src/a.py": "1"})
    result = await pair.sync(most_file_bytes=0)
    assert result.question is not None
    assert result.question.about == "size"
    assert list(result.question.by_folder.items()) == [("data", 2**30), ("src", 1)]
    assert not (pair.remote / "src").exists()


async def test_push_and_pull_go_in_one_direction(pair: Pair) -> None:
    pair.write("local", a="1")
    pair.write("remote", b="1")
    await pair.sync(direction="push")
    assert (pair.remote / "a").exists()
    assert not (pair.local / "b").exists()
    await pair.sync(direction="pull")
    assert tree(pair.local) == tree(pair.remote)


async def test_a_conflict_is_copied_once_however_often_one_pulls(pair: Pair) -> None:
    pair.write("local", a="mine")
    pair.write("remote", a="theirs")
    await pair.sync(direction="pull")
    await pair.sync(direction="pull")
    assert sorted(path.read_text() for path in pair.local.glob("a*")) == ["mine", "theirs"]


async def test_ignored_and_large_files_stay_where_they_are(pair: Pair) -> None:
    (pair.local / "src/__pycache__").mkdir(parents=True)
    (pair.local / "data").mkdir()
    pair.write(
        "local",
        **{".gitignore": "*.log\n!keep.log\n", ".env": "secret", "a.log": "1", "keep.log": "1", "large": "12345"},
        **{".tpuignore": "data/*\n!data/small.csv\n", "data/big": "1", "data/small.csv": "1"},
        **{"src/.gitignore": "/only-here\nanywhere\n", "src/only-here": "1", "src/a.py": "1", "src/__pycache__/x": "1"},
    )
    rules = ignore_rules(pair.local)
    result = await pair.sync(rules=rules, most_file_bytes=40)
    assert result.is_complete
    files = {path for path, entry in tree(pair.remote).items() if entry[0] == "f"}
    assert files == {".gitignore", ".tpuignore", "keep.log", "large", "data/small.csv", "src/.gitignore", "src/a.py"}
    pair.write("local", large="1" * 50)
    result = await pair.sync(rules=rules, most_file_bytes=40)
    assert result.not_synced == {"large": "large"}
    assert (pair.remote / "large").read_text() == "12345"
    pair.write("local", **{".gitignore": "*.log\n"})  # what is newly ignored is deleted nowhere
    await pair.sync(rules=ignore_rules(pair.local))
    assert (pair.local / "keep.log").exists()
    assert (pair.remote / "keep.log").exists()


async def test_names_that_are_one_name_on_the_laptop_are_reported(pair: Pair) -> None:
    pair.write("remote", A="1", a="2", b="3")
    ask = pair.replicas[0].ask

    async def with_facts(op: str, data: bytes = b"", **request: Any) -> Any:
        reply, content = await ask(op, data, **request)
        return ({**reply, "is_case_insensitive": True} if op == "hello" else reply), content

    pair.replicas[0].ask = with_facts  # type: ignore[method-assign]
    result = await pair.sync()
    assert result.not_synced == {"a": "same_name"}
    assert sorted(path.name for path in pair.local.glob("?")) == ["A", "b"]
    assert (pair.remote / "a").read_text() == "2"


async def test_links_permissions_holes_and_odd_names_are_synced(pair: Pair) -> None:
    pair.write("local", empty=b"", **{"\udcff": "1", "new\nline": "1", "é" * 120: "1"})
    (pair.local / "link").symlink_to("empty")
    (pair.local / "out").symlink_to("/etc/passwd")
    (pair.local / "empty").chmod(0o755)
    with (pair.local / "sparse").open("wb") as sparse:
        sparse.truncate(30_000_000)
    result = await pair.sync()
    assert result.not_synced == {"out": "link_out"}
    expected = {path: entry for path, entry in tree(pair.local).items() if path != "out"}
    assert tree(pair.remote) == expected
    assert (pair.remote / "sparse").stat().st_blocks * 512 < 1_000_000


async def test_the_state_of_the_last_sync_may_be_damaged(pair: Pair, tmp_path: Path) -> None:
    pair.write("local", a="1")
    await pair.sync()
    pair.write("local", a="2")
    for name in ("", "-wal", "-shm"):
        (tmp_path / f"state.sqlite{name}").unlink(missing_ok=True)
    (tmp_path / "state.sqlite").write_bytes(b"damaged" * 1_000)
    assert (await pair.sync()).is_complete
    assert sorted(path.read_text() for path in pair.remote.glob("a*")) == ["1", "2"]


class Hostile:
    """A stream to a replica that answers what it likes."""

    def __init__(self, **replies: tuple[dict[str, Any], bytes]) -> None:
        self._replies = replies
        self._decoder = MessageDecoder()
        self._out: asyncio.Queue[bytes] = asyncio.Queue()

    def write(self, data: bytes) -> None:
        for request, _ in self._decoder.feed(data):
            self._out.put_nowait(encode_message(*self._replies.get(request["op"], ({}, b""))))

    async def read(self, n: int) -> bytes:
        return await self._out.get()

    async def drain(self) -> None:
        pass

    def close(self) -> None:
        self._out.put_nowait(b"")


HELLO = {"replica_id": "x", "identity": [1, 2]}, b""
DIGEST = "0" * 64


@pytest.mark.parametrize(
    "rows",
    [
        b'[["../evil", ["f", "%s", 1, false]]]' % DIGEST.encode(),
        b'[["/evil", ["d"]]]',
        b'[["evil", ["l", "/etc/passwd"]]]',
        b'[["evil", ["f", "../x", 1, false]]]',
        b'[["evil", ["f", "%s", -1, false]]]' % DIGEST.encode(),
        b'[[".jupyter-tpu/index", ["d"]]]',
        b"[" * 100_000,
        b"7",
    ],
)
async def test_a_hostile_node_reaches_nothing_outside(pair: Pair, tmp_path: Path, rows: bytes) -> None:
    replies = {"hello": HELLO, "scan": ({"revision": 1}, b""), "rows": ({"count": 1}, zlib.compress(rows))}
    client = ReplicaClient(Hostile(**replies))
    session = SyncSession(pair.replicas[0], client, pair.state, node="my-node")
    with pytest.raises(ReplicaFailed, match="broken"):
        await session.run_once()
    await client.close()
    assert not {"evil", "index"} & {path.rpartition("/")[2] for path in tree(tmp_path)}
    assert tree(pair.local) == {}


async def test_a_content_that_a_hostile_node_made_up_is_not_written(pair: Pair) -> None:
    class Once(Hostile):
        def write(self, data: bytes) -> None:
            super().write(data)
            if b'"op":"rows"' in data:
                self._replies["rows"] = ({"count": 0}, b"")

    rows = zlib.compress(b'[["a", ["f", "%s", 4, false]]]' % DIGEST.encode())
    replies = {"hello": HELLO, "scan": ({"revision": 1}, b""), "rows": ({"count": 1}, rows)}
    stream = Once(**replies, read_many=({"sizes": [4]}, b"evil"), apply=({"reasons": [], "revision": 1}, b""))
    client = ReplicaClient(stream)
    session = SyncSession(pair.replicas[0], client, pair.state, node="my-node")
    result = await session.run_once()
    await client.close()
    assert not result.is_complete
    assert tree(pair.local) == {}


def blocks(text: str) -> Blocks:
    """The blocks of a file, each of three letters."""
    head = [text[start : start + 3] for start in range(0, len(text) - 2, 3)]
    tail = [text[len(text) - start - 3 : len(text) - start] for start in range(0, len(text) - 2, 3)]
    return Blocks(len(text), 3, head, tail)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("abcdef", "abcdefg", [Piece(0, 6, 0), Piece(6, 1, None)]),
        ("abcdefghi", "abcXdefghi", [Piece(0, 3, 0), Piece(3, 1, None), Piece(4, 6, 3)]),
        ("abcdefghi", "abcghi", [Piece(0, 3, 0), Piece(3, 3, 6)]),
        ("abcdefghi", "abcdXfghi", [Piece(0, 3, 0), Piece(3, 3, None), Piece(6, 3, 6)]),
        ("abcdef", "uvwxyz", [Piece(0, 6, None)]),
        ("abcdef", "", []),
    ],
)
def test_a_delta_copies_what_is_at_the_same_distance_from_an_end(old: str, new: str, expected: list[Piece]) -> None:
    found = pieces(blocks(old), blocks(new))
    assert found == expected
    joined = "".join(
        (new if each.old_start is None else old)[_start(each) : _start(each) + each.length] for each in found
    )
    assert joined == new


def _start(piece: Piece) -> int:
    return piece.start if piece.old_start is None else piece.old_start
