"""What we mean to do, written down before it is asked for: intents and their events, in SQLite."""

from __future__ import annotations

from jupyter_tpu.journal.journal import Journal
from jupyter_tpu.journal.paths import data_dir

__all__ = ["Journal", "data_dir"]
