"""Poll the agents for activity and send newer rules to them, over open links only."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from jupyter_tpu.autostop import (
    DURATION_FIELDS,
    NO_KEEP_RUNNING,
    OLDEST_SOURCES,
    SOURCES,
    Activity,
    KeepRunning,
    Moment,
    Rules,
    Source,
    never_connected,
    not_running,
    number_from,
    unknown,
)
from jupyter_tpu.durations import duration_text
from jupyter_tpu.errors import BadInput, Text, TpuError, plain
from jupyter_tpu.fleet.agents import Agents
from jupyter_tpu.fleet.autostop.autostop_settings import NodeSettings
from jupyter_tpu.fleet.autostop.history_view import NO_LINK, OLDER
from jupyter_tpu.models import Node

# our choice: maximum age of a report that may stop a node, because an older report may lack recent activity
_FRESH_S = 30.0
# delay before polling an unresponsive agent again, because each poll may delay the loop by `answer_s`
_AFTER_SILENCE_S = 30.0
# reports have wall-clock times; after a clock jump of this size, they look too old or too new, so read them again
_CLOCK_SET_S = 10.0
# correct the agent if its time since READY differs from this computer's by more than this
_READY_DIFFERS_S = 120.0
# difference between two revisions; a Unix time with a fraction can represent it exactly enough
_REVISION_STEP_S = 0.001
# maximum length of the agent's texts, which users see
_LONGEST_TEXT = 500
# largest number of seconds to accept, as a duration or a time: beyond the year 5000
_LARGEST = 1e11


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReport:
    """An agent's response.

    Attributes:
        at: when the response arrived, by this computer's clocks.
        activity: the reported activity; None if the agent is too old to report it, or if the response is invalid.
        keep: the node's “keep running” setting, as the agent reports it.
        guard: the fields ``state`` and ``detail`` of the guard on the node.
        rules: the rules that the guard applies (without the deadline), and their revision; None if the guard has no
            rules.
    """

    at: Moment
    activity: Activity | None = None
    keep: KeepRunning = NO_KEEP_RUNNING
    keep_revision: float = 0.0
    guard: Mapping[str, str] = field(default_factory=dict)
    rules: tuple[float, Rules] | None = None


def parse_report(answer: Mapping[str, Any], at: Moment) -> AgentReport:
    """Parse an agent's response. An invalid response gives an empty report, and the node counts as busy."""
    try:
        sources, keep = answer["sources"], answer["keep"]
        # newer sources may be missing, because the agent may be older than this computer's version
        missing = [name for name in OLDEST_SOURCES if name not in sources]
        if missing:
            raise KeyError(missing[0])
        # use durations, not times, because the node's clock may differ from ours
        until = None if keep["for_s"] is None else at.wall + _number(keep, "for_s")
        return AgentReport(
            at=at,
            activity=Activity(**{name: _source(sources[name], at.wall) for name in SOURCES if name in sources}),
            keep=KeepRunning(until=until, while_busy=keep["while_busy"]),
            keep_revision=_number(answer, "keep_revision"),
            guard={name: plain(answer["guard"][name], _LONGEST_TEXT) for name in ("state", "detail")},
            rules=_rules(answer),
        )
    except (KeyError, TypeError, ValueError, AttributeError, BadInput):
        return AgentReport(at=at)


