"""The files of a node by Jupyter's contents protocol, through a real server."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import nbformat
import pytest

from jupyter_tpu.server.files.drive_manager import MOST_BYTES, MOST_ENTRIES
from jupyter_tpu.server.files.drive_routes import DRIVE_ROUTES

if TYPE_CHECKING:
    from conftest import Answer, Cloud, Server

ZONE = "us-central1-a"
CHUNK = 1 << 20


class Drive:
    """The drive of one node, and its home folder on this machine."""

    def __init__(self, server: Server, node: str, home: Path) -> None:
        self.server = server
        self.node = node
        self.home = home

    def ask(self, verb: str, path: str = "", body: Any = None, **query: str) -> Answer:
        options = "?" + "&".join(f"{name}={value}" for name, value in query.items()) if query else ""
        place = f"/{quote(path)}" if path else ""
        return self.server.tpu(verb, f"nodes/{ZONE}/{self.node}/contents{place}{options}", body)

    def model(self, path: str = "", **query: str) -> Any:
        answer = self.ask("GET", path, **query)
        assert answer.status == 200, answer.text
        return answer.json

    def upload(self, path: str, number: int, data: bytes) -> Answer:
        content = base64.b64encode(data).decode()
        return self.ask("PUT", path, {"type": "file", "format": "base64", "content": content, "chunk": number})


def create(server: Server, node_id: str) -> None:
    kind = {"accelerator_type": "v5litepod-8", "runtime_version": "v2-alpha-tpuv5-lite"}
    assert server.tpu("POST", "nodes", {"zone": ZONE, "node_id": node_id, **kind}).status == 202
    wait_for_state(server, node_id, "READY")


def wait_for_state(server: Server, node_id: str, state: str) -> None:
    end = time.monotonic() + 120
    while server.tpu("GET", f"nodes/{ZONE}/{node_id}").json.get("state") != state:
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.fixture(scope="module")
def module_drive(server: Server, cloud: Cloud) -> Drive:
    create(server, "my-node")
    return Drive(server, "my-node", Path(cloud.control.workers(cloud.node_name("my-node"))[0]["home"]))


@pytest.fixture
def drive(module_drive: Drive) -> Iterator[Drive]:
    """The drive, without the files of the last test."""
    yield module_drive
    for each in module_drive.home.iterdir():
        if each.name != ".jupyter-tpu":
            shutil.rmtree(each) if each.is_dir() and not each.is_symlink() else each.unlink()


def names(model: Any) -> list[str]:
    return sorted(each["name"] for each in model["content"])


def test_a_folder_is_listed_with_the_models_of_its_files(drive: Drive) -> None:
    (drive.home / "data").mkdir()
    (drive.home / "data" / "two words.txt").write_text("x")
    (drive.home / "数据.ipynb").write_text("{}")
    (drive.home / ".hidden").touch()
    (drive.home / "module.pyc").touch()
    (drive.home / "to-folder").symlink_to("data")
    (drive.home / "to-nothing").symlink_to("absent")
    os.mkfifo(drive.home / "pipe")
    Path(os.fsdecode(os.fsencode(drive.home) + b"/caf\xe9")).touch()

    root = drive.model()

    assert {each["name"]: each["type"] for each in root["content"]} == {
        "data": "directory",
        "to-folder": "directory",
        "数据.ipynb": "notebook",
    }
    assert names(drive.model("to-folder")) == ["two words.txt"]
    (file,) = drive.model("data")["content"]
    assert (file["path"], file["size"], file["writable"], file["mimetype"]) == (
        "data/two words.txt",
        1,
        True,
        "text/plain",
    )
    assert "content" not in {name for name, value in drive.model("data", content="0").items() if value}


@pytest.mark.parametrize(
    ("name", "content", "format_"), [("a.txt", "äöü\n", "text"), ("b.bin", "AAH/", "base64"), ("-rf", "", "text")]
)
def test_a_file_is_saved_and_read_back(drive: Drive, name: str, content: str, format_: str) -> None:
    saved = drive.ask("PUT", name, {"type": "file", "format": format_, "content": content})
    again = drive.ask("PUT", name, {"type": "file", "format": format_, "content": content})
    read = drive.model(name, hash="1")

    assert (saved.status, again.status) == (201, 200)
    assert saved.json["content"] is None
    assert (read["content"], read["format"], read["type"]) == (content, format_, "file")
    assert read["hash"] == hashlib.sha256((drive.home / name).read_bytes()).hexdigest()
    assert read["last_modified"] == again.json["last_modified"]


def test_a_notebook_is_saved_trusted_and_read_back(drive: Drive) -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 + 1")])
    saved = drive.ask("PUT", "a.ipynb", {"type": "notebook", "content": notebook})
    read = drive.model("a.ipynb")
    assert saved.status == 201
    assert read["content"]["cells"][0]["source"] == "1 + 1"
    assert read["content"]["cells"][0]["metadata"]["trusted"]
    assert drive.ask("POST", "a.ipynb/trust").status == 201
    (drive.home / "bad.ipynb").write_text("no json")
    assert drive.ask("GET", "bad.ipynb").status == 400


def test_a_save_replaces_the_file_at_once_and_keeps_its_mode_and_links(drive: Drive) -> None:
    (drive.home / "run.sh").write_text("old")
    (drive.home / "run.sh").chmod(0o750)
    (drive.home / "link").symlink_to("run.sh")
    with (drive.home / "run.sh").open() as before:
        assert drive.ask("PUT", "link", {"type": "file", "format": "text", "content": "new"}).status == 200
        assert before.read() == "old"
    assert (drive.home / "run.sh").read_text() == "new"
    assert (drive.home / "link").is_symlink()
    assert stat.S_IMODE((drive.home / "run.sh").stat().st_mode) == 0o750
    assert not list(drive.home.glob(".*.part"))


def test_files_and_folders_are_created_copied_renamed_and_deleted(drive: Drive) -> None:
    first = drive.ask("POST", "", {"type": "directory"}).json["path"]
    second = drive.ask("POST", "", {"type": "file", "ext": ".py"}).json["path"]
    third = drive.ask("POST", first, {"type": "notebook"}).json["path"]
    copied = drive.ask("POST", first, {"copy_from": second})
    renamed = drive.ask("PATCH", second, {"path": "renamed.py"})

    assert (first, second, third) == ("Untitled Folder", "untitled.py", "Untitled Folder/Untitled.ipynb")
    assert (copied.status, copied.json["path"]) == (201, "Untitled Folder/untitled.py")
    assert copied.headers["Location"].endswith(
        "/jupyter-tpu/v1/nodes/us-central1-a/my-node/contents/Untitled%20Folder/untitled.py"
    )
    assert renamed.status == 200, (renamed.text, drive.server.log()[-3000:])
    assert (renamed.status, renamed.json["path"]) == (200, "renamed.py")
    assert drive.ask("PATCH", "renamed.py", {"path": third}).status == 409
    refused = drive.ask("DELETE", first)
    assert (refused.status, "is not empty" in refused.json["message"]) == (400, True)
    assert [drive.ask("DELETE", path).status for path in (third, copied.json["path"], first)] == [204] * 3
    assert names(drive.model()) == ["renamed.py"]


def test_a_checkpoint_is_made_and_restored(drive: Drive) -> None:
    drive.ask("PUT", "a.txt", {"type": "file", "format": "text", "content": "first"})
    made = drive.ask("POST", "a.txt/checkpoints")
    drive.ask("PUT", "a.txt", {"type": "file", "format": "text", "content": "second"})
    assert made.status == 201
    (listed,) = drive.ask("GET", "a.txt/checkpoints").json
    assert drive.ask("POST", f"a.txt/checkpoints/{listed['id']}").status == 204
    assert drive.model("a.txt")["content"] == "first"
    assert drive.ask("DELETE", f"a.txt/checkpoints/{listed['id']}").status == 204
    assert not (drive.home / ".ipynb_checkpoints").exists()


@pytest.mark.parametrize(
    ("verb", "path", "body", "status"),
    [
        ("GET", "absent", None, 404),
        ("GET", "absent/deeper", None, 404),
        ("GET", "file/deeper", None, 404),
        ("GET", "../..", None, 404),
        ("GET", "folder/../../x", None, 404),
        ("GET", ".hidden", None, 404),
        ("GET", "folder?type=file", None, 400),
        ("GET", "file?type=directory", None, 400),
        ("GET", "binary?format=text", None, 400),
        ("GET", "big", None, 413),
        ("PUT", "absent/file", {"type": "file", "format": "text", "content": ""}, 404),
        ("PUT", "folder", {"type": "file", "format": "text", "content": ""}, 400),
        ("PUT", "file", {"type": "directory"}, 400),
        ("PUT", "read-only", {"type": "file", "format": "text", "content": "x"}, 403),
        ("PUT", "file", {"type": "file"}, 400),
        ("PUT", "file", {"type": "file", "format": "base64", "content": "x"}, 400),
        ("PUT", "x" * 256, {"type": "file", "format": "text", "content": ""}, 400),
        ("PUT", ".hidden", {"type": "file", "format": "text", "content": ""}, 400),
        ("PATCH", "absent", {"path": "other"}, 404),
        ("PATCH", "file", {"path": "../other"}, 400),
        ("DELETE", "absent", None, 404),
        ("DELETE", "", None, 400),
    ],
)
def test_what_is_not_possible_is_refused(drive: Drive, verb: str, path: str, body: Any, status: int) -> None:
    (drive.home / "folder").mkdir()
    for name in ("file", ".hidden", "read-only"):
        (drive.home / name).write_text("kept")
    (drive.home / "read-only").chmod(0o444)
    (drive.home / "binary").write_bytes(b"\xff\x00")
    with (drive.home / "big").open("wb") as big:
        big.truncate(MOST_BYTES + 1)
    place, _, options = path.partition("?")
    answer = drive.ask(verb, place, body, **(dict([options.split("=")]) if options else {}))
    assert answer.status == status, answer.text
    assert all((drive.home / name).read_text() == "kept" for name in ("file", ".hidden", "read-only"))


def test_an_upload_in_chunks_appears_when_it_is_complete(drive: Drive) -> None:
    data = os.urandom(2 * CHUNK + 5)
    assert drive.upload("up.bin", 1, data[:CHUNK]).status == 201
    assert drive.upload("up.bin", 2, data[CHUNK : 2 * CHUNK]).status == 201
    assert not (drive.home / "up.bin").exists()
    # the answer was lost, so the page sends it again
    assert drive.upload("up.bin", 2, data[CHUNK : 2 * CHUNK]).status == 201
    done = drive.upload("up.bin", -1, data[2 * CHUNK :])
    assert (done.status, done.json["size"]) == (201, len(data))
    assert (drive.home / "up.bin").read_bytes() == data
    assert names(drive.model()) == ["up.bin"]
    assert not list(drive.home.glob(".*.part"))


def test_an_upload_that_is_incomplete_never_replaces_the_file(drive: Drive) -> None:
    (drive.home / "up.bin").write_text("old")
    assert drive.upload("up.bin", -1, b"end").status == 409
    assert drive.upload("up.bin", 1, b"1234").status == 200
    assert drive.upload("up.bin", 3, b"1234").status == 409
    assert (drive.home / "up.bin").read_text() == "old"
    assert drive.upload("new.bin", 1, b"1234").status == 201
    assert drive.ask("DELETE", "new.bin").status == 204  # cancels it
    assert not list(drive.home.glob(".new*"))


def test_a_large_folder_is_listed_in_part(drive: Drive) -> None:
    folder = drive.home / "many"
    folder.mkdir()
    for number in range(MOST_ENTRIES + 10):
        (folder / str(number)).touch()
    model = drive.model("many")
    assert (len(model["content"]), model["is_truncated"]) == (MOST_ENTRIES, True)
    assert "is_truncated" not in drive.model()


def test_a_file_is_downloaded_as_it_is(drive: Drive) -> None:
    (drive.home / "page with 100%.html").write_text("<script>alert(1)</script>" * 10)
    answer = drive.server.tpu("GET", f"nodes/{ZONE}/my-node/files/page%20with%20100%25.html?download=1")
    assert answer.status == 200
    assert answer.text == (drive.home / "page with 100%.html").read_text()
    assert answer.headers["Content-Type"] == "text/html"
    assert "sandbox" in answer.headers["Content-Security-Policy"]
    assert answer.headers["Content-Disposition"].startswith("attachment; filename*=utf-8''page%20with")
    for path in ("absent", ".hidden", "..%2fx"):
        assert drive.server.tpu("GET", f"nodes/{ZONE}/my-node/files/{path}").status == 404


@pytest.mark.parametrize("pattern", [pattern for pattern, _ in DRIVE_ROUTES])
def test_every_route_is_closed(server: Server, pattern: str) -> None:
    route = pattern.removeprefix("/jupyter-tpu/v1/")
    for group, value in (
        (r"(?P<zone>[^/]+)", ZONE),
        (r"(?P<node_id>[^/]+)", "my-node"),
        (r"(?P<path>(?:(?:/[^/]+)+|/?))", "/file"),
        (r"(?P<path>.+)", "file"),
        (r"(?P<checkpoint_id>[\w-]+)", "checkpoint"),
    ):
        route = route.replace(group, value)
    for verb in ("GET", "PUT", "POST", "PATCH", "DELETE"):
        for token in ("", "wrong"):
            assert server.tpu(verb, route, token=token).status in (403, 405), (verb, token)


def test_files_of_a_node_that_is_not_ready_are_refused_with_the_reason(server: Server) -> None:
    create(server, "stopped")
    assert server.tpu("POST", f"nodes/{ZONE}/stopped/stop").status == 202
    wait_for_state(server, "stopped", "STOPPED")
    refused = server.tpu("GET", f"nodes/{ZONE}/stopped/contents")
    absent = server.tpu("GET", f"nodes/{ZONE}/absent/contents")
    assert (refused.status, "not READY" in refused.json["message"]) == (409, True)
    assert absent.status == 404
