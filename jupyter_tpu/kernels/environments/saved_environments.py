"""Save the environments of nodes on this machine, so that they can be recreated after a node is lost.

Each environment is saved in a small file, as last reported by its worker. A node that is recreated with the same name
gets the lost node's environments.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from jupyter_tpu.errors import plain
from jupyter_tpu.files import write_whole
from jupyter_tpu.frameworks import FRAMEWORKS, release_of
from jupyter_tpu.journal.paths import data_dir
from jupyter_tpu.models import NodeName

log = logging.getLogger(__name__)

_LISTS = ("requirements", "pins", "added")


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedEnvironment:
    """An environment as last reported by its worker. Saved on disk under these field names.

    Attributes:
        framework: a key of `FRAMEWORKS`.
        version: the framework's version.
        requirements: the requirements of the notebooks' folders.
        pins: all packages that jupyter_tpu installed in the environment, with versions.
        added: packages that the user has installed in addition.
    """

    framework: str
    version: str
    requirements: tuple[str, ...] = ()
    pins: tuple[str, ...] = ()
    added: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The environment's display name, such as ``JAX 0.10``."""
        release = release_of(self.framework, self.version)
        return release.title if release else f"{self.framework} {self.version}"

    def to_order(self) -> dict[str, Any]:
        """Return the parameters of the agent's ``make_environment`` that recreate this environment."""
        lists = {"requirements": self.requirements, "pins": self.pins, "packages": self.added}
        return {"version": self.version, **{name: list(lines) for name, lines in lists.items()}}

    @classmethod
    def from_json(cls, report: Mapping[str, Any]) -> SavedEnvironment:
        """Parse an agent's response or the content of a file.

        Raises:
            KeyError, TypeError, ValueError: the data is not an environment.
        """
        if report["framework"] not in FRAMEWORKS or not isinstance(report["version"], str):
            raise ValueError("not the environment of a framework")
        lists = {name: tuple(map(plain, report[name])) for name in _LISTS}
        return cls(framework=report["framework"], version=plain(report["version"], 100), **lists)


class SavedEnvironments:
    """The saved environments of one node; every method reads or writes the disk.

    Args:
        endpoint: the endpoint of the node's cloud; see `CloudSettings`.
    """

    def __init__(self, node: NodeName, endpoint: str) -> None:
        digest = hashlib.sha256(f"{endpoint} {node}".encode()).hexdigest()[:32]
        self._folder = data_dir() / "environments" / digest

    def all(self) -> tuple[SavedEnvironment, ...]:
        """Return all saved environments, in the order of `FRAMEWORKS`."""
        found = map(self.find, FRAMEWORKS)
        return tuple(each for each in found if each)

    def find(self, framework: str) -> SavedEnvironment | None:
        """Return the saved environment of a framework, or None if it is missing or unreadable."""
        path = self._path(framework)
        try:
            return SavedEnvironment.from_json(json.loads(path.read_text()))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            log.warning("%s cannot be used: %s", path, error)
            return None

    def save(self, report: Mapping[str, Any]) -> None:
        """Save an agent's description of a ready environment; a failure is only logged."""
        try:
            now = SavedEnvironment.from_json(report)
            if report["is_ready"] and self.find(now.framework) != now:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                write_whole(self._path(now.framework), json.dumps(asdict(now)).encode())
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            log.warning("an environment cannot be saved in %s: %s", self._folder, error)

    def remove(self, framework: str) -> None:
        """Remove a saved environment that the user has deleted, if it exists."""
        self._path(framework).unlink(missing_ok=True)

    def _path(self, framework: str) -> Path:
        return self._folder / f"{framework}.json"
