"""The files of a framework's environment: its location, build inputs and installed packages."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from jupyter_tpu.agent.environments.request import EnvironmentRequest
from jupyter_tpu.agent.environments.uv import can_run
from jupyter_tpu.agent.environments.venv import HAS_IPYKERNEL
from jupyter_tpu.agent.paths import Home
from jupyter_tpu.errors import TpuError
from jupyter_tpu.frameworks import release_of

# Seconds since a folder's last change. A folder that changed more recently may still be changing, so don't cache its
# contents.
_SETTLED_S = 2.0
_VERSION = re.compile(r"^version(?:_info)?\s*=\s*([0-9.]+)", re.MULTILINE)
_NAME = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*(\[[^\]]*\])?\s*(==\s*(?P<version>[^\s;]+)|@\s*(?P<url>\S+))?")


@dataclass(frozen=True)
class BuildRecord:
    """The inputs of an environment's build.

    Attributes:
        version: the framework's version.
        python: version of its Python, such as ``3.12.4``.
        requirements: requirement lines from notebooks' folders.
        pins: all packages installed for the requirements, with exact versions.
    """

    version: str
    python: str
    requirements: tuple[str, ...] = ()
    pins: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the record in the format stored beside the environment."""
        return {**asdict(self), "requirements": list(self.requirements), "pins": list(self.pins)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> BuildRecord:
        """Rebuild a record from `to_json`; raise KeyError or TypeError for other data."""
        lists = {name: tuple(map(str, data[name])) for name in ("requirements", "pins")}
        return cls(str(data["version"]), str(data["python"]), **lists)


@dataclass(frozen=True)
class EnvironmentFiles:
    """The files of one framework's environment. The folder is valid only if a build record exists beside it."""

    home: Home
    framework: str

    @property
    def folder(self) -> Path:
        """The folder of the virtual environment."""
        return self.home.environments / self.framework

    @property
    def python(self) -> str:
        """Path of the environment's Python."""
        return str(self.folder / "bin" / "python")

    def build_record(self) -> BuildRecord | None:
        """Return the environment's build inputs, or None if its build never finished or its Python is missing."""
        try:
            made = BuildRecord.from_json(json.loads(self._made.read_text()))
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None
        # The Python used to build the environment may have been removed from the worker.
        return made if os.access(self.python, os.X_OK) else None

    def usable(self) -> BuildRecord | None:
        """Return the result of `build_record`, or None if kernels can no longer start in the environment."""
        made = self.build_record()
        return made if made and can_run(self.python, HAS_IPYKERNEL) else None

    def set_build_record(self, made: BuildRecord) -> None:
        """Mark the environment as complete."""
        _write(self._made, made.to_json())

    def python_version(self) -> str:
        """Return the version of the environment's Python (``3.12.4``), or an empty string if it can't be read."""
        try:
            found = _VERSION.search((self.folder / "pyvenv.cfg").read_text())
        except OSError:
            return ""
        return found[1] if found else ""

    def pending_request(self) -> EnvironmentRequest | None:
        """Return the request of a build that has started but not finished, or None if there is none."""
        try:
            return EnvironmentRequest.from_params(json.loads(self._order.read_text()))
        except (OSError, ValueError, TypeError, AttributeError, TpuError, RecursionError):
            return None

    def is_unfinished(self) -> bool:
        """Whether a build has started but not finished, or left a partial environment."""
        return self.pending_request() is not None or (self.build_record() is None and self.folder.exists())

    def set_pending_request(self, order: EnvironmentRequest) -> None:
        """Store the request when its build starts."""
        _write(self._order, order.to_json())

    def clear_pending_request(self) -> None:
        """Remove the request when its build is over."""
        self._order.unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove the environment, starting with the file that marks it as complete."""
        self._made.unlink(missing_ok=True)
        self.clear_pending_request()
        shutil.rmtree(self.folder, ignore_errors=True)

    def installed(self) -> dict[str, str]:
        """Return the installed packages: requirement lines by normalised name."""
        folders = tuple(str(path) for path in sorted(self.folder.glob("lib/python*/site-packages")))
        changed = max(map(_changed, folders), default=0.0)
        # The modification time is the cache key. Just after a change, an installation may still be running: then the
        # current time as the key forces a new read.
        return dict(_installed_in(folders, changed if time.time() - changed > _SETTLED_S else time.time()))

    def added(self, made: BuildRecord) -> tuple[str, ...]:
        """Return the packages that the user has added or installed in a different version."""
        pins = {normalised(name): version for name, version in map(name_and_version, made.pins)}
        installed = self.installed()
        return tuple(installed[name] for name in sorted(installed) if _differs(installed[name], pins.get(name)))

    def describe(self) -> dict[str, Any]:
        """Return the environment as JSON for clients."""
        made = self.build_record()
        version = made.version if made else (self.pending_request() or EnvironmentRequest(self.framework)).version
        release = release_of(self.framework, version) if version else None
        return {
            "framework": self.framework,
            "title": release.title if release else "",
            "path": self.python,
            "is_ready": made is not None,
            "version": version,
            "python": made.python if made else "",
            "requirements": list(made.requirements) if made else [],
            "pins": list(made.pins) if made else [],
            "added": list(self.added(made)) if made else [],
        }

    @property
    def _made(self) -> Path:
        return self.home.environments / f"{self.framework}.json"

    @property
    def _order(self) -> Path:
        return self.home.environments / f"{self.framework}.order.json"


def _changed(folder: str) -> float:
    """Return when packages in this folder last changed: the newest time of the folder and the packages' metadata."""
    times = [Path(folder).stat().st_mtime]
    for each in Path(folder).glob("*.dist-info"):
        with suppress(OSError):  # the environment is being removed
            times.append(each.stat().st_mtime)
    return max(times)


@functools.lru_cache(maxsize=8)
def _installed_in(folders: tuple[str, ...], _as_of: float) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for each in metadata.distributions(path=list(folders)):
        with suppress(OSError, KeyError, TypeError, AttributeError, ValueError):  # the environment is partly removed
            found[normalised(each.metadata["Name"])] = _line_of(each)
    return found


def normalised(name: str) -> str:
    """Return the normalised name (PEP 503): ``Typing_Extensions`` and ``typing-extensions`` are one package."""
    return re.sub(r"[-_.]+", "-", name).lower()


def name_and_version(line: str) -> tuple[str, str]:
    """Split a line into a name and a version (or address), such as ``numpy`` and ``2.1``; the version may be empty."""
    match = _NAME.match(line)
    return (match[1], match["version"] or match["url"] or "") if match else (line, "")


def names(lines: Iterable[str]) -> str:
    """Return the names of up to eight packages in these lines, and the number of other packages, for display."""
    found = [name_and_version(line)[0] for line in lines]
    return ", ".join(found[:8]) + (f" and {len(found) - 8} more" if len(found) > 8 else "")


def _differs(line: str, pinned: str | None) -> bool:
    return pinned is None or name_and_version(line)[1] != pinned


def _line_of(distribution: metadata.Distribution) -> str:
    """Return ``name==version``, or the address of a package that wasn't installed from an index."""
    name = distribution.metadata["Name"]
    origin = json.loads(distribution.read_text("direct_url.json") or "{}")
    url = str(origin.get("url", ""))
    vcs = origin.get("vcs_info") or {}
    if vcs:
        return f"{name} @ {vcs['vcs']}+{url}@{vcs['commit_id']}"
    return f"{name} @ {url}" if url else f"{name}=={distribution.version}"


def _write(path: Path, content: Mapping[str, Any]) -> None:
    descriptor, draft = tempfile.mkstemp(prefix=".new-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(content, file)
        Path(draft).replace(path)
    except OSError:
        Path(draft).unlink(missing_ok=True)
        raise
