"""The journal: an SQLite file with all data that must be kept after a process exits.

Start with `journal` (intents, saved before their requests are sent) and `schema` (the tables). `ledger`, `audit` and
`user_documents` wrap the other tables; `grant_store`, `recovery_store` and `search_store` store typed documents.
`database_file`, `repair`, `salvage` and `losses` detect and repair a damaged file. The journal only stores data: it
neither calls the cloud nor makes decisions.

`Journal` is imported only when needed, because starting a kernel needs only `data_dir`.
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
