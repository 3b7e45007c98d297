"""The first program on a worker: receive the agent's code, unpack it and run its `prepare`.

Clients send this program on standard input to the worker's own python3. So it is a single file, needs only the standard
library, and reports an error if the Python version is too old. Clients then send one JSON line ``{"digest", "size",
"python", "explain"}``, and the archive only after the response ``{"want": "archive"}``. All output is in JSON lines.
"""

import errno
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


def send(**content: object) -> None:
    """Send one JSON line to the client."""
    sys.stdout.write(json.dumps(content) + "\n")
    sys.stdout.flush()


def fail(message: str, hint: str, code: str = "environment_failed") -> NoReturn:
    """Report an error to the client and exit."""
    send(failed={"code": code, "message": message, "hint": hint})
    sys.exit(1)


def refuse_if_shared(root: Path) -> None:
    """Fail if another user could change the folder, because code from it would be unsafe to run."""
    found = root.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        fail(
            f"Other users have access to the folder {root} on the worker.",
            "Make it yours with permissions 0700, or remove it: it holds the agent and the kernels' records.",
        )


def wait_for_turn(lock: IO[str]) -> None:
    """Acquire the bootstrap lock; if another client holds it, report this and wait."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        send(phase="agent", message="Waiting while another client prepares this worker", fraction=0.0)
        fcntl.flock(lock, fcntl.LOCK_EX)


def receive_archive(size: int, digest: str) -> bytes:
    """Ask the client for the archive and check it against its SHA-256."""
    send(want="archive")
    content = sys.stdin.buffer.read(size)
    if hashlib.sha256(content).hexdigest() != digest:
        fail("The agent's code arrived damaged on the worker.", "Try again.")
    return content


def unpack(content: bytes, folder: Path, draft: Path) -> None:
    """Unpack the archive into `draft`, then rename it to `folder`, so that an interruption leaves no `folder`.

    The archive stays in the folder, because `is_whole` compares the code with it.
    """
    shutil.rmtree(draft, ignore_errors=True)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        archive.extractall(draft)
    (draft / ARCHIVE).write_bytes(content)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        draft.rename(folder)
    except OSError:
        if not is_whole(folder):  # if it is complete, another process has unpacked it in the meantime
            raise


def is_whole(folder: Path) -> bool:
    """Whether the code is complete and unchanged: a full disk, a clean-up tool or an editor may have damaged it."""
    try:
        with zipfile.ZipFile(folder / ARCHIVE) as archive:
            return all(zlib.crc32((folder / each.filename).read_bytes()) == each.CRC for each in archive.infolist())
    except (OSError, zipfile.BadZipFile):
        return False


def main() -> None:
    """Read the client's request and prepare the worker; report every failure as JSON."""
    if sys.version_info < OLDEST:
        fail(
            "The worker's Python is {}.{}; the agent needs {}.{}.".format(*sys.version_info[:2], *OLDEST),
            "Create the node with a newer runtime version, such as tpu-ubuntu2204-base.",
        )
    try:
        hand_over(json.loads(sys.stdin.buffer.readline()))
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
            home = Path.home()
            fail(
                f"The disk of the worker can't be written: {error.strerror}. "
                f"{shutil.disk_usage(home).free >> 20} MiB are free in {home}.",
                "Remove files there with `jupyter tpu ssh`, and try again.",
                "worker_disk_full",
            )
        fail(
            f"The agent can't use its files on the worker: {error}.",
            "Check that path with `jupyter tpu ssh`: another file may be in the way.",
        )


def hand_over(request: dict[str, Any]) -> None:
    """Unpack the code if it is missing or damaged, then run its `prepare`."""
    users_umask = os.umask(0o077)
    root = Path.home() / ".jupyter-tpu"
    folder = root / "agent" / request["digest"]
    root.mkdir(mode=0o700, exist_ok=True)
    refuse_if_shared(root)
    folder.parent.mkdir(exist_ok=True)
    # Hold the lock until the supervisor is running: two clients must not unpack or start an agent at the same time.
    with (root / "bootstrap.lock").open("w") as lock:
        wait_for_turn(lock)
        if not is_whole(folder):
            content = receive_archive(request["size"], request["digest"])
            unpack(content, folder, folder.with_name(folder.name + ".new"))
        sys.path.insert(0, str(folder))
        from jupyter_tpu.agent.prepare import main as prepare

        # `prepare` stores the user's own umask for the kernels' processes.
        os.umask(users_umask)
        prepare(folder, request)


if __name__ == "__main__":
    main()
