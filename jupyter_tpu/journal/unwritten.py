"""Journal writes that failed because the disk was full.

They are kept in memory and retried in the next successful transaction.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Hashable
from pathlib import Path

from jupyter_tpu.lifecycle.intents import Intent

Write = Callable[[sqlite3.Connection], None]

# our choice: maximum number of entries in memory, many more than a user causes while the disk is full
_MOST = 1000


class Unwritten:
    """The pending writes of one file.

    If several writes have the same key, only the first is kept. The others would repeat it.
    """

    def __init__(self) -> None:
        self._intents: dict[Hashable, Intent] = {}
        self._writes: dict[Hashable, Write] = {}

    def add(self, key: Hashable, write: Write, *, intent: Intent | None = None) -> None:
        """Queue a write. If `intent` is given, `intents` includes it until the write succeeds."""
        if key in self._writes or len(self._writes) >= _MOST:
            return
        if intent is not None:
            self._intents[key] = intent
        self._writes[key] = write

    @property
    def intents(self) -> tuple[Intent, ...]:
        """The queued intents, newest first."""
        return tuple(reversed(self._intents.values()))

    @property
    def is_empty(self) -> bool:
        """Whether no writes are pending."""
        return not self._writes

    def take(self) -> dict[Hashable, Write]:
        """Remove and return all writes, so that no write can be committed twice."""
        taken, self._writes = self._writes, {}
        return taken

    def put_back(self, taken: dict[Hashable, Write]) -> None:
        """Put writes that could not be committed back into the queue."""
        self._writes = {**taken, **self._writes}

    def forget(self, taken: dict[Hashable, Write]) -> None:
        """Remove the intents that have been committed."""
        for key in taken:
            self._intents.pop(key, None)


UNWRITTEN: defaultdict[Path, Unwritten] = defaultdict(Unwritten)
"""The pending writes of each file, shared by all journals of this process.

For example, a kernel reads why its node was stopped through another journal object than the one that stopped it.
"""
