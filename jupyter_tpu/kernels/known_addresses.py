"""Where workers were found last, on disk, so that a new process reaches them without asking the cloud first.

That saves a process that only runs a kernel the cloud's client (some 50 MiB) and its round trips. Nothing is trusted
for it: host keys are pinned, and a worker that is no longer there is looked up in the cloud as before.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
from dataclasses import asdict
from pathlib import Path

from jupyter_tpu.errors import BadInput
from jupyter_tpu.ssh import WorkerAddress

log = logging.getLogger(__name__)


class KnownAddresses:
    """One small file per worker in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, worker: str) -> WorkerAddress | None:
        """The address that was saved for `worker`, any text that names it; None if there is none that can be used."""
        try:
            content = json.loads(self._path(worker).read_text())
            return WorkerAddress(**{**content, "host_keys": tuple(content["host_keys"])})
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError, BadInput) as error:
            log.warning("%s cannot be used: %s", self._path(worker), error)
            return None

    def save(self, worker: str, address: WorkerAddress) -> None:
        """Keep it for the next process; without success nothing is lost but time."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor, draft = tempfile.mkstemp(prefix=".new-", dir=self._folder)
            with os.fdopen(descriptor, "w") as file:
                json.dump(asdict(address), file)
            Path(draft).replace(self._path(worker))
        except OSError as error:
            log.warning("The address of a worker cannot be kept in %s: %s", self._folder, error)

    def _path(self, worker: str) -> Path:
        return self._folder / f"{hashlib.sha256(worker.encode()).hexdigest()[:32]}.json"
