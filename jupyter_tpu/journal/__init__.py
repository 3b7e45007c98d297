"""What we mean to do, written down before it is asked for: intents and their events, in SQLite.

The journal itself is imported when it is used: a kernel's start only asks where its folder is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_tpu.journal.paths import data_dir

if TYPE_CHECKING:
    from jupyter_tpu.journal.journal import Journal

__all__ = ["Journal", "data_dir"]


def __getattr__(name: str) -> Any:
    if name != "Journal":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from jupyter_tpu.journal.journal import Journal

    return Journal
