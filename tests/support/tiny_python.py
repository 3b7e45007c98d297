"""Pythons to fetch and to be in need of: the tests' own, packed as uv knows them, and one that says it is too old."""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import sys
import sysconfig
import tarfile
from pathlib import Path

OWN = "{}.{}".format(*sys.version_info[:2])
KEY = f"cpython-{platform.python_version()}-linux-{platform.machine()}-gnu"
_LEFT_OUT = {"__pycache__", "site-packages", "dist-packages", "test", "idlelib", "tkinter", "turtledemo", "lib2to3"}
# To what makes environments it must not lie: where packages are to go depends on what it is.
_SAYS_IT_IS_OLD = """\
import re
import sys
from collections import namedtuple

if not re.search(r"\\b(get_interpreter_info|sysconfig|venv|ensurepip|pip)\\b", " ".join(sys.orig_argv[1:])):
    sys.version_info = namedtuple("version_info", "major minor micro releaselevel serial")(3, 10, 12, "final", 0)
"""


def write_python(folder: Path) -> Path:
    """An archive of the Python that runs the tests, which works wherever it is unpacked on this machine."""
    archive = folder / f"{KEY}-for-tests.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as packed:
        packed.add(Path(sys._base_executable).resolve(), f"python/bin/python{OWN}")  # type: ignore[attr-defined]
        packed.add(sysconfig.get_path("stdlib"), f"python/lib/python{OWN}", filter=_worth_it)
    return archive


def write_list(folder: Path, archive: Path, *, name: str = "pythons.json", sha256: str = "") -> dict[str, str]:
    """A list of Pythons to fetch with this one alone, and the variables with which uv knows it and no other."""
    major, minor, patch = map(int, platform.python_version_tuple())
    entry = {
        "name": "cpython",
        "arch": {"family": platform.machine(), "variant": None},
        "os": "linux",
        "libc": "gnu",
        "major": major,
        "minor": minor,
        "patch": patch,
        "prerelease": "",
        "url": archive.as_uri(),
        "sha256": sha256 or hashlib.sha256(archive.read_bytes()).hexdigest(),
        "variant": None,
        "build": "20260101",
    }
    (folder / name).write_text(json.dumps({KEY: entry}))
    return {"UV_PYTHON_DOWNLOADS_JSON_URL": (folder / name).as_uri(), "UV_PYTHON_PREFERENCE": "only-managed"}


def unpack_old_python(folder: Path, archive: Path) -> Path:
    """A Python with pip's wheel and no packages that says it is 3.10, in a folder of commands of its own."""
    shutil.unpack_archive(archive, folder)
    (folder / "python" / "lib" / f"python{OWN}" / "sitecustomize.py").write_text(_SAYS_IT_IS_OLD)
    commands = folder / "python" / "bin"
    for name in ("python3", "python"):
        (commands / name).symlink_to(f"python{OWN}")
    return commands / "python3"


def _worth_it(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    parts = entry.name.split("/")
    return None if _LEFT_OUT.intersection(parts) or any(part.startswith("config-") for part in parts) else entry
