"""Download a Python interpreter to this machine for a worker that can't download it.

uv downloads, verifies and caches the archive, so no archive is downloaded twice.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from jupyter_tpu.agent.environments.python import accepted_pythons, preferred_python
from jupyter_tpu.errors import EnvironmentFailed, Text
from jupyter_tpu.frameworks import Release
from jupyter_tpu.journal.paths import data_dir
from jupyter_tpu.kernels.environments.download import WorkerPlatform, run_uv, uv_command


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedPython:
    """A Python interpreter as an archive that can be unpacked anywhere on a worker.

    Attributes:
        version: the full version, such as ``3.12.4``.
        archive: path of the archive; the agent finds the archive by its file name.
    """

    version: str
    archive: Path

    @property
    def minor(self) -> str:
        """The minor version: ``3.12`` for ``3.12.4``."""
        return ".".join(self.version.split(".")[:2])


def fetch_python(platform: WorkerPlatform, release: Release) -> FetchedPython | None:
    """Download a Python for `release`, or return None if the worker's system Python is compatible. Blocks.

    Raises:
        BadInput: this machine has no uv.
        EnvironmentFailed: no such Python exists, or it cannot be downloaded.
    """
    preferred = preferred_python(release, platform.python_version)
    if preferred is None:
        return None
    wanted = f"cpython-{accepted_pythons(release, preferred)}-linux-{platform.machine}-gnu"
    folder = data_dir() / "pythons" / wanted.translate(str.maketrans("<>=,", "____"))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # uv has no download-only command. Discard the installation: its name contains the exact version, and the archive
    # remains in the cache.
    with tempfile.TemporaryDirectory(dir=folder, prefix=".installed-") as installed:
        argv = [*uv_command(), "python", "install", "--quiet", "--no-bin", "--install-dir", installed, wanted]
        run_uv(argv, f"fetch a Python for {release.title}", UV_PYTHON_CACHE_DIR=str(folder / "fetched"))
        (key,) = (path.name for path in Path(installed).glob("cpython-*") if not path.is_symlink())
    return FetchedPython(version=key.split("-")[1], archive=_named(folder, key))


def _named(folder: Path, key: str) -> Path:
    """Copy the archive that uv downloaded last to a file named after its Python version, and return the path."""
    named = folder / f"{key}.tar.gz"
    archives = [path for path in (folder / "fetched").iterdir() if path.name.endswith(".tar.gz")]
    if not archives:
        raise EnvironmentFailed(
            Text("uv on this machine does not cache the archive for {key}.", key=key),
            exists="Nothing was sent.",
            hint="Upgrade uv on this machine with `pip install --upgrade uv`.",
        )
    shutil.copyfile(max(archives, key=lambda path: path.stat().st_mtime), named)
    return named
