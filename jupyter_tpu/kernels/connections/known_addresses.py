"""The last known addresses of workers, saved on disk so that a new process can connect without calling the cloud API.

This saves such a process about 50 MiB of memory for the cloud client, and the round trips for looking up and preparing
the worker. A saved address may be outdated. This is safe: host keys are pinned, a worker that has a new address is
looked up in the cloud, and a worker whose agent does not respond is prepared again.
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
class SavedWorker:
    """A worker's last address and the result of its last preparation. `ready` is None if that result is unknown."""

    address: WorkerAddress
    ready: Ready | None = None


class KnownAddresses:
    """The saved addresses: one small file per worker in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, worker: str) -> SavedWorker | None:
        """Return the saved data of the worker with this identifier, or None if it is missing or unusable."""
        try:
            content = json.loads(self._path(worker).read_text())
            ready = content.pop("ready", None)
            address = WorkerAddress(**{**content, "host_keys": tuple(content["host_keys"])})
            return SavedWorker(address, Ready(**ready) if ready else None)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError, AttributeError, BadInput, RecursionError) as error:
            log.warning("%s cannot be used: %s", self._path(worker), error)
            return None

    def has(self, host_key_alias: str) -> bool:
        """Return whether an address is saved for the worker with this host key alias, under any login name.

        If the folder can't be read, returns True, because an address may be saved there.
        """
        wanted = json.dumps({"host_key_alias": host_key_alias})[1:-1]
        try:
            return any(wanted in path.read_text() for path in self._folder.glob("*.json"))
        except OSError as error:
            log.warning("The addresses of workers in %s cannot be read: %s", self._folder, error)
            return True

    def save(self, worker: str, known: SavedWorker) -> None:
        """Save an address for later processes.

        A failure is only logged, because it only makes the next connection slower.
        """
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            ready = asdict(known.ready) if known.ready else None
            content = json.dumps({**asdict(known.address), "ready": ready})
            write_whole(self._path(worker), content.encode())
        except OSError as error:
            log.warning("The address of a worker cannot be saved in %s: %s", self._folder, error)

    def _path(self, worker: str) -> Path:
        return self._folder / f"{hashlib.sha256(worker.encode()).hexdigest()[:32]}.json"
