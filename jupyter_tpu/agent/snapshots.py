"""What only laptops know of this node, such as its price and the quota: kept with the moment at which it was so.

The agent does not read what it keeps here; it hands it to the node's notebooks. No credential is ever among it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_tpu.agent.guard_orders import number_from
from jupyter_tpu.errors import BadInput

log = logging.getLogger(__name__)

KINDS = ("cost", "quota", "grant", "budget", "node")
LARGEST_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What was told last of one kind; `as_of` is in Unix seconds by the clock of this machine."""

    as_of: float
    data: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        return {"as_of": self.as_of, "data": self.data}


class Snapshots:
    """The newest of each kind; `path` is the file that keeps them for the next agent."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept: dict[str, Snapshot] | None = None
        self._lock = asyncio.Lock()

    async def tell(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """``kind``, ``data``, ``as_of`` by the teller's clock, and perhaps ``age_s``; the older reading of both counts.

        What is older than what was told before is not taken: several laptops may tell.

        Raises:
            BadInput: it makes no sense, or is too large.
        """
        kind, snapshot = _kind(params), _snapshot(params, time.time())
        async with self._lock:
            kept = await self._all()
            if kind not in kept or snapshot.as_of >= kept[kind].as_of:
                kept[kind] = snapshot
                await asyncio.to_thread(self._save, {name: each.to_json() for name, each in kept.items()})
        return {}

    async def told(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """``{"as_of", "data"}`` of a ``kind``; empty while nobody has told any. Raises `BadInput`: no such kind."""
        kind = _kind(params)
        async with self._lock:
            snapshot = (await self._all()).get(kind)
        return snapshot.to_json() if snapshot else {}

    async def _all(self) -> dict[str, Snapshot]:
        if self._kept is None:
            self._kept = await asyncio.to_thread(_loaded, self._path)
        return self._kept

    def _save(self, kept: Mapping[str, Any]) -> None:
        draft = self._path.with_suffix(".new")
        try:
            draft.write_text(json.dumps(kept))
            draft.replace(self._path)
        except OSError as error:
            log.warning("%s: what was told cannot be kept: %s", self._path, error)


def _kind(params: Mapping[str, Any]) -> str:
    kind = params.get("kind")
    if kind not in KINDS:
        raise BadInput(f"{str(kind)[:40]!r} is nothing that can be told.", hint=f"Use one of {', '.join(KINDS)}.")
    return str(kind)


def _snapshot(params: Mapping[str, Any], now: float) -> Snapshot:
    data = params.get("data")
    if not isinstance(data, dict) or len(json.dumps(data)) > LARGEST_BYTES:
        raise BadInput("What is told must be an object of at most 64 KiB.")
    age_s = 0.0 if params.get("age_s") is None else max(0.0, number_from(params, "age_s"))
    return Snapshot(as_of=min(now - age_s, number_from(params, "as_of")), data=data)


def _loaded(path: Path) -> dict[str, Snapshot]:
    """What the agent before this one kept; what cannot be read will be told again."""
    try:
        kept = json.loads(path.read_text())
        told = {kind: kept[kind] for kind in KINDS if kind in kept}
        return {kind: Snapshot(as_of=float(each["as_of"]), data=dict(each["data"])) for kind, each in told.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        log.warning("%s: what was told cannot be read: %s", path, error)
        return {}
