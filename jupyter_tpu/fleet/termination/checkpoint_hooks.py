"""Gives the checkpoint hooks on a node their seconds before a brake or a budget ends it, and notes what became of them.

Only over links that are there; where there is none, the guard on the node tells the hooks, or nobody.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from jupyter_tpu.cloud.settings import CloudSettings
from jupyter_tpu.errors import JournalUnwritable, TpuError
from jupyter_tpu.fleet.agents import Agents
from jupyter_tpu.journal import Journal
from jupyter_tpu.journal.audit import Audit, Entry
from jupyter_tpu.models import Node, NodeName

log = logging.getLogger(__name__)

HOOK_S = 25.0
"""What agents give to hooks at most."""

_ANSWER_S = 3.0
_SAME_END_S = 60.0


class CheckpointHooks:
    """An `Agents` that hears what is told of hooks, whatever is asked."""

    def __init__(self, agents: Agents, journal: Journal, settings: CloudSettings) -> None:
        self._agents = agents
        self._audit = Audit(journal, endpoint=settings.endpoint, project=settings.project)
        self._noted: set[tuple[str, ...]] = set()
        self._begun: dict[tuple[str, str], tuple[float, float]] = {}

    async def call(self, node: NodeName, method: str, params: Mapping[str, Any]) -> dict[str, Any] | None:
        """See `Agents.call`."""
        said = await self._agents.call(node, method, params)
        if said is not None:
            await self._note(node, said.get("hooks") or ())
        return said

    def was_reached(self, node: Node) -> bool:
        """See `Agents.was_reached`."""
        return self._agents.was_reached(node)

    async def is_ready(self, node: Node, reason: str, *, ends_in_s: float = math.inf) -> bool:
        """Whether the node may be ended: there are no hooks, or they have run, or have had their time.

        Asked at every turn from then on when the end is near; `ends_in_s` is how far it can be put off.
        """
        if ends_in_s <= 0 or self._seconds_since_asked(node) > HOOK_S + _ANSWER_S:
            return True
        params = {"reason": reason, "ends_in_s": None if math.isinf(ends_in_s) else ends_in_s}
        try:
            async with asyncio.timeout(_ANSWER_S):
                said = await self.call(node.name, "prepare_to_end", params)
        except TimeoutError:
            return False
        except TpuError as error:
            log.info("%s ends without a word to its hooks: %s", node.name, error)
            return True
        return said is None or said.get("is_ready") is not False

    def _seconds_since_asked(self, node: Node) -> float:
        """Since the first of questions that follow each other closely."""
        key, now = (str(node.name), node.uid), time.monotonic()
        first, last = self._begun.get(key, (now, now))
        first = first if now - last <= _SAME_END_S else now
        self._begun[key] = (first, now)
        return now - first

    async def _note(self, node: NodeName, hooks: Iterable[Mapping[str, Any]]) -> None:
        """Once, whoever of the user's processes hears of it first."""
        for told in hooks:
            with suppress(KeyError, TypeError, ValueError):
                key = (str(node), *(str(told[name]) for name in ("notice_id", "kernel_id", "status")))
                entry = _entry(node, told)
                if key not in self._noted:
                    await self._note_once(entry)
                    self._noted.add(key)

    async def _note_once(self, entry: Entry) -> None:
        try:
            await asyncio.to_thread(self._audit.note_once, entry)
        except JournalUnwritable as error:
            log.warning("not in the audit log: %s %s", entry.reason, error)


def _entry(node: NodeName, told: Mapping[str, Any]) -> Entry:
    detail = {name: str(told[name])[:200] for name in ("notice_id", "kernel_id", "notebook", "status")}
    where = detail["notebook"] or f"kernel {detail['kernel_id'][:8]}"
    at = time.time() - float(told["age_s"])
    return Entry(
        at=at,
        action="checkpoint_hook",
        subject=str(node),
        reason=f"{where}: {str(told['message'])[:500]}.",
        detail=detail,
    )
