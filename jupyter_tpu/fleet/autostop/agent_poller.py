"""What the agents say of their nodes, and what they are told: asked over links that are there, never over new ones."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from jupyter_tpu.brakes import (
    LENGTHS,
    NO_KEEP,
    OLDEST_SOURCES,
    SOURCES,
    Activity,
    Keep,
    Moment,
    Rules,
    Source,
    never_connected,
    not_running,
    span_text,
    unknown,
)
from jupyter_tpu.errors import BadInput, TpuError, plain
from jupyter_tpu.fleet.agents import Agents
from jupyter_tpu.fleet.autostop.history_view import NO_LINK, OLDER
from jupyter_tpu.fleet.autostop.settings import NodeSettings
from jupyter_tpu.models import Node

_FRESH_S = 30.0
_AFTER_SILENCE_S = 30.0
_CLOCK_SET_S = 10.0
"""What the node has said is kept by the wall clock; after a leap of that the node is asked again."""
_READY_DIFFERS_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReport:
    """One answer; `at` is when it came.

    Attributes:
        activity: None where the agent is older than this question.
        rules: revision and rules that its guard goes by, without a deadline; None where it has not been told any.
    """

    at: Moment
    activity: Activity | None = None
    keep: Keep = NO_KEEP
    keep_revision: float = 0.0
    guard: Mapping[str, str] = field(default_factory=dict)
    rules: tuple[float, Rules] | None = None


def heard(said: Mapping[str, Any], at: Moment) -> AgentReport:
    """Read an answer; one that makes no sense tells nothing."""
    try:
        sources, keep = said["sources"], said["keep"]
        missing = [name for name in OLDEST_SOURCES if name not in sources]
        if missing:
            raise KeyError(missing[0])
        until = None if keep["for_s"] is None else at.wall + float(keep["for_s"])
        return AgentReport(
            at=at,
            activity=Activity(**{name: _source(sources[name], at.wall) for name in SOURCES if name in sources}),
            keep=Keep(until=until, while_busy=keep["while_busy"]),
            keep_revision=float(said["keep_revision"]),
            guard={name: plain(said["guard"][name], 500) for name in ("state", "detail")},
            rules=_rules(said),
        )
    except (KeyError, TypeError, ValueError, BadInput):
        return AgentReport(at=at)


class AgentPoller:
    """Remembers the last answer of each node, by full name and uid.

    Args:
        every_s: how often an agent is asked.
        answer_s: how long it may take.
    """

    def __init__(self, agents: Agents | None, *, every_s: float, answer_s: float) -> None:
        self._agents = agents
        self._every_s = every_s
        self._answer_s = answer_s
        self._heard: dict[tuple[str, str], AgentReport] = {}
        self._ask_at: dict[tuple[str, str], float] = {}

    async def listen(self, nodes: Iterable[Node], laid: Mapping[str, NodeSettings], now: Moment) -> None:
        """Ask those whose time has come, and tell them what they do not know; never raises for one of them."""
        due = [node for node in nodes if node.is_billed and now.steady >= self._ask_at.get(_key(node), 0.0)]
        await asyncio.gather(*(self._ask(node, laid[str(node.name)], now) for node in due))

    async def _ask(self, node: Node, laid: NodeSettings, now: Moment) -> None:
        if self._agents is None:
            return
        self._ask_at[_key(node)] = now.steady + self._every_s
        try:
            async with asyncio.timeout(self._answer_s):
                said = await self._exchange(self._agents, node, laid, now)
        except BadInput:
            self._heard[_key(node)] = AgentReport(at=now)
        except (TpuError, TimeoutError):
            self._ask_at[_key(node)] = now.steady + _AFTER_SILENCE_S
        else:
            if said is not None:
                self._heard[_key(node)] = heard(said, now)

    async def _exchange(self, agents: Agents, node: Node, laid: NodeSettings, now: Moment) -> dict[str, Any] | None:
        said = await agents.call(node.name, "activity", {})
        news = _news(said, laid, now) if said is not None else {}
        return await agents.call(node.name, "set_brakes", news) if news else said

    async def past(self, node: Node) -> Mapping[str, Any] | str:
        """What the agent says when it is asked for the last hour too; or why it says nothing."""
        if self._agents is None:
            return NO_LINK
        try:
            async with asyncio.timeout(self._answer_s):
                return await self._agents.call(node.name, "activity", {"past": True}) or NO_LINK
        except BadInput:
            return OLDER
        except TimeoutError:
            return NO_LINK
        except TpuError as error:
            return error.message

    def hurry(self, node: Node) -> None:
        """Ask that node at the next occasion."""
        self._ask_at.pop(_key(node), None)

    def activity(self, node: Node, laid: NodeSettings, now: Moment) -> Activity:
        """What is known now; what is too old is not. A node that others have made may be used by them."""
        if not node.is_billed:  # whatever was heard of it before
            return not_running(node.state)
        last = self._heard.get(_key(node))
        if last is None and laid.is_ours and self._agents is not None and not self._agents.was_reached(node):
            return never_connected()
        if last is None or last.activity is None:
            return unknown("the agent on the node cannot tell" if last else "the node cannot be asked now")
        if abs((now.wall - last.at.wall) - (now.steady - last.at.steady)) > _CLOCK_SET_S:
            return unknown("the clock of this machine was set since the node was last heard of")
        if last.at.age_s(now) > _FRESH_S:
            return unknown(f"the node was last heard of {span_text(last.at.age_s(now))} ago")
        return last.activity

    def last_human_at(self, node: Node) -> float | None:
        """When a person acted last, as far as was ever heard."""
        last = self._heard.get(_key(node))
        return last.activity.human.last_at if last is not None and last.activity is not None else None

    def keep(self, node: Node, laid: NodeSettings) -> Keep:
        """The agent's, who may have been asked in a notebook, unless it has not heard of a newer wish from here."""
        last = self._heard.get(_key(node))
        is_newer = last is not None and last.activity is not None and last.keep_revision >= laid.keep_revision
        return last.keep if last is not None and is_newer else laid.keep

    def rules(self, node: Node, laid: NodeSettings) -> Rules:
        """What is laid down, or what its guard goes by where that is newer: the journal may have been lost."""
        last = self._heard.get(_key(node))
        revision, rules = last.rules if last is not None and last.rules else (0.0, laid.rules)
        return replace(rules, deadline_at=laid.rules.deadline_at) if revision > laid.revision else laid.rules

    def guard(self, node: Node) -> Mapping[str, str]:
        """``{"state", "detail"}`` of the guard on the node."""
        last = self._heard.get(_key(node))
        if last is None or not last.guard:
            return {"state": "unknown", "detail": "its agent has no guard" if last else "no agent has answered yet"}
        return last.guard


