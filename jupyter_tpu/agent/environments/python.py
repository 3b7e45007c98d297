"""Choose a Python for an environment whose framework doesn't support the worker's own Python.

A Python sent by a client takes precedence; otherwise, uv finds an installed Python or downloads one. Clients send the
same archive that uv would download.
"""

from __future__ import annotations

import re
import shutil
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from jupyter_tpu.agent.environments.uv import can_run, hint_for
from jupyter_tpu.agent.paths import Home
from jupyter_tpu.errors import BadInput, EnvironmentFailed
from jupyter_tpu.frameworks import Release, newest, python_range

Python: TypeAlias = "tuple[int, int]"

NO_DOWNLOAD = (
    "The worker must reach the server that uv downloads Python from: give the node an external IP or Cloud NAT, set "
    "python-install-mirror in ~/.config/uv/uv.toml on the worker to a mirror, or send Python and packages from here: "
    "`jupyter tpu env make NODE {framework} --push`."
)
# The Python version to use if the framework's release supports it. It isn't the newest one, because many packages have
# no wheels for that yet.
_USUAL: Python = (3, 12)
_SENT = re.compile(r"cpython-(\d+)\.(\d+)\.\w+-linux-\w+-gnu")
_SUFFIX = ".tar.gz"


def preferred_python(release: Release, own: Python) -> Python | None:
    """Return the Python version to install for a release, or None if the worker's `own` Python fits."""
    if release.fits(own):
        return None
    usual = max(_USUAL, release.python_min)
    return usual if release.python_max is None else min(usual, release.python_max)


def accepted_pythons(release: Release, preferred: Python) -> str:
    """Return a specifier from the oldest supported Python to the preferred one; uv uses the newest that it finds.

    >>> accepted_pythons(newest("jax"), (3, 12))
    '>=3.11,<3.13'
    """
    (oldest_major, oldest_minor), (major, minor) = release.python_min, preferred
    return f">={oldest_major}.{oldest_minor},<{major}.{minor + 1}"


def no_python(release: Release, own: Python, hint: str) -> tuple[str, str]:
    """Return the message and hint for a release without a suitable Python; `hint` replaces the default advice."""
    have = f"{own[0]}.{own[1]}"
    message = f"{release.title} needs Python {python_range(release)}; the worker has {have}, and uv can't get another."
    ways = [hint or NO_DOWNLOAD.format(framework=release.framework)]
    try:
        older = newest(release.framework, own)
    except BadInput:
        return message, ways[0]
    make = f"`jupyter tpu env make NODE {older.framework} --version {older.minor}`"
    return message, f"{ways[0]} {older.title} works with Python {have}: {make}."


def sent_python(home: Home, release: Release) -> str:
    """Return the path of the newest Python that was sent to this worker and fits the release, or an empty string.

    Raises:
        EnvironmentFailed: the Python can't be unpacked.
    """
    fitting = [(version, archive) for version, archive in _sent(home) if release.fits(version)]
    return _unpacked(home, *max(fitting)) if fitting else ""


def _sent(home: Home) -> Iterator[tuple[Python, Path]]:
    for archive in (home.root / "wheels").glob(f"cpython-*{_SUFFIX}"):
        if match := _SENT.fullmatch(archive.name.removesuffix(_SUFFIX)):
            yield (int(match[1]), int(match[2])), archive


def _unpacked(home: Home, version: Python, archive: Path) -> str:
    """Unpack a Python from a client into a draft folder, rename the complete folder, and return the Python's path."""
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
            f"{archive.name} on the worker is damaged.", hint="Send the archive again with `--push`.", raw=str(error)
        ) from error
    except OSError as error:
        shutil.rmtree(draft, ignore_errors=True)
        raise EnvironmentFailed(
            f"Could not unpack {archive.name} on the worker: {error}.", hint=hint_for(str(error)), raw=str(error)
        ) from error
    # After the rename, the folder's name shows that it is complete.
    draft.rename(folder)
    return str(python)


def _unpack(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as packed:
        # Python before 3.10.12 has no extraction filters.
        packed.extraction_filter = getattr(tarfile, "data_filter", lambda member, _path: member)
        packed.extractall(folder)
