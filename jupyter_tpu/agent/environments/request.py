"""Parse and validate a client's request for a framework's environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jupyter_tpu.errors import BadInput
from jupyter_tpu.frameworks import Release, newest, release_of

# Maximum number of lines, far more than any requirements file has. Bounds the work that a notebook's folder can cause
# for uv and the disk.
MOST_LINES = 5000
# Maximum length of a line in characters, enough for a URL with a content hash.
LONGEST_LINE = 2000


@dataclass(frozen=True)
class EnvironmentRequest:
    """The environment that a client requests.

    Attributes:
        framework: a framework in the matrix (`jupyter_tpu.frameworks`).
        version: the framework's version; if empty, the installed version or else the newest.
        requirements: PEP 508 lines, in addition to the framework's own.
        pins: exact versions from an earlier environment to restore; if empty, any compatible versions.
        packages: requirement lines for additional packages that the user had installed.
    """

    framework: str
    version: str = ""
    requirements: tuple[str, ...] = ()
    pins: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> EnvironmentRequest:
        """Parse the parameters of a call.

        Raises:
            BadInput: a parameter is invalid, or the matrix has no such framework or version.
        """
        version = params.get("version", "")
        if not isinstance(version, str):
            raise BadInput("The version of a framework must be a string.")
        order = cls(framework_of(params), version, *(_lines(params, name) for name in _LISTS))
        order.release("")
        return order

    def release(self, present: str) -> Release:
        """Return the release to install.

        Args:
            present: the installed version; empty if there is none.

        Raises:
            BadInput: the version isn't in the matrix, or isn't available from a package index.
        """
        version = self.version or present
        found = release_of(self.framework, version) if version else newest(self.framework)
        if found is None:
            raise BadInput(
                f"jupyter_tpu does not know which libtpu and Python {self.framework} {version[:40]!r} needs.",
                hint=f"Omit the version to get {newest(self.framework).title}.",
            )
        if not found.requires:
            raise BadInput(
                f"{found.title} cannot be installed: no package index offers its libtpu {found.libtpu}.",
                hint=f"Use {newest(self.framework).title}.",
            )
        return found

    def to_json(self) -> dict[str, Any]:
        """Return the request in the format stored during the build."""
        lists = {name: list(getattr(self, name)) for name in _LISTS}
        return {"framework": self.framework, "version": self.version, **lists}


_LISTS = ("requirements", "pins", "packages")


def framework_of(params: Mapping[str, Any]) -> str:
    """Return the framework that a call specifies.

    Raises:
        BadInput: the framework isn't in the matrix.
    """
    return newest(str(params.get("framework", ""))).framework


def _lines(params: Mapping[str, Any], name: str) -> tuple[str, ...]:
    lines = params.get(name, [])
    if not isinstance(lines, list) or not all(map(_is_requirement, lines)):
        raise BadInput(f"The field '{name}' must be a list of requirements, such as 'numpy>=2'.")
    if len(lines) > MOST_LINES:
        raise BadInput(f"There are {len(lines)} {name}; at most {MOST_LINES} are allowed.")
    longest = max(map(len, lines), default=0)
    if longest > LONGEST_LINE:
        raise BadInput(f"One of the {name} has {longest} characters; at most {LONGEST_LINE} are allowed.")
    return tuple(lines)


def _is_requirement(line: object) -> bool:
    """Whether uv parses the text as exactly one requirement, rather than as an option or several lines."""
    return isinstance(line, str) and line.isprintable() and line[:1].isalnum()