class AgentPoller:
    """Polls the agents and stores each node's last report under the node's full name and uid.

    Args:
        agents: access to the agents, or None.
        every_s: seconds between two polls of an agent.
        answer_s: seconds to wait for a response.
    """

    def __init__(self, agents: Agents | None, *, every_s: float, answer_s: float) -> None:
        self._agents = agents
        self._every_s = every_s
        self._answer_s = answer_s
        self._reports: dict[tuple[str, str], AgentReport] = {}
        self._due_at: dict[tuple[str, str], float] = {}

    async def poll(self, nodes: Iterable[Node], settings: Mapping[str, NodeSettings], now: Moment) -> None:
        """Poll the agents that are due and send them newer settings; never raises if an agent fails."""
        due = [node for node in nodes if node.is_billed and now.steady >= self._due_at.get(_key(node), 0.0)]
        await asyncio.gather(*(self._poll(node, settings[str(node.name)], now) for node in due))

    async def _poll(self, node: Node, settings: NodeSettings, now: Moment) -> None:
        if self._agents is None:
            return
        self._due_at[_key(node)] = now.steady + self._every_s
        try:
            async with asyncio.timeout(self._answer_s):
                answer = await self._exchange(self._agents, node, settings, now)
        except BadInput:  # the agent is too old for this method
            self._reports[_key(node)] = AgentReport(at=now)
        except (TpuError, TimeoutError):
            # keep the last report until it expires, because a single response may get lost
            self._due_at[_key(node)] = now.steady + _AFTER_SILENCE_S
        else:
            if answer is not None:
                self._reports[_key(node)] = parse_report(answer, now)

    async def _exchange(self, agents: Agents, node: Node, settings: NodeSettings, now: Moment) -> dict[str, Any] | None:
        answer = await agents.call(node.name, "activity", {})
        news = _news(answer, settings, now) if answer is not None else {}
        # the response to this call contains the agent's new state, so no second poll is needed
        return await agents.call(node.name, "set_brakes", news) if news else answer

    async def history(self, node: Node) -> Mapping[str, Any] | str:
        """Return the agent's history of the last hour, or the reason why there is no history, as a text for display."""
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

    def poll_soon(self, node: Node) -> None:
        """Poll the node in the next turn, even if it is not due yet."""
        self._due_at.pop(_key(node), None)

    def activity(self, node: Node, settings: NodeSettings, now: Moment) -> Activity:
        """Return the node's activity; unknown (treated as busy) if the last report is missing, invalid or outdated."""
        if not node.is_billed:  # don't use earlier reports
            return not_running(node.state)
        last = self._reports.get(_key(node))
        # report this only for our own nodes: other users may be using a node that this computer has never reached
        if last is None and settings.is_ours and self._agents is not None and not self._agents.was_reached(node):
            return never_connected()
        if last is None or last.activity is None:
            return unknown(Text("the agent on the node sent an invalid response") if last else NO_LINK)
        if abs((now.wall - last.at.wall) - (now.steady - last.at.steady)) > _CLOCK_SET_S:
            return unknown(Text("this computer's clock was changed since the node's last report"))
        if last.at.age_s(now) > _FRESH_S:
            return unknown(Text("the node's last report is {duration} old", duration=duration_text(last.at.age_s(now))))
        return last.activity

    def last_human_at(self, node: Node) -> float | None:
        """Return when a person last used the node (Unix seconds); None if no report contains it."""
        last = self._reports.get(_key(node))
        return last.activity.human.last_at if last is not None and last.activity is not None else None

    def keep(self, node: Node, settings: NodeSettings) -> KeepRunning:
        """Return the newer of two “keep running” settings: this computer's, or the agent's, which notebooks change."""
        last = self._reports.get(_key(node))
        is_newer = last is not None and last.activity is not None and last.keep_revision >= settings.keep_revision
        return last.keep if last is not None and is_newer else settings.keep

    def next_revision(self, node: Node, settings: NodeSettings, now: float) -> float:
        """Return a revision for settings that are made now, newer than all of the node's earlier ones.

        An earlier revision may come from a clock that was ahead; otherwise, it would win until that time is reached.
        """
        last = self._reports.get(_key(node))
        known = [settings.revision, settings.keep_revision]
        if last is not None:
            known += [last.keep_revision, last.rules[0] if last.rules else 0.0]
        return max(now, max(known) + _REVISION_STEP_S)

    def rules(self, node: Node, settings: NodeSettings) -> Rules:
        """Return the rules in the journal, or the guard's rules if they are newer: the journal may have been lost."""
        last = self._reports.get(_key(node))
        revision, rules = last.rules if last is not None and last.rules else (0.0, settings.rules)
        return (
            replace(rules, deadline_at=settings.rules.deadline_at) if revision > settings.revision else settings.rules
        )

    def guard(self, node: Node) -> Mapping[str, str]:
        """Return ``state`` and ``detail`` of the guard on the node."""
        last = self._reports.get(_key(node))
        if last is None or not last.guard:
            return {
                "state": "unknown",
                "detail": Text("its agent has no guard") if last else Text("no agent has responded yet"),
            }
        return last.guard


def _key(node: Node) -> tuple[str, str]:
    return str(node.name), node.uid


def _number(data: Mapping[str, Any], name: str) -> float:
    """Return a usable time or duration; raises `BadInput` for anything else.

    Python also parses "nan" as a float and can't format a time such as 1e300. A node that sends such a value must not
    disturb the auto-stop of other nodes.
    """
    value = number_from(data, name)
    if abs(value) > _LARGEST:
        raise BadInput(Text("The field '{field}' is too large.", field=name))
    return value


def _source(answer: Mapping[str, Any], at: float) -> Source:
    age_s = answer["age_s"]
    last_at = None if age_s is None else at - _number(answer, "age_s")
    return Source(state=str(answer["state"]), last_at=last_at, detail=plain(answer["detail"], _LONGEST_TEXT))


def _rules(answer: Mapping[str, Any]) -> tuple[float, Rules] | None:
    try:
        return (_number(answer, "revision"), Rules.from_json(answer["rules"])) if answer["has_rules"] else None
    except (KeyError, TypeError, ValueError, BadInput):
        return None


def _news(answer: Mapping[str, Any], settings: NodeSettings, now: Moment) -> dict[str, Any]:
    """Return the settings that are newer here than on the agent, which must be sent to the agent."""
    try:
        revision, keep_revision = _number(answer, "revision"), _number(answer, "keep_revision")
        agent_ready_s = 0.0 if answer["ready_for_s"] is None else _number(answer, "ready_for_s")
        has_rules = bool(answer["has_rules"])
    except (KeyError, BadInput):
        return {}
    news: dict[str, Any] = {}
    # an agent without rules gets the node's rules even if they are the default rules, whose revision is 0
    if settings.revision > revision or not (has_rules or settings.rules.is_off):
        rules = settings.rules
        deadline_in_s = None if rules.deadline_at is None else rules.deadline_at - now.wall
        lengths = {name: getattr(rules, name) for name in DURATION_FIELDS}
        # send a deadline as a duration, because the node's clock may differ
        news |= {
            "rules": {**lengths, "deadline_in_s": deadline_in_s, "action": rules.action},
            "revision": settings.revision,
        }
    if settings.keep_revision > keep_revision:
        for_s = None if settings.keep.until is None else settings.keep.until - now.wall
        keep = {"for_s": for_s, "while_busy": settings.keep.while_busy}
        news |= {"keep": keep, "keep_revision": settings.keep_revision}
    # the ledger may know the READY time more exactly than the guard
    ready_s = None if settings.ready_since is None else now.wall - settings.ready_since
    if ready_s is not None and abs(ready_s - agent_ready_s) > _READY_DIFFERS_S:
        news |= {"ready_for_s": max(0.0, ready_s)}
    return news
