"""Which prices hold in this process: those of the Billing Catalog where they could be read, else the dated table.

They are kept on disk for all processes of the user and read anew in the background, so that nobody waits for them.
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

from jupyter_tpu.accelerators import take_prices
from jupyter_tpu.cloud.services.catalog_prices import catalog_address, read_catalog
from jupyter_tpu.cloud.settings import CloudSettings
from jupyter_tpu.errors import TpuError
from jupyter_tpu.files import write_whole
from jupyter_tpu.journal.paths import data_path
from jupyter_tpu.money.prices import Row, checked_rows

log = logging.getLogger(__name__)

FRESH_S = 24 * 3600.0
"""Prices that were read so long ago are read anew."""

USABLE_S = 30 * 24 * 3600.0
"""Until then they go before the table though they cannot be read anew; the date is shown with them."""

_TRY_AGAIN_S = 3600.0
_FIRST_AFTER_S = 15.0
_FILE = "prices.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPrices:
    """What is on disk.

    Attributes:
        address: of the catalogue that it is from.
        read_at: when the rows were read (Unix seconds); 0 = never.
        failed_at: when that failed, since then; 0 = it did not.
        failure: why.
    """

    address: str
    rows: tuple[Row, ...] = ()
    read_at: float = 0.0
    failed_at: float = 0.0
    failure: str = ""

    def is_usable(self, now: float) -> bool:
        return bool(self.rows) and -FRESH_S < now - self.read_at < USABLE_S

    def is_due(self, now: float) -> bool:
        """Whether they should be read now."""
        return abs(now - self.read_at) >= FRESH_S and abs(now - self.failed_at) >= _TRY_AGAIN_S


class Pricing:
    """The prices of a cloud; `environment` says where an emulator is. Every method but `start` may block."""

    def __init__(self, settings: CloudSettings, environment: Mapping[str, str], folder: Path) -> None:
        self._settings = settings
        self._environment = environment
        self._address = catalog_address(settings, environment)
        self._file = folder / _FILE
        self._ended = threading.Event()

    @classmethod
    def of_user(cls, settings: CloudSettings) -> Pricing:
        """With the user's folder and environment."""
        return cls(settings, os.environ, data_path())

    def take_kept(self, now: float) -> KeptPrices:
        """Let what is on disk hold in this process."""
        kept = self.kept()
        take_prices(kept.rows if kept.is_usable(now) else ())
        return kept

    def kept(self) -> KeptPrices:
        """What is on disk; nothing where there is none, or none of this cloud, or it is damaged."""
        try:
            found = json.loads(self._file.read_bytes())
            kept = KeptPrices(
                address=str(found["address"]),
                rows=checked_rows(found["rows"]),
                read_at=float(found["read_at"]),
                failed_at=float(found["failed_at"]),
                failure=str(found["failure"]),
            )
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return KeptPrices(address=self._address)
        return kept if kept.address == self._address else KeptPrices(address=self._address)

    def read(self, now: float) -> KeptPrices:
        """Read the catalogue and let it hold from now on; a failure is kept as well.

        Raises:
            TpuError: it could not be read; see `read_catalog`. What held goes on to hold.
        """
        day = datetime.fromtimestamp(now, UTC).date().isoformat()
        try:
            reading = read_catalog(self._settings, self._environment, day)
        except TpuError as error:
            self._keep(replace(self.kept(), failed_at=now, failure=failure_text(error)))
            raise
        for reason in reading.passed_over:
            log.info("A price of the Billing Catalog was passed over: %s", reason)
        kept = KeptPrices(address=self._address, rows=reading.rows, read_at=now)
        take_prices(kept.rows)
        self._keep(kept)
        return kept

    def refresh(self, now: float) -> None:
        """Read the catalogue if it is time to, or take what another process has read; a failure is told once."""
        before = self.take_kept(now)
        if not before.is_due(now):
            return
        try:
            self.read(now)
        except TpuError as error:
            if before.failure != failure_text(error):
                log.warning("The prices of today are not known: %s", failure_text(error))

    def start(self, first_after_s: float = _FIRST_AFTER_S) -> None:
        """Refresh from now on, in a thread that keeps no process alive."""
        if self._address:
            threading.Thread(target=self._run, args=(first_after_s,), name="jupyter_tpu prices", daemon=True).start()

    def close(self) -> None:
        """Begin nothing more."""
        self._ended.set()

    def _run(self, first_after_s: float) -> None:
        wait_s = first_after_s
        while not self._ended.wait(wait_s):
            self.refresh(time.time())
            wait_s = _TRY_AGAIN_S

    def _keep(self, kept: KeptPrices) -> None:
        """For the next process; on a full disk it reads the catalogue itself."""
        body = {
            "address": kept.address,
            "read_at": kept.read_at,
            "failed_at": kept.failed_at,
            "failure": kept.failure,
            "rows": list(kept.rows),
        }
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(self._file, json.dumps(body).encode())
        except OSError as error:
            log.debug("The prices cannot be kept: %s", error)


def failure_text(error: TpuError) -> str:
    """What failed and what to do, in one line."""
    return f"{error.message} {error.hint}".strip()
