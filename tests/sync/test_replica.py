"""The replica serves one folder: it finds each change, replaces nothing unseen, and reaches nothing outside."""

from __future__ import annotations

import hashlib
import os
import resource
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from replicas import Replica, file

from jupyter_tpu.wire.file_messages import MessageDecoder, checked_path, encode_message, stays_inside
from jupyter_tpu.wire.frames import ProtocolError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "folder"
    path.mkdir()
    return path


@pytest.fixture
def replica(folder: Path) -> Iterator[Replica]:
    with Replica(folder) as replica:
        yield replica


def test_a_scan_lists_files_folders_and_links(folder: Path, replica: Replica) -> None:
    (folder / "src").mkdir()
    (folder / "src/train.py").write_bytes(b"1")
    (folder / "run").write_bytes(b"2")
    (folder / "run").chmod(0o755)
    (folder / "link").symlink_to("src/train.py")
    assert replica.scan() == {
        "src": ["d"],
        "src/train.py": file(b"1"),
        "run": file(b"2", is_executable=True),
        "link": ["l", "src/train.py"],
    }


def test_a_second_scan_lists_only_what_changed(folder: Path, replica: Replica) -> None:
    (folder / "a").write_bytes(b"1")
    (folder / "b").write_bytes(b"1")
    replica.scan()
    assert replica.scan(since=replica.revision) == {}
    (folder / "a").write_bytes(b"2")
    (folder / "b").unlink()
    assert replica.scan(since=replica.revision) == {"a": file(b"2"), "b": None}


def test_a_change_that_leaves_size_and_time_is_found(folder: Path, replica: Replica) -> None:
    (folder / "a").write_bytes(b"1")
    replica.scan()
    (folder / "a").write_bytes(b"2")  # within the same tick of the file system's clock
    assert replica.scan(since=replica.revision) == {"a": file(b"2")}
    facts = (folder / "a").stat()
    (folder / "a").write_bytes(b"3")
    os.utime(folder / "a", ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert replica.scan(since=replica.revision) == {"a": file(b"3")}


def test_a_new_process_goes_on_where_the_last_one_stopped(folder: Path) -> None:
    (folder / "a").write_bytes(b"1")
    with Replica(folder) as replica:
        replica.scan()
        replica.ask("save")
        known, revision = replica.ask("hello")["replica_id"], replica.revision
    with Replica(folder) as replica:
        assert replica.ask("hello")["replica_id"] == known
        assert replica.scan(since=revision) == {}
    (folder / ".jupyter-tpu/index").write_bytes(b"damaged")
    with Replica(folder) as replica:
        assert replica.ask("hello")["replica_id"] != known
        assert replica.scan() == {"a": file(b"1")}


def test_what_cannot_be_synced_is_listed_with_the_reason(folder: Path, replica: Replica) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "out").symlink_to("../secret")
    (folder / "absolute").symlink_to("/etc")
    (folder / "loop").symlink_to("loop")
    (folder / "big").write_bytes(b"123")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "s"))
        found = replica.scan(most_bytes=2)
    assert found == {
        "pipe": ["b", "special"],
        "s": ["b", "special"],
        "out": ["b", "link_out"],
        "absolute": ["b", "link_out"],
        "loop": ["l", "loop"],
        "big": ["b", "large"],
    }


def test_a_name_that_is_not_utf_8_is_one_name(folder: Path, replica: Replica) -> None:
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff")).write_bytes(b"1")
    assert replica.scan() == {"\udcff": file(b"1")}
    assert replica.apply("put", "\udcff", replica.write(b"2"), file(b"1"), None) == ""
    assert Path(os.fsdecode(os.fsencode(folder) + b"/\xff")).read_bytes() == b"2"


def test_a_folder_with_nothing_but_ignored_files_is_not_listed(folder: Path, replica: Replica) -> None:
    (folder / "pkg/__pycache__").mkdir(parents=True)
    (folder / "pkg/__pycache__/a.pyc").write_bytes(b"1")
    (folder / "pkg/a.py").write_bytes(b"1")
    rules = [(True, r"^(?:.+/)?__pycache__/.*$"), (True, r"^.*\.log$"), (False, r"^keep\.log$")]
    (folder / "a.log").write_bytes(b"1")
    (folder / "keep.log").write_bytes(b"1")
    assert set(replica.scan(rules=rules)) == {"pkg", "pkg/a.py", "keep.log"}
    assert replica.apply("delete", "pkg/a.py", file(b"1")) == ""
    assert replica.apply("delete_folder", "pkg") == ""
    assert set(replica.scan(rules=rules)) == {"keep.log"}
    assert replica.apply("folder", "pkg") == ""
    assert (folder / "pkg/__pycache__/a.pyc").exists()


