"""What the emulator does like the real service, and how we know.

Each imitated behaviour is tagged where it is written, with `behaviour`: *recorded* (somebody published what the real
service answered), *documented* (Google's documentation says so) or *assumed* (nothing was found; do not rely on it).
`behaviours` lists them all.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

Tagged = TypeVar("Tagged", bound=Callable[..., object])


class Standing(enum.StrEnum):
    """How well a behaviour is known."""

    RECORDED = "recorded"
    DOCUMENTED = "documented"
    ASSUMED = "assumed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """One imitated behaviour and where it is known from."""

    name: str
    standing: Standing
    statement: str
    source: str

    def to_json(self) -> dict[str, str]:
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
        _REGISTER[name] = Behaviour(name=name, standing=standing, statement=statement, source=source)
        return function

    return tag


def recorded(name: str, statement: str, *, source: str) -> Callable[[Tagged], Tagged]:
    return behaviour(name, Standing.RECORDED, statement, source=source)


def documented(name: str, statement: str, *, source: str) -> Callable[[Tagged], Tagged]:
    return behaviour(name, Standing.DOCUMENTED, statement, source=source)


def assumed(name: str, statement: str) -> Callable[[Tagged], Tagged]:
    return behaviour(name, Standing.ASSUMED, statement, source="no recorded answer or documentation was found")


def behaviours() -> tuple[Behaviour, ...]:
    """All tagged behaviours of the loaded emulator, by name."""
    return tuple(_REGISTER[name] for name in sorted(_REGISTER))
