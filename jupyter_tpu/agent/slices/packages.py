"""Check that a Python can take part in a slice, and install missing packages. Everything here blocks."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from jupyter_tpu.agent.environments.venv import Environments
from jupyter_tpu.agent.lock import SLICE_NEEDS
from jupyter_tpu.agent.paths import Home
from jupyter_tpu.errors import EnvironmentFailed

_FITS = re.compile(r"9\.2\.\d")  # the versions that `SLICE_NEEDS` allows
_FIND_SCRIPT = """
import json, sysconfig
from importlib import metadata
try:
    version = metadata.version("ipyparallel")
except metadata.PackageNotFoundError:
    version = ""
print(json.dumps({"version": version, "folder": sysconfig.get_path("purelib")}))
"""
# Time limit for a Python process. It starts in 0.1 s, but a worker whose cores are all busy may need much longer.
_FIND_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Packages:
    """The packages installed in a Python.

    Attributes:
        version: version of ipyparallel; empty if it is not installed.
        folder: folder of the packages.
        changed_at: when the folder was last changed.
    """

    version: str
    folder: str
    changed_at: float

    @property
    def fit(self) -> bool:
        """Whether an engine can run with these packages."""
        return bool(_FITS.match(self.version))

    @property
    def unfit_text(self) -> str:
        """Return why an engine can't run with these packages."""
        has = f"has ipyparallel {self.version}" if self.version else "has no ipyparallel"
        return f"The worker {has}; a kernel on all workers needs ipyparallel 9.2."


@dataclass
class SlicePackages:
    """Provides Python interpreters with the packages that slices need.

    Attributes:
        home: the agent's folder, with the environments.
        default: the default Python for kernels.
    """

    home: Home
    default: str
    _found: dict[str, Packages] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def provide(self, python: str) -> str:
        """Return a Python that has all packages of `python` and of `SLICE_NEEDS`.

        Raises:
            EnvironmentFailed: the Python can't be run, or a package can't be installed.
        """
        with self._lock:
            found = self._packages_of(python)
            if found.fit:
                return python
            try:
                made = Environments(self.home, lambda *_: None).slice_python(python, found.folder)
            except EnvironmentFailed as error:
                error.exists = found.unfit_text
                raise
            if not (after := self._packages_of(made)).fit:
                raise EnvironmentFailed(
                    f"A kernel on all workers can't use the Python {python} on the worker.",
                    exists=after.unfit_text,
                    hint="Check PYTHONPATH on the worker, or install it on all workers: "
                    f"{python} -m pip install '{SLICE_NEEDS[0]}'",
                )
            return made

    def _packages_of(self, python: str) -> Packages:
        """Return a Python's packages; search again only after a package was installed, because a search is slow."""
        known = self._found.get(python)
        if known is None or _changed_at(known.folder) != known.changed_at:
            known = self._found[python] = _find_packages(python)
        return known


def _find_packages(python: str) -> Packages:
    try:
        done = subprocess.run(
            [python, "-c", _FIND_SCRIPT],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_FIND_TIMEOUT_S,
            check=True,
            text=True,
        )
        found = json.loads(done.stdout)
        return Packages(str(found["version"]), str(found["folder"]), _changed_at(found["folder"]))
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError) as error:
        raise EnvironmentFailed(
            f"The Python {python} on the worker cannot be run.", hint="Choose another Python.", raw=str(error)
        ) from error


def _changed_at(folder: str) -> float:
    with suppress(OSError):
        return Path(folder).stat().st_mtime
    return 0.0
