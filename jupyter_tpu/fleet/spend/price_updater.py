"""Choose the prices for this process: from the Billing Catalog if it could be read, else from the built-in price table.

Prices are stored on disk for all processes of the user and updated in the background, so that nothing waits for them.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from jupyter_tpu.accelerators import set_live_prices
from jupyter_tpu.cloud.services.catalog_prices import catalog_address, read_catalog
from jupyter_tpu.cloud.settings import CloudSettings
from jupyter_tpu.errors import TpuError
from jupyter_tpu.files import write_whole
from jupyter_tpu.journal.paths import data_path
from jupyter_tpu.money.sku_prices import Row, checked_rows

log = logging.getLogger(__name__)

FRESH_S = 24 * 3600.0
"""Age at which prices are read again, in seconds: our choice, because spot prices change monthly."""

USABLE_S = 30 * 24 * 3600.0
"""Age from which prices are ignored and the built-in table is used, in seconds: our choice.

Prices are shown with their date.
"""

# our choices: the delay after a failure, and the delay before the first update, which must not slow down the server's
# start
_TRY_AGAIN_S = 3600.0
_FIRST_AFTER_S = 15.0
_FILE = "prices.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPrices:
    """The stored prices.

    Attributes:
        address: URL of the catalogue from which the prices were read.
        read_at: when the prices were read (Unix seconds); 0 if never.
        failed_at: when reading last failed, after `read_at` (Unix seconds); 0 if never.
        failure: why reading last failed, for display.
    """

    address: str
    rows: tuple[Row, ...] = ()
    read_at: float = 0.0
    failed_at: float = 0.0
    failure: str = ""

    def is_usable(self, now: float) -> bool:
        """Whether the prices are recent enough to use, and not from the future because of a wrong clock."""
        return bool(self.rows) and -FRESH_S < now - self.read_at < USABLE_S

    def is_due(self, now: float) -> bool:
        """Whether the prices should be read again now."""
        return abs(now - self.read_at) >= FRESH_S and abs(now - self.failed_at) >= _TRY_AGAIN_S


class PriceUpdater:
    """Reads and stores a cloud's prices; `environment` may name an emulator. Every method except `start` may block."""

    def __init__(self, settings: CloudSettings, environment: Mapping[str, str], folder: Path) -> None:
        self._settings = settings
        self._environment = environment
        self._address = catalog_address(settings, environment)
        self._file = folder / _FILE
        self._ended = threading.Event()

    @classmethod
    def of_user(cls, settings: CloudSettings) -> PriceUpdater:
        """Create an updater that uses the user's data folder and this process's environment variables."""
        return cls(settings, os.environ, data_path())

    def apply_stored(self, now: float) -> StoredPrices:
        """Apply the stored prices in this process, and return them."""
        stored = self.stored()
        set_live_prices(stored.rows if stored.is_usable(now) else ())
        return stored

    def stored(self) -> StoredPrices:
        """Return the stored prices, or no prices if the file is missing, damaged, or from another cloud."""
        try:
            found = json.loads(self._file.read_bytes())
            stored = StoredPrices(
                address=str(found["address"]),
                rows=checked_rows(found["rows"]),
                read_at=float(found["read_at"]),
                failed_at=float(found["failed_at"]),
                failure=str(found["failure"]),
            )
        # a damaged file is not a failure: the next update replaces it
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return StoredPrices(address=self._address)
        return stored if stored.address == self._address else StoredPrices(address=self._address)

    def read(self, now: float) -> StoredPrices:
        """Read the catalogue, then apply and store its prices; a failure is stored too.

        Raises:
            TpuError: the catalogue could not be read, see `read_catalog`; the prices are unchanged.
        """
        day = datetime.fromtimestamp(now, UTC).date().isoformat()
        try:
            reading = read_catalog(self._settings, self._environment, day)
        except TpuError as error:
            # keep the old rows, which are valid until they expire
            self._store(replace(self.stored(), failed_at=now, failure=failure_text(error)))
            raise
        for reason in reading.skipped:
            log.info("Ignored a price of the Billing Catalog: %s", reason)
        stored = StoredPrices(address=self._address, rows=reading.rows, read_at=now)
        set_live_prices(stored.rows)
        self._store(stored)
        return stored

    def refresh(self, now: float) -> None:
        """Read the catalogue if due, or apply prices that another process has stored. Log each failure once."""
        # another process may have fetched the prices in the meantime
        before = self.apply_stored(now)
        if not before.is_due(now):
            return
        try:
            self.read(now)
        except TpuError as error:
            if before.failure != failure_text(error):
                log.warning("Current prices could not be read: %s", failure_text(error))

    def start(self, first_after_s: float = _FIRST_AFTER_S) -> None:
        """Start refreshing the prices in a daemon thread, which never delays the exit of the process."""
        if self._address:
            threading.Thread(target=self._run, args=(first_after_s,), name="jupyter_tpu prices", daemon=True).start()

    def close(self) -> None:
        """Stop refreshing, without waiting for a read in progress."""
        self._ended.set()

    def _run(self, first_after_s: float) -> None:
        wait_s = first_after_s
        while not self._ended.wait(wait_s):
            self.refresh(time.time())
            wait_s = _TRY_AGAIN_S

    def _store(self, stored: StoredPrices) -> None:
        """Store the prices for other processes. If the disk is full, each process reads the catalogue itself."""
        body = {
            "address": stored.address,
            "read_at": stored.read_at,
            "failed_at": stored.failed_at,
            "failure": stored.failure,
            "rows": list(stored.rows),
        }
        try:
            # create the folder, because no journal may have created it yet
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(self._file, json.dumps(body).encode())
        except OSError as error:
            log.debug("The prices could not be stored: %s", error)


def failure_text(error: TpuError) -> str:
    """Return why reading the prices failed and what to do, in one line."""
    return f"{error.message} {error.hint}".strip()