def test_a_file_is_replaced_and_the_old_version_is_kept(folder: Path, replica: Replica) -> None:
    (folder / "a").write_bytes(b"1")
    (folder / "a").chmod(0o640)
    replica.scan()
    assert replica.apply("put", "a", replica.write(b"2"), file(b"1"), None) == ""
    assert (folder / "a").read_bytes() == b"2"
    assert stat.S_IMODE((folder / "a").stat().st_mode) == 0o640
    assert [path.read_bytes() for path in (folder / ".jupyter-tpu/replaced").iterdir()] == [b"1"]
    assert replica.scan(since=replica.revision) == {"a": file(b"2")}


@pytest.mark.parametrize("action", ["put", "delete", "chmod"])
def test_a_file_that_was_changed_since_the_scan_is_not_touched(folder: Path, replica: Replica, action: str) -> None:
    (folder / "a").write_bytes(b"1")
    replica.scan()
    (folder / "a").write_bytes(b"3")
    actions = {
        "put": lambda: replica.apply("put", "a", replica.write(b"2"), file(b"1"), None),
        "delete": lambda: replica.apply("delete", "a", file(b"1")),
        "chmod": lambda: replica.apply("put", "a", file(b"1", is_executable=True), file(b"1"), None),
    }
    assert actions[action]() == "changed"
    assert (folder / "a").read_bytes() == b"3"
    assert replica.scan(since=replica.revision) == {"a": file(b"3")}


def test_a_change_that_keeps_size_and_time_is_not_overwritten_either(folder: Path, replica: Replica) -> None:
    (folder / "a").write_bytes(b"1")
    os.utime(folder / "a", (1e9, 1e9))
    replica.scan()
    (folder / "a").write_bytes(b"3")
    os.utime(folder / "a", (1e9, 1e9))
    assert replica.apply("delete", "a", file(b"1")) == "changed"
    assert replica.apply("put", "a", replica.write(b"2"), file(b"1"), None) == "changed"
    assert (folder / "a").read_bytes() == b"3"


def test_a_new_file_never_takes_a_name_that_is_in_use(folder: Path, replica: Replica) -> None:
    replica.scan()
    (folder / "a").write_bytes(b"1")
    (folder / "b").mkdir()
    assert replica.apply("put", "a", replica.write(b"2"), None, None) == "changed"
    assert replica.apply("put", "b", replica.write(b"2"), None, None) == "changed"
    assert replica.apply("folder", "a") == "changed"
    assert (folder / "a").read_bytes() == b"1"


def test_moves_copies_links_and_permissions(folder: Path, replica: Replica) -> None:
    (folder / "old").mkdir()
    (folder / "old/a").write_bytes(b"1")
    replica.scan()
    assert replica.apply("move", "old", "new") == ""
    assert replica.apply("put", "copy", file(b"1"), None, "new/a") == ""
    assert replica.apply("put", "new/a", file(b"1", is_executable=True), file(b"1"), None) == ""
    assert replica.apply("put", "link", ["l", "new/a"], None, None) == ""
    assert replica.scan() == {
        "new": ["d"],
        "new/a": file(b"1", is_executable=True),
        "copy": file(b"1"),
        "link": ["l", "new/a"],
    }


def unit(entries: list[Any]) -> tuple[str, list[Any]]:
    return hashlib.sha256(b"unit").hexdigest(), entries


def test_a_new_folder_appears_as_a_whole(folder: Path, replica: Replica) -> None:
    replica.scan()
    large = replica.write(b"large")
    name, entries = unit(
        [
            ["a", file(b"1"), True],
            ["in", ["d"], False],
            ["in/b", file(b"22", is_executable=True), True],
            ["in/c", large, False],
            ["in/up", ["l", "../../x"], False],
        ]
    )
    assert replica.ask("build", b"122", unit=name, entries=entries) == {}
    assert not (folder / "new").exists()
    assert replica.apply("unit", "new", name) == ""
    assert (folder / "new/in/b").read_bytes() == b"22"
    expected = {"new": ["d"], **{f"new/{path}": entry for path, entry, _ in entries}}
    assert replica.scan() == expected


def test_a_new_folder_is_merged_into_one_that_the_client_did_not_see(folder: Path, replica: Replica) -> None:
    replica.scan()
    (folder / "new").mkdir()
    (folder / "new/a").write_bytes(b"mine")
    name, entries = unit([["a", file(b"1"), True], ["b", file(b"2"), True]])
    replica.ask("build", b"12", unit=name, entries=entries)
    assert replica.apply("unit", "new", name) == "changed"
    assert (folder / "new/a").read_bytes() == b"mine"
    assert (folder / "new/b").read_bytes() == b"2"


