"""The journal: one SQLite file with everything that must survive a process.

Start with `journal` (intents, saved before their requests are sent) and `schema` (the tables). `ledger`, `audit` and
`user_documents` are its other tables; `grant_store`, `recovery_store` and `search_store` are documents with a type.
`database_file`, `repair`, `salvage` and `losses` deal with a damaged file. It knows nothing of the cloud, and decides
nothing.

`Journal` is imported on demand: the start of a kernel needs `data_dir` only.
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
