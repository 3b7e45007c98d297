"""Store the request index up to a seq, so that a later agent needs to read only the entries after it."""

from __future__ import annotations

import json
import logging
from pathlib import Path

from jupyter_tpu.agent.recording.request_index import RequestIndex
from jupyter_tpu.worker_clock import booted_at

log = logging.getLogger(__name__)

# Number of bytes between two checkpoints. Bounds how much of a record a later agent must read in addition to unflushed
# data. Each checkpoint writes one small file.
_EVERY_BYTES = 16 * 1024 * 1024


class Checkpoint:
    """The saved index of a record. If its file is missing or damaged, the index is rebuilt from the record."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._bytes = 0

    def load(self, index: RequestIndex, next_seq: int) -> int:
        """Load the index for a record that ends before `next_seq`; return the first seq that isn't indexed."""
        try:
            state = json.loads(self._path.read_text())
            # A higher seq comes from a record that was lost.
            if 0 < state["seq"] <= next_seq:
                index.load(state, booted_at())
                return int(state["seq"])
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            log.warning("%s: cannot be read, reading the record instead: %s", self._path, error)
        return 0

    def grown(self, size: int, index: RequestIndex, seq: int) -> None:
        """Count `size` new bytes, and save the index if enough have been added; `seq` is the first unindexed seq."""
        self._bytes += size
        if self._bytes >= _EVERY_BYTES:
            self._bytes = 0
            self._save(index, seq)

    def _save(self, index: RequestIndex, seq: int) -> None:
        draft = self._path.with_suffix(".new")
        try:
            draft.write_text(json.dumps({"seq": seq, **index.to_json(booted_at())}))
            draft.replace(self._path)
        except OSError as error:
            log.warning("%s: cannot be written: %s", self._path, error)
