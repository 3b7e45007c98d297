"""The request index on disk, as of some seq: a later agent reads the record from there on, and not all of it."""

from __future__ import annotations

import json
import logging
from pathlib import Path

from jupyter_tpu.agent.recording.request_index import RequestIndex

log = logging.getLogger(__name__)

_EVERY_BYTES = 16 * 1024 * 1024


class Checkpoint:
    """Saves the index from time to time; what is there is only a help, and may be missing or damaged."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._bytes = 0

    def load(self, index: RequestIndex, next_seq: int) -> int:
        """Fill the index of a record that ends before `next_seq`; the seq from which on entries are to be observed."""
        try:
            state = json.loads(self._path.read_text())
            if 0 < state["seq"] <= next_seq:
                index.load(state)
                return int(state["seq"])
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            log.warning("%s: cannot be read, the record is read instead: %s", self._path, error)
        return 0

    def grown(self, size: int, index: RequestIndex, seq: int) -> None:
        """The record has grown by `size` bytes, up to `seq`, which is not in the index yet."""
        self._bytes += size
        if self._bytes >= _EVERY_BYTES:
            self._bytes = 0
            self._save(index, seq)

    def _save(self, index: RequestIndex, seq: int) -> None:
        draft = self._path.with_suffix(".new")
        try:
            draft.write_text(json.dumps({"seq": seq, **index.to_json()}))
            draft.replace(self._path)
        except OSError as error:
            log.warning("%s: cannot be written: %s", self._path, error)
