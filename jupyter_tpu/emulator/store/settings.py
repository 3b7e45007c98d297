"""Settings of the emulated project, stored as JSON so that they survive a restart."""

from __future__ import annotations

import json
from typing import Any, Protocol


class Facts(Protocol):
    """The store's methods for reading and saving a text under a key."""

    def fact(self, key: str) -> str | None:
        """Return the text that is stored under a key, or None."""

    def save_fact(self, key: str, value: str) -> None:
        """Store a text under a key."""


class StoredSetting:
    """One JSON value under one key."""

    def __init__(self, facts: Facts, key: str) -> None:
        self._facts = facts
        self._key = key

    def read(self) -> Any:
        """Return the value; None if it was never written or has been deleted."""
        text = self._facts.fact(self._key)
        return json.loads(text) if text else None

    def write(self, value: Any) -> None:
        """Store a value."""
        self._facts.save_fact(self._key, json.dumps(value))

    def delete(self) -> None:
        """Delete the value."""
        self._facts.save_fact(self._key, "")
