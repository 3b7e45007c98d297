"""First program on a worker: takes the agent's code in and hands over to it.

Sent on standard input to the worker's own python3, so it is one file, needs only the standard library and refuses a
Python that is too old in words. After it on standard input: one JSON line ``{"digest", "size", "python", "explain"}``,
then, only when it answers ``{"want": "archive"}``, the archive. Everything it says is a JSON line.
"""

import fcntl
import hashlib
import io
import json
import os
import shutil
import stat
import sys
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any, NoReturn

OLDEST = (3, 10)
ARCHIVE = "archive.zip"


def say(**content: object) -> None:
    sys.stdout.write(json.dumps(content) + "\n")
    sys.stdout.flush()


def fail(message: str, hint: str) -> NoReturn:
    say(failed={"code": "environment_failed", "message": message, "hint": hint})
    sys.exit(1)


def refuse_if_shared(root: Path) -> None:
    """Code that others could change must not be run."""
    found = root.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        fail(
            f"The folder {root} on the worker is not ours alone.",
            "Make it yours with permissions 0700, or remove it: it holds the agent and the kernels' records.",
        )


def wait_for_turn(lock: IO[str]) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say(phase="agent", message="Waiting for another client that prepares this worker", fraction=0.0)
        fcntl.flock(lock, fcntl.LOCK_EX)


def receive_archive(size: int, digest: str) -> bytes:
    say(want="archive")
    content = sys.stdin.buffer.read(size)
    if hashlib.sha256(content).hexdigest() != digest:
        fail("The agent's code did not arrive whole on the worker.", "Try again.")
    return content


def unpack(content: bytes, folder: Path, draft: Path) -> None:
    """Into a draft first, so that a folder of this name was whole once; the archive stays in it to compare with."""
    shutil.rmtree(draft, ignore_errors=True)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        archive.extractall(draft)
    (draft / ARCHIVE).write_bytes(content)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        draft.rename(folder)
    except OSError:
        if not is_whole(folder):  # else the agent and a client did the same at once
            raise


def is_whole(folder: Path) -> bool:
    """Whether the code is there and nothing has changed it: a full disk, a cleaner, an editor."""
    try:
        with zipfile.ZipFile(folder / ARCHIVE) as archive:
            return all(zlib.crc32((folder / each.filename).read_bytes()) == each.CRC for each in archive.infolist())
    except (OSError, zipfile.BadZipFile):
        return False


def main() -> None:
    if sys.version_info < OLDEST:
        fail(
            "The worker's Python is {}.{}; the agent needs {}.{}.".format(*sys.version_info[:2], *OLDEST),
            "Create the node with a newer runtime version, such as tpu-ubuntu2204-base.",
        )
    try:
        hand_over(json.loads(sys.stdin.buffer.readline()))
    except OSError as error:
        fail(
            f"The agent's files on the worker cannot be used: {error}.",
            "Look at that path by `jupyter tpu ssh`: the disk may be full, or something else may be in the way.",
        )


def hand_over(request: dict[str, Any]) -> None:
    """Unpack the code if it is not there yet or was damaged, and run its second step."""
    users_umask = os.umask(0o077)
    root = Path.home() / ".jupyter-tpu"
    folder = root / "agent" / request["digest"]
    root.mkdir(mode=0o700, exist_ok=True)
    refuse_if_shared(root)
    folder.parent.mkdir(exist_ok=True)
    with (root / "bootstrap.lock").open("w") as lock:
        wait_for_turn(lock)
        if not is_whole(folder):
            content = receive_archive(request["size"], request["digest"])
            unpack(content, folder, folder.with_name(folder.name + ".new"))
        sys.path.insert(0, str(folder))
        from jupyter_tpu.agent.prepare import main as prepare

        os.umask(users_umask)
        prepare(folder, request)


if __name__ == "__main__":
    main()
