"""What the side services remember of the project: JSON documents among the store's facts, gone after a reset."""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from jupyter_tpu.emulator.store.database import Store
from jupyter_tpu.emulator.store.settings import Kept


class Documents:
    """Documents of one kind by name, such as budgets; in the order in which they were made."""

    def __init__(self, store: Store, kind: str) -> None:
        self._store = store
        self._kept = Kept(store, f"project:{kind}")

    def all(self) -> dict[str, dict[str, Any]]:
        return dict(self._kept.read() or {})

    def get(self, name: str) -> dict[str, Any] | None:
        return self.all().get(name)

    def save(self, name: str, document: Mapping[str, Any]) -> None:
        self._write({**self.all(), name: dict(document)})

    def remove(self, name: str) -> None:
        self._write({other: document for other, document in self.all().items() if other != name})

    def _write(self, documents: Mapping[str, Any]) -> None:
        with self._store.transaction():
            self._kept.write(documents)


def etag_of(document: Mapping[str, Any]) -> str:
    """Base64 of a hash of everything in the document but its etag."""
    rest = {name: value for name, value in document.items() if name != "etag"}
    return base64.b64encode(_digest(rest)[:9]).decode()


def fingerprint_of(value: object) -> str:
    """Eight bytes in URL-safe base64, as Compute Engine's fingerprints are."""
    return base64.urlsafe_b64encode(_digest(value)[:8]).decode()


def _digest(value: object) -> bytes:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).digest()


def timestamp(moment: float) -> str:
    """RFC 3339 with microseconds, in UTC."""
    when = datetime.datetime.fromtimestamp(moment, datetime.UTC)
    return when.isoformat(timespec="microseconds").replace("+00:00", "Z")


def moment_of(text: str) -> float:
    """Seconds since the epoch of an RFC 3339 text; raises ValueError for any other."""
    when = datetime.datetime.fromisoformat(text)
    if when.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return when.timestamp()
