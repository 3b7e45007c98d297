"""The guard: the auto-stop daemon on the node. It applies the latest rules, even without a client.

The rules are stored on the worker's disk, so that a new agent continues where a killed agent stopped. Time is measured
by the boot clock, which can't be set. A deadline is therefore kept as the time that is left; the wall clock counts only
for the time in which the machine was off.
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

from jupyter_tpu.agent.autostop.activity import ActivityWatch
from jupyter_tpu.agent.autostop.activity_history import ActivityHistory
from jupyter_tpu.agent.autostop.node_api import CannotEnd, OwnNode
from jupyter_tpu.agent.autostop.policy import AutostopPolicy, parse_keep, parse_rules
from jupyter_tpu.agent.clock import this_moment
from jupyter_tpu.agent.preemption.notices import BY_RULE, HOOK_S, Notices
from jupyter_tpu.autostop import DURATION_FIELDS, Activity, Moment, Verdict, judge, number_from, reminder, unknown
from jupyter_tpu.durations import duration_text
from jupyter_tpu.errors import BadInput

log = logging.getLogger(__name__)

# Bounds of the check interval: short enough to stop the node on time, long enough to cost almost no CPU.
_LONGEST_TURN_S = 10.0
_SHORTEST_TURN_S = 0.5
# Number of checks during one idle timeout, so that even a short timeout is accurate to 10 %.
_TURNS_OF_IDLE_TIME = 10
# Delay between two attempts to stop the node: the API may take a while to show the effect of the first one.
_AGAIN_AFTER_S = 30.0
# Delete the node after this many refused stops: TPU pods can't be stopped and would be billed forever.
_MOST_REFUSALS = 5
# Reasons to stop the node that activity can't postpone.
_SURE = ("session", "deadline")
_OFF = ("off", "no auto-stop rule is set")


class AutostopDaemon:
    """A daemon that checks every few seconds whether to stop the node, and runs checkpoint hooks before the stop.

    Args:
        path: the file that stores the rules and the last activity.
        watch: observes activity.
        notices: runs the checkpoint hooks.
    """

    def __init__(self, path: Path, watch: ActivityWatch, notices: Notices) -> None:
        self._path = path
        self._watch = watch
        self._notices = notices
        self._node = OwnNode(os.environ)
        self._policy = AutostopPolicy()
        self._activity = Activity()
        self._past = ActivityHistory()
        self._state = ("unknown", "the first check has not finished yet")
        self._refusals = 0
        self._again_at = -math.inf
        self._checked = False
        self._news = asyncio.Event()
        self._saved_text = ""

    async def run(self) -> None:
        """Check the node repeatedly until cancelled."""
        self._load()
        while True:
            turn_s = _LONGEST_TURN_S
            try:
                await self._turn()
                turn_s = self._turn_s()
            except Exception:  # one failed check must not disable auto-stop
                log.exception("the guard failed")
            self._news.clear()
            with suppress(asyncio.TimeoutError, TimeoutError):
                await asyncio.wait_for(self._news.wait(), turn_s)

    def _turn_s(self) -> float:
        """Return the seconds until the next check, short enough that no timeout, hook or stop is late."""
        idle_s = self._policy.rules.idle_after_s if self._policy.rules else None
        usual = _LONGEST_TURN_S if idle_s is None else idle_s / _TURNS_OF_IDLE_TIME
        left_s = self._left_s(self._verdict())
        ahead = [span for span in (usual, left_s - HOOK_S, left_s) if span > 0]
        return min(_LONGEST_TURN_S, max(_SHORTEST_TURN_S, min(ahead)))

    async def _turn(self) -> None:
        # Without rules, measuring would only waste the user's CPU time.
        if self._policy.rules is None or self._policy.rules.is_off:
            self._state = _OFF
            self._save()
            return
        await self._observe()
        # "While busy" expires at the first idle observation; a later cell does not renew it.
        if self._policy.keep.while_busy and self._activity.execution.state == "quiet":
            self._policy = replace(self._policy, keep=replace(self._policy.keep, while_busy=False))
        self._save()
        # Check whether the node can stop itself, and repeat this check until it succeeds, because clients show its
        # result.
        if not self._checked:
            await self._check()
        verdict = self._verdict()
        if verdict.is_due:
            if this_moment().steady >= self._again_at:
                await self._end_after_hooks(verdict)
        # Announce a stop in advance only if activity can't postpone it. An idle node may still become busy at the last
        # moment.
        elif verdict.ends_why in _SURE and self._left_s(verdict) <= HOOK_S:
            self._notices.announce(BY_RULE, _reason(verdict), self._left_s(verdict))

    async def _observe(self) -> None:
        self._activity = await self._observed_activity()
        self._past.add(self._activity, self._verdict(), this_moment().steady)

    async def _observed_activity(self) -> Activity:
        """Observe the activity. After a failure, it is unknown, but the session limit and deadline still apply."""
        try:
            return await self._watch.observe()
        except Exception as error:
            log.exception("the guard could not observe the activity")
            return unknown(f"the agent could not observe the activity: {error}")

    async def _check(self) -> None:
        try:
            name = await asyncio.to_thread(self._node.check)
        except CannotEnd as error:
            self._state = ("cannot", str(error))
        else:
            detail = f"it can stop or delete {name.rpartition('/')[2]} even while your own machine is off"
            self._state, self._checked = ("armed", detail), True

    async def _end_after_hooks(self, verdict: Verdict) -> None:
        """Run the checkpoint hooks, then stop the node unless it was extended; a deadline doesn't wait for hooks."""
        deadline_at = self._policy.rules_now(now := this_moment()).deadline_at
        within_s = math.inf if deadline_at is None else deadline_at - now.wall
        notice = self._notices.announce(BY_RULE, _reason(verdict), within_s)
        if within_s > 0 and await self._notices.wait_for_hooks(notice):
            # The user may have run a cell or extended the node while the hooks ran.
            await self._observe()
            verdict = self._verdict()
        if verdict.is_due:
            self._again_at = this_moment().steady + _AGAIN_AFTER_S
            await self._end(verdict)

    async def _end(self, verdict: Verdict) -> None:
        action = self._policy.rules.action if self._policy.rules else "stop"
        action = "delete" if self._refusals >= _MOST_REFUSALS else action
        log.warning("the node is due (%s: %s): %s", verdict.ends_why, verdict.reason, action)
        try:
            await asyncio.to_thread(self._node.end, action)
        except CannotEnd as error:
            self._refusals += error.is_refused
            self._state = ("cannot", str(error))
            log.error("the node could not be ended: %s", error)
        else:
            self._notices.report_end(verdict.ends_why or "", self._limit_text(verdict))

    def _limit_text(self, verdict: Verdict) -> str:
        """Return the limit that was reached, such as ``1 h``, or an empty string for a deadline."""
        session_s = self._policy.rules.session_s if self._policy.rules else None
        limit_s = {"idle": verdict.idle_limit_s, "session": session_s}.get(verdict.ends_why or "")
        return "" if limit_s is None else duration_text(limit_s)

    def _verdict(self) -> Verdict:
        now = this_moment()
        policy = self._policy
        ready_since = _wall(policy.ready_since, now)
        return judge(policy.rules_now(now), self._activity, policy.keep_now(now), ready_since, now.wall)

    @staticmethod
    def _left_s(verdict: Verdict) -> float:
        return math.inf if verdict.ends_at is None else verdict.ends_at - this_moment().wall

    # -- requests from clients

    async def set_rules(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Accept new ``rules``, an extension (``extend``) or the time since READY (``ready_for_s``).

        All times are durations. Older revisions of the rules are ignored, because several clients may send rules in any
        order.

        Raises:
            BadInput: a value is not valid; nothing was changed.
        """
        now, policy = this_moment(), self._policy
        if "rules" in params and (revision := number_from(params, "revision")) >= policy.revision:
            policy = replace(policy, rules=parse_rules(params["rules"], now), revision=revision, given_at=now)
        if "keep" in params:
            keep = parse_keep(params["keep"], now)
            policy = replace(policy, keep=keep, keep_revision=number_from(params, "keep_revision"), kept_at=now)
        if "ready_for_s" in params:
            policy = replace(policy, ready_since=now.back(number_from(params, "ready_for_s")))
        self._set_policy(policy, now)
        return self.describe()

    async def extend(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Keep the node running ``for_s``, ``until`` or ``while_busy``; if none is given, cancel the extension.

        Raises:
            BadInput: a value is not valid; nothing was changed.
        """
        now = this_moment()
        self._set_policy(replace(self._policy, keep=parse_keep(params, now), kept_at=now), now)
        self._watch.note_human_act()
        return self.describe()

    def note_human_act(self) -> None:
        """Record a user action; see `ActivityWatch.note_human_act`."""
        self._watch.note_human_act()

    async def report_activity(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the current activity and the guard's verdict; if ``"past"`` is true, also the last hour's history."""
        await self._observe()
        state = self.describe()
        return {**state, "past": self._past.describe(this_moment().steady)} if params.get("past") is True else state

    def _set_policy(self, policy: AutostopPolicy, now: Moment) -> None:
        """Apply new rules immediately."""
        if policy.rules is not None and policy.ready_since is None:
            policy = replace(policy, ready_since=now)
        self._policy, self._refusals, self._checked, self._again_at = policy, 0, False, -math.inf
        if policy.rules is None or policy.rules.is_off:
            self._state = _OFF
        elif self._state == _OFF:
            self._state = ("unknown", "the rules have just been set; checking whether the node can stop itself")
        self._save()
        self._news.set()

    def describe(self) -> dict[str, Any]:
        """Return the state and rules for clients. Times are durations, because clients' clocks may differ."""
        now, verdict, policy = this_moment(), self._verdict(), self._policy
        keep, since = policy.keep_now(now), policy.ready_since
        rules = policy.rules_now(now)
        acts = (self._activity.human.last_at, _wall(policy.kept_at, now))
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
            "has_rules": policy.rules is not None,
            "rules": {**{name: getattr(rules, name) for name in DURATION_FIELDS}, "action": rules.action},
            "revision": policy.revision,
            "keep": {
                "for_s": None if keep.until is None or keep.until <= now.wall else keep.until - now.wall,
                "while_busy": keep.while_busy,
            },
            "keep_revision": policy.keep_revision,
            "reminder": due and {"for_s": due.for_s, "days": due.days},
            "ready_for_s": None if since is None else since.age_s(now),
            "guard": {"state": self._state[0], "detail": self._state[1]},
            "hooks": self._notices.describe(),
        }

    # -- the stored policy

    def _load(self) -> None:
        try:
            kept = json.loads(self._path.read_text())
            self._policy = AutostopPolicy.from_json(kept["orders"])
            self._watch.load(kept["last"])
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError, AttributeError, BadInput, RecursionError) as error:
            log.error("%s: the rules cannot be read and must be set again: %s", self._path, error)
        supervisor = _supervisor()
        # A different supervisor means that a client connected while no agent was running, for example after a restart
        # of the node. This counts as a user action, so the session starts again.
        if self._policy.supervisor != supervisor:
            self._watch.note_human_act()
            since = None if self._policy.ready_since is None else this_moment()
            self._policy = replace(self._policy, supervisor=supervisor, ready_since=since)

    def _save(self) -> None:
        text = json.dumps({"orders": self._policy.to_json(), "last": self._watch.to_json()})
        if text == self._saved_text and self._path.exists():  # called every few seconds, so skip unchanged text
            return
        draft = self._path.with_suffix(".new")
        try:
            draft.write_text(text)
            draft.replace(self._path)
            self._saved_text = text
        except OSError as error:
            log.warning("%s: the rules cannot be stored: %s", self._path, error)


def _wall(moment: Moment | None, now: Moment) -> float | None:
    """Convert a moment to Unix seconds; if the wall clock was changed after the moment, use its new setting."""
    return None if moment is None else now.wall - moment.age_s(now)


def _reason(verdict: Verdict) -> str:
    """Return the reason for the stop, for the kernels' hooks and users."""
    return {
        "idle": "the node reached its idle timeout",
        "session": "the node reached its maximum session length",
        "deadline": "the node reached its deadline",
    }.get(verdict.ends_why or "", "the node ends")


def _supervisor() -> str:
    """Identify the supervisor by pid and start time."""
    pid = os.getppid()
    try:
        # Field 22 of /proc/PID/stat is the start time (proc(5)). Count the fields from the end of the process's name,
        # because the name may contain spaces.
        return f"{pid} {Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[19]}"
    except (OSError, IndexError):
        return str(pid)
