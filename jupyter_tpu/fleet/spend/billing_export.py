"""What Google has billed, for a server: asked once an hour at most, because BigQuery bills each question."""

from __future__ import annotations

import asyncio
import time

from jupyter_tpu.cloud.services.billing_export import read_billed
from jupyter_tpu.cloud.settings import CloudSettings
from jupyter_tpu.money.billed import JSON, ExportTable

KEPT_S = 3600.0


class BillingExport:
    """One for all who ask."""

    def __init__(self, settings: CloudSettings, table: ExportTable) -> None:
        self._settings = settings
        self._table = table
        self._lock = asyncio.Lock()
        self._kept: JSON | None = None

    async def view(self) -> JSON:
        """What was billed, see `read_billed`, which says what this raises; ``as_of`` is when BigQuery was asked."""
        async with self._lock:
            if self._kept is None or time.time() - self._kept["as_of"] > KEPT_S:
                self._kept = await read_billed(self._settings, self._table)
            return self._kept
