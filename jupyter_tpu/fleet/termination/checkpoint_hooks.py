"""Run a node's checkpoint hooks before auto-stop or a budget stops it, and add their outcome to the audit log.

This module uses only open links. If no link is open, only the guard on the node can run the hooks.
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
from jupyter_tpu.errors import JournalUnwritable, Text, TpuError
from jupyter_tpu.fleet.agents import Agents
from jupyter_tpu.journal import Journal
from jupyter_tpu.journal.audit import Audit, Entry
from jupyter_tpu.models import Node, NodeName

log = logging.getLogger(__name__)

HOOK_S = 25.0
"""Maximum run time of hooks on a node, in seconds (`jupyter_tpu.agent.preemption.notices.HOOK_S`)."""

_ANSWER_S = 3.0
# calls closer together than this belong to the same shutdown: our choice, many times the interval between two calls
_SAME_END_S = 60.0


class CheckpointHooks:
    """An `Agents` implementation that also logs the outcomes of checkpoint hooks that an agent's response contains."""

    def __init__(self, agents: Agents, journal: Journal, settings: CloudSettings) -> None:
        self._agents = agents
        self._audit = Audit(journal, endpoint=settings.endpoint, project=settings.project)
        self._logged: set[tuple[str, ...]] = set()
        self._begun: dict[tuple[str, str], tuple[float, float]] = {}

    async def call(self, node: NodeName, method: str, params: Mapping[str, Any]) -> dict[str, Any] | None:
        """See `Agents.call`."""
        answer = await self._agents.call(node, method, params)
        if answer is not None:
            await self._log_outcomes(node, answer.get("hooks") or ())
        return answer

    def was_reached(self, node: Node) -> bool:
        """See `Agents.was_reached`."""
        return self._agents.was_reached(node)

    async def is_ready(self, node: Node, reason: str, *, ends_in_s: float = math.inf) -> bool:
        """Return whether the node may be stopped: it has no hooks, its hooks have run, or their time is over.

        Call this repeatedly before the stop; `ends_in_s` is how long the stop can be postponed, in seconds.
        """
        if ends_in_s <= 0 or self._seconds_since_asked(node) > HOOK_S + _ANSWER_S:
            return True
        params = {"reason": reason, "ends_in_s": None if math.isinf(ends_in_s) else ends_in_s}
        try:
            async with asyncio.timeout(_ANSWER_S):
                answer = await self.call(node.name, "prepare_to_end", params)
        except TimeoutError:
            return False
        except TpuError as error:
            log.info("%s ends without running its checkpoint hooks: %s", node.name, error)
            return True
        # end the node unless its agent clearly answers "no": hooks must not keep it billed
        return answer is None or answer.get("is_ready") is not False

    def _seconds_since_asked(self, node: Node) -> float:
        """Return the seconds since the hooks were first asked to run for this stop."""
        key, now = (str(node.name), node.uid), time.monotonic()
        first, last = self._begun.get(key, (now, now))
        first = first if now - last <= _SAME_END_S else now
        self._begun[key] = (first, now)
        return now - first

    async def _log_outcomes(self, node: NodeName, hooks: Iterable[Mapping[str, Any]]) -> None:
        """Log each hook's outcome. If several processes of the user receive an outcome, only the first one logs it."""
        for outcome in hooks:
            with suppress(KeyError, TypeError, ValueError):
                key = (str(node), *(str(outcome[name]) for name in ("notice_id", "kernel_id", "status")))
                entry = _entry(node, outcome)
                if key not in self._logged:
                    await self._note_once(entry)
                    self._logged.add(key)

    async def _note_once(self, entry: Entry) -> None:
        try:
            await asyncio.to_thread(self._audit.record_once, entry)
        except JournalUnwritable as error:
            log.warning("Missing in the audit log: %s %s", entry.reason, error)


def _entry(node: NodeName, outcome: Mapping[str, Any]) -> Entry:
    detail = {name: str(outcome[name])[:200] for name in ("notice_id", "kernel_id", "notebook", "status")}
    where = detail["notebook"] or Text("kernel {kernel}", kernel=detail["kernel_id"][:8])
    at = time.time() - float(outcome["age_s"])
    return Entry(
        at=at,
        action="checkpoint_hook",
        subject=str(node),
        reason=Text("{place}: {message}.", place=where, message=str(outcome["message"])[:500]),
        detail=detail,
    )
