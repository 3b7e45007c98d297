"""Settings of the emulated project that outlive the process: JSON values kept as facts of the store."""

from __future__ import annotations

import json
from typing import Any, Protocol


class Facts(Protocol):
    """What is needed of the store."""

    def fact(self, key: str) -> str | None: ...

    def save_fact(self, key: str, value: str) -> None: ...


class Kept:
    """One JSON value under one key; None until it is written and once it is forgotten."""

    def __init__(self, facts: Facts, key: str) -> None:
        self._facts = facts
        self._key = key

    def read(self) -> Any:
        text = self._facts.fact(self._key)
        return json.loads(text) if text else None

    def write(self, value: Any) -> None:
        self._facts.save_fact(self._key, json.dumps(value))

    def forget(self) -> None:
        self._facts.save_fact(self._key, "")
