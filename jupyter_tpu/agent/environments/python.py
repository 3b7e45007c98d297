"""The Python of an environment whose release the worker's own does not fit: one that was sent here, or uv's affair.

uv takes one that is installed, or fetches one. What is sent is the very archive that uv would have fetched.
"""

from __future__ import annotations

import re
import shutil
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from jupyter_tpu.agent.environments.uv import can_run, way_out
from jupyter_tpu.agent.paths import Home
from jupyter_tpu.errors import BadInput, EnvironmentFailed
from jupyter_tpu.frameworks import Release, newest, python_range

Python: TypeAlias = "tuple[int, int]"

NO_DOWNLOAD = (
    "The worker must reach the place that uv fetches Pythons from: give the node an external IP or Cloud NAT, name a "
    "mirror by python-install-mirror in ~/.config/uv/uv.toml on the worker, or send Python and packages from here: "
    "`jupyter tpu env make NODE {framework} --push`."
)
_USUAL: Python = (3, 12)
_SENT = re.compile(r"cpython-(\d+)\.(\d+)\.\w+-linux-\w+-gnu")
_SUFFIX = ".tar.gz"


def preferred_python(release: Release, own: Python) -> Python | None:
    """The newest Python to take for a release; None where the worker's `own` will do."""
    if release.fits(own):
        return None
    usual = max(_USUAL, release.python_min)
    return usual if release.python_max is None else min(usual, release.python_max)


def accepted_pythons(release: Release, preferred: Python) -> str:
    """Those from the oldest that fits to the preferred one, as a specifier; uv takes the newest of them that it finds.

    >>> accepted_pythons(newest("jax"), (3, 12))
    '>=3.11,<3.13'
    """
    (oldest_major, oldest_minor), (major, minor) = release.python_min, preferred
    return f">={oldest_major}.{oldest_minor},<{major}.{minor + 1}"


def no_python(release: Release, own: Python, hint: str) -> tuple[str, str]:
    """What to say where no Python for a release can be had, and the ways out, of which `hint` may be one."""
    have = f"{own[0]}.{own[1]}"
    message = f"{release.title} needs Python {python_range(release)}; the worker has {have}, and uv can get no other."
    ways = [hint or NO_DOWNLOAD.format(framework=release.framework)]
    try:
        older = newest(release.framework, own)
    except BadInput:
        return message, ways[0]
    make = f"`jupyter tpu env make NODE {older.framework} --version {older.minor}`"
    return message, f"{ways[0]} {older.title} works with Python {have}: {make}."


def sent_python(home: Home, release: Release) -> str:
    """The path of the newest Python that was sent to this worker and fits the release; empty: there is none.

    Raises:
        EnvironmentFailed: it cannot be unpacked.
    """
    fitting = [(version, archive) for version, archive in _sent(home) if release.fits(version)]
    return _unpacked(home, *max(fitting)) if fitting else ""


def _sent(home: Home) -> Iterator[tuple[Python, Path]]:
    for archive in (home.root / "wheels").glob(f"cpython-*{_SUFFIX}"):
        if match := _SENT.fullmatch(archive.name.removesuffix(_SUFFIX)):
            yield (int(match[1]), int(match[2])), archive


def _unpacked(home: Home, version: Python, archive: Path) -> str:
    """Into a draft first: a folder of its name was whole once."""
    folder = home.root / "pythons" / archive.name.removesuffix(_SUFFIX)
    python = folder / "python" / "bin" / "python{}.{}".format(*version)
    if can_run(str(python), "pass"):
        return str(python)
    draft = folder.with_name(folder.name + ".new")
    for left in (folder, draft):
        shutil.rmtree(left, ignore_errors=True)
    try:
        _unpack(archive, draft)
    except (tarfile.TarError, zlib.error, EOFError) as error:
        archive.unlink(missing_ok=True)
        raise EnvironmentFailed(
            f"{archive.name} on the worker is damaged.", hint="Send it again: `--push`.", raw=str(error)
        ) from error
    except OSError as error:
        shutil.rmtree(draft, ignore_errors=True)
        raise EnvironmentFailed(
            f"Could not unpack {archive.name} on the worker: {error}.", hint=way_out(str(error)), raw=str(error)
        ) from error
    draft.rename(folder)
    return str(python)


def _unpack(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as packed:
        # before 3.10.12 there is no filter
        packed.extraction_filter = getattr(tarfile, "data_filter", lambda member, _path: member)
        packed.extractall(folder)
