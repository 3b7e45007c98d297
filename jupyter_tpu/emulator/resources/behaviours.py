"""The behaviours that the emulator copies from the real service, with the evidence for each.

Each imitated behaviour is tagged where it is implemented: *recorded* (someone published a response of the real
service), *documented* (by Google) or *assumed* (no source was found; do not rely on it). `behaviours` lists them all,
for docs/explanation/fidelity.md and the control API.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

Tagged = TypeVar("Tagged", bound=Callable[..., object])


class Standing(enum.StrEnum):
    """The kind of evidence for a behaviour."""

    RECORDED = "recorded"
    DOCUMENTED = "documented"
    ASSUMED = "assumed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """One imitated behaviour and its source."""

    name: str
    standing: Standing
    statement: str
    source: str

    def to_json(self) -> dict[str, str]:
        """Return the behaviour as the control API shows it."""
        return {
            "name": self.name,
            "standing": self.standing.value,
            "statement": self.statement,
            "source": self.source,
        }


_REGISTER: dict[str, Behaviour] = {}


def behaviour(name: str, standing: Standing, statement: str, *, source: str) -> Callable[[Tagged], Tagged]:
    """Tag a function with the behaviour that it imitates."""

    def tag(function: Tagged) -> Tagged:
        # behaviours are registered at import, so that their list is derived from the code
        _REGISTER[name] = Behaviour(name=name, standing=standing, statement=statement, source=source)
        return function

    return tag


def recorded(name: str, statement: str, *, source: str) -> Callable[[Tagged], Tagged]:
    """Tag a function with a behaviour that someone recorded."""
    return behaviour(name, Standing.RECORDED, statement, source=source)


def documented(name: str, statement: str, *, source: str) -> Callable[[Tagged], Tagged]:
    """Tag a function with a behaviour that Google documents."""
    return behaviour(name, Standing.DOCUMENTED, statement, source=source)


def assumed(name: str, statement: str) -> Callable[[Tagged], Tagged]:
    """Tag a function with a behaviour for which no source was found."""
    return behaviour(name, Standing.ASSUMED, statement, source="no recorded response or documentation was found")


def behaviours() -> tuple[Behaviour, ...]:
    """Return the tagged behaviours of all imported modules, sorted by name."""
    return tuple(_REGISTER[name] for name in sorted(_REGISTER))
