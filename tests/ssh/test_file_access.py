"""A worker's files over SFTP, and the copying of files over it, behind both kinds of SSH server."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_tpu.errors import WorkerUnreachable
from jupyter_tpu.ssh import FileAccess, SshConnection
from jupyter_tpu.transfer.copying import Copy, part_path
from jupyter_tpu.transfer.files import PIECE_BYTES, FileInfo, Files
from jupyter_tpu.transfer.local_files import LocalFiles
from jupyter_tpu.transfer.problems import file_failed

ODD_NAMES = [b"-rf", b"two words", b"caf\xe9", b"new\nline", "数据".encode(), b"~", b"a:b", b"x" * 255]


@pytest.fixture
async def files(connection: SshConnection) -> FileAccess:
    return await connection.open_files("my-node")


@pytest.fixture(params=["here", "worker"])
def any_files(request: pytest.FixtureRequest, files: FileAccess) -> Files:
    """All implementations of the same interface."""
    return LocalFiles() if request.param == "here" else files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "there"
    made.mkdir()
    return made


class Side:
    """A machine whose connection is never opened again."""

    def __init__(self, files: Files) -> None:
        self.files = files

    async def recover(self, error: WorkerUnreachable) -> None:
        raise error


@pytest.fixture
def upload(files: FileAccess) -> Copy:
    return Copy(source=Side(LocalFiles()), target=Side(files))


@pytest.fixture
def download(files: FileAccess) -> Copy:
    return Copy(source=Side(files), target=Side(LocalFiles()))


def at(folder: Path, name: bytes | str) -> bytes:
    return os.fsencode(folder) + b"/" + os.fsencode(name)


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def read(path: bytes) -> bytes:
    return Path(os.fsdecode(path)).read_bytes()


def write(path: bytes, content: bytes) -> None:
    Path(os.fsdecode(path)).write_bytes(content)


@pytest.mark.parametrize("name", ODD_NAMES)
async def test_any_name_is_written_listed_renamed_and_removed(any_files: Files, folder: Path, name: bytes) -> None:
    writing = await any_files.open_to_write(at(folder, name))
    await writing.write(0, b"content")
    await writing.close()
    assert [each async for each, _ in any_files.entries(os.fsencode(folder))] == [name]
    found = await any_files.info(at(folder, name))
    assert found
    assert found == FileInfo(kind="file", size=7, mode=0o600, modified_at=found.modified_at)
    await any_files.move(at(folder, name), at(folder, "new"))
    await any_files.remove(at(folder, "new"))
    assert names(folder) == []


@pytest.mark.parametrize(
    ("method", "number"),
    [
        ("open_to_read", errno.ENOENT),
        ("read_link", errno.ENOENT),
        ("remove", errno.ENOENT),
        ("remove_folder", errno.ENOENT),
    ],
)
async def test_what_does_not_exist_is_called_so(any_files: Files, folder: Path, method: str, number: int) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        await getattr(any_files, method)(at(folder, "absent"))
    assert caught.value.errno == number
    assert "absent does not exist" in file_failed(caught.value).message


async def test_reasons_are_found_that_the_server_does_not_give(files: FileAccess, folder: Path) -> None:
    (folder / "full").mkdir()
    (folder / "full" / "file").touch()
    with pytest.raises(FileExistsError):
        await files.make_folder(at(folder, "full"))
    with pytest.raises(OSError) as not_empty:  # noqa: PT011 - its errno is checked
        await files.remove_folder(at(folder, "full"))
    assert not_empty.value.errno == errno.ENOTEMPTY
    with pytest.raises(IsADirectoryError):
        await files.open_to_write(at(folder, "full"))
    with pytest.raises(FileExistsError) as there:
        await files.move(at(folder, "full/file"), at(folder, "full"))
    assert file_failed(there.value).message == f"my-node:{folder}/full already exists."


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with 2 MiB."""
    made = tmp_path / "small"
    made.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", made], capture_output=True).returncode:
        pytest.skip("only root can mount a small disk")
    yield made
    subprocess.run(["umount", "--lazy", made], check=True)


async def test_a_full_disk_is_called_so_and_keeps_no_part(upload: Copy, tmp_path: Path, small_disk: Path) -> None:
    (tmp_path / "big").write_bytes(os.urandom(3 << 20))
    with pytest.raises(OSError) as caught:  # noqa: PT011 - its text is checked
        await upload.file(at(tmp_path, "big"), at(small_disk, "big"))
    assert file_failed(caught.value).message.startswith("The disk is full: my-node:")
    assert names(small_disk) == []


def make_read_only(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)


