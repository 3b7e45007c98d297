"""Where workers were found last, on disk, so that a new process reaches them without asking the cloud first.

That saves a process that only runs a kernel the cloud's client (some 50 MiB) and its round trips, and those of a
preparation. Nothing is trusted for it: host keys are pinned, a worker that is no longer there is looked up in the cloud
as before, and one whose agent does not answer is prepared as before.
"""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import asdict, dataclass
from pathlib import Path

from jupyter_tpu.errors import BadInput
from jupyter_tpu.files import write_whole
from jupyter_tpu.link import Ready
from jupyter_tpu.ssh import WorkerAddress

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Known:
    """Where a worker was, and how it had been prepared; `ready` is None where that is not known."""

    address: WorkerAddress
    ready: Ready | None = None


class KnownAddresses:
    """One small file per worker in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, worker: str) -> Known | None:
        """What was saved for `worker`, any text that names it; None if there is nothing that can be used."""
        try:
            content = json.loads(self._path(worker).read_text())
            ready = content.pop("ready", None)
            address = WorkerAddress(**{**content, "host_keys": tuple(content["host_keys"])})
            return Known(address, Ready(**ready) if ready else None)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError, AttributeError, BadInput, RecursionError) as error:
            log.warning("%s cannot be used: %s", self._path(worker), error)
            return None

    def has(self, host_key_alias: str) -> bool:
        """Whether anything is saved for the worker whose host keys are pinned by that name, whoever logged in there."""
        wanted = json.dumps({"host_key_alias": host_key_alias})[1:-1]
        try:
            return any(wanted in path.read_text() for path in self._folder.glob("*.json"))
        except OSError as error:
            log.warning("The addresses of workers in %s cannot be read: %s", self._folder, error)
            return True

    def save(self, worker: str, known: Known) -> None:
        """Keep it for the next process; without success nothing is lost but time."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            ready = asdict(known.ready) if known.ready else None
            content = json.dumps({**asdict(known.address), "ready": ready})
            write_whole(self._path(worker), content.encode())
        except OSError as error:
            log.warning("The address of a worker cannot be kept in %s: %s", self._folder, error)

    def _path(self, worker: str) -> Path:
        return self._folder / f"{hashlib.sha256(worker.encode()).hexdigest()[:32]}.json"
