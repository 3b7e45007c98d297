"""JSON documents of the other Google services, such as billing, stored among the facts and gone after a reset."""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from jupyter_tpu.emulator.store.database import Store
from jupyter_tpu.emulator.store.settings import StoredSetting


class Documents:
    """Documents of one kind by name, in the order in which they were created."""

    def __init__(self, store: Store, kind: str) -> None:
        self._store = store
        self._setting = StoredSetting(store, f"project:{kind}")

    def all(self) -> dict[str, dict[str, Any]]:
        """Return all documents by name."""
        return dict(self._setting.read() or {})

    def get(self, name: str) -> dict[str, Any] | None:
        """Return one document, or None if there is none."""
        return self.all().get(name)

    def save(self, name: str, document: Mapping[str, Any]) -> None:
        """Create or replace a document."""
        self._write({**self.all(), name: dict(document)})

    def _write(self, documents: Mapping[str, Any]) -> None:
        with self._store.transaction():
            # all of a kind in one value: there are few, and a reset drops them with the project's facts
            self._setting.write(documents)


def fingerprint_of(value: object) -> str:
    """Return eight bytes of a hash in URL-safe base64, like Compute Engine's fingerprints."""
    return base64.urlsafe_b64encode(_digest(value)[:8]).decode()


def _digest(value: object) -> bytes:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).digest()


def timestamp(moment: float) -> str:
    """Return RFC 3339 with microseconds, in UTC."""
    when = datetime.datetime.fromtimestamp(moment, datetime.UTC)
    return when.isoformat(timespec="microseconds").replace("+00:00", "Z")