def _key(node: Node) -> tuple[str, str]:
    return str(node.name), node.uid


def _source(said: Mapping[str, Any], heard_at: float) -> Source:
    age_s = said["age_s"]
    last_at = None if age_s is None else heard_at - float(age_s)
    return Source(state=str(said["state"]), last_at=last_at, detail=plain(said["detail"], 500))


def _rules(said: Mapping[str, Any]) -> tuple[float, Rules] | None:
    try:
        return (float(said["revision"]), Rules.from_json(said["rules"])) if said["has_rules"] else None
    except (KeyError, TypeError, ValueError, BadInput):
        return None


def _news(said: Mapping[str, Any], laid: NodeSettings, now: Moment) -> dict[str, Any]:
    """What the agent must be told; newer rules win, whoever laid them down."""
    try:
        revision, keep_revision = float(said["revision"]), float(said["keep_revision"])
        agent_ready_s, has_rules = float(said["ready_for_s"] or 0.0), bool(said["has_rules"])
    except (KeyError, TypeError, ValueError):
        return {}
    news: dict[str, Any] = {}
    if laid.revision > revision or not (has_rules or laid.rules.is_off):
        rules = laid.rules
        deadline_in_s = None if rules.deadline_at is None else rules.deadline_at - now.wall
        lengths = {name: getattr(rules, name) for name in LENGTHS}
        told = {**lengths, "deadline_in_s": deadline_in_s, "action": rules.action}
        news |= {"rules": told, "revision": laid.revision}
    if laid.keep_revision > keep_revision:
        for_s = None if laid.keep.until is None else laid.keep.until - now.wall
        keep = {"for_s": for_s, "while_busy": laid.keep.while_busy}
        news |= {"keep": keep, "keep_revision": laid.keep_revision}
    ready_s = None if laid.ready_since is None else now.wall - laid.ready_since
    if ready_s is not None and abs(ready_s - agent_ready_s) > _READY_DIFFERS_S:
        news |= {"ready_for_s": max(0.0, ready_s)}
    return news
