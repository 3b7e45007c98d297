"""Cache Google's bill for a server. The bill is read at most once an hour, because BigQuery charges for each query."""

from __future__ import annotations

import asyncio
import time

from jupyter_tpu.cloud.services.billing_export import read_billed
from jupyter_tpu.cloud.settings import CloudSettings
from jupyter_tpu.money.billed import JSON, ExportTable

KEPT_S = 3600.0
"""How long a response is reused, in seconds: our choice, because each query costs money."""


class BillCache:
    """A cache of the billed costs, shared by all requests because each query costs money."""

    def __init__(self, settings: CloudSettings, table: ExportTable) -> None:
        self._settings = settings
        self._table = table
        self._lock = asyncio.Lock()
        self._kept: JSON | None = None

    async def view(self) -> JSON:
        """Return the billed amounts; ``as_of`` is the time of the query. Raises the same errors as `read_billed`."""
        # use a lock, so that two simultaneous requests don't cause two queries, which cost money
        async with self._lock:
            if self._kept is None or time.time() - self._kept["as_of"] > KEPT_S:
                self._kept = await read_billed(self._settings, self._table)
            return self._kept
