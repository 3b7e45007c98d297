"""A file is written whole or not at all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_tpu.files import write_whole

SHORT_OF_SPACE = """
import pathlib, resource, signal, sys
from jupyter_tpu.files import write_whole
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))
try:
    write_whole(pathlib.Path(sys.argv[1]), bytes(4096))
except OSError:
    sys.exit(7)
"""


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@pytest.mark.parametrize("is_durable", [False, True])
def test_a_file_is_replaced_and_closed_to_others(tmp_path: Path, is_durable: bool) -> None:
    path = tmp_path / "a file"
    write_whole(path, b"old", mode=0o644)
    assert path.stat().st_mode & 0o777 == 0o644
    write_whole(path, b"new", is_durable=is_durable)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", 0o600)
    assert names(tmp_path) == ["a file"]


def test_what_does_not_fit_on_the_disk_leaves_the_old_file_and_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "a file"
    write_whole(path, b"old")
    done = subprocess.run([sys.executable, "-B", "-c", SHORT_OF_SPACE, str(path)], check=False)
    assert done.returncode == 7
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a file"]