def test_a_large_file_arrives_in_pieces_over_several_processes(folder: Path) -> None:
    content = os.urandom(3_000_000)
    entry = file(content)
    sent = {"digest": entry[1], "size": len(content)}
    with Replica(folder) as replica:
        replica.scan()
        replica.ask("write", content[:1_000_000], offset=0, **sent)
        replica.kill()
    with Replica(folder) as replica:
        replica.scan()
        assert replica.ask("staged", digest=entry[1]) == {"is_complete": False, "size": 1_000_000}
        for offset in (1_000_000, 2_000_000):
            assert replica.ask("write", content[offset : offset + 1_000_000], offset=offset, **sent) == {}
        assert replica.apply("put", "large", entry, None, None) == ""
        assert (folder / "large").read_bytes() == content


def test_a_content_without_its_digest_is_refused(folder: Path, replica: Replica) -> None:
    replica.scan()
    digest = file(b"1")[1]
    assert replica.ask("write", b"2", digest=digest, size=1, offset=0)["error"] == "refused"
    assert replica.ask("write_many", b"2", files=[[digest, 1]])["error"] == "refused"
    assert replica.ask("build", b"2", unit=digest, entries=[["a", file(b"1"), True]])["error"] == "refused"
    assert replica.ask("staged", digest=digest) == {"is_complete": False, "size": 0}


def test_an_appended_file_is_assembled_from_its_old_version(folder: Path, replica: Replica) -> None:
    old = os.urandom(400_000)
    (folder / "a").write_bytes(old)
    replica.scan()
    blocks = replica.ask("blocks", path="a", digest=file(old)[1])
    block = blocks["block"]
    assert blocks["head"] == [hashlib.sha256(old[start : start + block]).hexdigest() for start in (0, block, 2 * block)]
    new = old + b"appended"
    sent = {"digest": file(new)[1], "size": len(new)}
    copied = {"path": "a", "from_digest": file(old)[1], "start": 0, "length": len(old)}
    assert replica.ask("copy", offset=0, **sent, **copied) == {}
    assert replica.ask("write", b"appended", offset=len(old), **sent) == {}
    assert replica.apply("put", "a", file(new), file(old), None) == ""
    assert (folder / "a").read_bytes() == new


def test_a_hole_stays_a_hole(folder: Path, replica: Replica) -> None:
    with (folder / "sparse").open("wb") as sparse:
        sparse.truncate(50_000_000)
        sparse.seek(0, os.SEEK_END)
        sparse.write(b"end")
    entry = replica.scan()["sparse"]
    hole = replica.ask("read", path="sparse", digest=entry[1], offset=0)["hole"]
    assert 0 < hole <= 50_000_000
    sent = {"digest": entry[1], "size": entry[2]}
    assert replica.ask("write", offset=0, hole=hole, **sent) == {}
    replica.ask("read", path="sparse", digest=entry[1], offset=hole)
    assert replica.ask("write", replica.data, offset=hole, **sent) == {}
    assert replica.apply("put", "copy", entry, None, None) == ""
    assert (folder / "copy").stat().st_blocks * 512 < 1_000_000


def test_no_link_leads_out_of_the_folder(folder: Path, tmp_path: Path, replica: Replica) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_bytes(b"secret")
    (folder / "in").mkdir()
    (folder / "in/secret").write_bytes(b"secret")
    replica.scan()
    (folder / "in/secret").unlink()
    (folder / "in").rmdir()
    (folder / "in").symlink_to(tmp_path / "outside")
    assert replica.ask("read", path="in/secret", digest=file(b"secret")[1], offset=0)["error"] == "changed"
    assert replica.apply("put", "in/secret", replica.write(b"2"), file(b"secret"), None) == "changed"
    assert replica.apply("put", "in/new", replica.write(b"2"), None, None) == "changed"
    assert replica.apply("delete", "in/secret", file(b"secret")) == "changed"
    assert replica.apply("folder", "in/new") == "changed"
    assert sorted(path.name for path in (tmp_path / "outside").iterdir()) == ["secret"]
    assert replica.scan()["in"] == ["b", "link_out"]


HOSTILE_PATHS = [
    "../a",
    "/a",
    "a/../b",
    "a//b",
    "./a",
    "",
    ".jupyter-tpu/index",
    "a/.jupyter-tpu",
    "a\0b",
    "x" * 256,
    None,
    7,
]


@pytest.mark.parametrize("path", HOSTILE_PATHS)
def test_a_path_that_is_not_in_the_folder_is_refused(path: Any) -> None:
    with pytest.raises(ProtocolError):
        checked_path(path)


@pytest.mark.parametrize(
    ("path", "target", "is_inside"),
    [
        ("a", "b", True),
        ("d/a", "../b", True),
        ("d/a", "../../b", False),
        ("a", "d/../../b", False),
        ("a", "/etc", False),
        ("a", ".jupyter-tpu/index", False),
        ("a", "", False),
    ],
)
def test_a_link_stays_inside_or_not(path: str, target: str, is_inside: bool) -> None:
    assert stays_inside(path, target) is is_inside


