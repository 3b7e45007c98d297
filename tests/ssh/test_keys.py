from __future__ import annotations

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jupyter_tpu.errors import BadInput
from jupyter_tpu.ssh import UserKey, login_name


def test_a_new_key_is_ed25519_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    key = UserKey.load_or_create(tmp_path / "ssh")
    assert key.public_line.startswith("ssh-ed25519 ")
    assert stat.S_IMODE(key.private_path.stat().st_mode) == 0o600
    assert stat.S_IMODE(key.private_path.parent.stat().st_mode) == 0o700


FULL_DISK = """
import resource, sys
from pathlib import Path
from jupyter_tpu.errors import TpuError
from jupyter_tpu.ssh import UserKey
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
try:
    UserKey.load_or_create(Path(sys.argv[1]))
except TpuError as error:
    print(error.message)
"""


def test_a_full_disk_is_named_and_no_part_of_a_key_is_left(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert str(tmp_path) in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_key_is_the_same_the_second_time(tmp_path: Path) -> None:
    assert UserKey.load_or_create(tmp_path) == UserKey.load_or_create(tmp_path)


def test_the_public_key_lies_beside_the_private_one(tmp_path: Path) -> None:
    key = UserKey.load_or_create(tmp_path)
    assert (tmp_path / "id_ed25519.pub").read_text() == key.public_line + "\n"


def test_processes_that_ask_at_once_get_one_key(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(UserKey.load_or_create, [tmp_path] * 8))
    assert len(keys) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"id_ed25519", "id_ed25519.pub"}


def test_a_key_that_others_can_read_is_closed_to_them(tmp_path: Path) -> None:
    path = UserKey.load_or_create(tmp_path).private_path
    path.chmod(0o644)
    UserKey.load_or_create(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_broken_key_file_is_named_in_the_error(tmp_path: Path) -> None:
    (tmp_path / "id_ed25519").write_text("not a key")
    with pytest.raises(BadInput, match="id_ed25519 cannot be used"):
        UserKey.load_or_create(tmp_path)


@pytest.mark.parametrize(
    ("local", "login"),
    [("ada", "ada"), ("Ada.Lovelace", "ada-lovelace"), ("9lives", "user-9lives"), ("a$(reboot)", "a--reboot-")],
)
def test_the_login_name_is_one_that_linux_takes(local: str, login: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", local)
    assert login_name() == login
