"""Files travel to and from a worker with the tools that people have: scp, sftp, and gcloud's way of calling scp."""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tiers import SSHD_KINDS

USER = getpass.getuser()
CONTENT = os.urandom(300_000)

pytestmark = pytest.mark.skipif(shutil.which("sftp") is None, reason="OpenSSH's scp and sftp are not installed")


@pytest.fixture(params=SSHD_KINDS)
def cloud(request: Any, make_emulator: Callable[..., Any], connect_cloud: Callable[[Any], Any]) -> Any:
    return connect_cloud(make_emulator("--sshd", request.param))


@pytest.fixture
async def worker(cloud: Any, user_key: Any, tmp_path: Path) -> Worker:
    node = await cloud.create(metadata=user_key.metadata)
    (items,) = await cloud.guest_items()
    home = Path(cloud.control.workers(node.name)[0]["home"])
    return Worker(port=items["emulator/ssh-port"], host_key=items["hostkeys/ssh-ed25519"], home=home, folder=tmp_path)


class Worker:
    """Runs OpenSSH's tools against a worker, with the host key pinned."""

    def __init__(self, *, port: str, host_key: str, home: Path, folder: Path) -> None:
        self.home = home
        self._port = port
        self._key = folder / "id_ed25519"
        self._known = folder / "known_hosts"
        self._known.write_text(f"[127.0.0.1]:{port} ssh-ed25519 {host_key}\n")

    def plain(self, tool: str, *words: str, said: str = "") -> str:
        return self._run(tool, "-F", "none", *self._options(StrictHostKeyChecking="yes"), *words, said=said)

    def as_gcloud(self, tool: str, *words: str) -> str:
        """The options that gcloud 528.0.0 gives; where it dials, it is told by ``--scp-flag``."""
        options = self._options(
            CheckHostIP="no", HashKnownHosts="no", HostKeyAlias="tpu.1-0-abcdef", StrictHostKeyChecking="no"
        )
        return self._run(tool, "-F", "none", *options, *words)

    def _options(self, **named: str) -> list[str]:
        both = {**named, "IdentitiesOnly": "yes", "UserKnownHostsFile": str(self._known)}
        return ["-P", self._port, "-i", str(self._key), *(f"-o{name}={value}" for name, value in both.items())]

    def _run(self, *argv: str, said: str = "") -> str:
        done = subprocess.run(argv, input=said, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


def place(path: str = "") -> str:
    return f"{USER}@127.0.0.1:{path}"


WAYS = {
    "scp": lambda worker, *words: worker.plain("scp", *words),
    "scp of before OpenSSH 9": lambda worker, *words: worker.plain("scp", "-O", *words),
    "gcloud": lambda worker, *words: worker.as_gcloud("scp", *words),
}


@pytest.mark.shows("file-transfer")
@pytest.mark.parametrize("way", WAYS)
def test_files_and_folders_travel_both_ways(worker: Worker, tmp_path: Path, way: str) -> None:
    (tmp_path / "up" / "below").mkdir(parents=True)
    (tmp_path / "up" / "below" / "data.bin").write_bytes(CONTENT)
    (tmp_path / "run.sh").write_text("#!/bin/sh\n")
    (tmp_path / "run.sh").chmod(0o755)

    WAYS[way](worker, str(tmp_path / "run.sh"), place())
    WAYS[way](worker, "-r", str(tmp_path / "up"), place("~/copied"))
    WAYS[way](worker, "-r", place("copied"), str(tmp_path / "down"))
    WAYS[way](worker, place(str(worker.home / "run.sh")), str(tmp_path / "again.sh"))

    assert os.access(worker.home / "run.sh", os.X_OK)
    assert (worker.home / "copied" / "below" / "data.bin").read_bytes() == CONTENT
    assert (tmp_path / "down" / "below" / "data.bin").read_bytes() == CONTENT
    assert (tmp_path / "again.sh").read_text() == "#!/bin/sh\n"


def test_sftp_begins_in_the_home_and_changes_what_lies_there(worker: Worker, tmp_path: Path) -> None:
    (worker.home / "old.txt").write_text("text")

    said = worker.plain("sftp", "-b", "-", place(), said="pwd\nmkdir made\nrename old.txt made/new.txt\nls made\n")

    assert str(worker.home.resolve()) in said
    assert (worker.home / "made" / "new.txt").read_text() == "text"
    assert not (worker.home / "old.txt").exists()


def test_a_missing_file_is_named(worker: Worker, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="No such file"):
        worker.plain("scp", place("nowhere.txt"), str(tmp_path))


@pytest.mark.parametrize("cloud", ["embedded"], indirect=True)
def test_sftp_opens_nothing_of_the_emulators_own_process(worker: Worker, tmp_path: Path) -> None:
    (worker.home / "link").symlink_to("/proc/self/environ")

    for path in ("/proc/self/environ", "link"):
        with pytest.raises(AssertionError, match=r"[Pp]ermission denied|not transferred|No such file"):
            worker.plain("scp", place(path), str(tmp_path))