BAD_REQUESTS: list[dict[str, Any]] = [
    {"op": "rm"},
    {},
    {"op": "scan", "rules": [[True, "("]], "most_bytes": 0},
    {"op": "scan", "rules": "x", "most_bytes": 0},
    {"op": "scan", "rules": [], "most_bytes": -1},
    {"op": "apply", "actions": [["put", "../a", ["l", "b"], None, None]]},
    {"op": "apply", "actions": [["put", "a", ["l", "/etc"], None, None]]},
    {"op": "apply", "actions": [["move", "a", "../b"]]},
    {"op": "apply", "actions": [["delete", "a", ["d"]]]},
    {"op": "apply", "actions": ["x"]},
    {"op": "apply", "actions": {}},
    {"op": "read", "path": "../a", "digest": "0" * 64, "offset": 0},
    {"op": "read", "path": "a", "digest": "../a", "offset": 0},
    {"op": "write", "digest": "../" + "0" * 61, "size": 1, "offset": 0},
    {"op": "write", "digest": "0" * 64, "size": 1, "offset": 2},
    {"op": "write", "digest": "0" * 64, "size": 5, "offset": 3},
    {"op": "write", "digest": "0" * 64, "size": 5, "offset": 0, "hole": 6},
    {"op": "build", "unit": "../x", "entries": []},
    {"op": "build", "unit": "0" * 64, "entries": [["a", ["l", "/etc"], False]]},
    {"op": "build", "unit": "0" * 64, "entries": [["a", ["l", "b"], False], ["a/b", ["d"], False]]},
    {"op": "build", "unit": "0" * 64, "entries": [["../b", ["d"], False]]},
    {"op": "read_many", "files": [["a"]]},
]


def test_bad_requests_are_refused_and_the_next_one_is_served(folder: Path, replica: Replica) -> None:
    for request in BAD_REQUESTS:
        replica.send(encode_message(request))
        assert replica.reply()[0].get("error") in ("refused", "unknown"), request
    assert replica.scan() == {}
    assert [path.name for path in folder.parent.iterdir()] == ["folder"]


def test_bytes_that_are_no_messages_end_the_program(replica: Replica) -> None:
    replica.send(b"\xff" * 8)
    with pytest.raises(EOFError):
        replica.reply()
    with pytest.raises(ProtocolError):
        list(MessageDecoder().feed(b"\xff" * 8))


def test_a_folder_that_vanished_or_was_replaced_is_not_taken_for_an_empty_one(folder: Path, replica: Replica) -> None:
    (folder / "a").write_bytes(b"1")
    replica.scan()
    folder.rename(folder.with_name("moved"))
    assert replica.ask("scan", rules=[], most_bytes=0)["error"] == "root_gone"
    folder.mkdir()
    assert replica.ask("scan", rules=[], most_bytes=0)["error"] == "root_gone"
    with Replica(folder.with_name("missing")) as missing:
        assert missing.reply()[0]["error"] == "root_gone"


def test_a_folder_is_served_by_one_program_at_a_time(folder: Path, replica: Replica) -> None:
    replica.scan()
    with Replica(folder) as second:
        assert second.reply()[0]["error"] == "busy"


def test_a_full_disk_leaves_everything_as_it_is(folder: Path) -> None:
    (folder / "a").write_bytes(b"1")
    with Replica(folder) as replica:
        replica.scan()
        resource.prlimit(replica.pid, resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
        new = b"2" * 200_000
        assert replica.ask("write_many", new, files=[[file(new)[1], len(new)]])["error"] == "disk_full"
        assert replica.ask("write", new, digest=file(new)[1], size=len(new), offset=0)["error"] == "disk_full"
        assert replica.ask("staged", digest=file(new)[1])["is_complete"] is False
        unit_name, entries = unit([["a", file(new), True]])
        assert replica.ask("build", new, unit=unit_name, entries=entries)["error"] == "disk_full"
        assert replica.apply("unit", "new", unit_name) == "changed"
        assert replica.apply("put", "a", file(new), file(b"1"), None) == "changed"
        resource.prlimit(replica.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert replica.scan() == {"a": file(b"1")}


def test_an_empty_file_is_sent_and_an_unreadable_folder_is_not_taken_for_an_empty_one(
    folder: Path, replica: Replica
) -> None:
    replica.scan()
    assert replica.apply("put", "empty", replica.write(b""), None, None) == ""
    assert replica.apply("put", "copy", file(b""), None, "empty") == ""
    assert replica.scan() == {"empty": file(b""), "copy": file(b"")}
