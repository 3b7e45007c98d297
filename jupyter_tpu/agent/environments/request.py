"""What a client asks for when it wants a framework's environment, checked: it comes from another machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jupyter_tpu.errors import BadInput
from jupyter_tpu.frameworks import Release, newest, release_of

MOST_LINES = 5000
LONGEST_LINE = 2000  # characters


@dataclass(frozen=True)
class Order:
    """One environment, as it is to be.

    Attributes:
        framework: one of the matrix.
        version: of it; empty for the one that is there already, or else the newest.
        requirements: PEP 508 lines that hold beside the framework's own.
        pins: what an environment that is gone was made of, to the version; empty: whatever goes together now.
        packages: what its user had installed in it besides.
    """

    framework: str
    version: str = ""
    requirements: tuple[str, ...] = ()
    pins: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> Order:
        """From the parameters of a call.

        Raises:
            BadInput: they make no sense, or the matrix knows no such framework or version.
        """
        version = params.get("version", "")
        if not isinstance(version, str):
            raise BadInput("The version of a framework must be a text.")
        order = cls(framework_of(params), version, *(_lines(params, name) for name in _LISTS))
        order.release("")
        return order

    def release(self, present: str) -> Release:
        """What is to be installed where the version `present` is there; empty: nothing is.

        Raises:
            BadInput: nothing is known of that version, or it is in no package index.
        """
        version = self.version or present
        found = release_of(self.framework, version) if version else newest(self.framework)
        if found is None:
            raise BadInput(
                f"Nothing is known of {self.framework} {version[:40]!r}: which libtpu and Python it needs.",
                hint=f"Leave the version out for {newest(self.framework).title}.",
            )
        if not found.requires:
            raise BadInput(
                f"{found.title} cannot be installed: its libtpu {found.libtpu} is in no package index.",
                hint=f"Take {newest(self.framework).title}.",
            )
        return found

    def to_json(self) -> dict[str, Any]:
        lists = {name: list(getattr(self, name)) for name in _LISTS}
        return {"framework": self.framework, "version": self.version, **lists}


_LISTS = ("requirements", "pins", "packages")


def framework_of(params: Mapping[str, Any]) -> str:
    """The framework that a call is about.

    Raises:
        BadInput: it is none of the matrix.
    """
    return newest(str(params.get("framework", ""))).framework


def _lines(params: Mapping[str, Any], name: str) -> tuple[str, ...]:
    lines = params.get(name, [])
    if not isinstance(lines, list) or not all(map(_is_requirement, lines)):
        raise BadInput(f"{name} must be a list of requirements, such as 'numpy>=2'.")
    if len(lines) > MOST_LINES:
        raise BadInput(f"There are {len(lines)} {name}; at most {MOST_LINES} are taken.")
    longest = max(map(len, lines), default=0)
    if longest > LONGEST_LINE:
        raise BadInput(f"One of the {name} has {longest} characters; at most {LONGEST_LINE} are taken.")
    return tuple(lines)


def _is_requirement(line: object) -> bool:
    """Whether uv reads it as a requirement and not as an option, nor as a line more."""
    return isinstance(line, str) and line.isprintable() and line[:1].isalnum()
