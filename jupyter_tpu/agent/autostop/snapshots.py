"""Store snapshots of data that only clients have, such as this node's price and quota.

The agent passes the snapshots to the node's notebooks without interpreting them. They never contain credentials.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_tpu.agent.clock import this_moment
from jupyter_tpu.autostop import Moment, moment_from_json, number_from
from jupyter_tpu.errors import BadInput

log = logging.getLogger(__name__)

KINDS = ("cost", "quota", "grant", "budget", "node")
LARGEST_BYTES = 64 * 1024
"""Maximum size of one snapshot as JSON.

Bounds the agent's memory and the file, which is rewritten for each snapshot.
"""
WRONG_S = 60.0
"""Smallest clock difference that is reported, in seconds: on a bad connection, a message may take this long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The latest snapshot of one kind.

    Attributes:
        as_of: the snapshot's time on this machine's wall clock and boot clock, so that setting a clock doesn't change
            its age.
        data: the client's data.
        clock_ahead_s: seconds by which this machine's clock is ahead of the client's; 0 if unknown.
    """

    as_of: Moment
    data: dict[str, Any]
    clock_ahead_s: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the snapshot in the format stored on the worker's disk."""
        return {"as_of": self.as_of.to_json(), "data": self.data, "clock_ahead_s": self.clock_ahead_s}

    def view(self, now: Moment) -> dict[str, Any]:
        """Return the snapshot for a notebook, with ``as_of`` in this machine's wall-clock time."""
        view = {"as_of": now.wall - self.as_of.age_s(now), "data": self.data}
        return {**view, "clock_ahead_s": self.clock_ahead_s} if abs(self.clock_ahead_s) >= WRONG_S else view


class Snapshots:
    """The newest snapshot of each kind; the file at `path` stores them for the next agent."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept: dict[str, Snapshot] | None = None
        self._lock = asyncio.Lock()

    async def store(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Store a client's snapshot: its ``kind``, its ``data``, and ``as_of`` (by the client's clock) or ``age_s``.

        If both are given, ``age_s`` takes precedence. A snapshot older than the stored one is ignored, because several
        clients may send snapshots.

        Raises:
            BadInput: a value is not valid or too large.
        """
        kind, snapshot = _kind(params), _snapshot(params, now := this_moment())
        async with self._lock:
            kept = await self._all()
            # Compare ages, because clients' clocks differ.
            if kind not in kept or snapshot.as_of.age_s(now) <= kept[kind].as_of.age_s(now):
                kept[kind] = snapshot
                await asyncio.to_thread(self._save, {name: each.to_json() for name, each in kept.items()})
        return {}

    async def read(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return one kind's snapshot: ``{"as_of", "data"}``, and ``clock_ahead_s`` if this machine's clock is wrong.

        The result is empty until a client has sent a snapshot of this kind. Raises `BadInput` if there is no such kind.
        """
        kind = _kind(params)
        async with self._lock:
            snapshot = (await self._all()).get(kind)
        return snapshot.view(this_moment()) if snapshot else {}

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
            log.warning("%s: the snapshots cannot be stored: %s", self._path, error)


def _kind(params: Mapping[str, Any]) -> str:
    kind = params.get("kind")
    if kind not in KINDS:
        raise BadInput(f"{str(kind)[:40]!r} is not a kind of snapshot.", hint=f"Use one of {', '.join(KINDS)}.")
    return str(kind)


def _snapshot(params: Mapping[str, Any], now: Moment) -> Snapshot:
    data = params.get("data")
    if not isinstance(data, dict) or len(json.dumps(data)) > LARGEST_BYTES:
        raise BadInput("A snapshot must be an object of at most 64 KiB.")
    as_of = number_from(params, "as_of")
    if params.get("age_s") is None:  # older clients send only the time of their clock
        return Snapshot(as_of=now.back(max(0.0, now.wall - as_of)), data=data)
    age_s = max(0.0, number_from(params, "age_s"))
    return Snapshot(as_of=now.back(age_s), data=data, clock_ahead_s=now.wall - age_s - as_of)


def _kept(each: Mapping[str, Any]) -> Snapshot:
    as_of = each["as_of"]
    if not isinstance(as_of, dict):  # older agents stored only the wall-clock time
        as_of = {"wall": float(as_of), "steady": 0.0, "boot": ""}
    ahead_s = float(each.get("clock_ahead_s", 0.0))
    return Snapshot(as_of=moment_from_json(as_of), data=dict(each["data"]), clock_ahead_s=ahead_s)


def _loaded(path: Path) -> dict[str, Snapshot]:
    """Read the snapshots stored by an earlier agent; drop unreadable snapshots, because clients will resend them."""
    try:
        kept = json.loads(path.read_text())
        told = {kind: kept[kind] for kind in KINDS if kind in kept}
        return {kind: _kept(each) for kind, each in told.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        log.warning("%s: the snapshots cannot be read: %s", path, error)
        return {}
