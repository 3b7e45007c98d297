"""The guard: ends this worker's own node by the rules that it was given last, with or without a client.

What it was told lies on the worker's disk, so that an agent that was killed goes on where it was. It counts time by a
clock that nobody can set; where a moment of the wall clock is meant, the earlier reading of both counts.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from jupyter_tpu.agent.autostop.activity import ActivityWatch, this_moment
from jupyter_tpu.agent.autostop.history import ActivityHistory
from jupyter_tpu.agent.autostop.node_api import CannotEnd, OwnNode
from jupyter_tpu.agent.autostop.policy import AutostopPolicy, keep_from, rules_from
from jupyter_tpu.agent.preemption.notices import BY_RULE, HOOK_S, Notices
from jupyter_tpu.brakes import LENGTHS, Activity, Moment, Verdict, judge, number_from, reminder, unknown
from jupyter_tpu.errors import BadInput

log = logging.getLogger(__name__)

_LONGEST_TURN_S = 10.0
_SHORTEST_TURN_S = 0.5
_TURNS_OF_IDLE_TIME = 10
_AGAIN_AFTER_S = 30.0
_MOST_REFUSALS = 5
# ends that no cell moves away once they are near
_SURE = ("session", "deadline")
_OFF = ("off", "no rule ends the node")


class AutostopDaemon:
    """Judges every few seconds, and ends the node when it is due, after the kernels' checkpoint hooks.

    `path` is where its orders are kept.
    """

    def __init__(self, path: Path, watch: ActivityWatch, notices: Notices) -> None:
        self._path = path
        self._watch = watch
        self._notices = notices
        self._node = OwnNode(os.environ)
        self._orders = AutostopPolicy()
        self._activity = Activity()
        self._past = ActivityHistory()
        self._state = ("unknown", "it has not looked yet")
        self._refusals = 0
        self._again_at = -math.inf
        self._checked = False
        self._news = asyncio.Event()
        self._kept_text = ""

    async def run(self) -> None:
        """Until cancelled."""
        self._load()
        while True:
            turn_s = _LONGEST_TURN_S
            try:
                await self._turn()
                turn_s = self._turn_s()
            except Exception:  # the node must not outlive its rules because one turn failed
                log.exception("the guard failed")
            self._news.clear()
            with suppress(asyncio.TimeoutError, TimeoutError):
                await asyncio.wait_for(self._news.wait(), turn_s)

    def _turn_s(self) -> float:
        """Short idle times are looked at more often; the end, and the time of the hooks before it, are met."""
        idle_s = self._orders.rules.idle_after_s if self._orders.rules else None
        wished = _LONGEST_TURN_S if idle_s is None else idle_s / _TURNS_OF_IDLE_TIME
        left_s = self._left_s(self._verdict())
        ahead = [span for span in (wished, left_s - HOOK_S, left_s) if span > 0]
        return min(_LONGEST_TURN_S, max(_SHORTEST_TURN_S, min(ahead)))

    async def _turn(self) -> None:
        if self._orders.rules is None or self._orders.rules.is_off:
            self._state = _OFF
            self._save()
            return
        await self._look_anew()
        if self._orders.keep.while_busy and self._activity.execution.state == "quiet":
            self._orders = replace(self._orders, keep=replace(self._orders.keep, while_busy=False))
        self._save()
        if not self._checked:
            await self._check()
        verdict = self._verdict()
        if verdict.is_due:
            if this_moment().steady >= self._again_at:
                await self._end_after_hooks(verdict)
        elif verdict.ends_why in _SURE and self._left_s(verdict) <= HOOK_S:
            self._notices.announce(BY_RULE, _reason(verdict), self._left_s(verdict))

    async def _look_anew(self) -> None:
        self._activity = await self._looked()
        self._past.see(self._activity, self._verdict(), this_moment().steady)

    async def _looked(self) -> Activity:
        """Session and deadline hold, whatever goes wrong with a look."""
        try:
            return await self._watch.look()
        except Exception as error:
            log.exception("the guard could not look")
            return unknown(f"the agent could not look: {error}")

    async def _check(self) -> None:
        try:
            name = await asyncio.to_thread(self._node.check)
        except CannotEnd as error:
            self._state = ("cannot", str(error))
        else:
            detail = f"it ends {name.rpartition('/')[2]} also while your own machine is off"
            self._state, self._checked = ("armed", detail), True

    async def _end_after_hooks(self, verdict: Verdict) -> None:
        """End the node, unless somebody keeps it while its hooks run; a deadline waits for none."""
        deadline_at = self._orders.rules_now(now := this_moment()).deadline_at
        within_s = math.inf if deadline_at is None else deadline_at - now.wall
        notice = self._notices.announce(BY_RULE, _reason(verdict), within_s)
        if within_s > 0 and await self._notices.settled(notice):
            await self._look_anew()
            verdict = self._verdict()
        if verdict.is_due:
            self._again_at = this_moment().steady + _AGAIN_AFTER_S
            await self._end(verdict)

    async def _end(self, verdict: Verdict) -> None:
        action = self._orders.rules.action if self._orders.rules else "stop"
        action = "delete" if self._refusals >= _MOST_REFUSALS else action
        log.warning("the node is due (%s: %s): %s", verdict.ends_why, verdict.reason, action)
        try:
            await asyncio.to_thread(self._node.end, action)
        except CannotEnd as error:
            self._refusals += error.is_refused
            self._state = ("cannot", str(error))
            log.error("the node goes on: %s", error)

    def _verdict(self) -> Verdict:
        now = this_moment()
        orders = self._orders
        ready_since = _wall(orders.ready_since, now)
        return judge(orders.rules_now(now), self._activity, orders.keep_now(now), ready_since, now.wall)

    @staticmethod
    def _left_s(verdict: Verdict) -> float:
        return math.inf if verdict.ends_at is None else verdict.ends_at - this_moment().wall

    # -- what clients ask ----------------------------------------------------------------------------------------------

    async def set_brakes(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Take new rules, a new keep, or the time that the node has been READY; all of them lengths of time.

        Raises:
            BadInput: they make no sense; then nothing has changed.
        """
        now, orders = this_moment(), self._orders
        if "rules" in params and (revision := number_from(params, "revision")) >= orders.revision:
            orders = replace(orders, rules=rules_from(params["rules"], now), revision=revision, given_at=now)
        if "keep" in params:
            keep = keep_from(params["keep"], now)
            orders = replace(orders, keep=keep, keep_revision=number_from(params, "keep_revision"), kept_at=now)
        if "ready_for_s" in params:
            orders = replace(orders, ready_since=now.back(number_from(params, "ready_for_s")))
        self._take(orders, now)
        return self.describe()

    async def keep(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """``for_s``, ``until`` or ``while_busy``; none of them takes an earlier wish back. Raises as `set_brakes`."""
        now = this_moment()
        self._take(replace(self._orders, keep=keep_from(params, now), kept_at=now), now)
        self._watch.somebody_acts()
        return self.describe()

    def somebody_acts(self) -> None:
        """A client has asked for what only people ask for."""
        self._watch.somebody_acts()

    async def look(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """What goes on here now, and what went on in the last hour if `past` is true; asking is no activity."""
        await self._look_anew()
        told = self.describe()
        return {**told, "past": self._past.describe(this_moment().steady)} if params.get("past") is True else told

    def _take(self, orders: AutostopPolicy, now: Moment) -> None:
        if orders.rules is not None and orders.ready_since is None:
            orders = replace(orders, ready_since=now)
        self._orders, self._refusals, self._checked, self._again_at = orders, 0, False, -math.inf
        if orders.rules is None or orders.rules.is_off:
            self._state = _OFF
        elif self._state == _OFF:
            self._state = ("unknown", "it was told this moment, and finds out whether it can end the node")
        self._save()
        self._news.set()

    def describe(self) -> dict[str, Any]:
        """Everything as lengths of time, so that no two clocks need to agree."""
        now, verdict, orders = this_moment(), self._verdict(), self._orders
        keep, since = orders.keep_now(now), orders.ready_since
        rules = orders.rules_now(now)
        acts = (self._activity.human.last_at, _wall(orders.kept_at, now))
        due = reminder(_wall(since, now), acts, now.wall)
        return {
            "sources": {
                name: {"state": source.state, "age_s": verdict.ages_s[name], "detail": source.detail}
                for name, source in self._activity
            },
            "verdict": verdict.verdict,
            "reason": verdict.reason,
            "idle_s": verdict.idle_s,
            "idle_limit_s": verdict.idle_limit_s,
            "ends_in_s": None if verdict.ends_at is None else verdict.ends_at - now.wall,
            "ends_why": verdict.ends_why,
            "is_warning": verdict.is_warning,
            "has_rules": orders.rules is not None,
            "rules": {**{name: getattr(rules, name) for name in LENGTHS}, "action": rules.action},
            "revision": orders.revision,
            "keep": {
                "for_s": None if keep.until is None or keep.until <= now.wall else keep.until - now.wall,
                "while_busy": keep.while_busy,
            },
            "keep_revision": orders.keep_revision,
            "reminder": due and {"for_s": due.for_s, "days": due.days},
            "ready_for_s": None if since is None else since.age_s(now),
            "guard": {"state": self._state[0], "detail": self._state[1]},
            "hooks": self._notices.describe(),
        }

    # -- on disk -------------------------------------------------------------------------------------------------------

    def _load(self) -> None:
        try:
            kept = json.loads(self._path.read_text())
            self._orders = AutostopPolicy.from_json(kept["orders"])
            self._watch.load(kept["last"])
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError, AttributeError, BadInput, RecursionError) as error:
            log.error("%s: the rules cannot be read, they must be given again: %s", self._path, error)
        supervisor = _supervisor()
        if self._orders.supervisor != supervisor:
            self._watch.somebody_acts()  # who connects to a node that has no agent starts one
            since = None if self._orders.ready_since is None else this_moment()
            self._orders = replace(self._orders, supervisor=supervisor, ready_since=since)

    def _save(self) -> None:
        text = json.dumps({"orders": self._orders.to_json(), "last": self._watch.to_json()})
        if text == self._kept_text and self._path.exists():
            return
        draft = self._path.with_suffix(".new")
        try:
            draft.write_text(text)
            draft.replace(self._path)
            self._kept_text = text
        except OSError as error:
            log.warning("%s: the rules cannot be kept: %s", self._path, error)


def _wall(moment: Moment | None, now: Moment) -> float | None:
    """A moment by the wall clock as it is now, whatever it was then."""
    return None if moment is None else now.wall - moment.age_s(now)


def _reason(verdict: Verdict) -> str:
    """Why the node ends, for the kernels' hooks."""
    return {
        "idle": "the node ends by the idle rule",
        "session": "the node's session is over",
        "deadline": "the node has come to its deadline",
    }.get(verdict.ends_why or "", "the node ends")


def _supervisor() -> str:
    """The process that keeps this agent, by pid and start time."""
    pid = os.getppid()
    try:
        return f"{pid} {Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[19]}"
    except (OSError, IndexError):
        return str(pid)