async def test_a_read_only_disk_is_called_so(upload: Copy, tmp_path: Path, small_disk: Path) -> None:
    (tmp_path / "file").write_text("x")
    make_read_only(small_disk)
    with pytest.raises(OSError) as caught:  # noqa: PT011 - its text is checked
        await upload.file(at(tmp_path, "file"), at(small_disk, "file"))
    assert "read-only file system" in file_failed(caught.value).message


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES, 2 * PIECE_BYTES + 7])
async def test_a_file_keeps_bytes_mode_and_time_both_ways(
    upload: Copy, download: Copy, tmp_path: Path, folder: Path, size: int
) -> None:
    source = tmp_path / "source"
    source.write_bytes(os.urandom(size))
    source.chmod(0o751)
    os.utime(source, (1, 1_700_000_000))

    await upload.file(bytes(source), at(folder, "up"))
    await download.file(at(folder, "up"), at(tmp_path, "back"))

    for copy in (folder / "up", tmp_path / "back"):
        assert copy.read_bytes() == source.read_bytes()
        assert (stat.S_IMODE(copy.stat().st_mode), copy.stat().st_mtime) == (0o751, 1_700_000_000)
    assert names(folder) == ["up"]
    assert upload.progress.byte_count == size


async def test_a_part_is_continued_and_only_its_last_piece_is_sent_again(
    upload: Copy, tmp_path: Path, folder: Path
) -> None:
    source = tmp_path / "source"
    data = os.urandom(3 * PIECE_BYTES + 5)
    source.write_bytes(data)
    info = await LocalFiles().info(bytes(source))
    assert info
    part = part_path(at(folder, "target"), bytes(source.resolve()), info)
    # a marker that would be overwritten if the whole file were sent again
    kept = b"k" * PIECE_BYTES
    write(part, kept + b"\0" * PIECE_BYTES)

    await upload.file(bytes(source), at(folder, "target"))

    assert (folder / "target").read_bytes() == kept + data[PIECE_BYTES:]
    assert names(folder) == ["target"]


async def test_a_file_that_is_replaced_is_never_half_there(upload: Copy, tmp_path: Path, folder: Path) -> None:
    (tmp_path / "source").write_bytes(b"new")
    (folder / "file").write_bytes(b"old")
    (folder / "link").symlink_to("file")
    with (folder / "file").open("rb") as before:
        await upload.file(at(tmp_path, "source"), at(folder, "link"))
        assert before.read() == b"old"
    assert (folder / "link").is_symlink()
    assert (folder / "file").read_bytes() == b"new"


async def test_a_folder_is_copied_with_links_modes_and_odd_names(upload: Copy, tmp_path: Path, folder: Path) -> None:
    source = tmp_path / "source"
    (source / "inner" / "empty").mkdir(parents=True)
    for name in ODD_NAMES:
        write(at(source / "inner", name), name)
    (source / "outward").symlink_to("/etc/passwd")
    (source / "loop").symlink_to(".")
    os.mkfifo(source / "pipe")
    (source / "inner").chmod(0o550)

    await upload.folder(bytes(source), at(folder, "copy"))
    again = Copy(source=upload.source, target=upload.target)
    await again.folder(bytes(source), at(folder, "copy"))

    made = folder / "copy"
    assert all(read(at(made / "inner", name)) == name for name in ODD_NAMES)
    assert (made / "inner" / "empty").is_dir()
    assert stat.S_IMODE((made / "inner").stat().st_mode) == 0o550
    assert [str((made / "outward").readlink()), str((made / "loop").readlink())] == ["/etc/passwd", "."]
    assert upload.progress.skipped == [at(source, "pipe")]
    assert (again.progress.unchanged, again.progress.files) == (len(ODD_NAMES), len(ODD_NAMES) + 2)
    assert not upload.progress.failures
    (made / "inner").chmod(0o750)
    (source / "inner").chmod(0o750)


async def test_a_file_that_cannot_be_written_does_not_stop_the_others(
    upload: Copy, tmp_path: Path, folder: Path
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("a", "b", "c"):
        (source / name).write_text(name)
    (folder / "b").mkdir()  # in the way

    await upload.folder(bytes(source), bytes(folder))

    (failure,) = upload.progress.failures
    assert file_failed(failure).message == f"my-node:{folder}/b is a folder."
    assert ((folder / "a").read_text(), (folder / "c").read_text()) == ("a", "c")


async def test_a_lost_connection_is_reported_as_such(
    connection: SshConnection, files: FileAccess, folder: Path
) -> None:
    writing = await files.open_to_write(at(folder, "file"))
    await connection.close()
    with pytest.raises(WorkerUnreachable, match="connection to the worker was lost"):
        await files.info(bytes(folder))
    with pytest.raises(WorkerUnreachable, match="connection to the worker was lost"):
        await writing.write(0, b"x")
